//! Keys for verification, each bound to one algorithm, and the parser for PEM files.
//!
//! Does not know about: tokens, or key sets in JSON (see `jwks`).

use super::der::{self, PublicKey};
use super::signature::Verifier;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;

/// A signature algorithm (RFC 7518 3.1, RFC 8037 3.1).
///
/// No other algorithm is supported; `none` cannot be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Ed25519.
    EdDsa,
    /// ECDSA over P-256 with SHA-256.
    Es256,
    /// HMAC with SHA-256.
    Hs256,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
}

/// Minimum length of an HMAC secret (RFC 7518 3.2).
pub const HMAC_SECRET_LEN_MIN: usize = 32;

/// A key, its algorithm and an optional name.
#[derive(Clone)]
pub struct Key {
    pub(super) id: Option<Box<str>>,
    pub(super) algorithm: Algorithm,
    pub(super) verifier: Verifier,
}

/// The reason why a key was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// A certificate instead of a public key.
    Certificate,
    /// HS256 uses a secret and has no public key.
    HmacHasNoPublicKey,
    /// The key is not an RSA, P-256 or Ed25519 key.
    KindUnsupported,
    /// The kind of the key does not fit the algorithm.
    KindWrong(Algorithm),
    /// The bytes are not a key.
    Malformed,
    /// The text is not exactly one PEM block.
    NotPem,
    /// A private key instead of a public key.
    PrivateKey,
    /// The exponent is even, 1, or larger than 33 bits.
    RsaExponent,
    /// More than 8192 bits.
    RsaTooLong {
        /// Length of the modulus in bits.
        bits: usize,
    },
    /// Fewer than 2048 bits (RFC 7518 3.3).
    RsaTooShort {
        /// Length of the modulus in bits.
        bits: usize,
    },
    /// The HMAC secret is a public key, so every holder of that key could sign.
    SecretIsKey,
    /// Shorter than [`HMAC_SECRET_LEN_MIN`].
    SecretTooShort {
        /// Length of the secret in bytes.
        len: usize,
    },
}

impl Algorithm {
    /// The algorithm with this name; the name is case-sensitive.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "ES256" => Self::Es256,
            "EdDSA" => Self::EdDsa,
            "HS256" => Self::Hs256,
            "RS256" => Self::Rs256,
            _ => return None,
        })
    }

    /// The name in the header of a token.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EdDsa => "EdDSA",
            Self::Es256 => "ES256",
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
        }
    }

    /// Whether a verification takes tens of microseconds.
    #[must_use]
    pub const fn is_heavy(self) -> bool {
        !matches!(self, Self::Hs256)
    }
}

impl Key {
    /// Creates a key from a secret for HS256, as raw bytes.
    ///
    /// # Errors
    /// The secret is too short, or is a public key.
    pub fn hmac(secret: &[u8]) -> Result<Self, KeyError> {
        let is_key = secret.trim_ascii_start().starts_with(b"-----BEGIN")
            || !matches!(der::public_key_info(secret), Err(KeyError::Malformed))
            || !matches!(der::rsa_public_key(secret), Err(KeyError::Malformed));
        if is_key {
            return Err(KeyError::SecretIsKey);
        }
        if secret.len() < HMAC_SECRET_LEN_MIN {
            return Err(KeyError::SecretTooShort { len: secret.len() });
        }
        Ok(Self::new(Algorithm::Hs256, Verifier::hmac(secret)))
    }

    /// Parses a public key in PEM, `PUBLIC KEY` or `RSA PUBLIC KEY`.
    ///
    /// # Errors
    /// The text is not a public key for this algorithm; the error names what was found.
    pub fn pem(algorithm: Algorithm, pem: &[u8]) -> Result<Self, KeyError> {
        if algorithm == Algorithm::Hs256 {
            return Err(KeyError::HmacHasNoPublicKey);
        }
        let (label, der) = read_pem(pem)?;
        let key = match label {
            "PUBLIC KEY" => der::public_key_info(&der)?,
            "RSA PUBLIC KEY" => PublicKey::Rsa(der::rsa_public_key(&der)?),
            "CERTIFICATE" | "TRUSTED CERTIFICATE" | "X509 CERTIFICATE" => return Err(KeyError::Certificate),
            _ if label.ends_with("PRIVATE KEY") => return Err(KeyError::PrivateKey),
            _ => return Err(KeyError::NotPem),
        };
        Self::public(algorithm, key)
    }

