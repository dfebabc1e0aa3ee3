//! Fuzz target: arbitrary bytes as a configuration file. Parsing, reporting and writing never
//! panic, and a written configuration parses again.
#![no_main]

#[path = "../../../../crates/proxy-config/tests/config_fuzz/check.rs"]
mod check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| drop(check::check(&String::from_utf8_lossy(bytes))));
