//! libFuzzer entry point of the target `tls`.
#![no_main]

#[path = "../targets/tls.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));
