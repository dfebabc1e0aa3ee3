//! Which compiler builds the program, for the metric that says so.
//!
//! Does not know about: anything in the program.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    // `rustc 1.95.0 (..)`
    let output = Command::new(rustc).arg("--version").output().ok();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    println!("cargo::rustc-env=DOORBELL_RUSTC={}", text.split(' ').nth(1).unwrap_or("unknown"));
}
