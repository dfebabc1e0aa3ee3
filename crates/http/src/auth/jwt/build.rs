//! Building a policy. All errors of a configuration are found here, not during verification.

use super::claims::RequiredClaims;
use super::key::{Algorithm, Key};
use super::{JwtPolicy, KEYS_MAX, KEYS_TRIED_MAX, LEEWAY_SECS, TOKEN_LEN_MAX};
use std::fmt;

/// Builder of a [`JwtPolicy`].
#[derive(Clone, Debug)]
pub struct JwtBuilder {
    policy: JwtPolicy,
}

/// Maximum leeway, in seconds: RFC 7519 4.1.4 suggests "no more than a few minutes".
const LEEWAY_SECS_MAX: u32 = 600;
/// Upper limit of `token_len_max`.
const TOKEN_LEN_LIMIT: usize = 64 * 1024;

/// The reason why a policy cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JwtPolicyError {
    /// The leeway exceeds ten minutes.
    LeewayTooLong,
    /// There is no key, so every token would be refused.
    NoKey,
    /// The text is not a scope (RFC 6749 3.3).
    Scope(Box<str>),
    /// The maximum length is 0 or more than 64 KiB.
    TokenLenMax,
    /// More than [`KEYS_MAX`] keys.
    TooManyKeys,
    /// More than [`KEYS_TRIED_MAX`] keys of one algorithm have the same name or no name. One token
    /// would be tried with each of these keys.
    TooManyKeysAlike(Algorithm),
}

impl JwtBuilder {
    pub(super) fn new() -> Self {
        Self {
            policy: JwtPolicy {
                keys: Vec::new(),
                required: RequiredClaims { leeway_secs: i64::from(LEEWAY_SECS), ..RequiredClaims::default() },
                token_type: None,
                token_len_max: TOKEN_LEN_MAX,
            },
        }
    }

    /// Adds a key that verifies the signatures of tokens.
    #[must_use]
    pub fn key(mut self, key: Key) -> Self {
        self.policy.keys.push(key);
        self
    }

    /// Adds keys that verify the signatures of tokens.
    #[must_use]
    pub fn keys(mut self, keys: impl IntoIterator<Item = Key>) -> Self {
        self.policy.keys.extend(keys);
        self
    }

    /// Adds an accepted issuer. Without accepted issuers, `iss` is ignored.
    #[must_use]
    pub fn issuer(mut self, issuer: &str) -> Self {
        self.policy.required.issuers.push(issuer.into());
        self
    }

    /// Adds a name of this service as an audience. Without such names, a token with an audience
    /// (`aud`) is refused.
    #[must_use]
    pub fn audience(mut self, audience: &str) -> Self {
        self.policy.required.audiences.push(audience.into());
        self
    }

    /// Sets the maximum difference between the clocks of issuer and server; default 60 s, at most
    /// 600 s.
    #[must_use]
    pub fn leeway_secs(mut self, leeway_secs: u32) -> Self {
        self.policy.required.leeway_secs = i64::from(leeway_secs);
        self
    }

    /// Requires a claim to be this text or a list that contains this text. A valid token that does
    /// not meet the requirement gets 403.
    #[must_use]
    pub fn require_claim(mut self, name: &str, value: &str) -> Self {
        self.policy.required.claims.push((name.into(), value.into()));
        self
    }

    /// Requires a scope in the `scope` claim. A valid token without that scope gets 403.
    #[must_use]
    pub fn require_scope(mut self, scope: &str) -> Self {
        let scopes = &mut self.policy.required.scope;
        if !scopes.is_empty() {
            scopes.push(' ');
        }
        scopes.push_str(scope);
        self
    }

    /// Sets the required `typ` of a token. By default `typ` may be absent, `JWT` or `at+jwt`.
    #[must_use]
    pub fn token_type(mut self, token_type: &str) -> Self {
        self.policy.token_type = Some(token_type.into());
        self
    }

    /// Sets the maximum length of a token in bytes; default 8 KiB, at most 64 KiB.
    #[must_use]
    pub const fn token_len_max(mut self, token_len_max: usize) -> Self {
        self.policy.token_len_max = token_len_max;
        self
    }

    /// Builds the policy.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn build(self) -> Result<JwtPolicy, JwtPolicyError> {
        let policy = self.policy;
        check_keys(&policy.keys)?;
        if policy.required.leeway_secs > i64::from(LEEWAY_SECS_MAX) {
            return Err(JwtPolicyError::LeewayTooLong);
        }
        if !(1..=TOKEN_LEN_LIMIT).contains(&policy.token_len_max) {
            return Err(JwtPolicyError::TokenLenMax);
        }
        for scope in policy.required.scope.split(' ') {
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
    let is_crowded = |key: &&Key| keys.iter().filter(|other| other.is_alike(key)).count() > KEYS_TRIED_MAX;
    if let Some(key) = keys.iter().find(is_crowded) {
        return Err(JwtPolicyError::TooManyKeysAlike(key.algorithm));
    }
    Ok(())
}

impl fmt::Display for JwtPolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeewayTooLong => write!(f, "the leeway is more than {LEEWAY_SECS_MAX} s"),
            Self::NoKey => f.write_str("there is no key, so every token would be refused"),
            Self::Scope(scope) => write!(f, "`{}` is not a scope", scope.escape_debug()),
            Self::TokenLenMax => {
                write!(f, "the maximum length of a token must be 1 to {TOKEN_LEN_LIMIT} bytes")
            }
            Self::TooManyKeys => write!(f, "more than {KEYS_MAX} keys"),
            Self::TooManyKeysAlike(algorithm) => write!(
                f,
                "more than {KEYS_TRIED_MAX} keys for {} have the same name or none, so one token could be tried with every key; name each of them differently",
                algorithm.name()
            ),
        }
    }
}

impl std::error::Error for JwtPolicyError {}
