//! Static bearer tokens: a few secrets with names, compared in constant time.

use super::authorization::is_token68;
use constant_time_eq::constant_time_eq;
use std::fmt;
use zeroize::Zeroizing;

/// Minimum length of a secret in bytes: 16 characters of base64 carry at most 96 bits.
pub const SECRET_LEN_MIN: usize = 16;
/// Length below which a secret causes a warning: 22 characters of base64 carry 128 bits (RFC 6750
/// 5.2 requires tokens that cannot be guessed).
pub const SECRET_LEN_ADVISED: usize = 22;
/// Maximum length of a secret in bytes.
pub const SECRET_LEN_MAX: usize = 1024;
/// Maximum number of tokens in a set. It is limited because each request is compared with all
/// tokens.
pub const TOKENS_MAX: usize = 64;

/// A set of named secrets.
///
/// The duration of a comparison depends on the number and lengths of the secrets and on the length
/// of the presented token, but not on the number of matching bytes. Secrets are overwritten when
/// the set is dropped, and `Debug` never shows them.
#[derive(Clone, Default)]
pub struct Tokens {
    entries: Vec<Entry>,
}

#[derive(Clone)]
struct Entry {
    name: Box<str>,
    secret: Zeroizing<Box<[u8]>>,
}

/// A warning about a secret that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenWarning {
    /// Shorter than [`SECRET_LEN_ADVISED`].
    Short,
}

/// The reason why a secret was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenError {
    /// The set already has a token with this name.
    NameTaken,
    /// The secret contains a byte that no bearer token can contain (RFC 6750 2.1), so a client
    /// could never present it.
    NotToken68,
    /// The set already has this secret under another name.
    SecretTaken,
    /// More than [`SECRET_LEN_MAX`] bytes.
    TooLong,
    /// More than [`TOKENS_MAX`] tokens.
    TooMany,
    /// Fewer than [`SECRET_LEN_MIN`] bytes.
    TooShort,
}

impl Tokens {
    /// Creates an empty set, which accepts no token.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Adds a secret. `name` identifies the holder of the secret in logs.
    ///
    /// # Errors
    /// The secret is rejected; the set is unchanged.
    pub fn add(&mut self, name: &str, secret: &[u8]) -> Result<Option<TokenWarning>, TokenError> {
        if self.entries.len() >= TOKENS_MAX {
            return Err(TokenError::TooMany);
        }
        if secret.len() < SECRET_LEN_MIN {
            return Err(TokenError::TooShort);
        }
        if secret.len() > SECRET_LEN_MAX {
            return Err(TokenError::TooLong);
        }
        if !is_token68(secret) {
            return Err(TokenError::NotToken68);
        }
        if self.entries.iter().any(|entry| *entry.name == *name) {
            return Err(TokenError::NameTaken);
        }
        if self.find(secret).is_some() {
            return Err(TokenError::SecretTaken);
        }
        self.entries.push(Entry { name: name.into(), secret: Zeroizing::new(secret.into()) });
        Ok((secret.len() < SECRET_LEN_ADVISED).then_some(TokenWarning::Short))
    }

    /// The name of the secret that equals the presented token.
    #[inline]
    #[must_use]
    pub fn find(&self, presented: &[u8]) -> Option<&str> {
        let mut found = None;
        for entry in &self.entries {
            // No early exit: the duration must not reveal which secret matches.
            if constant_time_eq(&entry.secret, presented) {
                found = Some(&*entry.name);
            }
        }
        found
    }

    /// Number of tokens.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the set is empty, so that it accepts no token.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The names, in the order in which they were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| &*entry.name)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl fmt::Display for TokenWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => write!(
                f,
                "the token is shorter than {SECRET_LEN_ADVISED} characters; \
                 `openssl rand -base64 32` generates a strong one"
            ),
        }
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameTaken => f.write_str("another token has this name"),
            Self::NotToken68 => f.write_str(
                "a bearer token is made of letters, digits and `-._~+/` with `=` at the end; \
                 a line end after the token in its file must go",
            ),
            Self::SecretTaken => f.write_str("another token has the same secret"),
            Self::TooLong => write!(f, "the token is longer than {SECRET_LEN_MAX} characters"),
            Self::TooMany => write!(f, "more than {TOKENS_MAX} tokens"),
            Self::TooShort => write!(
                f,
                "the token is shorter than {SECRET_LEN_MIN} characters; \
                 `openssl rand -base64 32` generates a strong one"
            ),
        }
    }
}

impl std::error::Error for TokenError {}
