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
    // The static program relocates itself: 0.3 MiB of addresses take 20 KiB in this form, which musl knows from 1.2.4 on.
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|libc| libc == "musl") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
