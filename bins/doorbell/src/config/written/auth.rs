//! `[auth.NAME]` as it was written.
//!
//! Does not know about: routes, whether a key suits its algorithm.

use super::super::model::{JwtAlgorithm, Secret};
use doorbell_config::{At, Section};
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Auth {
    pub(crate) name: At<String>,
    pub(crate) header: Range<usize>,
    pub(crate) realm: Option<At<String>>,
    /// How many tokens are written, right or wrong.
    pub(crate) tokens_len: usize,
    pub(crate) tokens: Vec<(At<String>, At<Secret>)>,
    pub(crate) has_jwt: bool,
    pub(crate) jwt: Option<Jwt>,
}

#[derive(Debug)]
pub(crate) struct Jwt {
    pub(crate) span: Range<usize>,
    pub(crate) has_algorithm: bool,
    pub(crate) algorithms: Option<At<Vec<JwtAlgorithm>>>,
    /// The kinds of keys that are written, right or wrong.
    pub(crate) keys: Vec<(&'static str, Range<usize>)>,
    pub(crate) key_file: Option<At<PathBuf>>,
    pub(crate) jwks_file: Option<At<PathBuf>>,
    pub(crate) secret: Option<At<Secret>>,
    pub(crate) issuers: Option<At<Vec<At<String>>>>,
    pub(crate) audiences: Option<At<Vec<At<String>>>>,
    pub(crate) leeway: Option<At<Duration>>,
    pub(crate) require: Vec<(At<String>, At<String>)>,
}

pub(crate) const ALGORITHMS: [(&str, JwtAlgorithm); 4] = [
    ("ES256", JwtAlgorithm::Es256),
    ("EdDSA", JwtAlgorithm::EdDsa),
    ("HS256", JwtAlgorithm::Hs256),
    ("RS256", JwtAlgorithm::Rs256),
];

/// RFC 7519 4.1.4: "no more than a few minutes".
const LEEWAY_RANGE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(600);

impl Auth {
    pub(super) fn read(name: At<String>, mut at: Section<'_>) -> Self {
        let tokens = at.section("tokens");
        let auth = Self {
            name,
            header: at.span.clone(),
            realm: at.string("realm"),
            tokens_len: tokens.as_ref().map_or(0, Section::len),
            tokens: tokens.map(|tokens| tokens.all_secrets()).unwrap_or_default(),
            has_jwt: at.value("jwt").is_some(),
            jwt: at.section("jwt").map(Jwt::read),
        };
        at.finish();
        auth
    }
}

impl Jwt {
    fn read(mut at: Section<'_>) -> Self {
        let mut keys = Vec::new();
        for key in ["key_file", "jwks_file", "secret"] {
            if let Some(value) = at.value(key) {
                keys.push((key, value.span()));
            }
        }
        keys.sort_by_key(|(_, span)| span.start);
        let jwt = Self {
            span: at.span.clone(),
            has_algorithm: at.value("algorithm").is_some(),
            algorithms: at.choices("algorithm", &ALGORITHMS),
            keys,
            key_file: at.path("key_file"),
            jwks_file: at.path("jwks_file"),
            secret: at.secret("secret"),
            issuers: at.strings("issuer"),
            audiences: at.strings("audience"),
            leeway: at.duration("leeway", LEEWAY_RANGE),
            require: at.section("require").map(|claims| claims.all_strings()).unwrap_or_default(),
        };
        at.finish();
        jwt
    }
}
