//! `[auth.NAME]`: credentials that a route accepts.

use doorbell::http::auth::jwt::Algorithm;
use doorbell::http::auth::{Policy, PolicyError, TokenError, Tokens};
use doorbell_config::{At, Entry, Map, Problem, Secret, Section, Table, Words};
use std::path::PathBuf;
use std::time::Duration;

/// Minimum length of an HMAC secret (RFC 7518 3.2).
const HMAC_SECRET_LEN_MIN: usize = 32;

/// Placeholder token for validating a realm.
const TOKEN_FOR_CHECKS: &[u8] = b"0123456789abcdef0123456789abcdef";

/// Accepted tokens.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct Auth {
    /// Referred to by routes.
    #[key(table_name)]
    pub name: String,
    /// Realm in `WWW-Authenticate`.
    #[key(default = "doorbell", read = realm)]
    pub realm: String,
    /// Bearer tokens by name of the holder, preferably ${file:PATH}. The access log shows the name.
    pub tokens: Map<Secret>,
    /// Accepted signed tokens (JWT, RFC 7519).
    pub jwt: Option<Jwt>,
}

/// Signed tokens.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct Jwt {
    /// Accepted signature algorithms: ES256, EdDSA, HS256, RS256; one or a list. Required.
    #[key(name = "algorithm", required = "\"RS256\"", filled)]
    pub algorithms: Vec<JwtAlgorithm>,
    /// PEM file with the public key; read again when it changes.
    pub key_file: Option<At<PathBuf>>,
    /// JSON Web Key Set with the public keys; read again when it changes.
    pub jwks_file: Option<At<PathBuf>>,
    /// Shared secret of HS256, preferably ${file:PATH}.
    pub secret: Option<At<Secret>>,
    /// Accepted values of the claim `iss`; one or a list. Default: any.
    #[key(name = "issuer")]
    pub issuers: Vec<String>,
    /// Accepted values of the claim `aud`; one or a list. Default: tokens with an `aud` are
    /// refused.
    #[key(name = "audience")]
    pub audiences: Vec<String>,
    // RFC 7519 4.1.4: "no more than a few minutes".
    /// Permitted clock difference for `exp` and `nbf`.
    #[key(default = "1m", range = "0s..=10m")]
    pub leeway: Duration,
    /// Required claims and their values; other tokens get 403.
    pub require: Map<String>,
}

/// Signature algorithms (RFC 7518 3.1, RFC 8037 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum JwtAlgorithm {
    /// Ed25519.
    #[word("EdDSA")]
    EdDsa,
    /// ECDSA over P-256.
    #[word("ES256")]
    Es256,
    /// HMAC with a shared secret.
    #[word("HS256")]
    Hs256,
    /// RSA, PKCS #1 v1.5.
    #[word("RS256")]
    Rs256,
}

impl From<JwtAlgorithm> for Algorithm {
    fn from(algorithm: JwtAlgorithm) -> Self {
        match algorithm {
            JwtAlgorithm::EdDsa => Self::EdDsa,
            JwtAlgorithm::Es256 => Self::Es256,
            JwtAlgorithm::Hs256 => Self::Hs256,
            JwtAlgorithm::Rs256 => Self::Rs256,
        }
    }
}

impl Auth {
    /// Whether signed tokens are verified with a public key, which may take tens of microseconds.
    #[must_use]
    pub fn is_heavy(&self) -> bool {
        let is_heavy = |algorithm: &JwtAlgorithm| *algorithm != JwtAlgorithm::Hs256;
        self.jwt.as_ref().is_some_and(|jwt| jwt.algorithms.iter().any(is_heavy))
    }

    fn check(&self, at: &Section<'_>) {
        let has_wrong = at.place("tokens").is_some() && !at.has_valid("tokens");
        if self.tokens.is_empty() && !has_wrong && at.place("jwt").is_none() {
            let message = format!("auth rule `{}` has no key, so it would refuse every client", self.name);
            at.problem(
                Problem::error("no-key", at.span.clone(), message)
                    .help("add `tokens = { NAME = \"${file:/run/secrets/NAME}\" }` or `jwt = { .. }`"),
            );
        }
        let mut tokens = Tokens::new();
        for (name, secret) in self.tokens.iter() {
            let printable = !name.chars().any(|char| char.is_control() || char.is_whitespace());
            if name.is_empty() || !printable {
                let message = format!("{:?} is not a name", name.value);
                let problem = Problem::error("bad-name", name.span.clone(), message);
                at.problem(problem.help("logs contain this name: no spaces, no control characters"));
            }
            check_token(name, secret, &mut tokens, at);
        }
    }
}

