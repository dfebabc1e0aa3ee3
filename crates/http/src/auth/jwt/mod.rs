//! Signed tokens (RFC 7519), verified by a [`JwtPolicy`] as strictly as RFC 8725 recommends.
//!
//! A token is at most `token_len_max` bytes long and has three parts in canonical base64url. Names
//! in its JSON are unique. Its `alg` must be the algorithm configured for the key, so neither
//! `none` nor another algorithm is accepted. Claims are read only after the signature was verified.
//! Unlike the comparison of static tokens, a verification allocates, and an asymmetric signature
//! takes tens of microseconds ([`JwtPolicy::is_heavy`]). A token costs at most [`KEYS_TRIED_MAX`]
//! verifications.
//!
//! Every ECDSA signature has a second valid form (`s` and `n - s`), so the holder of a token can
//! produce a second token with the same contents. Both are accepted. Do not use the bytes of a
//! token as its identity.

mod build;
mod claims;
mod denied;
mod der;
mod json;
mod jwks;
mod key;
mod signature;
mod token;

pub use build::{JwtBuilder, JwtPolicyError};
pub use denied::Denied;
pub use jwks::{JWKS_LEN_MAX, Jwks, JwksError};
pub use key::{Algorithm, HMAC_SECRET_LEN_MIN, Key, KeyError};

use claims::RequiredClaims;
use json::Object;
use token::{Header, Parts};

/// Maximum number of keys tried for a token that names no key.
pub const KEYS_TRIED_MAX: usize = 4;
/// Maximum number of keys in a policy.
pub const KEYS_MAX: usize = 256;
/// Default of [`JwtBuilder::token_len_max`]: half of the default limit of a head.
pub const TOKEN_LEN_MAX: usize = 8 * 1024;
/// Default of [`JwtBuilder::leeway_secs`].
pub const LEEWAY_SECS: u32 = 60;

/// Rules for signed tokens.
#[derive(Clone, Debug)]
pub struct JwtPolicy {
    keys: Vec<Key>,
    required: RequiredClaims,
    token_type: Option<Box<str>>,
    token_len_max: usize,
}

/// The contents of a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// `sub`, at most 255 bytes and without control characters; empty if absent.
    pub subject: Box<str>,
}

impl JwtPolicy {
    /// Starts a policy.
    #[must_use]
    pub fn builder() -> JwtBuilder {
        JwtBuilder::new()
    }

    /// Verifies a token. `unix_secs` is the time in seconds since 1970.
    ///
    /// # Errors
    /// The reason why the token was refused.
    pub fn verify(&self, token: &[u8], unix_secs: i64) -> Result<Verified, Denied> {
        self.with_header(token, |parts, header, signature| {
            self.check_signature(header, parts.signed, signature)?;
            let claims = token::decode(parts.claims)?;
            let claims = Object::parse(&claims).ok_or(Denied::ClaimsMalformed)?;
            let subject = self.required.check(&claims, unix_secs)?;
            Ok(Verified { subject })
        })
    }

    /// Whether [`Self::verify`] would check an asymmetric signature of this token. If the
    /// result is false, a verification costs about as much as this call.
    #[must_use]
    pub fn is_heavy_for(&self, token: &[u8]) -> bool {
        let is_heavy = |header: &Header<'_>| self.fitting(header).map(|_| header.algorithm.is_heavy());
        self.with_header(token, |_, header, _| is_heavy(header)).unwrap_or(false)
    }

    /// Whether a verification may take tens of microseconds, because at least one key is
    /// asymmetric.
    #[must_use]
    pub const fn is_heavy(&self) -> bool {
        let mut keys = self.keys.as_slice();
        while let [key, rest @ ..] = keys {
            if key.algorithm.is_heavy() {
                return true;
            }
            keys = rest;
        }
        false
    }

    /// The required scopes, separated by spaces.
    pub(super) fn scope(&self) -> &str {
        &self.required.scope
    }

    /// Performs all checks that precede the signature.
    fn with_header<R>(
        &self,
        token: &[u8],
        check: impl FnOnce(&Parts<'_>, &Header<'_>, &Vec<u8>) -> Result<R, Denied>,
    ) -> Result<R, Denied> {
        if token.len() > self.token_len_max {
            return Err(Denied::TokenTooLong);
        }
        let parts = Parts::split(token)?;
        let header = token::decode(parts.header)?;
        let header = Object::parse(&header).ok_or(Denied::HeaderMalformed)?;
        let header = Header::read(&header)?;
        if !header.has_type(self.token_type.as_deref()) {
            return Err(Denied::TypeWrong);
        }
        let signature = token::decode(parts.signature)?;
        check(&parts, &header, &signature)
    }

    fn check_signature(&self, header: &Header<'_>, signed: &[u8], signature: &Vec<u8>) -> Result<(), Denied> {
        let mut keys = self.fitting(header)?;
        let good = keys.any(|key| key.verifier.verify(header.algorithm, signed, signature));
        if good { Ok(()) } else { Err(Denied::SignatureWrong) }
    }

    /// The keys to try, at least one and at most [`KEYS_TRIED_MAX`]. For a token that names a key,
    /// these are the keys of that name or, if no key has it, the keys without a name.
    fn fitting(&self, header: &Header<'_>) -> Result<impl Iterator<Item = &Key>, Denied> {
        let (algorithm, id) = (header.algorithm, header.key_id);
        let is_known = id.is_some_and(|id| self.keys.iter().any(|key| key.id() == Some(id)));
        let has_name = move |key: &Key| id.is_none() || key.id() == id.filter(|_| is_known);
        let keys = self.keys.iter().filter(move |key| key.algorithm == algorithm && has_name(key));
        match keys.clone().count() {
            0 if !is_known && self.keys.iter().any(|key| key.algorithm == algorithm) => {
                Err(Denied::KeyUnknown)
            }
            0 => Err(Denied::AlgorithmRefused),
            1..=KEYS_TRIED_MAX => Ok(keys),
            _ => Err(Denied::KeyIdMissing),
        }
    }
}
