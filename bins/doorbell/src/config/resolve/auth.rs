//! `[auth.NAME]` resolved: tokens that can be presented, keys that suit their algorithm.
//!
//! Does not know about: routes, what is in key files.

use super::super::model::{Auth, Jwt, JwtAlgorithm, JwtKey, Secret};
use super::super::written;
use super::or;
use crate::http::auth::{Policy, PolicyError, TokenError, TokenWarning, Tokens};
use doorbell_config::{At, Problem, Problems};

/// The shortest HMAC secret (RFC 7518 3.2).
const HMAC_SECRET_LEN_MIN: usize = 32;

/// A token that is good, where only the rest is looked at.
const TOKEN_FOR_CHECKS: &[u8] = b"0123456789abcdef0123456789abcdef";

pub(super) fn resolve(written: &written::Auth, problems: &Problems) -> Auth {
    let name = &written.name.value;
    if written.tokens_len == 0 && !written.has_jwt {
        let message = format!("auth rule `{name}` has no key, so nobody could ever get in");
        problems.add(
            Problem::error("no-key", written.header.clone(), message)
                .help("add `tokens = { NAME = \"${file:/run/secrets/NAME}\" }` or `jwt = { .. }`"),
        );
    }
    check_tokens(&written.tokens, problems);
    let realm = or(&written.realm, Auth::default().realm);
    if let Some(at) = &written.realm {
        check_realm(at, problems);
    }
    let tokens = written.tokens.iter().map(|(name, secret)| (name.value.clone(), secret.value.clone()));
    Auth {
        name: name.clone(),
        realm,
        tokens: tokens.collect(),
        jwt: written.jwt.as_ref().and_then(|jwt| resolve_jwt(jwt, problems)),
    }
}

fn check_tokens(written: &[(At<String>, At<Secret>)], problems: &Problems) {
    let mut tokens = Tokens::new();
    for (name, secret) in written {
        let printable = !name.value.chars().any(|char| char.is_control() || char.is_whitespace());
        if name.value.is_empty() || !printable {
            let message = format!("{:?} is not a name", name.value);
            let problem = Problem::error("bad-name", name.span.clone(), message);
            problems.add(problem.help("logs call the bearer so: no spaces, no control characters"));
        }
        let span = secret.span.clone();
        match tokens.add(&name.value, secret.value.reveal().as_bytes()) {
            Ok(None) => {}
            Ok(Some(TokenWarning::Short)) => problems.add(
                Problem::warning("short-secret", span, format!("token `{}` is short", name.value))
                    .help(TokenWarning::Short.to_string()),
            ),
            Err(error) => {
                let code = match error {
                    TokenError::TooShort => "short-secret",
                    TokenError::SecretTaken => "duplicate-secret",
                    TokenError::NameTaken
                    | TokenError::NotToken68
                    | TokenError::TooLong
                    | TokenError::TooMany => "bad-secret",
                };
                let message = format!("token `{}` cannot be used", name.value);
                problems.add(Problem::error(code, span, message).help(error.to_string()));
            }
        }
    }
}

fn check_realm(realm: &At<String>, problems: &Problems) {
    let mut tokens = Tokens::new();
    // The token is a good one.
    let _ = tokens.add("check", TOKEN_FOR_CHECKS);
    if let Err(error @ PolicyError::Realm) = Policy::bearer(&realm.value, tokens) {
        let message = format!("{:?} cannot be a realm: {error}", realm.value);
        problems.add(
            Problem::error("bad-value", realm.span.clone(), message).help("a word or two, in plain ASCII"),
        );
    }
}

