//! The places of a file that may contain a secret: secret keys of the schema, and keys with names
//! like those of secrets.
//!
//! Does not know about: reading of keys.
//!
//! A problem shows its line, on a terminal, in a log or in the output of CI, so secrets on this
//! line are masked, also those of misspelt keys.

use crate::program::Program;
use crate::secret::{hide, hide_user, may_have_user};
use serde_json::Value;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Words in names of secrets; misspelt forms count, too.
const WORDS: [&str; 9] = [
    "apikey",
    "authorization",
    "bearer",
    "credential",
    "passphrase",
    "passwd",
    "password",
    "secret",
    "token",
];

/// Short words in names of secrets. They must match exactly, because too many other words are
/// similar.
const SHORT_WORDS: [&str; 2] = ["pw", "pwd"];

/// A header field contains credentials if a part of its name, between separators such as `-`, is
/// one of these.
const FIELD_WORDS: [&str; 5] = ["cookie", "cookies", "jwt", "session", "signature"];

/// A header field contains credentials if the last part of its name is one of these.
const FIELD_ENDS: [&str; 2] = ["auth", "authentication"];

/// A header field contains credentials if its name without separators ends in one of these. Fields
/// with other names that end in `key` do not grant access.
const FIELD_KEYS: [&str; 12] = [
    "accesskey",
    "accountkey",
    "adminkey",
    "apikey",
    "appkey",
    "applicationkey",
    "authkey",
    "functionskey",
    "masterkey",
    "privatekey",
    "sharedkey",
    "subscriptionkey",
];

/// A name may differ from a word of at least this length by two letters, and from a shorter word by
/// one.
const LONG_WORD_LEN: usize = 8;

/// Characters between a key and its value on a line that is not TOML.
const SEPARATORS: [char; 6] = ['=', ':', '"', '\'', ' ', '\t'];

/// An unknown name may be that of a secret if its similarity to a key in [`Program::secret_keys`]
/// exceeds this. Suggestions ("did you mean") use the same threshold.
const SUGGESTED: f64 = 0.8;

/// Number of characters of a name that are compared.
const NAME_LEN_MAX: usize = 64;

/// Whether a name contains a word for a secret, possibly misspelt.
#[must_use]
pub fn is_like_secret(name: &str) -> bool {
    let name = short(name);
    let parts = name.split(|c: char| !c.is_alphanumeric());
    let near = |part: &str, word: &str| {
        let wrong_max = if word.len() < LONG_WORD_LEN { 1 } else { 2 };
        part.len().abs_diff(word.len()) <= wrong_max && strsim::osa_distance(part, word) <= wrong_max
    };
    let mut words = WORDS.iter().flat_map(|word| parts.clone().map(move |part| (part, *word)));
    WORDS.iter().any(|word| name.contains(word))
        || words.any(|(part, word)| near(part, word))
        || parts.clone().any(|part| SHORT_WORDS.contains(&part))
}

/// Whether a header field of this name carries a credential.
#[must_use]
pub fn is_credential(field: &str) -> bool {
    let name = short(field);
    let parts: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).collect();
    let joined = parts.concat();
    is_like_secret(field)
        || parts.iter().any(|part| FIELD_WORDS.contains(part))
        || parts.last().is_some_and(|last| FIELD_ENDS.contains(last))
        || FIELD_KEYS.iter().any(|key| joined.ends_with(key))
}

/// Whether an unknown key of this name may contain a secret. Masking too much does no harm here.
fn may_be_secret(program: &Program, name: &str) -> bool {
    let short = short(name);
    is_credential(name) || program.secret_keys.iter().any(|key| strsim::jaro_winkler(&short, key) > SUGGESTED)
}

fn short(name: &str) -> String {
    name.chars().take(NAME_LEN_MAX).collect::<String>().to_lowercase()
}

