//! The programs of this workspace, built as users build them, and the folder for what is kept between runs.
//!
//! Does not know about: images.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::OurPrograms;
use crate::error::RigError;
use crate::tool;

/// The workspace this program was built in.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Builds `doorbell` and `doorbell-load` for release, except those for which a file is given.
pub(crate) fn build(doorbell: Option<PathBuf>, load: Option<PathBuf>) -> Result<OurPrograms, RigError> {
    let mut wanted = Vec::new();
    if doorbell.is_none() {
        wanted.extend(["-p", "doorbell-proxy"]);
    }
    if load.is_none() {
        wanted.extend(["-p", "doorbell-load"]);
    }
    let built = if wanted.is_empty() { String::new() } else { cargo_build(&wanted)? };
    let pick = |given: Option<PathBuf>, name: &str| {
        given.or_else(|| executable(&built, name)).ok_or_else(|| RigError::Command {
            command: "cargo build".into(),
            detail: format!("built no program {name}"),
        })
    };
    Ok(OurPrograms { doorbell: pick(doorbell, "doorbell")?, load: pick(load, "doorbell-load")? })
}

/// The folder for kernels and images: below cargo's target folder.
pub(crate) fn cache() -> Result<PathBuf, RigError> {
    let mut command = Command::new(cargo());
    command.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(WORKSPACE);
    let metadata: Value = serde_json::from_str(&tool::output(&mut command)?).unwrap_or_default();
    metadata["target_directory"].as_str().map(|folder| Path::new(folder).join("rig")).ok_or_else(|| {
        RigError::Command { command: "cargo metadata".into(), detail: "names no target directory".into() }
    })
}

fn cargo_build(packages: &[&str]) -> Result<String, RigError> {
    let mut command = Command::new(cargo());
    command.args(["build", "--release", "--message-format", "json-render-diagnostics"]).args(packages);
    // What cargo says about progress is for the user.
    command.current_dir(WORKSPACE).stderr(Stdio::inherit());
    tool::output(&mut command)
}

/// The file of the program `name` in cargo's JSON messages.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == name && message["target"]["kind"][0] == "bin")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

fn cargo() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_told_from_the_library_of_the_same_name() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"doorbell"},"executable":null}"#,
            "\nnot json\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"doorbell"},"executable":"/t/doorbell"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#
        );
        assert_eq!(executable(messages, "doorbell"), Some(PathBuf::from("/t/doorbell")));
        assert_eq!(executable(messages, "doorbell-load"), None);
    }

    #[test]
    fn given_files_need_no_build() {
        let given = build(Some("/a".into()), Some("/b".into())).unwrap();
        assert_eq!((given.doorbell, given.load), ("/a".into(), "/b".into()));
    }
}
