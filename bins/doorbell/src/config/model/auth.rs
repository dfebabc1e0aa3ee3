//! `[auth.NAME]`: credentials that a route accepts.
//!
//! Does not know about: routes, how a token is verified.

use crate::http::auth::jwt::Algorithm;
use doorbell_config::Secret;
use std::path::PathBuf;
use std::time::Duration;

/// `[auth.NAME]`: a bearer token that is one of these, or a signed one that passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// Named by routes.
    pub name: String,
    /// What a client is told the tokens are for.
    pub realm: String,
    /// Static tokens, each with the name that logs call its bearer.
    pub tokens: Vec<(String, Secret)>,
    /// Signed tokens.
    pub jwt: Option<Jwt>,
}

/// `jwt = { .. }`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwt {
    /// The only algorithms that are accepted; more than one only with a key set.
    pub algorithms: Vec<JwtAlgorithm>,
    /// What signatures are verified with.
    pub key: JwtKey,
    /// Whose tokens are good; none means `iss` is not looked at.
    pub issuers: Vec<String>,
    /// Our names; with none, a token that says for whom it is gets refused.
    pub audiences: Vec<String>,
    /// By how much clocks may differ, in whole seconds.
    pub leeway: Duration,
    /// Claims and what they must hold; those of `scope` are separated by spaces.
    pub require: Vec<(String, String)>,
}

/// Signature algorithms (RFC 7518 3.1, RFC 8037 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JwtAlgorithm {
    /// Ed25519.
    EdDsa,
    /// ECDSA over P-256.
    Es256,
    /// HMAC with a shared secret.
    Hs256,
    /// RSA, PKCS #1 v1.5.
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

/// What signatures are verified with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwtKey {
    /// A key set (RFC 7517).
    Jwks(PathBuf),
    /// A public key in PEM.
    Pem(PathBuf),
    /// A shared secret.
    Secret(Secret),
}

impl Auth {
    /// Whether some of its tokens have a signature that takes tens of microseconds to verify.
    #[must_use]
    pub fn is_heavy(&self) -> bool {
        let is_heavy = |algorithm: &JwtAlgorithm| *algorithm != JwtAlgorithm::Hs256;
        self.jwt.as_ref().is_some_and(|jwt| jwt.algorithms.iter().any(is_heavy))
    }
}

impl JwtAlgorithm {
    /// The name in a token's header and in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EdDsa => "EdDSA",
            Self::Es256 => "ES256",
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
        }
    }
}

impl Default for Auth {
    fn default() -> Self {
        Self { name: String::new(), realm: "doorbell".into(), tokens: Vec::new(), jwt: None }
    }
}

impl Jwt {
    /// When nothing else is said; RFC 7519 4.1.4 speaks of "no more than a few minutes".
    pub const LEEWAY: Duration = Duration::from_secs(60);
}