/// Whether one of the keys on a line that is not TOML resembles the key of a secret.
fn has_secret_key(line: &str, is_like: fn(&str) -> bool) -> bool {
    let mut before = line.split(SEPARATORS).collect::<Vec<_>>();
    before.pop();
    let key = |text: &&str| {
        let text = text.trim_end_matches([' ', '\t', '"', '\'']);
        let start =
            text.rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).map_or(0, |at| at + 1);
        // If the character before the key has several bytes, `start` is inside this character. The
        // key then counts as that of a secret.
        text.get(start..).is_none_or(is_like)
    };
    before.iter().any(key)
}

/// Finds all values that may contain a secret in clear text: values of secret keys; values of
/// unknown keys whose name resembles that of a secret, or that are in a table of
/// [`Program::guarded`]; header fields with credentials; user names and passwords in URLs.
///
/// Expensive, so only for files with problems.
#[must_use]
pub fn secret_spans(program: &Program, root: &DeTable<'_>) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    walk(program, root, &(program.schema)(), &mut Vec::new(), &mut spans);
    spans
}

fn walk(
    program: &Program,
    table: &DeTable<'_>,
    form: &Value,
    path: &mut Vec<String>,
    spans: &mut Vec<Range<usize>>,
) {
    let is_guarded = is_guarded(program, path);
    for (key, value) in table {
        let name: &str = key.get_ref();
        let known = form.get("properties").and_then(|keys| keys.get(name));
        let chosen = form.get("additionalProperties").filter(|form| form.is_object());
        match (known, chosen) {
            (Some(form), _) if is_secret(form) => hide(value, &[], spans),
            (None, Some(form)) if is_secret(form) || form["type"] == "string" && is_credential(name) => {
                hide(value, &[], spans);
            }
            (None, None)
                if is_guarded && !program.open_keys.contains(&name) || may_be_secret(program, name) =>
            {
                hide(value, program.open_keys, spans);
            }
            _ => {
                path.push(name.to_owned());
                descend(program, value, known.or(chosen).unwrap_or(&Value::Null), path, spans);
                path.pop();
            }
        }
    }
}

fn descend(
    program: &Program,
    value: &Spanned<DeValue<'_>>,
    form: &Value,
    path: &mut Vec<String>,
    spans: &mut Vec<Range<usize>>,
) {
    let is_table = |form: &&Value| form.get("properties").is_some() || form.get("items").is_some();
    let any = form.get("anyOf").and_then(Value::as_array);
    let form = any.and_then(|any| any.iter().find(is_table)).unwrap_or(form);
    match value.get_ref() {
        DeValue::Table(table) => walk(program, table, form, path, spans),
        DeValue::Array(list) => {
            let item = form.get("items").unwrap_or(&Value::Null);
            list.iter().for_each(|value| descend(program, value, item, path, spans));
        }
        _ if is_guarded(program, path) => hide(value, program.open_keys, spans),
        _ => hide_user(value, spans),
    }
}

fn is_guarded(program: &Program, path: &[String]) -> bool {
    program.guarded.iter().any(|guarded| {
        let mut names = guarded.iter().zip(path);
        guarded.len() == path.len() && names.all(|(name, here)| *name == "*" || name == here)
    })
}

/// Whether the values of a key are secrets, or a table of secrets.
fn is_secret(form: &Value) -> bool {
    let any = form["anyOf"].as_array().into_iter().flatten();
    any.chain([form, &form["additionalProperties"]]).any(|form| form["writeOnly"] == true)
}

