//! Sets the compiler version for the build information metric, and the linker options.
//!
//! Does not know about: how the metric is written.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    // `rustc 1.95.0 (..)`
    let output = Command::new(rustc).arg("--version").output().ok();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    println!("cargo::rustc-env=DOORBELL_RUSTC={}", text.split(' ').nth(1).unwrap_or("unknown"));
    // A static program relocates itself. Packed relocations (DT_RELR, musl 1.2.4 or later) reduce
    // 0.3 MiB of relocations to 20 KiB.
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|libc| libc == "musl") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
