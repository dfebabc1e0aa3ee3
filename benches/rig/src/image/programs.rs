//! The programs of this workspace, built as for packages; the programs of `benches/peers`; and the
//! cache folder.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::OurPrograms;
use super::servers::{Entry, Program};
use crate::error::RigError;
use crate::tool;

/// The workspace that contains this program.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The profile of packages, so that the measured programs equal the shipped ones.
const PROFILE: &str = "dist";
/// The workspace of the peers, relative to this workspace.
const PEERS: &str = "benches/peers";

/// Builds `doorbell` and `doorbell-load`, unless they are given as files.
pub(crate) fn build(doorbell: Option<PathBuf>, load: Option<PathBuf>) -> Result<OurPrograms, RigError> {
    // The path must be absolute, because given programs are also started in other folders.
    let pick = |given: Option<PathBuf>, package, name| match given {
        Some(file) => Ok(std::path::absolute(&file).unwrap_or(file)),
        None => target_of(package, "bin", name),
    };
    Ok(OurPrograms {
        doorbell: pick(doorbell, "doorbell-proxy", "doorbell")?,
        load: pick(load, "doorbell-load", "doorbell-load")?,
        peers: BTreeMap::new(),
    })
}

/// Builds the target `name` of `package` with [`PROFILE`]. The kind is `bin` or `example`.
pub(crate) fn target_of(package: &str, kind: &str, name: &str) -> Result<PathBuf, RigError> {
    let option = format!("--{kind}");
    executable(&cargo(&["build", "--profile", PROFILE, "-p", package, &option, name])?, name, kind)
}

/// Returns the path of the program of `entry` on this machine. A program of `benches/peers` is
/// built once and added to `ours`. The error names a missing program.
pub(crate) fn provide(entry: &Entry, ours: &mut OurPrograms) -> Result<PathBuf, RigError> {
    let (name, built) = match entry.program {
        Program::Doorbell => return Ok(ours.doorbell.clone()),
        Program::Installed { program, package } => return tool::find(program, package),
        Program::Go { program, .. } | Program::Rust { program, .. } if ours.peers.contains_key(program) => {
            return Ok(ours.peers[program].clone());
        }
        Program::Go { program, linker_flags } => (program, go_peer(program, linker_flags)?),
        Program::Rust { program, feature } => (program, rust_peer(program, feature)?),
    };
    ours.peers.insert(name, built.clone());
    Ok(built)
}

/// The cache folder for kernels and images, which is below cargo's target folder.
pub(crate) fn cache() -> Result<PathBuf, RigError> {
    target().map(|folder| folder.join("rig"))
}

fn target() -> Result<PathBuf, RigError> {
    let mut command = Command::new(cargo_program());
    command.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(WORKSPACE);
    let metadata: Value = serde_json::from_str(&tool::output(&mut command)?).unwrap_or_default();
    let folder = metadata["target_directory"].as_str().map(PathBuf::from);
    folder.ok_or_else(|| RigError::command("cargo metadata", "names no target directory"))
}

fn rust_peer(program: &str, feature: &str) -> Result<PathBuf, RigError> {
    let manifest = format!("{PEERS}/Cargo.toml");
    let folder = target()?.join("peers");
    let mut args = vec!["build", "--release", "--locked", "--manifest-path", &manifest, "--target-dir"];
    let folder = folder.to_string_lossy();
    args.extend([&*folder, "--bin", program, "--features", feature]);
    executable(&cargo(&args)?, program, "bin")
}

fn go_peer(program: &str, linker_flags: &str) -> Result<PathBuf, RigError> {
    let file = target()?.join("peers/go").join(program);
    let mut command = Command::new(tool::find("go", "golang-go")?);
    command.args(["build", "-trimpath", "-ldflags", linker_flags, "-o"]).arg(&file);
    command.arg(format!("./{program}"));
    // Without C code the program needs no library in the guest.
    command.env("CGO_ENABLED", "0");
    command.current_dir(Path::new(WORKSPACE).join(PEERS).join("go")).stderr(Stdio::inherit());
    tool::output(&mut command)?;
    Ok(file)
}

/// Builds the test target `name` of `package` with debug assertions, and returns its path.
pub(crate) fn test(package: &str, name: &str) -> Result<PathBuf, RigError> {
    executable(&cargo(&["test", "--no-run", "-p", package, "--test", name])?, name, "test")
}

/// Runs cargo in the workspace and returns its JSON messages.
fn cargo(args: &[&str]) -> Result<String, RigError> {
    let mut command = Command::new(cargo_program());
    command.args(args).args(["--message-format", "json-render-diagnostics"]);
    // The user sees cargo's progress.
    command.current_dir(WORKSPACE).stderr(Stdio::inherit());
    tool::output(&mut command)
}

/// Finds the file of the target `name` of the kind `kind` in cargo's JSON messages.
fn executable(messages: &str, name: &str, kind: &str) -> Result<PathBuf, RigError> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut targets =
        messages.filter(|said| said["target"]["name"] == name && said["target"]["kind"][0] == kind);
    let file = targets.find_map(|said| said["executable"].as_str().map(PathBuf::from));
    file.ok_or_else(|| RigError::command("cargo", format!("built no {kind} {name}")))
}

fn cargo_program() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_distinguished_from_the_library_of_the_same_name() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"doorbell"},"executable":null}"#,
            "\nnot json\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"doorbell"},"executable":"/t/doorbell"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#
        );
        assert_eq!(executable(messages, "doorbell", "bin").unwrap(), PathBuf::from("/t/doorbell"));
        let error = executable(messages, "doorbell-load", "bin").unwrap_err().to_string();
        assert!(error.contains("built no bin doorbell-load"), "{error}");
    }

    #[test]
    fn given_files_need_no_build() {
        let given = build(Some("/a".into()), Some("/b".into())).unwrap();
        assert_eq!((given.doorbell, given.load), ("/a".into(), "/b".into()));
    }

    #[test]
    fn a_peer_is_built_once() {
        let entry = Entry::named("bare").unwrap();
        let mut ours = build(Some("/a".into()), Some("/b".into())).unwrap();
        ours.peers.insert("bare", "/c/bare".into());
        assert_eq!(provide(entry, &mut ours).unwrap(), PathBuf::from("/c/bare"));
        let doorbell = Entry::named("doorbell-epoll").unwrap();
        assert_eq!(provide(doorbell, &mut ours).unwrap(), PathBuf::from("/a"));
    }

    #[test]
    fn every_peer_has_a_source() {
        let peers = Path::new(WORKSPACE).join(PEERS);
        let manifest = std::fs::read_to_string(peers.join("Cargo.toml")).unwrap();
        for entry in super::super::servers::CATALOGUE {
            match entry.program {
                Program::Doorbell | Program::Installed { .. } => {}
                Program::Go { program, .. } => assert!(peers.join("go").join(program).is_dir(), "{program}"),
                Program::Rust { program, feature } => {
                    assert!(manifest.contains(&format!("name = \"{program}\"")), "{program}");
                    assert!(manifest.contains(&format!("required-features = [\"{feature}\"]")), "{feature}");
                }
            }
        }
    }
}