/// The possible secret on a line that is not TOML: the value after a key that resembles the key of
/// a secret, a URL with a user name, and any value below the header of a table of secrets.
pub(crate) fn broken_span(program: &Program, text: &str, at: usize) -> Option<Range<usize>> {
    let before = text.get(..at)?;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let mut headers = before[..start].lines().rev().filter(|line| line.trim_start().starts_with('['));
    let header = headers.next().unwrap_or_default().trim_start_matches(['[', ' ', '\t']);
    let end = text[at..].find('\n').map_or(text.len(), |len| at + len);
    let line = &text[start..end];
    let is_guarded =
        program.secret_tables.iter().any(|table| header.starts_with(table)) || is_like_secret(header);
    let has_fields = [header, line].iter().any(|text| text.contains("header"));
    let is_like = if has_fields { is_credential } else { is_like_secret };
    if !is_guarded && !has_secret_key(line, is_like) && !may_have_user(line) {
        return None;
    }
    // A line inside a list has no key. Its value begins at the quote.
    let line = line.trim_start();
    let value = line[line.find(SEPARATORS)?..].trim_start();
    let value = value.strip_prefix(['=', ':']).unwrap_or(value);
    Some(end - value.len()..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: Program = Program { secret_tables: &["admin", "auth"], ..Program::NONE };

    #[test]
    fn misspelt_words_are_like_those_that_were_meant() {
        for name in [
            "password",
            "passwrod",
            "pasword",
            "PASSWORD",
            "passwort",
            "admin_pw",
            "token",
            "tokne",
            "tokens",
            "x-api-token",
            "secert",
            "secrets",
            "baerer",
            "bearer_token",
            "Authorization",
            "apikey",
            "pwd",
            "credentials",
        ] {
            assert!(is_like_secret(name), "{name}");
        }
        for name in
            ["", "headers", "header", "path", "broken", "timeout", "select", "user", "keep_alive", "é"]
        {
            assert!(!is_like_secret(name), "{name}");
        }
    }

    #[test]
    fn credential_fields_are_known_by_their_names() {
        for name in [
            "Authorization",
            "proxy-authorization",
            "Cookie",
            "X-Cookies",
            "Set-Cookie",
            "X-Api-Key",
            "x_api_key",
            "ApiKey",
            "DD-API-KEY",
            "DD-APPLICATION-KEY",
            "Ocp-Apim-Subscription-Key",
            "x-functions-key",
            "X-Auth",
            "X-Auth-Token",
            "X-Auth-Key",
            "PRIVATE-TOKEN",
            "X-Vault-Token",
            "X-Session-Id",
            "Cf-Access-Jwt-Assertion",
            "X-Hub-Signature-256",
            "X-Client-Secret",
        ] {
            assert!(is_credential(name), "{name}");
        }
        for name in [
            "Host",
            "Accept",
            "Content-Type",
            "User-Agent",
            "X-Forwarded-For",
            "X-Request-Id",
            "Idempotency-Key",
            "X-Cache-Key",
            "X-Auth-Request-Email",
            "X-Author",
            "Keep-Alive",
            "Traceparent",
            "Cache-Control",
            "",
            "é",
        ] {
            assert!(!is_credential(name), "{name}");
        }
    }

    #[test]
    fn broken_lines_are_hidden_where_they_may_hold_a_secret() {
        for (text, expected) in [
            ("[auth.a]\ntokens = { a = \"x }\n", Some(" { a = \"x }")),
            ("  [ auth.a]\ntokens = \"x", Some(" \"x")),
            ("[auth.a]\n\nrealm = \"x\"\ntokens = \"x", Some(" \"x")),
            ("[auth.a]\ntokens = [\n\"x,\n", Some("\"x,")),
            ("[auth.a]\ntokens", None),
            ("[auth.a]\n[log]\nlevel = \"x", None),
            ("level = \"x", None),
            ("", None),
            ("[check.a]\npassword = \"x", Some(" \"x")),
            (
                "[check.a]\nbasic = { username = \"u\", pasword = \"x }",
                Some(" { username = \"u\", pasword = \"x }"),
            ),
            ("[check.a]\nheaders = { Cookie = \"x }", Some(" { Cookie = \"x }")),
            ("[check.a.headers]\nX-Api-Key = \"x", Some(" \"x")),
            ("[route.a]\nauth = \"x", None),
            ("[shared]\nredis = \"redis://u:x@host", Some(" \"redis://u:x@host")),
            ("[shared]\nredis = \"redis://host", None),
            ("token: x", Some(" x")),
            ("password \"x==\"", Some("\"x==\"")),
            ("password x==", Some("x==")),
            ("token = x: y", Some(" x: y")),
            ("é = é", None),
        ] {
            let at = text.trim_end().len();
            assert_eq!(broken_span(&PROGRAM, text, at).map(|span| &text[span]), expected, "{text}");
        }
        assert_eq!(broken_span(&PROGRAM, "[auth]\né = é", 8), None, "inside a character");
    }
}