fn check_token(name: &str, secret: &At<Secret>, tokens: &mut Tokens, at: &Section<'_>) {
    let span = secret.span.clone();
    match tokens.add(name, secret.reveal().as_bytes()) {
        Ok(None) => {}
        Ok(Some(warning)) => at.problem(
            Problem::warning("short-secret", span, format!("token `{name}` is short"))
                .help(warning.to_string()),
        ),
        Err(error) => {
            let code = match error {
                TokenError::TooShort => "short-secret",
                TokenError::SecretTaken => "duplicate-secret",
                _ => "bad-secret",
            };
            let message = format!("token `{name}` cannot be used");
            at.problem(Problem::error(code, span, message).help(error.to_string()));
        }
    }
}

fn realm(entry: &Entry<'_>) -> Option<String> {
    let realm = entry.string()?;
    let mut tokens = Tokens::new();
    // The token is valid: only the realm can be wrong.
    let _ = tokens.add("check", TOKEN_FOR_CHECKS);
    if let Err(error @ PolicyError::Realm) = Policy::bearer(&realm, tokens) {
        let message = format!("{realm:?} is not a valid realm: {error}");
        return entry.refuse("bad-value", message, "a word or two, in plain ASCII");
    }
    Some(realm)
}

impl Jwt {
    fn check(&self, at: &Section<'_>) {
        self.check_keys(at);
        if at.has_valid("algorithm") {
            self.check_key_fits(at);
        }
        if let (Some(place), true) = (at.right_place("leeway"), self.leeway.subsec_nanos() != 0) {
            let problem = Problem::error("bad-duration", place, "`leeway` must be a whole number of seconds");
            at.problem(problem.help("write \"30s\""));
        }
        for (name, value) in self.require.iter().filter(|(_, value)| value.trim().is_empty()) {
            let message = format!("claim `{}` needs a value", name.value);
            let problem = Problem::error("bad-value", value.span.clone(), message);
            at.problem(problem.help("write the required value"));
        }
    }

    fn check_keys(&self, at: &Section<'_>) {
        let keys = ["key_file", "jwks_file", "secret"].into_iter();
        let mut keys: Vec<_> = keys.filter_map(|key| Some((key, at.place(key)?))).collect();
        keys.sort_by_key(|(_, place)| place.start);
        match keys.as_slice() {
            [_] => {}
            [] => at.problem(
                Problem::error("no-key", at.span.clone(), "no signature can be verified without a key")
                    .help("add one of `key_file = \"KEY.pem\"`, `jwks_file = \"KEYS.json\"`, `secret = \"${file:PATH}\"`"),
            ),
            [(first, first_place), (second, place), ..] => at.problem(
                Problem::error("two-keys", place.clone(), format!("both `{first}` and `{second}`"))
                    .also(first_place.clone(), "first here")
                    .help("configure one kind of key; for several keys use `jwks_file`"),
            ),
        }
    }

    /// HS256 needs a shared secret, the other algorithms a public key.
    fn check_key_fits(&self, at: &Section<'_>) {
        let place = || at.place("algorithm").unwrap_or_default();
        if self.algorithms.len() > 1 && self.jwks_file.is_none() {
            let problem = Problem::error("key-misfit", place(), "one key has one algorithm");
            at.problem(problem.help("configure one algorithm, or several keys with `jwks_file`"));
        }
        let has_hmac = self.algorithms.contains(&JwtAlgorithm::Hs256);
        let others = self.algorithms.iter().find(|algorithm| **algorithm != JwtAlgorithm::Hs256);
        if let (true, Some(key)) = (has_hmac, &self.key_file) {
            let message = "HS256 is verified with a secret, not with a public key";
            at.problem(
                Problem::error("key-misfit", key.span.clone(), message).also(place(), "needs a secret").help(
                    "set `secret = \"${file:PATH}\"`, or name the algorithm of the key: RS256, ES256 or EdDSA",
                ),
            );
        }
        let Some(secret) = &self.secret else { return };
        if let Some(algorithm) = others {
            let message = format!("{} is verified with a public key, not with a secret", algorithm.word());
            at.problem(
                Problem::error("key-misfit", secret.span.clone(), message)
                    .also(place(), "needs a public key")
                    .help(
                        "set `key_file = \"KEY.pem\"` or `jwks_file = \"KEYS.json\"`, or `algorithm = \"HS256\"`",
                    ),
            );
        }
        let len = secret.reveal().len();
        if len < HMAC_SECRET_LEN_MIN {
            let message = format!("the secret has {len} bytes, HS256 needs at least {HMAC_SECRET_LEN_MIN}");
            at.problem(
                Problem::error("short-secret", secret.span.clone(), message)
                    .help("`openssl rand -base64 32` generates one (RFC 7518 3.2)"),
            );
        }
    }
}
