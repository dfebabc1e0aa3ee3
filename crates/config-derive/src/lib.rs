//! `#[derive(Table)]` and `#[derive(Words)]` of `doorbell-config`, which re-exports and explains
//! them.
//!
//! Both generate only calls to plain functions of that crate, whose source shows the behaviour at
//! run time. This crate turns the declaration of a field into the arguments of those calls.
#![forbid(unsafe_code)]

mod field;
mod table;
mod words;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct a table of a configuration file: each field is a key, and its comment the
/// documentation.
///
/// On the struct, `#[table(check = path)]` names a `fn(&Self, &Section)`, or a
/// `fn(&mut Self, &Section)`, that checks rules between keys of this table.
/// `inherits = "TABLE"` names a top-level table whose keys stand in for those that are left out.
/// `useless = path` names a `fn(&Self) -> &[&str]`: keys (`http2`, `limits.headers`) that have no
/// effect with the values of other keys, and that a dump leaves out.
///
/// On a field, `#[key(..)]` takes, separated by commas:
/// - `default = VALUE`: the value of an absent key, as written in a file. A field needs this or one
///   of the next two, unless its type is optional (`Option`, `Vec` or another table).
/// - `default_with = path`: the same, from a `fn(&Self) -> T` that depends on the other keys.
/// - `required = "EXAMPLE"`: the key is required; an example of its value.
/// - `range = "LOW..=HIGH"`: minimum and maximum, as written in a file; or two expressions,
///   `LOW..=HIGH`.
/// - `none = "WORD"`: the word for `None`.
/// - `size`: a number of bytes, written as in `16KiB`.
/// - `nonzero`: zero is refused because it would block everything.
/// - `filled`: an empty list is refused.
/// - `shown`: a dump shows the key even at its default.
/// - `name = "NAME"`: the name of the key, if it differs from the field's.
/// - `other_names = ["NAME", ..]`: names that users look for; the help then suggests the right one.
/// - `read = FUNCTION`: a `fn(&Entry) -> Option<T>` instead of the type's own.
/// - `words = LIST`: one of a list of words with their values, for types of other crates.
/// - `with = module`: `read(&Entry) -> Option<T>`, `dump(&T) -> Option<Json>` and
///   `form(&Key) -> Json` of this module, for types of other crates.
/// - `table_name`: no key but the name of the table, as in `[listener.NAME]`.
/// - `table = "NAME"`: the key is in a subtable of this name, which several fields may share.
/// - `flatten`: no key; the type of the field is a table whose keys are also keys of this table.
/// - `skip`, `skip = VALUE`: no key; the field has its `Default`, or this value.
#[proc_macro_derive(Table, attributes(table, key))]
pub fn derive_table(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    table::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes an enum a value that is one of several words: the variant `FullyUp` is written `fully-up`,
/// unless `#[word("..")]` gives another.
#[proc_macro_derive(Words, attributes(word))]
pub fn derive_words(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    words::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
