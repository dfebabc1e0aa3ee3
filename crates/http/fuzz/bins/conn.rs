//! libFuzzer entry point of the target `conn`.
#![no_main]

#[path = "../targets/conn.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));
