//! Facts of the program whose configuration is read: variable prefix, tables with secrets, help texts.
//!
//! Does not know about: how anything is read.

use serde_json::Value;
use std::ops::Range;
use toml::de::DeTable;

/// Facts of a program that no table declares.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The JSON Schema of the file.
    pub schema: fn() -> Value,
    /// Prefix of the environment variables that stand in for keys, as in `DOORBELL__`.
    pub variables: &'static str,
    /// Such a variable, for help texts.
    pub variable_example: &'static str,
    /// Top-level tables of secrets: on a line that is not TOML, and in a variable, any value below them may be one.
    pub secret_tables: &'static [&'static str],
    /// Keys that hold no secret wherever they are; what is not known is taken for one.
    pub open_keys: &'static [&'static str],
    /// Keys that hold a secret: what is like one of these is taken for one.
    pub secret_keys: &'static [&'static str],
    /// Tables in which every unknown key is taken for a secret, by the names of the tables around them; `*` is any.
    pub guarded: &'static [&'static [&'static str]],
    /// Where secrets stand in clear text.
    pub clear_secrets: fn(&DeTable<'_>) -> Vec<Range<usize>>,
    /// Help for keys that do not exist but are looked for, by the kind of their table.
    pub elsewhere: fn(&str, &str) -> Option<&'static str>,
    /// A table on one line, by the key that is often taken for a single value.
    pub example: fn(&str) -> Option<&'static str>,
}

impl Program {
    /// A program without secrets, variables and further help.
    pub const NONE: Self = Self {
        schema: || Value::Null,
        variables: "\0",
        variable_example: "",
        secret_tables: &[],
        open_keys: &[],
        secret_keys: &[],
        guarded: &[],
        clear_secrets: |_| Vec::new(),
        elsewhere: |_, _| None,
        example: |_| None,
    };
}
