//! The decision about a request, and the challenge sent with a refusal (RFC 6750 3, RFC 9110
//! 11.6.1).

use super::authorization::is_token68;
#[cfg(feature = "jwt")]
use super::jwt::{Denied, JwtPolicy};
use super::{Authorization, Tokens};
use crate::{Request, Status};
use std::fmt;

/// The tokens that a listener or a route requires.
#[derive(Debug)]
pub struct Policy {
    /// The static tokens; empty only if signed tokens are accepted.
    tokens: Tokens,
    #[cfg(feature = "jwt")]
    jwt: Option<JwtPolicy>,
    challenges: Challenges,
}

/// The four values of `WWW-Authenticate`, rendered once.
#[derive(Debug)]
struct Challenges {
    plain: Box<str>,
    insufficient_scope: Box<str>,
    invalid_request: Box<str>,
    invalid_token: Box<str>,
}

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    /// The request is allowed.
    Allowed(Principal<'a>),
    /// Status 403: the token is valid but lacks a permission.
    Forbidden(Reason),
    /// Status 400: the `Authorization` field is malformed.
    Malformed(Reason),
    /// Status 401: the token is missing or invalid.
    Unauthorized(Reason),
}

/// The sender of an allowed request, as named in logs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Principal<'a> {
    /// The subject of a signed token, empty if it has none.
    #[cfg(feature = "jwt")]
    Subject(Box<str>),
    /// The name of a static token.
    Token(&'a str),
}

/// The reason why a request was not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The `Authorization` field does not consist of a scheme and one token.
    CredentialsMalformed,
    /// There is no `Authorization` field.
    CredentialsMissing,
    /// There are several `Authorization` fields.
    CredentialsRepeated,
    /// A signed token was refused.
    #[cfg(feature = "jwt")]
    Jwt(Denied),
    /// The scheme is not `Bearer`.
    SchemeOther,
    /// No static token matches.
    TokenUnknown,
}

/// The reason why a policy is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// There is no static token, so every request would be refused.
    NoTokens,
    /// The realm contains characters other than visible ASCII and spaces.
    Realm,
}

impl Policy {
    /// Requires one of these tokens. `realm` describes the purpose of the tokens to the client.
    ///
    /// # Errors
    /// There is no token, or the realm contains characters other than visible ASCII and spaces.
    pub fn bearer(realm: &str, tokens: Tokens) -> Result<Self, PolicyError> {
        if tokens.is_empty() {
            return Err(PolicyError::NoTokens);
        }
        Ok(Self {
            challenges: Challenges::new(realm, "")?,
            tokens,
            #[cfg(feature = "jwt")]
            jwt: None,
        })
    }

    /// Requires a signed token.
    ///
    /// # Errors
    /// The realm contains characters other than visible ASCII and spaces.
    #[cfg(feature = "jwt")]
    pub fn jwt(realm: &str, jwt: JwtPolicy) -> Result<Self, PolicyError> {
        Ok(Self { challenges: Challenges::new(realm, jwt.scope())?, tokens: Tokens::new(), jwt: Some(jwt) })
    }

    /// Requires either one of these tokens or a signed token.
    ///
    /// # Errors
    /// There is no token, or the realm contains characters other than visible ASCII and spaces.
    #[cfg(feature = "jwt")]
    pub fn either(realm: &str, tokens: Tokens, jwt: JwtPolicy) -> Result<Self, PolicyError> {
        if tokens.is_empty() {
            return Err(PolicyError::NoTokens);
        }
        Ok(Self { challenges: Challenges::new(realm, jwt.scope())?, tokens, jwt: Some(jwt) })
    }

