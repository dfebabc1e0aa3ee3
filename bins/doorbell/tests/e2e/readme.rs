//! The README against the repository: its TOML is the file in `deploy/` and is accepted, its Rust is the example that compiles.
//!
//! Does not know about: its commands; `.ci/readme` runs those.

use std::path::{Path, PathBuf};

use crate::support::{binary, run};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The first block of a language in the README.
fn block(language: &str) -> String {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let opening = format!("\n```{language}\n");
    let start = readme.find(&opening).unwrap_or_else(|| panic!("no {language} block")) + opening.len();
    readme[start..start + readme[start..].find("```\n").unwrap()].to_owned()
}

#[test]
fn its_configuration_is_accepted() {
    let file = root().join("deploy/doorbell.toml");
    assert_eq!(
        block("toml"),
        std::fs::read_to_string(&file).unwrap(),
        "README and deploy/doorbell.toml differ"
    );
    let output = run(&binary(), &["check", "-c", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn its_example_is_the_one_that_compiles() {
    let example = std::fs::read_to_string(root().join("crates/doorbell/examples/probe.rs")).unwrap();
    assert_eq!(block("rust"), example, "README and crates/doorbell/examples/probe.rs differ");
}
