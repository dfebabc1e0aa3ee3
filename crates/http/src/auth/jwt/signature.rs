//! Verification of one signature. This is the only file that uses the signature library.
//!
//! Two features of the library are not used: its own checks of claims, which read the clock, and
//! its process-wide choice of a provider, which can panic.

use super::key::Algorithm;
use jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER;
use jsonwebtoken::{Algorithm as Name, DecodingKey};

/// The material of a key, overwritten when dropped.
#[derive(Clone)]
pub(super) struct Verifier(DecodingKey);

impl Verifier {
    pub(super) fn hmac(secret: &[u8]) -> Self {
        Self(DecodingKey::from_secret(secret))
    }

    /// Creates a verifier from an Ed25519 key of 32 bytes.
    pub(super) fn ed25519(key: &[u8]) -> Self {
        Self(DecodingKey::from_ed_der(key))
    }

    /// Creates a verifier from an uncompressed P-256 point.
    pub(super) fn p256(point: &[u8]) -> Self {
        Self(DecodingKey::from_ec_der(point))
    }

    /// Creates a verifier from a DER RSAPublicKey.
    pub(super) fn rsa(der: &[u8]) -> Self {
        Self(DecodingKey::from_rsa_der(der))
    }

    /// Creates a verifier from an RSA modulus and exponent, big-endian.
    pub(super) fn rsa_components(modulus: &[u8], exponent: &[u8]) -> Self {
        Self(DecodingKey::from_rsa_raw_components(modulus, exponent))
    }

    /// Whether `signature` is a valid signature of the message. HMACs are compared in constant
    /// time.
    pub(super) fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &Vec<u8>) -> bool {
        let name = match algorithm {
            Algorithm::EdDsa => Name::EdDSA,
            Algorithm::Es256 => Name::ES256,
            Algorithm::Hs256 => Name::HS256,
            Algorithm::Rs256 => Name::RS256,
        };
        (DEFAULT_PROVIDER.verifier_factory)(&name, &self.0)
            .is_ok_and(|verifier| verifier.verify(message, signature).is_ok())
    }
}
