//! Parameters of the configuration reader: names of variables, and locations of secrets.
//!
//! Does not know about: how values are read.

use super::schema::schema;
use doorbell_config::secret::{hide, hide_user};
use doorbell_config::{Program, is_credential};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Prefix of the environment variables that override keys.
pub(crate) const VARIABLES: &str = "DOORBELL__";

pub(super) const PROGRAM: Program = Program {
    schema,
    variables: VARIABLES,
    variable_example: "DOORBELL__LOG__LEVEL=info",
    secret_tables: &["admin", "auth"],
    open_keys: OPEN_KEYS,
    secret_keys: &["bearer", "password", "secret", "token", "tokens"],
    guarded: &[&["admin"], &["check", "*", "basic"], &["blackbox", "module", "*", "basic"]],
    clear_secrets,
    elsewhere,
    example,
};

/// Keys of `[auth.NAME]`, of its `jwt` and of `[admin]` that are not secret. All other keys count
/// as secret, so that a secret under a misspelled key is hidden.
const OPEN_KEYS: &[&str] =
    &["algorithm", "audience", "bind", "issuer", "jwks_file", "key_file", "leeway", "realm", "require"];

/// Positions of secrets that the file contains in clear text.
fn clear_secrets(root: &DeTable<'_>) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    if let Some(auth) = root.get("auth") {
        match auth.get_ref() {
            DeValue::Table(named) => {
                for (_, table) in named {
                    hide(table, OPEN_KEYS, &mut spans);
                }
            }
            _ => hide(auth, OPEN_KEYS, &mut spans),
        }
    }
    match root.get("admin").map(|admin| (admin, admin.get_ref().as_table())) {
        Some((_, Some(table))) => {
            table.get("token").into_iter().for_each(|token| hide(token, OPEN_KEYS, &mut spans))
        }
        Some((admin, None)) => hide(admin, OPEN_KEYS, &mut spans),
        None => {}
    }
    let modules = root.get("blackbox").and_then(|blackbox| blackbox.get_ref().get("module"));
    for checks in [root.get("check"), modules].into_iter().flatten() {
        // Only the keys below are hidden, because reports must be able to show other keys of a
        // check.
        let checks = checks.get_ref().as_table().into_iter().flatten();
        for check in checks.filter_map(|(_, check)| check.get_ref().as_table()) {
            let basic = check.get("basic");
            // A `basic` that is not a table is an error, and hidden as a whole, because it may
            // contain the password.
            let password = basic
                .map(|basic| basic.get_ref().as_table().map_or(Some(basic), |basic| basic.get("password")));
            let secrets = [check.get("bearer"), check.get("password"), password.flatten()];
            secrets.into_iter().flatten().for_each(|secret| hide(secret, OPEN_KEYS, &mut spans));
            // The user chooses the names of header fields, so secrets are recognized by the name.
            let fields = ["headers", "metadata"].map(|key| check.get(key)?.get_ref().as_table());
            let fields = fields.into_iter().flatten().flatten();
            let fields = fields.filter(|(name, _)| is_credential(name.get_ref()));
            fields.for_each(|(_, field)| hide(field, OPEN_KEYS, &mut spans));
            check.get("url").into_iter().for_each(|url| hide_user(url, &mut spans));
        }
    }
    spans.sort_unstable_by_key(|span| span.start);
    spans
}

/// Returns a one-line example of a table that is often mistaken for a single value.
fn example(key: &str) -> Option<&'static str> {
    Some(match key {
        "certificates" => "certificates = [{ cert = \"/etc/a.crt\", key = \"/etc/a.key\" }]",
        "files" => "files = { dir = \"/var/www\" }",
        "redirect" => "redirect = { scheme = \"https\", host = \"example.com\" }",
        "reply" => "reply = { status = 200, body = \"ok\" }",
        "expect" => "expect = { status = \"200-299\" }",
        "on_drain" => "on_drain = { default = 503 }",
        "keep_alive" => "keep_alive = { enabled = true, idle = \"10s\" }",
        "timeouts" => "timeouts = { header = \"2s\" }",
        "limits" => "limits = { header_bytes = \"8KiB\" }",
        _ => return None,
    })
}

/// Help for unknown keys whose setting has another name or place in doorbell.
fn elsewhere(kind: &str, key: &str) -> Option<&'static str> {
    Some(match (kind, key) {
        ("listener.NAME", "protocols" | "h2" | "h2c" | "alpn") => {
            "HTTP/1 is always enabled, and HTTP/2 with `http2 = true`: over TLS by ALPN, otherwise with prior knowledge"
        }
        ("blackbox.module.NAME", "address" | "url") => {
            "remove it: the target of a probe is the parameter `target` of its request"
        }
        ("listener.NAME.timeouts", "write") => {
            "use `write_timeout` of [connections], which applies to all listeners"
        }
        ("listener.NAME.timeouts", "linger") => {
            "use `linger_timeout` of [connections], which applies to all listeners"
        }
        ("listener.NAME.limits", "connections_per_ip") => {
            "use `per_ip_max` of [connections], which applies to all listeners"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_config::secret::mask;
    use doorbell_config::{is_like_secret, unknown_secrets};
    use serde_json::Value;
    use std::collections::BTreeSet;

    /// Only keys of secrets match `is_like_secret`. Reports would otherwise hide wrong values of
    /// other keys.
    #[test]
    fn only_keys_of_secrets_are_like_them() {
        fn keys<'s>(form: &'s Value, found: &mut BTreeSet<&'s str>) {
            match form {
                Value::Array(list) => list.iter().for_each(|form| keys(form, found)),
                Value::Object(form) => {
                    if let Some(Value::Object(known)) = form.get("properties") {
                        found.extend(known.keys().map(String::as_str));
                    }
                    form.values().for_each(|form| keys(form, found));
                }
                _ => {}
            }
        }
        let mut all = BTreeSet::new();
        let schema = schema();
        keys(&schema, &mut all);
        assert!(all.len() > 150, "{}", all.len());
        all.retain(|key| is_like_secret(key));
        assert_eq!(all.into_iter().collect::<Vec<_>>(), PROGRAM.secret_keys);
    }

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
        let mut spans = clear_secrets(table.get_ref());
        unknown_secrets(&PROGRAM, table.get_ref(), |value| hide(value, OPEN_KEYS, &mut spans));
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
