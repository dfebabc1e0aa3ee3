//! libFuzzer entry point of the target `proxy`.
//!
//! Does not know about: the target itself.
#![no_main]

#[path = "../targets/proxy.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));
