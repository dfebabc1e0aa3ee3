//! libFuzzer entry point of the target `chunked`.
#![no_main]

#[path = "../targets/chunked.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));
