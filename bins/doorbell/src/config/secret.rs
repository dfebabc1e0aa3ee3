//! Secrets of a configuration file: read from where they are kept, and hidden wherever the file is shown.
//!
//! Does not know about: what a secret is good for.

use super::expand::is_only_references;
use super::likeness::{is_credential, unknown_secrets};
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
    match root.get("admin").map(|admin| (admin, admin.get_ref().as_table())) {
        Some((_, Some(table))) => table.get("token").into_iter().for_each(|token| hide(token, &mut spans)),
        Some((admin, None)) => hide(admin, &mut spans),
        None => {}
    }
    if let Some(checks) = root.get("check").and_then(|checks| checks.get_ref().as_table()) {
        // Other keys of a check are no secrets, and are what a report is about.
        for check in checks.iter().filter_map(|(_, check)| check.get_ref().as_table()) {
            let basic = check.get("basic");
            // One that is no table is not what it should be, and may be both in one.
            let password = basic
                .map(|basic| basic.get_ref().as_table().map_or(Some(basic), |basic| basic.get("password")));
            let secrets = [check.get("bearer"), check.get("password"), password.flatten()];
            secrets.into_iter().flatten().for_each(|secret| hide(secret, &mut spans));
            // Fields of a request have names of the user's choice.
            let fields = check.get("headers").and_then(|headers| headers.get_ref().as_table());
            let fields = fields.into_iter().flatten().filter(|(name, _)| is_credential(name.get_ref()));
            fields.for_each(|(_, field)| hide(field, &mut spans));
            check.get("url").into_iter().for_each(|url| hide_user(url, &mut spans));
        }
    }
    spans.sort_unstable_by_key(|span| span.start);
    spans
}

/// Where what nobody can read may be a secret.
pub(crate) fn unknown_spans(root: &DeTable<'_>) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    unknown_secrets(root, |value| hide(value, &mut spans));
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
        DeValue::Boolean(_) | DeValue::String(_) => {}
        // Of another type than it should be, and a secret all the same.
        DeValue::Datetime(_) | DeValue::Float(_) | DeValue::Integer(_) => spans.push(value.span()),
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
passwrod = "hidden-a"
basic = { username = "shown-a", pw = "hidden-b" }
headers = { Authorization = "Bearer hidden-c", Accept = "shown-b", X-Api-Key = "${file:/shown-c}", Cookie = "hidden-k", dd-api-key = "hidden-l" }
degraded = { secretly = "hidden-d", status = "shown-d" }
[check.d]
basic = "user:hidden-e"
[check.token]
url = "shown-e"
[limit.token]
key = "shown-f"
[admin]
tokne = { a = ["hidden-f", 7777] }
pin = "hidden-g"
bind = "shown-g"
[admni]
token = "hidden-h"
bind = "shown-h"
[atuh.a]
tokens = { a = "hidden-i" }
[check.e]
header = { Cookie = "hidden-m", Accept = "shown-j" }
[[maintenance.window]]
secret = "hidden-j"
reason = "shown-i"
"#;
        let (table, _) = DeTable::parse_recoverable(text);
        let mut spans = clear_spans(table.get_ref());
        spans.extend(unknown_spans(table.get_ref()));
        spans.sort_unstable_by_key(|span| span.start);
        let masked = mask(text, &spans);
        for hidden in ["hunter2", "dflt", "typo", "three", "four", "seven", "nine", "eleven", "elve", "teen"]
        {
            assert!(!masked.contains(hidden), "{hidden}: {masked}");
        }
        assert!(!masked.contains("hidden-") && !masked.contains("7777"), "{masked}");
        assert_eq!(masked.matches("shown-").count(), text.matches("shown-").count(), "{masked}");
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
}
