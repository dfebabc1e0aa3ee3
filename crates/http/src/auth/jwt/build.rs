//! From what the user wants to a policy that cannot go wrong later.
//!
//! Does not know about: tokens.

use super::claims::Wanted;
use super::key::{Algorithm, Key};
use super::{JwtPolicy, KEYS_MAX, KEYS_TRIED_MAX, LEEWAY_SECS, TOKEN_LEN_MAX};
use std::fmt;

/// Collects what a policy is made of.
#[derive(Clone, Debug)]
pub struct JwtBuilder {
    policy: JwtPolicy,
}

/// The largest leeway: RFC 7519 4.1.4 speaks of "no more than a few minutes".
const LEEWAY_SECS_MAX: u32 = 600;
/// The largest `token_len_max`.
const TOKEN_LEN_LIMIT: usize = 64 * 1024;

/// Why a policy cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwtPolicyError {
    /// Two keys have this name.
    KeyIdTaken(Box<str>),
    /// More than ten minutes.
    LeewayTooLong,
    /// There is no key: nobody could ever get in.
    NoKey,
    /// Not a scope (RFC 6749 3.3).
    Scope(Box<str>),
    /// 0 or more than 64 KiB.
    TokenLenMax,
    /// More than [`KEYS_MAX`] keys.
    TooManyKeys,
    /// More than [`KEYS_TRIED_MAX`] keys of one algorithm have no name, and each would have to be tried.
    TooManyKeysWithoutId(Algorithm),
}

impl JwtBuilder {
    pub(super) fn new() -> Self {
        Self {
            policy: JwtPolicy {
                keys: Vec::new(),
                wanted: Wanted { leeway_secs: i64::from(LEEWAY_SECS), ..Wanted::default() },
                token_type: None,
                token_len_max: TOKEN_LEN_MAX,
            },
        }
    }

    /// A key that may sign tokens.
    #[must_use]
    pub fn key(mut self, key: Key) -> Self {
        self.policy.keys.push(key);
        self
    }

    /// Keys that may sign tokens.
    #[must_use]
    pub fn keys(mut self, keys: impl IntoIterator<Item = Key>) -> Self {
        self.policy.keys.extend(keys);
        self
    }

    /// An issuer whose tokens are good. Without any, `iss` is not looked at.
    #[must_use]
    pub fn issuer(mut self, issuer: &str) -> Self {
        self.policy.wanted.issuers.push(issuer.into());
        self
    }

    /// A name that we go by. Without any, a token that says for whom it is (`aud`) is refused.
    #[must_use]
    pub fn audience(mut self, audience: &str) -> Self {
        self.policy.wanted.audiences.push(audience.into());
        self
    }

    /// By how much clocks may differ; the default is 60 s, the most is 600 s.
    #[must_use]
    pub fn leeway_secs(mut self, leeway_secs: u32) -> Self {
        self.policy.wanted.leeway_secs = i64::from(leeway_secs);
        self
    }

    /// A right: the claim must be this text, or a list of texts with it. A good token without it gets 403.
    #[must_use]
    pub fn require_claim(mut self, name: &str, value: &str) -> Self {
        self.policy.wanted.claims.push((name.into(), value.into()));
        self
    }

    /// A right: the `scope` claim must have this scope. A good token without it gets 403.
    #[must_use]
    pub fn require_scope(mut self, scope: &str) -> Self {
        let scopes = &mut self.policy.wanted.scope;
        if !scopes.is_empty() {
            scopes.push(' ');
        }
        scopes.push_str(scope);
        self
    }

    /// The `typ` that a token must have; without this it may have none, `JWT` or `at+jwt`.
    #[must_use]
    pub fn token_type(mut self, token_type: &str) -> Self {
        self.policy.token_type = Some(token_type.into());
        self
    }

    /// The most bytes of a token; the default is 8 KiB, the most is 64 KiB.
    #[must_use]
    pub const fn token_len_max(mut self, token_len_max: usize) -> Self {
        self.policy.token_len_max = token_len_max;
        self
    }

    /// Builds the policy.
    ///
    /// # Errors
    /// Says what the first thing is that does not fit.
    pub fn build(self) -> Result<JwtPolicy, JwtPolicyError> {
        let policy = self.policy;
        check_keys(&policy.keys)?;
        if policy.wanted.leeway_secs > i64::from(LEEWAY_SECS_MAX) {
            return Err(JwtPolicyError::LeewayTooLong);
        }
        if !(1..=TOKEN_LEN_LIMIT).contains(&policy.token_len_max) {
            return Err(JwtPolicyError::TokenLenMax);
        }
        for scope in policy.wanted.scope.split(' ') {
            if !scope.bytes().all(|byte| matches!(byte, b'!' | b'#'..=b'[' | b']'..=b'~')) {
                return Err(JwtPolicyError::Scope(scope.into()));
            }
        }
        Ok(policy)
    }
}

fn check_keys(keys: &[Key]) -> Result<(), JwtPolicyError> {
    if keys.is_empty() {
        return Err(JwtPolicyError::NoKey);
    }
    if keys.len() > KEYS_MAX {
        return Err(JwtPolicyError::TooManyKeys);
    }
    for (place, key) in keys.iter().enumerate() {
        if let Some(id) = key.id()
            && keys.iter().skip(place + 1).any(|other| other.id() == Some(id))
        {
            return Err(JwtPolicyError::KeyIdTaken(id.into()));
        }
        let algorithm = key.algorithm;
        let nameless = keys.iter().filter(|key| key.algorithm == algorithm && key.id.is_none());
        if nameless.count() > KEYS_TRIED_MAX {
            return Err(JwtPolicyError::TooManyKeysWithoutId(algorithm));
        }
    }
    Ok(())
}

impl fmt::Display for JwtPolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyIdTaken(id) => write!(f, "two keys have the name `{}`", id.escape_debug()),
            Self::LeewayTooLong => write!(f, "the leeway is more than {LEEWAY_SECS_MAX} s"),
            Self::NoKey => f.write_str("there is no key, so nobody could ever get in"),
            Self::Scope(scope) => write!(f, "`{}` is not a scope", scope.escape_debug()),
            Self::TokenLenMax => {
                write!(f, "the longest token must have between 1 and {TOKEN_LEN_LIMIT} bytes")
            }
            Self::TooManyKeys => write!(f, "more than {KEYS_MAX} keys"),
            Self::TooManyKeysWithoutId(algorithm) => write!(
                f,
                "more than {KEYS_TRIED_MAX} keys for {} have no name, and each of them would be tried; give them one",
                algorithm.name()
            ),
        }
    }
}

impl std::error::Error for JwtPolicyError {}
