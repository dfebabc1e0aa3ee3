//! Sets the compiler version and the commit for `doorbell version` and the build information
//! metric, and the linker options.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Digits of a commit's hash, as many as `deploy/container/build` writes into the label of the
/// image.
const HASH_LEN: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=DOORBELL_RUSTC={}", rustc().as_deref().unwrap_or("unknown"));
    println!("cargo::rustc-env=DOORBELL_REVISION={}", revision().as_deref().unwrap_or("unknown"));
    // A static program relocates itself. Packed relocations (DT_RELR, musl 1.2.4 or later) reduce
    // 0.3 MiB of relocations to 20 KiB.
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|libc| libc == "musl") {
        // Two arguments without `-Wl`: compilers and linkers both understand them.
        println!("cargo::rustc-link-arg-bins=-z");
        println!("cargo::rustc-link-arg-bins=pack-relative-relocs");
    }
}

/// The version in `rustc 1.95.0 (..)`.
fn rustc() -> Option<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).split(' ').nth(1)?.to_owned())
}

/// The commit, from the first of: the environment, the archive of crates.io, the Git checkout.
fn revision() -> Option<String> {
    println!("cargo::rerun-if-env-changed=DOORBELL_REVISION");
    let given = env::var("DOORBELL_REVISION").ok().filter(|given| !given.is_empty());
    given.or_else(of_archive).or_else(of_checkout)
}

/// The commit in `.cargo_vcs_info.json`, which Cargo adds to every archive:
/// `{"git":{"sha1":"<hash>"},"path_in_vcs":"bins/doorbell"}`.
fn of_archive() -> Option<String> {
    let text = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    rest.split('"').nth(1)?.get(..HASH_LEN).map(str::to_owned)
}

/// The commit of the checkout that contains this package as `bins/doorbell`. The checkout of
/// another project, which may contain this package as a vendored source, is ignored.
fn of_checkout() -> Option<String> {
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).join("bins/doorbell").canonicalize().ok()?
        != env::current_dir().ok()?.canonicalize().ok()?
    {
        return None;
    }
    // Git appends a line for every commit and checkout.
    println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    git(&["rev-parse", "HEAD"])?.get(..HASH_LEN).map(str::to_owned)
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}
