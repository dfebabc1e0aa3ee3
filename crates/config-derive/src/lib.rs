//! `#[derive(Table)]` and `#[derive(Words)]` of `doorbell-config`, which re-exports and explains
//! them.
//!
//! Both generate trait implementations that mostly call plain functions of that crate, whose source
//! shows the behaviour at run time. This crate turns the declaration of a field into the arguments
//! of those calls.
#![forbid(unsafe_code)]

mod field;
mod table;
mod words;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct a table of a configuration file: each field is a key, and the doc comment of the
/// field is the documentation of the key.
///
/// On the struct, `#[table(check = path)]` names a `fn(&Self, &Section)`, or a `fn(&mut Self,
/// &Section)`, that checks rules between keys of this table. `inherits = "TABLE"` names a top-level
/// table from which missing keys are inherited. `useless = path` names a `fn(&Self) -> &[&str]`
/// that returns keys, such as `http2` or `limits.headers`, that have no effect because of the
/// values of other keys. A dump omits these keys.
///
/// On a field, `#[key(..)]` takes, separated by commas:
/// - `default = VALUE`: the value of an absent key, as written in a file. A field needs `default`,
///   `default_with` or `required`. Only a field of an optional type (`Option`, `Vec` or another
///   table), or with `read`, `words` or `with`, may lack all three: its default is then that of
///   [`Default`].
/// - `default_with = path`: the value of an absent key, from a `fn(&Self) -> T` that depends on the
///   other keys.
/// - `required = "EXAMPLE"`: the key is required; `EXAMPLE` is a sample value for messages.
/// - `range = "LOW..=HIGH"`: minimum and maximum, as written in a file; or two expressions,
///   `LOW..=HIGH`.
/// - `none = "WORD"`: the word that stands for `None`.
/// - `size`: a number of bytes, written as in `16KiB`.
/// - `nonzero`: zero is refused, because a limit of zero would let nothing pass.
/// - `filled`: an empty list is refused.
/// - `shown`: a dump shows the key even at its default.
/// - `name = "NAME"`: the name of the key, if it differs from the field's.
/// - `other_names = ["NAME", ..]`: other names that users may try; the error for such a name
///   suggests the right one.
/// - `read = FUNCTION`: a `fn(&Entry) -> Option<T>` that replaces the reader of the type.
/// - `words = LIST`: a list of pairs of a word and its value, for enums of other crates.
/// - `with = module`: for types of other crates; uses the functions `read(&Entry) -> Option<T>`,
///   `dump(&T) -> Option<Json>` and `form(&Key) -> Json` of this module. `form` returns the JSON
///   Schema of the values.
/// - `table_name`: not a key; the field contains the name of the table, as in `[listener.NAME]`.
/// - `table = "NAME"`: the key is in a subtable of this name, which several fields may share.
/// - `flatten`: not a key; the type of the field is a table whose keys are also keys of this table.
/// - `skip`, `skip = VALUE`: not a key; the field has its `Default`, or this value.
#[proc_macro_derive(Table, attributes(table, key))]
pub fn derive_table(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    table::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Lets a key have an enum as its value. Each variant is written as a word: `FullyUp` as
/// `fully-up`, unless `#[word("..")]` gives another word.
#[proc_macro_derive(Words, attributes(word))]
pub fn derive_words(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    words::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
