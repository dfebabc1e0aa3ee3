//! Properties of the program whose configuration is read: variable prefix, tables with secrets,
//! help texts.
//!
//! Does not know about: reading.

use serde_json::Value;

/// Properties of a program that its tables do not declare.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The JSON Schema of the file.
    pub schema: fn() -> Value,
    /// Prefix of the environment variables that replace keys, as in `DOORBELL__`.
    pub variables: &'static str,
    /// An example of a variable that replaces a key, for help texts.
    pub variable_example: &'static str,
    /// Top-level tables of secrets. In a line that is not TOML, and in a variable, any value in
    /// these tables may be a secret.
    pub secret_tables: &'static [&'static str],
    /// Keys that never contain a secret, not even in a table that may contain secrets.
    pub open_keys: &'static [&'static str],
    /// Keys that contain a secret. Keys with similar names are treated as secrets, too.
    pub secret_keys: &'static [&'static str],
    /// Tables in which every unknown key, and any value in place of the table, is treated as a
    /// secret. Each table is given by the names on its path from the root; `*` stands for any name.
    pub guarded: &'static [&'static [&'static str]],
    /// Returns help for some keys that do not exist but that users look for. The arguments are the
    /// kind of the table, as in `check.NAME`, and the key.
    pub elsewhere: fn(&str, &str) -> Option<&'static str>,
    /// Returns an example of an inline table for a key for which users often write a single value;
    /// `None` for other keys.
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
        elsewhere: |_, _| None,
        example: |_| None,
    };
}
