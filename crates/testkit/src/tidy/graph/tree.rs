//! The modules of every package: definitions and imports of each, and every path that the source
//! mentions.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Source;
use super::names;

/// One module, in a separate file or inside the file of another module.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) file: usize,
    pub(super) parent: Option<usize>,
    pub(super) children: BTreeMap<String, usize>,
    pub(super) items: BTreeSet<String>,
    /// By name. A name may have several imports: a type and a function, or one import per feature.
    pub(super) imports: BTreeMap<String, Vec<Vec<String>>>,
    pub(super) globs: Vec<Vec<String>>,
}

#[derive(Debug)]
pub(super) struct Tree {
    pub(super) modules: Vec<Module>,
    files: Vec<String>,
    crates: BTreeMap<String, usize>,
    named: Vec<(usize, Vec<String>)>,
}

impl Tree {
    pub(super) fn of(sources: &[Source]) -> Self {
        let texts: BTreeMap<&str, &str> =
            sources.iter().map(|source| (source.path.as_str(), source.text.as_str())).collect();
        let mut tree =
            Self { modules: Vec::new(), files: Vec::new(), crates: BTreeMap::new(), named: Vec::new() };
        for (path, manifest) in &texts {
            let Some(folder) = path.strip_suffix("/Cargo.toml") else { continue };
            for root in ["lib.rs", "main.rs"] {
                let root_path = format!("{folder}/src/{root}");
                if texts.contains_key(root_path.as_str()) {
                    let module = tree.add_file(&texts, &root_path, None);
                    if root == "lib.rs" {
                        tree.crates.insert(crate_name(manifest), module);
                    }
                }
            }
        }
        tree
    }

    /// Reads a file and those its `mod` lines name.
    fn add_file(&mut self, texts: &BTreeMap<&str, &str>, path: &str, parent: Option<usize>) -> usize {
        let file = self.files.len();
        self.files.push(path.to_owned());
        let module = self.add_module(file, parent);
        // The compiler reports a file that does not parse.
        if let Ok(parsed) = syn::parse_file(texts[path]) {
            for (inside, name) in names::collect(self, module, &parsed) {
                let folder = format!("{}{}", child_folder(path), self.inner_path(module, inside));
                let places = [format!("{folder}{name}.rs"), format!("{folder}{name}/mod.rs")];
                if let Some(place) = places.iter().find(|place| texts.contains_key(place.as_str())) {
                    let child = self.add_file(texts, place, Some(inside));
                    self.modules[inside].children.insert(name, child);
                }
            }
        }
        module
    }

    /// Path of the inline modules from a file's own module down to `inside`, one folder for each.
    fn inner_path(&self, own: usize, mut inside: usize) -> String {
        let mut path = String::new();
        while inside != own {
            let Some(parent) = self.modules[inside].parent else { break };
            let siblings = &self.modules[parent].children;
            let name = siblings.iter().find(|&(_, &child)| child == inside).map(|(name, _)| name.as_str());
            path.insert_str(0, &format!("{}/", name.unwrap_or_default()));
            inside = parent;
        }
        path
    }

    pub(super) fn add_module(&mut self, file: usize, parent: Option<usize>) -> usize {
        self.modules.push(Module {
            file,
            parent,
            children: BTreeMap::new(),
            items: BTreeSet::new(),
            imports: BTreeMap::new(),
            globs: Vec::new(),
        });
        self.modules.len() - 1
    }

    pub(super) fn add_name(&mut self, module: usize, path: Vec<String>) {
        self.named.push((module, path));
    }

    /// Every path in the source, with its enclosing module.
    pub(super) fn named(&self) -> &[(usize, Vec<String>)] {
        &self.named
    }

    pub(super) fn files(&self) -> &[String] {
        &self.files
    }

    pub(super) fn file_of(&self, module: usize) -> usize {
        self.modules[module].file
    }

    pub(super) fn root_of(&self, mut module: usize) -> usize {
        while let Some(parent) = self.modules[module].parent {
            module = parent;
        }
        module
    }

    pub(super) fn crate_named(&self, name: &str) -> Option<usize> {
        self.crates.get(name).copied()
    }
}

/// The crate's name in paths: that of `[lib]`, otherwise that of the package.
fn crate_name(manifest: &str) -> String {
    let (mut package, mut section) = (String::new(), "");
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if let Some(value) = line.strip_prefix("name = \"") {
            let name = value.trim_end_matches('"').replace('-', "_");
            match section {
                "[lib]" => return name,
                "[package]" => package = name,
                _ => {}
            }
        }
    }
    package
}

/// Folder of a file's child modules: its own folder for a root or `mod.rs`, otherwise a subfolder
/// with its name.
fn child_folder(path: &str) -> String {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    match file {
        "lib.rs" | "main.rs" | "mod.rs" => format!("{folder}/"),
        _ => format!("{folder}/{}/", file.trim_end_matches(".rs")),
    }
}
