//! Source files that no target includes: the compiler never reads them.
//!
//! Does not know about: `include!`, which this workspace does not use.

use std::collections::BTreeSet;

use super::complaint::Complaint;
use super::source::Source;

/// Reports Rust files that are neither a target nor reachable by `mod` lines from one.
pub fn unreferenced(sources: &[Source]) -> Vec<Complaint> {
    let rust: Vec<&Source> = sources.iter().filter(|source| source.is_rust()).collect();
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    let mut queue: Vec<&Source> =
        rust.iter().copied().filter(|source| is_target(sources, &source.path)).collect();
    while let Some(source) = queue.pop() {
        if !reached.insert(&source.path) {
            continue;
        }
        for name in declared(&source.masked.code) {
            let folder = child_folder(sources, &source.path);
            let places = [format!("{folder}{name}.rs"), format!("{folder}{name}/mod.rs")];
            queue.extend(rust.iter().copied().filter(|other| places.contains(&other.path)));
        }
        for place in path_attributes(source) {
            queue.extend(rust.iter().copied().filter(|other| other.path == place));
        }
    }
    let dead = rust.iter().filter(|source| !reached.contains(source.path.as_str()));
    dead.map(|source| Complaint::new(&source.path, 0, "is reached by no `mod` line from any target"))
        .collect()
}

/// Whether `path` is the root file of a target: one that cargo finds automatically, or one that a
/// manifest names as a value of `path`.
fn is_target(sources: &[Source], path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let file = parts[parts.len() - 1];
    let parent = if parts.len() >= 2 { parts[parts.len() - 2] } else { "" };
    let root = parent == "src" && matches!(file, "lib.rs" | "main.rs");
    let folder_target = parts.len() >= 3
        && file == "main.rs"
        && matches!(parts[parts.len() - 3], "tests" | "examples" | "benches");
    let automatic =
        matches!(parent, "tests" | "examples" | "bin" | "benches" | "fuzz_targets") && file != "mod.rs";
    root || folder_target
        || (automatic && !inside_src(&parts))
        || file == "build.rs"
        || named_by_manifest(sources, path)
}

fn inside_src(parts: &[&str]) -> bool {
    parts.contains(&"src") && !parts.contains(&"bin")
}

fn named_by_manifest(sources: &[Source], path: &str) -> bool {
    sources.iter().any(|source| {
        source.path.strip_suffix("Cargo.toml").is_some_and(|folder| {
            path.strip_prefix(folder).is_some_and(|inner| {
                let mut lines = source.text.lines().map(|line| line.replace(' ', ""));
                lines.any(|line| line == format!("path=\"{inner}\""))
            })
        })
    })
}

/// `mod name;` lines; a module with a body is part of its file.
fn declared(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices("mod ") {
        if code[..at].chars().next_back().is_some_and(|c| c == '_' || c.is_alphanumeric()) {
            continue;
        }
        let rest = &code[at + 4..];
        let name: String = rest.chars().take_while(|&c| c == '_' || c.is_alphanumeric()).collect();
        if rest[name.len()..].trim_start().starts_with(';') {
            names.push(name);
        }
    }
    names
}

/// Paths in `#[path = ".."]` lines, relative to the workspace root.
fn path_attributes(source: &Source) -> Vec<String> {
    let named =
        source.text.lines().filter_map(|line| line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]"));
    named
        .map(|relative| {
            let mut parts: Vec<&str> = source.path.split('/').collect();
            parts.pop();
            for part in relative.split('/') {
                if part == ".." {
                    parts.pop();
                } else {
                    parts.push(part);
                }
            }
            parts.join("/")
        })
        .collect()
}

/// Folder of a file's child modules: its own folder for a root or `mod.rs`, otherwise a subfolder
/// with its name.
fn child_folder(sources: &[Source], path: &str) -> String {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    if file == "mod.rs" || is_target(sources, path) {
        format!("{folder}/")
    } else {
        format!("{folder}/{}/", file.trim_end_matches(".rs"))
    }
}
