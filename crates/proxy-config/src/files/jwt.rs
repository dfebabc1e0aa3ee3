//! Validation of the keys of signed tokens: whether they load and match the algorithm.

use super::super::model::Jwt;
use super::{check_private, read};
use doorbell::http::auth::jwt::{Algorithm, JWKS_LEN_MAX, Jwks, JwksError, JwtPolicy, Key};
use doorbell_config::{At, Problem, Problems};
use serde_json::Value;
use std::ops::Range;

/// Maximum size of a key file; even a public key in PEM with a long comment is smaller.
const PEM_LEN_MAX: u64 = 1 << 20;

pub(super) fn check(jwt: &Jwt, problems: &Problems) {
    let algorithms: Vec<Algorithm> =
        jwt.algorithms.iter().map(|algorithm| Algorithm::from(*algorithm)).collect();
    // A kind of key that does not match the algorithm is already reported.
    let (keys, span) = match (algorithms.as_slice(), &jwt.key_file, &jwt.jwks_file, &jwt.secret) {
        ([algorithm], Some(path), None, None) if *algorithm != Algorithm::Hs256 => {
            let Some(pem) = read(path, PEM_LEN_MAX, problems) else { return };
            (Key::pem(*algorithm, &pem).map(|key| vec![key]).map_err(|error| error.to_string()), &path.span)
        }
        (_, None, Some(path), None) => {
            let Some(set) = read(path, JWKS_LEN_MAX as u64, problems) else { return };
            if has_private_key(&set) {
                check_private("key-readable", path, problems);
            }
            let set = Jwks::read(&set, &algorithms).map_err(|error| with_cause(&error));
            if let Ok(set) = &set {
                set.ignored.iter().for_each(|why| problems.add(ignored_key(&path.span, why)));
            }
            (set.map(|set| set.keys), &path.span)
        }
        ([Algorithm::Hs256], None, None, Some(secret)) if secret.reveal().len() >= 32 => {
            let key = Key::hmac(secret.reveal().as_bytes());
            (key.map(|key| vec![key]).map_err(|error| error.to_string()), &secret.span)
        }
        _ => return,
    };
    match keys {
        Ok(keys) => check_policy(jwt, keys, span, problems),
        Err(why) => problems.add(bad_key(span, &why)),
    }
}

/// Whether this set contains a key that can sign: a shared secret (RFC 7518 6.4) or a private key
/// (6.2.2, 6.3.2).
fn has_private_key(set: &[u8]) -> bool {
    let set: Value = serde_json::from_slice(set).unwrap_or_default();
    let keys = set["keys"].as_array().into_iter().flatten();
    keys.into_iter().any(|key| key["kty"] == "oct" || !key["d"].is_null())
}

/// Reports problems of the keys as a whole, and of the required scopes.
fn check_policy(jwt: &Jwt, keys: Vec<Key>, span: &Range<usize>, problems: &Problems) {
    if let Err(error) = JwtPolicy::builder().keys(keys).build() {
        problems.add(bad_key(span, &error.to_string()));
        return;
    }
    let scopes = jwt.require.iter().filter(|(name, _)| name.value == "scope");
    for At { value: scopes, span } in scopes.map(|(_, scopes)| scopes) {
        let bad = |byte: u8| !matches!(byte, b' ' | b'!' | b'#'..=b'[' | b']'..=b'~');
        if scopes.bytes().any(bad) {
            let problem = Problem::error("bad-value", span.clone(), format!("{scopes:?} are not scopes"));
            problems.add(problem.help("write them with spaces between, in plain ASCII (RFC 6749 3.3)"));
        }
    }
}

/// Warning for a key that is ignored; the other keys of the set are used (RFC 7517 5).
fn ignored_key(span: &Range<usize>, why: &JwksError) -> Problem {
    let why = with_cause(why);
    let (message, help) =
        why.split_once("; ").unwrap_or((&why, "ask the publisher of the set for a valid key"));
    Problem::warning("ignored-key", span.clone(), format!("{message}; it is ignored")).help(help)
}

fn bad_key(span: &Range<usize>, why: &str) -> Problem {
    let (message, help) = why.split_once("; ").unwrap_or((why, ""));
    let problem = Problem::error("bad-key", span.clone(), format!("the key cannot be used: {message}"));
    if help.is_empty() { problem } else { problem.help(help) }
}

/// Formats the error of the set together with the error of the key that caused it.
fn with_cause(error: &JwksError) -> String {
    match error {
        JwksError::Key { error: cause, .. } => format!("{error}: {cause}"),
        _ => error.to_string(),
    }
}