    /// Decides about a request. `unix_secs` is the time in seconds since 1970, used only for signed
    /// tokens.
    #[inline]
    #[must_use]
    pub fn decide_request(&self, request: &Request<'_>, unix_secs: i64) -> Decision<'_> {
        self.decide(Authorization::of(request), unix_secs)
    }

    /// Decides about the credentials of a request, including all verification. If
    /// [`Self::is_heavy`] is true, run this call on another thread.
    #[inline]
    #[must_use]
    pub fn decide(&self, authorization: Authorization<'_>, unix_secs: i64) -> Decision<'_> {
        match self.known(authorization) {
            Some(name) => Decision::Allowed(Principal::Token(name)),
            None => self.decide_unknown(authorization, unix_secs),
        }
    }

    /// The name of the request's static token, if it is known. `None` is not a refusal: call
    /// [`Self::decide_unknown`] then.
    #[inline]
    #[must_use]
    pub fn known(&self, authorization: Authorization<'_>) -> Option<&str> {
        self.tokens.find(authorization.bearer().ok()?)
    }

    /// Decides about a request for which [`Self::known`] returned `None`. Static tokens are not
    /// compared a second time.
    #[inline(never)]
    #[must_use]
    pub fn decide_unknown(&self, authorization: Authorization<'_>, unix_secs: i64) -> Decision<'_> {
        let token = match authorization.bearer() {
            Ok(token) => token,
            Err(reason) => return Decision::refused(reason),
        };
        // The syntax is checked only here, because known tokens do not need the check.
        if !is_token68(token) {
            return Decision::refused(Reason::CredentialsMalformed);
        }
        #[cfg(feature = "jwt")]
        if let Some(jwt) = &self.jwt {
            return match jwt.verify(token, unix_secs) {
                Ok(verified) => Decision::Allowed(Principal::Subject(verified.subject)),
                Err(denied) => Decision::refused(Reason::Jwt(denied)),
            };
        }
        // The time is needed only for signed tokens.
        let _ = unix_secs;
        Decision::refused(Reason::TokenUnknown)
    }

    /// Whether a decision may take tens of microseconds, as the verification of an asymmetric
    /// signature does.
    #[must_use]
    pub const fn is_heavy(&self) -> bool {
        #[cfg(feature = "jwt")]
        if let Some(jwt) = &self.jwt {
            return jwt.is_heavy();
        }
        false
    }

    /// Whether the decision about these credentials takes tens of microseconds. False for static
    /// tokens and shared secrets, and if the request is refused before the signature is checked.
    #[must_use]
    pub fn is_heavy_for(&self, authorization: Authorization<'_>) -> bool {
        #[cfg(feature = "jwt")]
        if let Some(jwt) = &self.jwt
            && jwt.is_heavy()
            && let Ok(token) = authorization.bearer()
        {
            return is_token68(token) && self.tokens.find(token).is_none() && jwt.is_heavy_for(token);
        }
        let _ = authorization;
        false
    }

    /// The value of `WWW-Authenticate` for a refusal; `None` for an allowed request. The value
    /// contains no error if the client sent no bearer token (RFC 6750 3.1).
    #[must_use]
    pub const fn challenge(&self, decision: &Decision<'_>) -> Option<&str> {
        let challenges = &self.challenges;
        Some(match decision {
            Decision::Allowed(_) => return None,
            Decision::Forbidden(_) => &challenges.insufficient_scope,
            Decision::Malformed(_) => &challenges.invalid_request,
            Decision::Unauthorized(Reason::CredentialsMissing | Reason::SchemeOther) => &challenges.plain,
            Decision::Unauthorized(_) => &challenges.invalid_token,
        })
    }
}

impl Decision<'_> {
    const fn refused(reason: Reason) -> Self {
        match reason {
            Reason::CredentialsMalformed | Reason::CredentialsRepeated => Self::Malformed(reason),
            Reason::CredentialsMissing | Reason::SchemeOther | Reason::TokenUnknown => {
                Self::Unauthorized(reason)
            }
            #[cfg(feature = "jwt")]
            Reason::Jwt(denied) if denied.is_forbidden() => Self::Forbidden(reason),
            #[cfg(feature = "jwt")]
            Reason::Jwt(_) => Self::Unauthorized(reason),
        }
    }

    /// The sender of an allowed request.
    ///
    /// # Errors
    /// The decision is a refusal.
    pub const fn allowed(&self) -> Result<&Principal<'_>, Decision<'static>> {
        Err(match self {
            Self::Allowed(principal) => return Ok(principal),
            Self::Forbidden(reason) => Decision::Forbidden(*reason),
            Self::Malformed(reason) => Decision::Malformed(*reason),
            Self::Unauthorized(reason) => Decision::Unauthorized(*reason),
        })
    }

    /// Whether this refusal takes precedence over `other` if several policies refuse a request. A
    /// valid token that lacks a permission leads to 403, even if other policies do not know the
    /// token.
    #[must_use]
    pub const fn takes_precedence_over(&self, other: &Self) -> bool {
        matches!(self, Self::Forbidden(_)) && !matches!(other, Self::Forbidden(_) | Self::Allowed(_))
    }

    /// The status of the refusal; `None` when the request is allowed.
    #[must_use]
    pub const fn status(&self) -> Option<Status> {
        match self {
            Self::Allowed(_) => None,
            Self::Forbidden(_) => Some(Status::FORBIDDEN),
            Self::Malformed(_) => Some(Status::BAD_REQUEST),
            Self::Unauthorized(_) => Some(Status::UNAUTHORIZED),
        }
    }
}

impl Principal<'_> {
    /// The sender's name in logs.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            #[cfg(feature = "jwt")]
            Self::Subject(subject) => subject,
            Self::Token(name) => name,
        }
    }
}

impl Reason {
    /// A short description for logs, without any part of the request.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::CredentialsMalformed => "malformed credentials",
            Self::CredentialsMissing => "no credentials",
            Self::CredentialsRepeated => "repeated credentials",
            #[cfg(feature = "jwt")]
            Self::Jwt(denied) => denied.word(),
            Self::SchemeOther => "other scheme",
            Self::TokenUnknown => "unknown token",
        }
    }
}

impl Challenges {
    /// Renders the challenges. `scope` is the list of required scopes of a signed token, separated
    /// by spaces; it may be empty.
    fn new(realm: &str, scope: &str) -> Result<Self, PolicyError> {
        if !realm.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(PolicyError::Realm);
        }
        let mut plain = String::from("Bearer realm=\"");
        for character in realm.chars() {
            if matches!(character, '"' | '\\') {
                plain.push('\\');
            }
            plain.push(character);
        }
        plain.push('"');
        let with = |error: &str| format!("{plain}, error=\"{error}\"");
        let mut insufficient_scope = with("insufficient_scope");
        if !scope.is_empty() {
            insufficient_scope.push_str(&format!(", scope=\"{scope}\""));
        }
        Ok(Self {
            insufficient_scope: insufficient_scope.into(),
            invalid_request: with("invalid_request").into(),
            invalid_token: with("invalid_token").into(),
            plain: plain.into(),
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoTokens => "no token is listed, so every request would be refused",
            Self::Realm => "a realm consists of visible ASCII characters and spaces",
        })
    }
}

impl std::error::Error for PolicyError {}