fn resolve_jwt(written: &written::Jwt, problems: &Problems) -> Option<Jwt> {
    if !written.has_algorithm {
        let message = "which algorithm signs the tokens must be said here, not in the token";
        problems.add(
            Problem::error("missing-key", written.span.clone(), message).help("add `algorithm = \"RS256\"`"),
        );
    }
    match written.keys.as_slice() {
        [_] => {}
        [] => problems.add(
            Problem::error("no-key", written.span.clone(), "no signature can be verified without a key")
                .help("add one of `key_file = \"KEY.pem\"`, `jwks_file = \"KEYS.json\"`, `secret = \"${file:PATH}\"`"),
        ),
        [(first, first_span), (second, span), ..] => problems.add(
            Problem::error("two-keys", span.clone(), format!("both `{first}` and `{second}`"))
                .also(first_span.clone(), "first here")
                .help("one kind of key verifies the signatures; for several keys take `jwks_file`"),
        ),
    }
    let algorithms = written.algorithms.as_ref()?;
    check_key_fits(written, algorithms, problems);
    let key = if let Some(path) = &written.jwks_file {
        JwtKey::Jwks(path.value.clone())
    } else if let Some(path) = &written.key_file {
        JwtKey::Pem(path.value.clone())
    } else {
        JwtKey::Secret(written.secret.as_ref()?.value.clone())
    };
    let texts = |list: &Option<At<Vec<At<String>>>>| {
        let list = list.iter().flat_map(|list| &list.value);
        list.map(|at| at.value.clone()).collect()
    };
    let leeway = or(&written.leeway, Jwt::LEEWAY);
    if let Some(at) = &written.leeway
        && leeway.subsec_nanos() != 0
    {
        let problem = Problem::error("bad-duration", at.span.clone(), "`leeway` is counted in whole seconds");
        problems.add(problem.help("write \"30s\""));
    }
    for (name, value) in written.require.iter().filter(|(_, value)| value.value.trim().is_empty()) {
        let message = format!("claim `{}` must hold something", name.value);
        problems
            .add(Problem::error("bad-value", value.span.clone(), message).help("write what it must hold"));
    }
    Some(Jwt {
        algorithms: algorithms.value.clone(),
        key,
        issuers: texts(&written.issuers),
        audiences: texts(&written.audiences),
        leeway,
        require: written
            .require
            .iter()
            .map(|(name, value)| (name.value.clone(), value.value.clone()))
            .collect(),
    })
}

/// HS256 wants a secret that both sides keep, the others the public half of a key.
fn check_key_fits(written: &written::Jwt, algorithms: &At<Vec<JwtAlgorithm>>, problems: &Problems) {
    let span = || algorithms.span.clone();
    match algorithms.value.as_slice() {
        [] | [_] => {}
        _ if written.jwks_file.is_some() => {}
        _ => {
            let problem = Problem::error("key-misfit", span(), "one key has one algorithm");
            problems.add(problem.help("name one, or give several keys with `jwks_file`"));
        }
    }
    let has_hmac = algorithms.value.contains(&JwtAlgorithm::Hs256);
    let others = algorithms.value.iter().find(|algorithm| **algorithm != JwtAlgorithm::Hs256);
    if let (true, Some(key)) = (has_hmac, &written.key_file) {
        let message = "HS256 is verified with a secret, not with a public key";
        problems.add(
            Problem::error("key-misfit", key.span.clone(), message).also(span(), "needs a secret").help(
                "set `secret = \"${file:PATH}\"`, or name the algorithm of the key: RS256, ES256 or EdDSA",
            ),
        );
    }
    if let (Some(algorithm), Some(secret)) = (others, &written.secret) {
        let message = format!("{} is verified with a public key, not with a secret", algorithm.name());
        problems.add(
            Problem::error("key-misfit", secret.span.clone(), message)
                .also(span(), "needs a public key")
                .help(
                    "set `key_file = \"KEY.pem\"` or `jwks_file = \"KEYS.json\"`, or `algorithm = \"HS256\"`",
                ),
        );
    }
    if let Some(secret) = &written.secret
        && secret.value.reveal().len() < HMAC_SECRET_LEN_MIN
    {
        let len = secret.value.reveal().len();
        let message = format!("the secret has {len} bytes, HS256 needs at least {HMAC_SECRET_LEN_MIN}");
        problems.add(
            Problem::error("short-secret", secret.span.clone(), message)
                .help("`openssl rand -base64 32` makes one that nobody guesses (RFC 7518 3.2)"),
        );
    }
}
