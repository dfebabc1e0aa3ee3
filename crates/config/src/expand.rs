//! `${NAME}` and `${NAME:-default}` inside strings, and `${file:PATH}` inside secrets.

use std::path::{Path, PathBuf};

/// Looks up the value of `${NAME}`.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns the value of `${file:PATH}`, or the reason why the file cannot be read.
pub type ReadSecret<'a> = &'a dyn Fn(&Path) -> Result<String, String>;

/// Reason why a string cannot be expanded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ExpandError {
    BadName(String),
    File { path: String, why: String },
    Unclosed,
    Unset(String),
}

/// An expanded secret, and whether the configuration file itself contains a part of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expanded {
    pub(crate) text: String,
    pub(crate) has_literal: bool,
    /// Whether the value in the file contains at least one reference, and no reference has a
    /// default.
    pub(crate) has_reference: bool,
    /// Files that contain parts of the secret.
    pub(crate) files: Vec<PathBuf>,
}

/// Replaces every reference once; values are not expanded again. `$${` means `${`.
pub(crate) fn expand(text: &str, env: Env<'_>) -> Result<String, ExpandError> {
    replace(text, &mut |inner| from_env(inner, env)).map(|expanded| expanded.text)
}

/// Expands a secret as [`expand`] does; its references may also name files.
pub(crate) fn expand_secret(text: &str, env: Env<'_>, read: ReadSecret<'_>) -> Result<Expanded, ExpandError> {
    let (mut has_default, mut has_reference) = (false, false);
    let mut files = Vec::new();
    let mut expanded = replace(text, &mut |inner| {
        has_reference = true;
        match inner.strip_prefix("file:") {
            Some("") => Err(ExpandError::BadName(inner.into())),
            Some(path) => {
                files.push(path.into());
                read(Path::new(path)).map_err(|why| ExpandError::File { path: path.into(), why })
            }
            None => {
                has_default |= inner.contains(":-");
                from_env(inner, env)
            }
        }
    })?;
    expanded.has_literal |= has_default;
    expanded.has_reference = has_reference && !has_default;
    expanded.files = files;
    Ok(expanded)
}

/// Whether the text consists only of references without defaults, so that it contains no part of
/// the value.
pub(crate) fn is_only_references(text: &str) -> bool {
    let replaced = replace(text, &mut |inner| match inner.contains(":-") {
        true => Err(ExpandError::Unclosed),
        false => Ok(String::new()),
    });
    replaced.is_ok_and(|expanded| !expanded.has_literal)
}

fn replace(
    text: &str,
    value_of: &mut dyn FnMut(&str) -> Result<String, ExpandError>,
) -> Result<Expanded, ExpandError> {
    let mut out = String::with_capacity(text.len());
    let mut has_literal = false;
    let mut left = text;
    while let Some(at) = left.find("${") {
        let (before, rest) = left.split_at(at);
        has_literal |= !before.is_empty();
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            left = &rest[2..];
            continue;
        }
        out.push_str(before);
        let (inner, rest) = rest[2..].split_once('}').ok_or(ExpandError::Unclosed)?;
        out.push_str(&value_of(inner)?);
        left = rest;
    }
    out.push_str(left);
    has_literal |= !left.is_empty();
    Ok(Expanded { text: out, has_literal, has_reference: false, files: Vec::new() })
}

fn from_env(inner: &str, env: Env<'_>) -> Result<String, ExpandError> {
    let (name, default) = inner.split_once(":-").map_or((inner, None), |(name, value)| (name, Some(value)));
    let first_is_letter = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !first_is_letter || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(ExpandError::BadName(name.into()));
    }
    // As in a shell, `:-` also applies to a variable that is set but empty.
    match (env(name), default) {
        (Some(value), Some(default)) if value.is_empty() => Ok(default.into()),
        (Some(value), _) => Ok(value),
        (None, Some(default)) => Ok(default.into()),
        (None, None) => Err(ExpandError::Unset(name.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced() {
        let env = |name: &str| match name {
            "PORT" => Some("8080".into()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${PORT}".into()),
            _ => None,
        };
        for (text, expected) in [
            ("plain $5 {x}", Ok("plain $5 {x}")),
            (":${PORT}", Ok(":8080")),
            ("${PORT}${PORT}", Ok("80808080")),
            ("${NO:-9090}", Ok("9090")),
            ("${NO:-}", Ok("")),
            ("${EMPTY}", Ok("")),
            ("${EMPTY:-x}", Ok("x")),
            ("${PORT:-x}", Ok("8080")),
            ("${NESTED}", Ok("${PORT}")),
            ("$${PORT}", Ok("${PORT}")),
            ("${NO}", Err(ExpandError::Unset("NO".into()))),
            ("${PORT", Err(ExpandError::Unclosed)),
            ("${}", Err(ExpandError::BadName(String::new()))),
            ("${9}", Err(ExpandError::BadName("9".into()))),
            ("${A-B}", Err(ExpandError::BadName("A-B".into()))),
            ("${file:/x}", Err(ExpandError::BadName("file:/x".into()))),
        ] {
            assert_eq!(expand(text, &env), expected.map(str::to_owned), "{text}");
        }
    }

    #[test]
    fn secrets_also_come_from_files() {
        let env = |name: &str| (name == "TOKEN").then(|| "from-env".into());
        let read = |path: &Path| match path.to_str() {
            Some("/run/token") => Ok("from-file".into()),
            _ => Err("it is not there".into()),
        };
        let good = |text: &str, has_literal, has_reference| {
            let files = if text.starts_with("from-file") { vec!["/run/token".into()] } else { Vec::new() };
            Ok(Expanded { text: text.into(), has_literal, has_reference, files })
        };
        for (text, expected) in [
            ("${file:/run/token}", good("from-file", false, true)),
            ("${TOKEN}", good("from-env", false, true)),
            ("${file:/run/token}${TOKEN}", good("from-filefrom-env", false, true)),
            ("${TOKEN:-fallback}", good("from-env", true, false)),
            ("${NO:-fallback}", good("fallback", true, false)),
            ("${TOKEN}${NO:-fallback}", good("from-envfallback", true, false)),
            ("clear", good("clear", true, false)),
            ("a${TOKEN}", good("afrom-env", true, true)),
            ("${TOKEN}a", good("from-enva", true, true)),
            ("$${TOKEN}", good("${TOKEN}", true, false)),
            ("", good("", false, false)),
            ("${file:}", Err(ExpandError::BadName("file:".into()))),
            ("${file:/no}", Err(ExpandError::File { path: "/no".into(), why: "it is not there".into() })),
        ] {
            assert_eq!(expand_secret(text, &env, &read), expected, "{text}");
            if let Ok(Expanded { has_literal, .. }) = expected {
                assert_eq!(is_only_references(text), !has_literal, "{text}");
            }
        }
    }
}
