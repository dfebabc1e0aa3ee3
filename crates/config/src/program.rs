//! Facts of the program whose configuration is read: variable prefix, tables with secrets, help
//! texts.
//!
//! Does not know about: reading.

use serde_json::Value;
use std::ops::Range;
use toml::de::DeTable;

/// Properties of a program that no table declares.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The JSON Schema of the file.
    pub schema: fn() -> Value,
    /// Prefix of the environment variables that replace keys, as in `DOORBELL__`.
    pub variables: &'static str,
    /// An example of such a variable, for help texts.
    pub variable_example: &'static str,
    /// Top-level tables of secrets. In a line that is not TOML, and in a variable, any value
    /// below them may be a secret.
    pub secret_tables: &'static [&'static str],
    /// Keys that never contain a secret; unknown keys are assumed to contain one.
    pub open_keys: &'static [&'static str],
    /// Keys that contain a secret; similar names are treated like them.
    pub secret_keys: &'static [&'static str],
    /// Tables in which every unknown key is treated as a secret, by the names of the enclosing
    /// tables; `*` is any.
    pub guarded: &'static [&'static [&'static str]],
    /// Finds secrets in clear text.
    pub clear_secrets: fn(&DeTable<'_>) -> Vec<Range<usize>>,
    /// Help for keys that do not exist but that users look for, by the kind of their table.
    pub elsewhere: fn(&str, &str) -> Option<&'static str>,
    /// An example of a table on one line, by the key that is often mistaken for a single value.
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
