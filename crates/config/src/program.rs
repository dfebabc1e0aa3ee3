//! Properties of the program whose configuration is read: schema, variable prefix, help texts.

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
        elsewhere: |_, _| None,
        example: |_| None,
    };
}
