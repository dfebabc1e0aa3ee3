//! `${NAME}` and `${NAME:-default}` inside strings.
//!
//! Does not know about: where the string stands; where values come from.

/// Where `${NAME}` gets its value.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Why a string cannot be expanded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ExpandError {
    BadName(String),
    Unclosed,
    Unset(String),
}

/// Replaces every reference once; values are not expanded again. `$${` stands for `${`.
pub(crate) fn expand(text: &str, env: Env<'_>) -> Result<String, ExpandError> {
    let mut out = String::with_capacity(text.len());
    let mut left = text;
    while let Some(at) = left.find("${") {
        let (before, rest) = left.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            left = &rest[2..];
            continue;
        }
        out.push_str(before);
        let (inner, rest) = rest[2..].split_once('}').ok_or(ExpandError::Unclosed)?;
        let (name, default) =
            inner.split_once(":-").map_or((inner, None), |(name, value)| (name, Some(value)));
        let first_is_letter = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !first_is_letter || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(ExpandError::BadName(name.into()));
        }
        // As in a shell, `:-` also stands in for a variable that is set but empty.
        let value = match (env(name), default) {
            (Some(value), Some(default)) if value.is_empty() => default.into(),
            (Some(value), _) => value,
            (None, Some(default)) => default.into(),
            (None, None) => return Err(ExpandError::Unset(name.into())),
        };
        out.push_str(&value);
        left = rest;
    }
    out.push_str(left);
    Ok(out)
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
}
