//! Masks a file that is not TOML, except keys and values that are known not to be secret.
//!
//! Where a string or a table begins is uncertain in such a file, so each line is examined on its
//! own, except that a map may span lines.

use crate::line::{PUNCTUATION, next_word};
use crate::secret_names::credentials;
use crate::secret_places::{contains_secrets, is_map, table_form};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;

/// Whether the values of a key may be secret. If a key has different kinds in several tables, the
/// last of these variants applies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// No secret.
    Open,
    /// A secret, or a table with secrets.
    Closed,
    /// A table whose keys the user chooses: one may have the same name as an open key.
    Map,
}

struct Scan<'s> {
    schema: &'s Value,
    keys: BTreeMap<&'s str, Kind>,
    /// Whether the scan may be inside a [`Kind::Map`].
    is_in_map: bool,
    spans: Vec<Range<usize>>,
}

/// Finds the words and strings that may be secrets: all except keys, and values of open keys on the
/// same line. In the values of open keys, only credentials are found.
pub(crate) fn broken_spans(schema: &Value, text: &str) -> Vec<Range<usize>> {
    let mut scan = Scan { schema, keys: BTreeMap::new(), is_in_map: false, spans: Vec::new() };
    collect(schema, &mut scan.keys);
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let found = scan.line(line).into_iter();
        scan.spans.extend(found.map(|span| start + span.start..start + span.end));
        start += line.len();
    }
    scan.spans
}

/// Adds the keys of all tables.
fn collect<'s>(form: &'s Value, keys: &mut BTreeMap<&'s str, Kind>) {
    for (key, below) in form["properties"].as_object().into_iter().flatten() {
        let kind = match table_form(below) {
            Some(table) if is_map(table) => Kind::Map,
            _ if contains_secrets(below) => Kind::Closed,
            _ => Kind::Open,
        };
        let known = keys.entry(key).or_insert(kind);
        *known = kind.max(*known);
        collect(below, keys);
    }
    let any = form["anyOf"].as_array().into_iter().flatten();
    any.chain([&form["additionalProperties"], &form["items"]])
        .filter(|form| form.is_object())
        .for_each(|form| collect(form, keys));
}

impl Scan<'_> {
    fn line(&mut self, line: &str) -> Vec<Range<usize>> {
        let mut spans = Vec::new();
        let mut at = self.header(line);
        let (mut is_first, mut is_open) = (true, false);
        while let Some(word) = next_word(line, at) {
            let between = &line[at..word.start];
            self.is_in_map &= !between.contains('}');
            is_open &= !between.contains(['#', ']', '}']);
            let name = line[word.clone()].trim_matches(['"', '\'']);
            let kind = self.keys.get(name.rsplit('.').next().unwrap_or(name)).copied();
            let rest = line[word.end..].trim_start();
            at = word.end;
            if let Some(value) = rest.strip_prefix(['=', ':']) {
                // `x==`, or `x=` at the end of a line, may be a secret in base64.
                let is_key = is_first
                    && name.chars().all(is_bare)
                    && !value.starts_with('=')
                    && !value.trim().is_empty();
                if kind.is_none() && !is_key {
                    spans.push(word);
                }
                is_open = self.is_open(kind);
            } else if kind.is_some() && (is_first || name == &line[word.clone()]) {
                is_open = self.is_open(kind);
            } else if is_open && (is_whole(line, &word) || !is_mixed(&line[word.clone()])) {
                is_open = is_whole(line, &word);
                let found = credentials(&line[word.clone()]).into_iter();
                spans.extend(found.map(|part| word.start + part.start..word.start + part.end));
            } else {
                is_open = false;
                spans.push(word);
            }
            is_first = false;
        }
        self.is_in_map &= !line[at..].contains('}');
        spans
    }

    /// Whether the value of a key is shown. A [`Kind::Map`] sets `is_in_map`.
    fn is_open(&mut self, kind: Option<Kind>) -> bool {
        self.is_in_map |= kind == Some(Kind::Map);
        kind == Some(Kind::Open) && !self.is_in_map
    }

    /// Finds the header of a table at the start of a line, and returns the end of its path; 0 if
    /// the line may be something else.
    fn header(&mut self, line: &str) -> usize {
        let inside = line.trim_start().trim_start_matches(['[', ' ', '\t']);
        let start = line.len() - inside.len();
        if !line[..start].contains('[') {
            return 0;
        }
        let rest = inside.trim_start_matches(is_bare);
        let path = &inside[..inside.len() - rest.len()];
        let mut names = path.split('.');
        let is_known = names.next().is_some_and(|name| self.schema["properties"].get(name).is_some());
        let is_whole = rest.starts_with(']') && rest.trim_matches([']', ' ', '\t', '\r', '\n']).is_empty();
        if !is_known && (path.is_empty() || !is_whole) {
            return 0;
        }
        self.is_in_map = names.any(|name| self.keys.get(name) == Some(&Kind::Map));
        start + path.len()
    }
}

/// Whether a key without quotes may contain this character.
fn is_bare(c: char) -> bool {
    c.is_alphanumeric() || "._-".contains(c)
}

