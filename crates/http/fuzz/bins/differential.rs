//! libFuzzer entry point of the target `differential`.
#![no_main]

#[path = "../targets/differential.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));
