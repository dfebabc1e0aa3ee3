//! Names of secrets, and credentials inside a text.

use crate::secret::merged;
use std::ops::Range;

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

/// A part of a name may differ from a word of at least this length by two letters, and from a
/// shorter word by one.
const LONG_WORD_LEN: usize = 8;

/// Maximum number of characters of a name that are compared.
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

fn short(name: &str) -> String {
    name.chars().take(NAME_LEN_MAX).collect::<String>().to_lowercase()
}

/// Places in a text that may be credentials: user and password of a URL, and values after the name
/// of a credential, as in `password=x`.
pub(crate) fn credentials(text: &str) -> Vec<Range<usize>> {
    let names = text.match_indices('=').filter_map(|(at, _)| {
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let (before, value) = (&text[..at], text[at + 1..].trim_start());
        let name = &before[before.trim_end_matches(is_name).len()..];
        let len = value.find(|c: char| c.is_whitespace() || c == '&').unwrap_or(value.len());
        let start = text.len() - value.len();
        (len > 0 && is_credential(name)).then_some(start..start + len)
    });
    merged(names.chain(user(text)).collect())
}

/// The place of user name and password in a URL. A password that is not percent-encoded may contain
/// any character, so the place ends at the last `@`.
fn user(text: &str) -> Option<Range<usize>> {
    let start = text.find("://").map(|at| at + 3);
    if let Some(end) = text.rfind('@').filter(|end| start.is_none_or(|start| start <= *end)) {
        return Some(start.or_else(|| user_start(&text[..end]))?..end);
    }
    // Text after the colon that cannot be a port may be a password whose `@` is missing. The word
    // `port` is allowed, because it is a placeholder in `scheme://host:port`.
    let host = &text[start?..];
    let is_end = |c: char| "/?#".contains(c) || c.is_whitespace();
    let host = &host[..host.find(is_end).unwrap_or(host.len())];
    let after_v6 = host.find(']').unwrap_or(0);
    let port = &host[host[after_v6..].find(':')? + after_v6 + 1..];
    let is_port = port.is_empty()
        || port.starts_with(|c: char| c.is_ascii_digit() || c == '$')
        || port.eq_ignore_ascii_case("port");
    let end = start? + host.len();
    (!is_port).then_some(end - port.len()..end)
}

/// The start of `user:password` in a text without a scheme.
fn user_start(text: &str) -> Option<usize> {
    let (before, _) = text.split_once(':')?;
    let start = before.rfind('/').map_or(0, |at| at + 1);
    (!before[start..].contains(char::is_whitespace)).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn credentials_inside_a_text_are_found() {
        for (text, expected) in [
            ("redis://u:x@host", &["u:x"] as &[_]),
            ("redis://u:x/y@host", &["u:x/y"]),
            ("redis://u:x#y?z@host/a", &["u:x#y?z"]),
            ("http://b,http://u:x@a/", &["b,http://u:x"]),
            ("redis://u:a://x@host", &["u:a://x"]),
            ("http://eleven:tw@elve@host/a", &["eleven:tw@elve"]),
            ("u:x@host", &["u:x"]),
            ("u:x/y@host", &["u:x/y"]),
            ("redis:/u:x@host", &["redis:/u:x"]),
            ("redis://u:xhost/1", &["xhost"]),
            ("http://a/?user=u&password='x,y&b=c", &["'x,y"]),
            ("host=a password=x y", &["x"]),
            ("psql --password= x y", &["x"]),
            ("http://u@a/?token=x@y", &["u@a/?token=x@y"]),
            ("http://[::1]/", &[]),
            ("http://[::1]:80/", &[]),
            ("http://a:/", &[]),
            ("http://a: closed", &[]),
            ("http://a:8o80/b:c", &[]),
            ("http://host:port/path", &[]),
            ("http://a:${PORT}/", &[]),
            ("http://a/?b=c&password=", &[]),
            ("write `a = b`: mail c@d", &[]),
            ("add `client_auth = { mode }`", &[]),
            ("/run/a:b@c", &["a:b"]),
            ("redis//u:x@host:1", &["u:x"]),
            ("redis://u:xhost:1/1", &["xhost:1"]),
            ("a@b", &[]),
            ("é=é@é", &[]),
            ("@", &[]),
            ("", &[]),
        ] {
            let found: Vec<_> = credentials(text).into_iter().map(|span| &text[span]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