    pub(super) fn public(algorithm: Algorithm, key: PublicKey<'_>) -> Result<Self, KeyError> {
        let verifier = match (algorithm, key) {
            (Algorithm::EdDsa, PublicKey::Ed25519(key)) => Verifier::ed25519(key),
            (Algorithm::Es256, PublicKey::P256(point)) => Verifier::p256(point),
            (Algorithm::Rs256, PublicKey::Rsa(der)) => Verifier::rsa(der),
            _ => return Err(KeyError::KindWrong(algorithm)),
        };
        Ok(Self::new(algorithm, verifier))
    }

    pub(super) const fn new(algorithm: Algorithm, verifier: Verifier) -> Self {
        Self { id: None, algorithm, verifier }
    }

    /// Names the key. A token with a `kid` is verified with the key of that name.
    #[must_use]
    pub fn with_id(mut self, id: &str) -> Self {
        self.id = Some(id.into());
        self
    }

    /// The name.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Whether a token for one of the keys may have to be tried with the other one, too.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.algorithm == other.algorithm && self.id == other.id
    }

    /// The algorithm.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// Label and content of the only block in a PEM file (RFC 7468); text before it is skipped.
fn read_pem(pem: &[u8]) -> Result<(&str, Vec<u8>), KeyError> {
    let text = std::str::from_utf8(pem).map_err(|_| KeyError::NotPem)?;
    let (_, text) = text.split_once("-----BEGIN ").ok_or(KeyError::NotPem)?;
    let (label, text) = text.split_once("-----").ok_or(KeyError::NotPem)?;
    let (body, rest) = text.split_once("-----END ").ok_or(KeyError::NotPem)?;
    let rest =
        rest.strip_prefix(label).and_then(|rest| rest.strip_prefix("-----")).ok_or(KeyError::NotPem)?;
    if !label.ends_with("PRIVATE KEY") && rest.contains("PRIVATE KEY-----") {
        return Err(KeyError::PrivateKey);
    }
    if !rest.trim_ascii().is_empty() {
        return Err(KeyError::NotPem);
    }
    if label.ends_with("PRIVATE KEY") {
        // The content of a private key is not decoded: it is secret, and the old encrypted form has
        // header lines.
        return Ok((label, Vec::new()));
    }
    let body: Vec<u8> = body.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    STANDARD.decode(body).map(|der| (label, der)).map_err(|_| KeyError::NotPem)
}

/// `Debug` hides the key material.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("id", &self.id)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate => f.write_str(
                "this is a certificate; `openssl x509 -pubkey -noout -in FILE` extracts its public key",
            ),
            Self::HmacHasNoPublicKey => f.write_str("HS256 needs a secret, not a public key"),
            Self::KindUnsupported => f.write_str("only RSA, P-256 and Ed25519 keys are supported"),
            Self::KindWrong(algorithm) => {
                write!(f, "the key is not of the kind required by {}", algorithm.name())
            }
            Self::Malformed => f.write_str("this is not a public key"),
            Self::NotPem => f.write_str("this is not a single public key in PEM"),
            Self::PrivateKey => f.write_str(
                "this is a private key, which must not be stored here; \
                 `openssl pkey -pubout -in FILE` makes the public key that is needed",
            ),
            Self::RsaExponent => f.write_str("the RSA exponent must be odd, at least 3, and below 2^33"),
            Self::RsaTooLong { bits } => write!(f, "the RSA key has {bits} bits; at most 8192 are verified"),
            Self::RsaTooShort { bits } => {
                write!(f, "the RSA key has {bits} bits; at least 2048 are needed (RFC 7518 3.3)")
            }
            Self::SecretIsKey => f.write_str(
                "the HMAC secret is a public key or a PEM file: every holder of that key could sign",
            ),
            Self::SecretTooShort { len } => write!(
                f,
                "the HMAC secret has {len} bytes; at least {HMAC_SECRET_LEN_MIN} are needed (RFC 7518 3.2)"
            ),
        }
    }
}

impl std::error::Error for KeyError {}
