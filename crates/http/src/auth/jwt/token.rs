//! The compact form of a signed token (RFC 7515 7.1) and its header (RFC 7515 4.1).

use super::denied::Denied;
use super::json::Object;
use super::key::Algorithm;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The parts of a token, still encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    pub(super) header: &'a [u8],
    pub(super) claims: &'a [u8],
    pub(super) signature: &'a [u8],
    /// Header, dot and claims: the signed text.
    pub(super) signed: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Splits a token into three parts that are not empty. A token without a signature is refused
    /// here.
    pub(super) fn split(token: &'a [u8]) -> Result<Self, Denied> {
        let mut parts = token.split(|&byte| byte == b'.');
        let mut next = || parts.next();
        match (next(), next(), next(), next(), next(), next()) {
            (Some(header), Some(claims), Some(signature), None, ..) => {
                if [header, claims, signature].iter().any(|part| part.is_empty()) {
                    return Err(Denied::TokenMalformed);
                }
                let signed = token.get(..header.len() + 1 + claims.len()).ok_or(Denied::TokenMalformed)?;
                Ok(Self { header, claims, signature, signed })
            }
            (.., Some(_), None) => Err(Denied::Encrypted),
            _ => Err(Denied::TokenMalformed),
        }
    }
}

/// Decodes base64url without padding. Only the canonical encoding is accepted: unused bits at the
/// end must be 0.
pub(super) fn decode(part: &[u8]) -> Result<Vec<u8>, Denied> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| Denied::TokenMalformed)
}

/// The relevant members of a header. Keys in a header, or referenced by it (`jwk`, `jku`, `x5c`,
/// `x5u`), are ignored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) key_id: Option<&'a str>,
    pub(super) token_type: Option<&'a str>,
}

impl<'a> Header<'a> {
    pub(super) fn read(object: &'a Object<'_>) -> Result<Self, Denied> {
        let text = |name| object.text(name).map_err(|_| Denied::HeaderMalformed);
        if object.find("enc").is_some() {
            return Err(Denied::Encrypted);
        }
        if object.find("crit").is_some() || object.find("b64").is_some() {
            return Err(Denied::ExtensionRefused);
        }
        let algorithm = text("alg")?.ok_or(Denied::HeaderMalformed)?;
        let algorithm = Algorithm::from_name(algorithm).ok_or(Denied::AlgorithmRefused)?;
        if text("cty")?.is_some_and(|content| media_type(content).eq_ignore_ascii_case("jwt")) {
            return Err(Denied::Nested);
        }
        Ok(Self { algorithm, key_id: text("kid")?, token_type: text("typ")? })
    }

    /// Whether `typ` is the required type or, if no type is required, whether it is absent, a
    /// generic JWT or an access token (RFC 9068 2.1). Tokens for other purposes have other types,
    /// so that they are not mistaken for access tokens (RFC 8725 3.11).
    pub(super) fn has_type(&self, required: Option<&str>) -> bool {
        match (self.token_type.map(media_type), required) {
            (Some(found), Some(required)) => found.eq_ignore_ascii_case(media_type(required)),
            (None, Some(_)) => false,
            (Some(found), None) => ["jwt", "at+jwt"].iter().any(|known| found.eq_ignore_ascii_case(known)),
            (None, None) => true,
        }
    }
}

/// Removes the optional prefix `application/` of a media type (RFC 7515 4.1.9).
fn media_type(text: &str) -> &str {
    match text.split_at_checked("application/".len()) {
        Some((prefix, rest)) if prefix.eq_ignore_ascii_case("application/") => rest,
        _ => text,
    }
}
