//! The `Authorization` field of a request (RFC 9110 11.6.2) and the bearer token in it (RFC 6750
//! 2.1).

use super::Reason;
use crate::{Request, class};

/// The credentials of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Authorization<'a> {
    /// No `Authorization` field.
    Absent,
    /// The value of the only `Authorization` field.
    One(&'a [u8]),
    /// More than one `Authorization` field, so the credentials are ambiguous.
    Several,
}

impl<'a> Authorization<'a> {
    /// Returns the credentials that the parser found in a request.
    #[inline]
    #[must_use]
    pub fn of(request: &Request<'a>) -> Self {
        match request.authorization() {
            None => Self::Absent,
            Some((value, true)) => Self::One(value),
            Some((_, false)) => Self::Several,
        }
    }

    /// The text at the position of the token; not yet validated as a `token68`.
    #[inline]
    pub(super) fn bearer(self) -> Result<&'a [u8], Reason> {
        let value = match self {
            Self::Absent => return Err(Reason::CredentialsMissing),
            Self::One(value) => value,
            Self::Several => return Err(Reason::CredentialsRepeated),
        };
        // Compares eight bytes at once: the scheme, ignoring case, its space, and one byte of the
        // token, which must exist.
        let is_bearer = value.first_chunk().is_some_and(|start| {
            u64::from_le_bytes(*start) & 0x00ff_ffff_ffff_ffff | 0x0000_2020_2020_2020
                == u64::from_le_bytes(*b"bearer \0")
        });
        match value.get(SCHEME.len() + 1..) {
            Some(rest) if is_bearer => {
                let mut token = rest;
                while let [b' ', rest @ ..] = token {
                    token = rest;
                }
                Ok(token)
            }
            _ => Err(not_bearer(value)),
        }
    }
}

/// `Debug` hides the value.
impl std::fmt::Debug for Authorization<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Absent => "Absent",
            Self::One(_) => "One(..)",
            Self::Several => "Several",
        })
    }
}

const SCHEME: &[u8] = b"Bearer";

#[cold]
fn not_bearer(value: &[u8]) -> Reason {
    let scheme = value.split(|&byte| byte == b' ').next().unwrap_or_default();
    let is_token = !scheme.is_empty() && class::token_end(scheme, 0) == scheme.len();
    if is_token && !scheme.eq_ignore_ascii_case(SCHEME) {
        Reason::SchemeOther
    } else {
        Reason::CredentialsMalformed
    }
}

/// Whether these bytes are a `token68` (RFC 9110 11.2), which RFC 6750 calls `b64token`.
pub(super) fn is_token68(bytes: &[u8]) -> bool {
    let body = bytes.iter().position(|&byte| byte == b'=').unwrap_or(bytes.len());
    let (body, padding) = bytes.split_at_checked(body).unwrap_or_default();
    !body.is_empty()
        && body.iter().all(|&byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/')
        })
        && padding.iter().all(|&byte| byte == b'=')
}
