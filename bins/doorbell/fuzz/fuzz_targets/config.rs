//! Any bytes as a configuration file: reading, reporting and writing never panic, and what is written reads back.
//!
//! Does not know about: what is right in a file.
#![no_main]

#[path = "../../tests/config_fuzz/check.rs"]
mod check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| check::check(&String::from_utf8_lossy(bytes)));