/// Whether a word or a string is complete: a separator or the end of the line follows, and a string
/// is closed.
fn is_whole(line: &str, word: &Range<usize>) -> bool {
    let text = &line[word.clone()];
    let quote = text.chars().next().filter(|c| ['"', '\''].contains(c));
    quote.is_none_or(|quote| text.len() > 1 && text.ends_with(quote))
        && line[word.end..].chars().next().is_none_or(|c| c.is_whitespace() || PUNCTUATION.contains(&c))
}

/// Whether a text may contain a password or the next key, as in `"http://u:x` or
/// `"u, password = "`.
fn is_mixed(text: &str) -> bool {
    let after = text.split_once(':').map(|(_, after)| after);
    text.contains('=') || after.is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::{mask, merged};
    use serde_json::json;

    fn schema() -> Value {
        let secret = json!({ "type": "string", "writeOnly": true });
        let map = json!({ "type": "object", "additionalProperties": secret });
        let text = json!({ "type": "string" });
        let of = |keys: Value| json!({ "type": "object", "properties": keys });
        let named = |keys: Value| json!({ "type": "object", "additionalProperties": of(keys) });
        of(json!({
            "admin": of(json!({ "token": secret, "bind": text })),
            "auth": named(json!({ "tokens": map, "realm": text, "jwt": of(json!({ "secret": secret })) })),
            "check": named(json!({
                "headers": map, "password": secret, "url": text, "command": { "anyOf": [text, { "items": text }] },
            })),
            "version": { "type": "integer" },
        }))
    }

    #[test]
    fn what_is_not_known_to_be_open_is_masked() {
        for (text, expected) in [
            ("version = 1", "version = 1"),
            ("[check.a]\nurl = \"http://a/\"", "[check.a]\nurl = \"http://a/\""),
            ("url = \"http://u:x@a/\"", "url = \"http://***@a/\""),
            ("url = \"http://u:x", "url = \"**********"),
            ("url = \"http://u:\"x@a/\"", "url = \"*********\"****\""),
            ("url = \"http://u:xa/\"", "url = \"http://u:**/\""),
            ("url = \"/a", "url = \"/a"),
            ("bind = \":80", "bind = \":80"),
            ("bind = \":80\"password = \"x\"", "bind = \":80\"password = \"*\""),
            ("url = 'u, \"password\" = \"x", "url = '***\"********\"***\"*"),
            ("url = \"u\"\"\"\", password = 'x'", "url = \"u\"\"\"\"*************'*'"),
            ("url = \"u, password = \"x\"", "url = \"**************\"*\""),
            ("url = \"u\", password ,= \"x\"", "url = \"u\", password ,= \"*\""),
            ("url = \"u\" }= x", "url = \"u\" }= *"),
            ("bind = \":80\" # x", "bind = \":80\" # *"),
            ("command = [\"a\", \"--password=x\", \"b\"]", "command = [\"a\", \"--password=*\", \"b\"]"),
            ("password = \"x\"", "password = \"*\""),
            ("password = x y\r\n", "password = * *\r\n"),
            ("password \"x==\"", "password \"***\""),
            ("password x", "password *"),
            ("pasword x", "******* *"),
            ("paswrd = x", "paswrd = *"),
            ("\"bob\": \"x\"", "\"bob\": \"*\""),
            ("bob: x", "bob: *"),
            ("bob: x: y = z", "bob: *: * = *"),
            ("x@h: y", "***: *"),
            ("- x", "* *"),
            ("xyz", "***"),
            ("xyz=", "***="),
            ("xyz==", "***=="),
            ("x = y = z", "x = * = *"),
            ("tokens = { a = \"x }", "tokens = { * = \"***"),
            ("tokens = { url = \"x\" }", "tokens = { url = \"*\" }"),
            ("tokens = {\nurl = \"x\"\n}\nurl = \"y\"", "tokens = {\nurl = \"*\"\n}\nurl = \"y\""),
            (
                "[check.a.headers]\nurl = x\n[check.a]\nurl = y",
                "[check.a.headers]\nurl = *\n[check.a]\nurl = y",
            ),
            ("admin.token = x", "admin.token = *"),
            ("admin.bind = x", "admin.bind = x"),
            ("{\"admin\": {\"token\": \"x\"}}", "{\"admin\": {\"token\": \"*\"}}"),
            ("\"x\",", "\"*\","),
            ("[\"x\"]", "[\"*\"]"),
            ("  [ check.a", "  [ check.a"),
            ("[check.a] token = x", "[check.a] token = *"),
            ("[check.a token = x", "[check.a token = *"),
            ("[chekc.a]", "[chekc.a]"),
            ("[chekc.a", "[*******"),
            ("[chekc.a] x", "[*******] *"),
            ("reply = \"\"\"x\" y", "reply = \"\"\"*\" *"),
            ("é = \"é\\\" x\" é", "é = \"***\"**\" **"),
            ("\\", "*"),
            ("", ""),
        ] {
            let spans = merged(broken_spans(&schema(), text));
            assert_eq!(mask(text, &spans), expected, "{text}");
        }
    }
}
