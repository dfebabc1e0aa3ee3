//! Dependencies between files: A depends on B if A names an item that is defined in B.
//!
//! A re-export resolves to the file that defines the item. Re-exports and `mod` lines are not edges
//! themselves. Test code is ignored.
//!
//! Method calls name no item; names that only appear in a macro's expansion are not seen.

mod circles;
mod names;
mod resolve;
mod tree;

use std::collections::BTreeMap;

pub(super) use circles::circles;

use super::Source;
use tree::Tree;

/// The edges between the files of the workspace.
#[derive(Debug)]
pub(super) struct Graph {
    files: Vec<File>,
    edges: BTreeMap<(usize, usize), String>,
}

/// One file of a package's `src`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    /// Path relative to the workspace root.
    pub(super) path: String,
    /// Folder of the package.
    pub(super) package: String,
    /// Top-level module below `src`; `lib` or `main` for the roots.
    pub(super) room: String,
}

/// A file, a file it depends on, and one of the names that it uses.
pub(super) type Edge<'a> = (&'a File, &'a File, &'a str);

impl Graph {
    /// Reads every package with a `src/lib.rs` or a `src/main.rs`.
    pub(super) fn of(sources: &[Source]) -> Self {
        let tree = Tree::of(sources);
        let mut edges = BTreeMap::new();
        for (module, path) in tree.named() {
            let from = tree.file_of(*module);
            if let Some(to) = resolve::defining_file(&tree, *module, path).filter(|&to| to != from) {
                edges.entry((from, to)).or_insert_with(|| path.join("::"));
            }
        }
        let files = tree.files().iter().map(|path| File::new(path)).collect();
        Self { files, edges }
    }

    /// All edges within packages, by path.
    pub(super) fn edges(&self) -> impl Iterator<Item = Edge<'_>> {
        let all =
            self.edges.iter().map(|(&(from, to), name)| (&self.files[from], &self.files[to], name.as_str()));
        all.filter(|(from, to, _)| from.package == to.package)
    }
}

impl File {
    fn new(path: &str) -> Self {
        let (package, inner) = path.split_once("/src/").unwrap_or(("", path));
        let room = inner.split(['/', '.']).next().unwrap_or_default();
        Self { path: path.to_owned(), package: package.to_owned(), room: room.to_owned() }
    }
}
