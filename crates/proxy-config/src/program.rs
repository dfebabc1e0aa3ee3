//! Parameters of the configuration reader: schema, prefix of environment variables, and help for
//! keys.

use super::schema::schema;
use doorbell_config::Program;

/// Prefix of the environment variables that override keys.
pub const VARIABLES: &str = "DOORBELL__";

pub(super) const PROGRAM: Program = Program {
    schema,
    variables: VARIABLES,
    variable_example: "DOORBELL__LOG__LEVEL=info",
    elsewhere,
    example,
};

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
    use doorbell_config::{is_like_secret, secret_spans};
    use serde_json::Value;
    use std::collections::BTreeSet;
    use toml::de::DeTable;

    /// Keys of secrets, and only these, match `is_like_secret`. Reports would otherwise hide wrong
    /// values of other keys.
    #[test]
    fn only_keys_of_secrets_are_like_them() {
        fn keys<'s>(form: &'s Value, found: &mut BTreeSet<(&'s str, bool)>) {
            let is_secret = |form: &Value| {
                [form, &form["additionalProperties"]].iter().any(|form| form["writeOnly"] == true)
            };
            match form {
                Value::Array(list) => list.iter().for_each(|form| keys(form, found)),
                Value::Object(form) => {
                    if let Some(Value::Object(known)) = form.get("properties") {
                        found.extend(known.iter().map(|(key, form)| (key.as_str(), is_secret(form))));
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
        all.retain(|(key, is_secret)| *is_secret || is_like_secret(key));
        let mut keys: Vec<_> = all.into_iter().map(|(key, _)| key).collect();
        // Tables of header fields: the name of a field tells whether its value is secret.
        keys.retain(|key| !["headers", "metadata"].contains(key));
        assert_eq!(keys, ["bearer", "password", "secret", "token", "tokens"]);
        assert!(keys.iter().all(|key| is_like_secret(key)));
    }

    /// A configuration with secrets. Values with "hidden" in their text must be masked, values with
    /// "shown" must not; `only_secrets_are_masked` lists the others.
    const WITH_SECRETS: &str = r#"
realm = "one"
[auth.a]
realm = "two"
tokens = { x = "hunter2é", y = "${file:/run/y}", z = "${Z:-dflt}" }
token = "typo"
jwt = { secret = 'three', secrets = ["four"], require = { scope = "five" }, issuer = ["six"] }
[auth]
tokens = { x = "seven" } # hidden-F "x"
[check.a]
url = "eight"
bearer = "nine"
[check.b]
bearer = "${file:/run/ten}" # hidden-G: "hidden-H"
url = "http://eleven:tw@elve@host/a@b"
[check.c]
url = "http://thirteen\u003afourteen@host/"
passwrod = "hidden-a"
basic = { username = "shown-a", pw = "hidden-b" }
headers = { Authorization = "Bearer hidden-c", Accept = "hidden-v", X-Api-Key = "${file:/shown-c}", Cookie = "hidden-k", ookie = "hidden-l" }
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
bind = "shown-g" # shown-u
[admni]
token = "hidden-h"
bind = "shown-h"
[atuh.a]
tokens = { a = "hidden-i" }
[shared]
redis = "redis://u:hidden-n@shown-k"
password = "hidden-o"
[history.clickhouse]
url = "http://u:hidden-p@shown-l#" # hidden-I
password = [ # hidden-J
  "hidden-q", # hidden-K
] # hidden-L
[limit.a]
key = "shown-m"
shared = { secret = "hidden-r", on_error = "shown-n" }
[auth.b]
tokens = { realm = "hidden-s" }
[route.a]
redirect = { location = "https://hidden-t@shown-o" }
headers = { Set-Cookie = "shown-p" }
[check.e]
header = { Cookie = "hidden-m" }
intervall = "shown-j"
key = "hidden-w"
expect = { headers = { Set-Cookie = "(shown-q" } }
[check.f]
headers = ["Authorization: hidden-x"]
metadata = "hidden-y"
[check.g]
url = "http://b,http://u:hidden-z/@shown-r/?password"
headers = "hidden-A"
[check.h]
url = "http://shown-s/?password=hidden-B&b=shown-t"
[limit.b]
shared = "hidden-C"
[[auth.c]]
tokens = { a = "hidden-D" }
pin = "hidden-E"
[[maintenance.window]]
secret = "hidden-j"
reason = "shown-i"
"#;

    #[test]
    fn only_secrets_are_masked() {
        let text = WITH_SECRETS;
        let (table, _) = DeTable::parse_recoverable(text);
        let mut spans = secret_spans(&schema(), table.get_ref(), text);
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
            "\"http://*********************@b\"",
            "\"*********\"",
        ] {
            assert!(masked.contains(shown), "{shown}: {masked}");
        }
        assert_eq!(masked.len(), text.len());
    }
}
