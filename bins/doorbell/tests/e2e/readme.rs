//! The README against the repository: its TOML is valid and equals the file in `deploy/`, and its
//! programs equal the examples, which compile.
//!
//! Does not know about: the commands in the README; `.ci/readme` runs those.

use std::path::{Path, PathBuf};

use crate::support::{binary, run};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The code blocks of a language in the README.
fn blocks(language: &str) -> Vec<String> {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let opening = format!("\n```{language}\n");
    let parts = readme.split(&opening).skip(1);
    parts.map(|part| part[..part.find("```\n").unwrap()].to_owned()).collect()
}

#[test]
fn its_configuration_is_accepted() {
    let file = root().join("deploy/doorbell.toml");
    assert_eq!(
        blocks("toml")[0],
        std::fs::read_to_string(&file).unwrap(),
        "README and deploy/doorbell.toml differ"
    );
    let output = run(&binary(), &["validate", "-c", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn its_programs_are_the_examples_that_compile() {
    let example = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let programs = blocks("rust");
    let [probe, hello] = programs.as_slice() else { panic!("the README has two programs") };
    let path = "crates/doorbell/examples/probe.rs";
    assert_eq!(*probe, example(path), "README and {path} differ");
    let path = "crates/tokio/examples/hello.rs";
    let file = example(path);
    let (_header, program) = file.split_once("\n\n").unwrap();
    assert_eq!(hello, program, "README and {path} differ");
}
