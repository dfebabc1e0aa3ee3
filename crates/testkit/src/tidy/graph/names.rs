//! One file as a syntax tree: the definitions and imports of its modules, and the paths it
//! mentions.
//!
//! Generic parameters and local variables are collected too; they resolve to nothing.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::tree::Tree;

/// Adds the contents of `parsed` to `module`, and returns its `mod name;` lines, each with the
/// enclosing module.
pub(super) fn collect(tree: &mut Tree, module: usize, parsed: &syn::File) -> Vec<(usize, String)> {
    let mut collector = Collector { tree, module, blocks: 0, declared: Vec::new() };
    collector.visit_file(parsed);
    collector.declared
}

struct Collector<'a> {
    tree: &'a mut Tree,
    module: usize,
    /// Depth of function bodies; their items are not names of the module.
    blocks: usize,
    declared: Vec<(usize, String)>,
}

impl Collector<'_> {
    fn define(&mut self, name: &syn::Ident) {
        if self.blocks == 0 {
            self.tree.modules[self.module].items.insert(name.to_string());
        }
    }

    fn visit_mod(&mut self, item: &syn::ItemMod) {
        let name = item.ident.to_string();
        let Some((_, items)) = &item.content else {
            self.declared.push((self.module, name));
            return;
        };
        let outer = self.module;
        self.module = self.tree.add_module(self.tree.file_of(outer), Some(outer));
        self.tree.modules[outer].children.insert(name, self.module);
        for item in items {
            self.visit_item(item);
        }
        self.module = outer;
    }

    fn visit_use(&mut self, used: &Used, path: &[String], tree: &syn::UseTree) {
        let extended = |name: &syn::Ident| [path, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(next) => self.visit_use(used, &extended(&next.ident), &next.tree),
            syn::UseTree::Name(last) if last.ident == "self" => self.import(used, path.last(), path.to_vec()),
            syn::UseTree::Name(last) => {
                self.import(used, Some(&last.ident.to_string()), extended(&last.ident))
            }
            syn::UseTree::Rename(last) if last.ident == "self" => {
                self.import(used, Some(&last.rename.to_string()), path.to_vec());
            }
            syn::UseTree::Rename(last) => {
                self.import(used, Some(&last.rename.to_string()), extended(&last.ident));
            }
            syn::UseTree::Glob(_) => {
                self.name_import(used, path.to_vec());
                self.tree.modules[self.module].globs.push(path.to_vec());
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.visit_use(used, path, tree);
                }
            }
        }
    }

    fn import(&mut self, used: &Used, name: Option<&String>, path: Vec<String>) {
        self.name_import(used, path.clone());
        if let (Some(name), 0) = (name, self.blocks) {
            let imports = self.tree.modules[self.module].imports.entry(name.clone()).or_default();
            // `use name;` and `use self::name;` would refer to themselves.
            if path.as_slice() != [name.as_str()] {
                imports.push(path);
            }
        }
    }

    fn name_import(&mut self, used: &Used, path: Vec<String>) {
        if matches!(used, Used::Here) {
            self.tree.add_name(self.module, path);
        }
    }

    /// Collects paths in the tokens of a macro call: identifiers joined by `::`.
    fn visit_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons < 2 {
                        self.end_path(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.end_path(&mut path);
                    self.visit_tokens(group.stream());
                }
                _ => self.end_path(&mut path),
            }
        }
        self.end_path(&mut path);
    }

    fn end_path(&mut self, path: &mut Vec<String>) {
        if !path.is_empty() {
            self.tree.add_name(self.module, std::mem::take(path));
        }
    }

    /// Collects the definitions that a macro call in item position makes: the identifiers after
    /// `struct`, `enum` and the like.
    fn define_from_tokens(&mut self, tokens: TokenStream) {
        let mut after_keyword = false;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if after_keyword => {
                    self.define(&ident);
                    after_keyword = false;
                }
                TokenTree::Ident(ident) => {
                    after_keyword = ["const", "enum", "fn", "static", "struct", "trait", "type"]
                        .iter()
                        .any(|keyword| ident == keyword);
                }
                _ => after_keyword = false,
            }
        }
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if attributes(item).iter().any(is_test) {
            return;
        }
        match item {
            syn::Item::Mod(item) => return self.visit_mod(item),
            syn::Item::Use(item) => return self.visit_use(&Used::of(item), &[], &item.tree),
            syn::Item::Const(item) => self.define(&item.ident),
            syn::Item::Enum(item) => self.define(&item.ident),
            syn::Item::Fn(item) => self.define(&item.sig.ident),
            syn::Item::Static(item) => self.define(&item.ident),
            syn::Item::Struct(item) => self.define(&item.ident),
            syn::Item::Trait(item) => self.define(&item.ident),
            syn::Item::Type(item) => self.define(&item.ident),
            syn::Item::Union(item) => self.define(&item.ident),
            syn::Item::Macro(item) => match &item.ident {
                Some(name) => self.define(name),
                None => self.define_from_tokens(item.mac.tokens.clone()),
            },
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let test = matches!(item, syn::ImplItem::Fn(method) if method.attrs.iter().any(is_test));
        if !test {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.blocks += 1;
        visit::visit_block(self, block);
        self.blocks -= 1;
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.tree.add_name(self.module, segments);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        visit::visit_macro(self, call);
        self.visit_tokens(call.tokens.clone());
    }
}

/// The purpose of a `use`.
enum Used {
    /// The names are used in this file.
    Here,
    /// A re-export, which does not count as a use. If this file also uses the name, the code that
    /// does so counts.
    Elsewhere,
}

impl Used {
    fn of(item: &syn::ItemUse) -> Self {
        if matches!(item.vis, syn::Visibility::Inherited) { Self::Here } else { Self::Elsewhere }
    }
}

/// `#[cfg(test)]`, or `#[cfg(all(test, ..))]` with `test` first.
fn is_test(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    let text = list.tokens.to_string().replace(' ', "");
    list.path.is_ident("cfg") && (text == "test" || text.starts_with("all(test,"))
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
