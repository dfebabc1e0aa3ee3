//! Reasons for refusing a signed token.

use std::fmt;

/// The reason why a signed token was refused.
///
/// The client gets only the status; the log contains the description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Denied {
    /// `alg` is not the algorithm of the key, or is not supported.
    AlgorithmRefused,
    /// `aud` is missing although required, or names another audience.
    AudienceWrong,
    /// A required claim is missing or has another value: 403.
    ClaimMissing,
    /// The claims are not an object with unique names, or a claim has the wrong type.
    ClaimsMalformed,
    /// The token is a JWE, which is encrypted and not supported.
    Encrypted,
    /// `exp` has passed.
    Expired,
    /// `exp` is missing.
    ExpiryMissing,
    /// `crit` or `b64`: extensions that must be understood (RFC 7515 4.1.11); none is supported.
    ExtensionRefused,
    /// The header is not an object with unique names, or a member has the wrong type.
    HeaderMalformed,
    /// `iss` is missing although required, or names another issuer.
    IssuerWrong,
    /// The token names no key, and there are too many candidate keys.
    KeyIdMissing,
    /// No key has the ID that the token names.
    KeyUnknown,
    /// The token contains another token.
    Nested,
    /// `nbf` is in the future.
    NotYetValid,
    /// A required scope is missing: 403.
    ScopeMissing,
    /// The signature does not match the signed text and the key.
    SignatureWrong,
    /// The token does not consist of three parts in canonical base64url.
    TokenMalformed,
    /// Longer than the policy's limit.
    TokenTooLong,
    /// `typ` names another type of token.
    TypeWrong,
}

impl Denied {
    /// Whether the token is valid and only lacks a permission: 403 instead of 401.
    #[must_use]
    pub const fn is_forbidden(self) -> bool {
        matches!(self, Self::ClaimMissing | Self::ScopeMissing)
    }

    /// A short description for logs, without any part of the token.
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
