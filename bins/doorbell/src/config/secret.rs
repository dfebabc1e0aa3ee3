//! Secrets of a configuration file: read from where they are kept, and hidden wherever the file is shown.
//!
//! Does not know about: what a secret is good for.

use super::expand::is_only_references;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Longer than any token, and than any key set that would be given by mistake.
const SECRET_LEN_MAX: u64 = 64 << 10;

/// Keys of `[auth.NAME]` and of its `jwt` that hold no secret. What is not known is taken for one, so that a secret under a
/// misspelled key is hidden as well.
const OPEN_KEYS: [&str; 8] =
    ["algorithm", "audience", "issuer", "jwks_file", "key_file", "leeway", "realm", "require"];

/// The content of a file without the line end at its end.
pub(crate) fn read_file(path: &Path) -> Result<String, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    // A pipe would make us wait, and a device may have no end.
    if !metadata.is_file() {
        return Err("it is not a file".into());
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(SECRET_LEN_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > SECRET_LEN_MAX {
        return Err("it is longer than 64 KiB".into());
    }
    let mut text = String::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// Where secrets stand in clear text.
pub(crate) fn clear_spans(root: &DeTable<'_>) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    if let Some(auth) = root.get("auth") {
        match auth.get_ref() {
            DeValue::Table(named) => {
                for (_, table) in named {
                    hide(table, &mut spans);
                }
            }
            _ => hide(auth, &mut spans),
        }
    }
    if let Some(token) = root.get("admin").and_then(|admin| admin.get_ref().as_table()?.get("token")) {
        hide(token, &mut spans);
    }
    if let Some(checks) = root.get("check").and_then(|checks| checks.get_ref().as_table()) {
        // Other keys of a check are no secrets, and are what a report is about.
        for check in checks.iter().filter_map(|(_, check)| check.get_ref().as_table()) {
            let basic = check.get("basic").and_then(|basic| basic.get_ref().as_table());
            let secrets =
                [check.get("bearer"), check.get("password"), basic.and_then(|basic| basic.get("password"))];
            secrets.into_iter().flatten().for_each(|secret| hide(secret, &mut spans));
            check.get("url").into_iter().for_each(|url| hide_user(url, &mut spans));
        }
    }
    spans.sort_unstable_by_key(|span| span.start);
    spans
}

fn hide(value: &Spanned<DeValue<'_>>, spans: &mut Vec<Range<usize>>) {
    match value.get_ref() {
        DeValue::Array(list) => list.iter().for_each(|value| hide(value, spans)),
        DeValue::String(text) if !is_only_references(text) => spans.push(value.span()),
        DeValue::Table(table) => {
            let hidden = table.iter().filter(|(key, _)| !OPEN_KEYS.contains(&key.get_ref().as_ref()));
            hidden.for_each(|(_, value)| hide(value, spans));
        }
        _ => {}
    }
}

/// Name and password of a URL, which is no place for them; the rest of it is what a report is about.
fn hide_user(url: &Spanned<DeValue<'_>>, spans: &mut Vec<Range<usize>>) {
    let DeValue::String(text) = url.get_ref() else { return };
    let Some(start) = text.find("://").map(|at| at + 3) else { return };
    let authority = text[start..].split(['/', '?', '#']).next().unwrap_or_default();
    let Some(len) = authority.rfind('@') else { return };
    let (span, quotes_len) = (url.span(), 2);
    // With escapes or other quotes nobody can tell where it is.
    let is_plain = span.len() == text.len() + quotes_len;
    spans.push(if is_plain { span.start + 1 + start..span.start + 1 + start + len } else { span });
}

/// What may be a secret on a line that is not TOML, below a header that begins with `auth` or `admin`: nobody can tell what is.
pub(crate) fn broken_span(text: &str, at: usize) -> Option<Range<usize>> {
    let before = text.get(..at)?;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let mut headers = before[..start].lines().rev().filter(|line| line.trim_start().starts_with('['));
    let header = headers.next()?.trim_start_matches(['[', ' ', '\t']);
    let end = text[at..].find('\n').map_or(text.len(), |len| at + len);
    let value = start + text[start..end].find('=')?;
    (header.starts_with("auth") || header.starts_with("admin")).then_some(value + 1..end)
}

/// The text with stars in the place of these bytes; every other byte keeps its place.
pub(crate) fn mask(text: &str, spans: &[Range<usize>]) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut spans = spans.iter().peekable();
    for (at, char) in text.char_indices() {
        while spans.next_if(|span| span.end <= at).is_some() {}
        let inside = spans.peek().is_some_and(|span| span.contains(&at));
        match char {
            '"' | '\'' | '\r' | '\n' => masked.push(char),
            _ if inside => masked.extend(std::iter::repeat_n('*', char.len_utf8())),
            _ => masked.push(char),
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_secrets_are_masked() {
        let text = r#"
realm = "one"
[auth.a]
realm = "two"
tokens = { x = "hunter2é", y = "${file:/run/y}", z = "${Z:-dflt}" }
token = "typo"
jwt = { secret = 'three', secrets = ["four"], require = { scope = "five" }, issuer = ["six"] }
[auth]
tokens = { x = "seven" }
[check.a]
url = "eight"
bearer = "nine"
[check.b]
bearer = "${file:/run/ten}"
url = "http://eleven:tw@elve@host/a@b"
[check.c]
url = "http://thirteen\u003afourteen@host/"
"#;
        let (table, _) = DeTable::parse_recoverable(text);
        let masked = mask(text, &clear_spans(table.get_ref()));
        for hidden in ["hunter2", "dflt", "typo", "three", "four", "seven", "nine", "eleven", "elve", "teen"]
        {
            assert!(!masked.contains(hidden), "{hidden}: {masked}");
        }
        for shown in [
            "\"one\"",
            "\"two\"",
            "\"${file:/run/y}\"",
            "\"five\"",
            "\"six\"",
            "\"eight\"",
            "/run/ten",
            "\"http://**************@host/a@b\"",
            "\"*********\"",
        ] {
            assert!(masked.contains(shown), "{shown}: {masked}");
        }
        assert_eq!(masked.len(), text.len());
    }

    #[test]
    fn broken_lines_of_auth_are_hidden() {
        for (text, expected) in [
            ("[auth.a]\ntokens = { a = \"x }\n", Some(" { a = \"x }")),
            ("  [ auth.a]\ntokens = \"x", Some(" \"x")),
            ("[auth.a]\n\nrealm = \"x\"\ntokens = \"x", Some(" \"x")),
            ("[auth.a]\ntokens", None),
            ("[auth.a]\n[log]\nlevel = \"x", None),
            ("level = \"x", None),
            ("", None),
        ] {
            let at = text.trim_end().len();
            assert_eq!(broken_span(text, at).map(|span| &text[span]), expected, "{text}");
        }
        assert_eq!(broken_span("[auth]\né = é", 8), None, "inside a character");
    }
}
