//! What crates.io and docs.rs read: the fields of each published package, and the versions of the
//! dependencies between them.
//!
//! Does not know about: the content of an archive (`.ci/full` lists it), and whether crates.io knows
//! a category.

use super::complaint::Complaint;
use super::source::Source;

/// The manifest of the workspace.
const ROOT: &str = "Cargo.toml";
/// Fields of `[package]` that crates.io shows.
const FIELDS: &[&str] =
    &["categories", "description", "keywords", "license", "readme", "repository", "rust-version"];
/// Maximum number of keywords; crates.io refuses more.
const KEYWORDS_MAX: usize = 5;

/// Reports packages without `publish = false` that lack a field of crates.io or `all-features` for
/// docs.rs, and dependencies between published packages without a version.
pub fn publishable(sources: &[Source]) -> Vec<Complaint> {
    let members = sources
        .iter()
        .filter(|source| source.path.ends_with("/Cargo.toml") && !source.path.ends_with("/fuzz/Cargo.toml"));
    let (kept, published): (Vec<_>, Vec<_>) =
        members.partition(|source| value(source, "package", "publish") == Some("false"));
    let kept: Vec<_> = kept.iter().filter_map(|source| value(source, "package", "name")).collect();
    let root = sources.iter().filter(|source| source.path == ROOT);
    let mut complaints: Vec<_> = root.flat_map(|root| check_versions(root, &kept)).collect();
    complaints.extend(published.iter().flat_map(|source| check_fields(source)));
    complaints
}

fn check_fields(source: &Source) -> Vec<Complaint> {
    let complain = |text: String| Complaint::new(&source.path, 0, text);
    let mut complaints: Vec<_> = FIELDS
        .iter()
        .filter(|field| value(source, "package", field).is_none())
        .map(|field| complain(format!("is published and has no `{field}`")))
        .collect();
    let keywords = value(source, "package", "keywords").unwrap_or_default().split(',').count();
    if keywords > KEYWORDS_MAX {
        complaints.push(complain(format!("has {keywords} keywords, more than {KEYWORDS_MAX}")));
    }
    if value(source, "package.metadata.docs.rs", "all-features") != Some("true") {
        complaints.push(complain("docs.rs does not build it with all features".to_owned()));
    }
    complaints
}

/// Reports dependencies with a path and without a version: crates.io ignores paths.
fn check_versions(root: &Source, kept: &[&str]) -> Vec<Complaint> {
    let lines = entries(root, "workspace.dependencies").filter(|(_, name, value)| {
        value.contains("path =") && !kept.contains(&format!("\"{name}\"").as_str())
    });
    lines
        .filter(|(_, _, value)| !value.contains("version ="))
        .map(|(line, name, _)| Complaint::new(ROOT, line, format!("{name} has a path and no version")))
        .collect()
}

/// The value of a key, unparsed. A line `name.workspace = true` counts as `name = true`.
fn value<'a>(source: &'a Source, section: &str, key: &str) -> Option<&'a str> {
    entries(source, section).find(|(_, name, _)| *name == key).map(|(_, _, value)| value)
}

/// Line number, key and value of each entry of one table.
fn entries<'a>(source: &'a Source, section: &str) -> impl Iterator<Item = (usize, &'a str, &'a str)> {
    let header = format!("[{section}]");
    let lines = source.text.lines().enumerate().skip_while(move |(_, line)| line.trim() != header).skip(1);
    lines.take_while(|(_, line)| !line.starts_with('[')).filter_map(|(index, line)| {
        let (key, value) = line.split_once('=')?;
        let key = key.trim();
        Some((index + 1, key.strip_suffix(".workspace").unwrap_or(key), value.trim()))
    })
}
