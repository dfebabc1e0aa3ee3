//! libFuzzer entry point of the target `auth`.
#![no_main]

#[expect(dead_code, reason = "shared with tests and benches, which use the other items")]
#[path = "../../tests/auth/jwt/sign.rs"]
mod sign;
#[path = "../targets/auth.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));
