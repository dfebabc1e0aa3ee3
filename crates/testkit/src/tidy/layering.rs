//! Permitted dependencies between the rooms of a package, as an allow-list, and the maximum size of
//! a dependency cycle of files.
//!
//! A room is a top-level module; the root of a crate may depend on all of them. The list
//! (`rooms.txt`) is exact: a dependency that is not listed is refused, and one that is no longer
//! needed must be removed. The same holds for the list of cycles, which may only shrink.

use std::collections::{BTreeMap, BTreeSet};

use super::complaint::Complaint;
use super::graph::{File, Graph, circles};
use super::source::Source;

/// The permitted dependencies between the rooms of every package.
pub const ROOMS: &str = include_str!("rooms.txt");
const ROOMS_PATH: &str = "crates/testkit/src/tidy/rooms.txt";

/// Maximum number of files in a permitted dependency cycle, such as a type and its parts.
pub const CIRCLE_FILES_MAX: usize = 5;

/// For each package and room, the rooms on which the room depends. Each dependency has an example:
/// the path of a file and a name that the file uses.
type Arrows<'a> = BTreeMap<(&'a str, &'a str), BTreeMap<&'a str, (&'a str, &'a str)>>;

/// Reports dependencies missing from `list`, and entries of `list` that are not needed.
pub fn rooms(sources: &[Source], list: &str) -> Vec<Complaint> {
    let graph = Graph::of(sources);
    let drawn = drawn(&graph);
    let allowed = parse(list);
    let mut complaints = Vec::new();
    for (&(package, room), arrows) in &drawn {
        let may = allowed.get(&(package, room));
        for (to, (path, name)) in arrows.iter().filter(|(to, _)| !may.is_some_and(|may| may.contains(*to))) {
            let line = line_of(sources, path, name);
            complaints.push(Complaint::new(path, line, format!("`{name}`: {room} must not depend on {to}")));
        }
    }
    for (&(package, room), may) in &allowed {
        let arrows = drawn.get(&(package, room));
        for to in may.iter().filter(|to| !arrows.is_some_and(|arrows| arrows.contains_key(*to))) {
            let text = format!("{package}: {room} no longer needs {to}: remove it");
            complaints.push(Complaint::new(ROOMS_PATH, 0, text));
        }
    }
    complaints
}

/// Reports packages whose cycles of more than [`CIRCLE_FILES_MAX`] files differ in size from
/// `ratchet`.
pub fn circle_sizes(sources: &[Source], ratchet: &[(&str, &[usize])]) -> Vec<Complaint> {
    let graph = Graph::of(sources);
    let mut sizes: BTreeMap<&str, Vec<usize>> =
        ratchet.iter().map(|&(package, _)| (package, Vec::new())).collect();
    let mut text: BTreeMap<&str, String> = BTreeMap::new();
    for circle in circles(&graph).into_iter().filter(|circle| circle.len() > CIRCLE_FILES_MAX) {
        let package = circle[0].split_once("/src/").unwrap_or_default().0;
        sizes.entry(package).or_default().push(circle.len());
        *text.entry(package).or_default() += &format!("\n    {}", circle.join("\n    "));
    }
    let tolerated =
        |package: &str| ratchet.iter().find(|(name, _)| *name == package).map_or(&[][..], |row| row.1);
    let changed = sizes.iter().filter(|(package, sizes)| tolerated(package) != sizes.as_slice());
    changed
        .map(|(package, sizes)| {
            let files = text.get(package).map_or("", String::as_str);
            let text = format!("cycles of {sizes:?} files, the list allows {:?}:{files}", tolerated(package));
            Complaint::new(package, 0, text)
        })
        .collect()
}

fn drawn(graph: &Graph) -> Arrows<'_> {
    let mut drawn = Arrows::new();
    for (from, to, name) in graph.edges() {
        let File { package, room, path } = from;
        if *room == to.room || matches!(room.as_str(), "lib" | "main") {
            continue;
        }
        drawn.entry((package, room)).or_default().entry(&to.room).or_insert((path, name));
    }
    drawn
}

/// Parses `[package]` lines, each followed by lines `room: room room`.
fn parse(list: &str) -> BTreeMap<(&str, &str), BTreeSet<&str>> {
    let mut package = "";
    let mut rooms = BTreeMap::new();
    for line in list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            package = name;
        } else if let Some((room, may)) = line.split_once(':') {
            rooms.insert((package, room), may.split_whitespace().collect());
        }
    }
    rooms
}

/// The number of the first line that contains the last part of `name`, or 0 if none does.
fn line_of(sources: &[Source], path: &str, name: &str) -> usize {
    let last = name.rsplit("::").next().unwrap_or(name);
    let source = sources.iter().find(|source| source.path == path);
    source
        .and_then(|source| source.masked.code.lines().position(|line| super::words::has_word(line, last)))
        .map_or(0, |line| line + 1)
}
