//! Why a signed token did not pass.
//!
//! Does not know about: statuses beyond 401 or 403, how a check is made.

use std::fmt;

/// Why a signed token did not pass. The client hears only which status it is; logs hear the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Denied {
    /// `alg` is not the algorithm of the key, or none of ours.
    AlgorithmRefused,
    /// `aud` is missing where an audience is asked for, or names somebody else.
    AudienceWrong,
    /// A claim that is asked for is missing or has another value: 403.
    ClaimMissing,
    /// The claims are not an object with unique names, or one that we read has the wrong type.
    ClaimsMalformed,
    /// A JWE: there is nothing for us to decrypt with.
    Encrypted,
    /// `exp` has passed.
    Expired,
    /// There is no `exp`.
    ExpiryMissing,
    /// `crit` or `b64`: extensions that must be understood (RFC 7515 4.1.11), and we know none.
    ExtensionRefused,
    /// The header is not an object with unique names, or a member that we read has the wrong type.
    HeaderMalformed,
    /// `iss` is missing where an issuer is asked for, or names another.
    IssuerWrong,
    /// The token names no key, and too many come into question.
    KeyIdMissing,
    /// No key has this name.
    KeyUnknown,
    /// A token within a token.
    Nested,
    /// `nbf` has not come.
    NotYetValid,
    /// A scope that is asked for is not granted: 403.
    ScopeMissing,
    /// The signature does not belong to this header and these claims under that key.
    SignatureWrong,
    /// Not three parts of base64url in its one canonical form.
    TokenMalformed,
    /// Longer than the policy allows.
    TokenTooLong,
    /// `typ` says that this is a token for something else.
    TypeWrong,
}

impl Denied {
    /// Whether the token is good and only lacks a right: 403 instead of 401.
    #[must_use]
    pub const fn is_forbidden(self) -> bool {
        matches!(self, Self::ClaimMissing | Self::ScopeMissing)
    }

    /// A few words for a log line; never a part of the token.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::AlgorithmRefused => "token algorithm refused",
            Self::AudienceWrong => "token for another audience",
            Self::ClaimMissing => "token lacks a claim",
            Self::ClaimsMalformed => "malformed token claims",
            Self::Encrypted => "encrypted token",
            Self::Expired => "token expired",
            Self::ExpiryMissing => "token without expiry",
            Self::ExtensionRefused => "token needs an extension",
            Self::HeaderMalformed => "malformed token header",
            Self::IssuerWrong => "token of another issuer",
            Self::KeyIdMissing => "token names no key",
            Self::KeyUnknown => "token of an unknown key",
            Self::Nested => "nested token",
            Self::NotYetValid => "token not yet valid",
            Self::ScopeMissing => "token lacks a scope",
            Self::SignatureWrong => "wrong token signature",
            Self::TokenMalformed => "malformed token",
            Self::TokenTooLong => "token too long",
            Self::TypeWrong => "token of another type",
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl std::error::Error for Denied {}
