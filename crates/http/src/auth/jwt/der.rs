//! The DER structures of public keys: SubjectPublicKeyInfo (RFC 5280 4.1) and RSAPublicKey (RFC
//! 8017 A.1.1).

use super::key::KeyError;

/// A public key in the form used for verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PublicKey<'a> {
    /// 32 bytes (RFC 8410).
    Ed25519(&'a [u8]),
    /// An uncompressed point, 65 bytes (RFC 5480).
    P256(&'a [u8]),
    /// A DER RSAPublicKey.
    Rsa(&'a [u8]),
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;

/// `SEQUENCE { rsaEncryption, NULL }` (RFC 3279 2.3.1), without its own header.
const RSA_ENCRYPTION: &[u8] = &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];
/// `SEQUENCE { id-ecPublicKey, secp256r1 }` (RFC 5480 2.1.1), without its own header.
const EC_P256: &[u8] =
    &[6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
/// `SEQUENCE { id-Ed25519 }` (RFC 8410 3), without its own header.
const ED25519: &[u8] = &[6, 3, 0x2b, 0x65, 0x70];

/// Parses a SubjectPublicKeyInfo of a supported kind.
pub(super) fn public_key_info(der: &[u8]) -> Result<PublicKey<'_>, KeyError> {
    let (algorithm, key) = split_info(der).ok_or(KeyError::Malformed)?;
    match (algorithm, key.len()) {
        (RSA_ENCRYPTION, _) => rsa_public_key(key).map(PublicKey::Rsa),
        (EC_P256, 65) if key.first() == Some(&4) => Ok(PublicKey::P256(key)),
        (EC_P256, _) => Err(KeyError::Malformed),
        (ED25519, 32) => Ok(PublicKey::Ed25519(key)),
        (ED25519, _) => Err(KeyError::Malformed),
        _ => Err(KeyError::KindUnsupported),
    }
}

fn split_info(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut info, rest) = element(SEQUENCE, der)?;
    let algorithm = take(SEQUENCE, &mut info)?;
    let [0, key @ ..] = take(BIT_STRING, &mut info)? else { return None };
    (rest.is_empty() && info.is_empty()).then_some((algorithm, key))
}

/// Validates and returns an RSAPublicKey: 2048 to 8192 bits (RFC 7518 3.3), an odd exponent from 3
/// to 2^33.
pub(super) fn rsa_public_key(der: &[u8]) -> Result<&[u8], KeyError> {
    let (modulus, exponent) = split_rsa(der).ok_or(KeyError::Malformed)?;
    check_rsa(modulus, exponent)?;
    Ok(der)
}

fn split_rsa(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut key, rest) = element(SEQUENCE, der)?;
    let modulus = natural(take(INTEGER, &mut key)?)?;
    let exponent = natural(take(INTEGER, &mut key)?)?;
    (rest.is_empty() && key.is_empty()).then_some((modulus, exponent))
}

/// Validates `modulus` and `exponent`, which are big-endian without leading zeros.
pub(super) fn check_rsa(modulus: &[u8], exponent: &[u8]) -> Result<(), KeyError> {
    let bits = modulus.first().map_or(0, |&first| modulus.len() * 8 - first.leading_zeros() as usize);
    if bits < RSA_BITS_MIN {
        return Err(KeyError::RsaTooShort { bits });
    }
    if bits > RSA_BITS_MAX {
        return Err(KeyError::RsaTooLong { bits });
    }
    let small = match exponent {
        [] | [0, ..] => 0,
        bytes if bytes.len() > 5 => u64::MAX,
        bytes => bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)),
    };
    if !(3..1 << 33).contains(&small) || small.is_multiple_of(2) {
        return Err(KeyError::RsaExponent);
    }
    if modulus.last().is_some_and(|&last| last % 2 == 0) {
        return Err(KeyError::Malformed);
    }
    Ok(())
}

const RSA_BITS_MIN: usize = 2048;
const RSA_BITS_MAX: usize = 8192;

/// The bytes of a positive INTEGER without its leading zero.
fn natural(content: &[u8]) -> Option<&[u8]> {
    match content {
        [0, rest @ ..] if rest.first().is_some_and(|&first| first >= 0x80) => Some(rest),
        [1..=0x7f, ..] => Some(content),
        _ => None,
    }
}

fn take<'a>(tag: u8, from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (content, rest) = element(tag, from)?;
    *from = rest;
    Some(content)
}

/// Returns the content of the first element, which must have this tag, and the bytes after the
/// element. Lengths must have their shortest form.
fn element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&[found, short], rest) = der.split_first_chunk()?;
    if found != tag {
        return None;
    }
    let (len, rest) = match short {
        0..=0x7f => (usize::from(short), rest),
        0x81 => {
            let (&len, rest) = rest.split_first()?;
            (Some(usize::from(len)).filter(|&len| len >= 0x80)?, rest)
        }
        0x82 => {
            let (&len, rest) = rest.split_first_chunk()?;
            (Some(usize::from(u16::from_be_bytes(len))).filter(|&len| len >= 0x100)?, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(len)
}
