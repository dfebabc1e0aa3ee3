//! Resolves a path to the file that defines the named item.

use std::collections::BTreeSet;

use super::tree::Tree;

/// The result of resolving a name.
#[derive(Clone, Copy)]
enum Found {
    Module(usize),
    /// Defined in this file; the rest of the path is an associated item or a variant.
    Item(usize),
}

/// Names that are being resolved: re-exports may be circular.
type Pending = BTreeSet<(usize, String)>;

/// The file that defines the item named by `path` inside `module`; `None` if `path` names a module.
pub(super) fn defining_file(tree: &Tree, module: usize, path: &[String]) -> Option<usize> {
    match resolve(tree, module, path, &mut Pending::new())? {
        Found::Item(file) => Some(file),
        Found::Module(_) => None,
    }
}

fn resolve(tree: &Tree, module: usize, path: &[String], pending: &mut Pending) -> Option<Found> {
    let (first, mut rest) = path.split_first()?;
    let mut found = match first.as_str() {
        "crate" => Found::Module(tree.root_of(module)),
        "self" => Found::Module(module),
        "super" => Found::Module(tree.modules[module].parent?),
        name => lookup(tree, module, name, !rest.is_empty(), pending)
            .or_else(|| tree.crate_named(name).map(Found::Module))?,
    };
    while let Some((name, after)) = rest.split_first() {
        found = match found {
            Found::Item(file) => return Some(Found::Item(file)),
            Found::Module(inside) if name == "super" => Found::Module(tree.modules[inside].parent?),
            Found::Module(inside) => lookup(tree, inside, name, !after.is_empty(), pending)?,
        };
        rest = after;
    }
    Some(found)
}

/// Resolves `name` inside `module`: defined there, imported, or imported by a glob. If `beneath`,
/// the path continues after `name`: a module then takes precedence over a function of the same
/// name.
fn lookup(tree: &Tree, module: usize, name: &str, beneath: bool, pending: &mut Pending) -> Option<Found> {
    let scope = &tree.modules[module];
    let child = scope.children.get(name).map(|&child| Found::Module(child));
    let item = scope.items.contains(name).then_some(Found::Item(scope.file));
    if let Some(own) = if beneath { child.or(item) } else { item.or(child) } {
        return Some(own);
    }
    let key = (module, name.to_owned());
    if !pending.insert(key.clone()) {
        return None;
    }
    let imported = scope.imports.get(name).into_iter().flatten();
    let found = imported
        .filter_map(|path| resolve(tree, module, path, pending))
        .next()
        .or_else(|| through_globs(tree, module, name, beneath, pending));
    pending.remove(&key);
    found
}

fn through_globs(
    tree: &Tree,
    module: usize,
    name: &str,
    beneath: bool,
    pending: &mut Pending,
) -> Option<Found> {
    tree.modules[module].globs.iter().find_map(|path| match resolve(tree, module, path, pending)? {
        Found::Module(inside) => lookup(tree, inside, name, beneath, pending),
        Found::Item(_) => None,
    })
}
