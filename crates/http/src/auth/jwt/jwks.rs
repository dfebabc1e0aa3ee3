//! Key sets in JSON (RFC 7517).

use super::der::{PublicKey, check_rsa};
use super::json::{Json, Object};
use super::key::{Algorithm, Key, KeyError};
use super::signature::Verifier;
use super::{KEYS_TRIED_MAX, token};
use std::fmt;

/// The usable keys of a set, and the number of keys that were skipped as required by RFC 7517 5.
#[derive(Clone, Debug)]
pub struct Jwks {
    /// Usable keys, in the order of the set.
    pub keys: Vec<Key>,
    /// The errors of keys that were ignored although they have a suitable purpose; callers should
    /// warn about them.
    pub ignored: Vec<JwksError>,
    /// Number of keys for encryption, of an unknown kind, or of an algorithm that is not allowed.
    pub skipped: usize,
}

/// Maximum length of a key set in bytes.
pub const JWKS_LEN_MAX: usize = 1024 * 1024;

/// The reason why a key set or one of its keys was rejected.
///
/// Keys are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JwksError {
    /// One of the keys cannot be used.
    Key {
        /// Number of the key.
        number: usize,
        /// The error.
        error: KeyError,
    },
    /// One of the keys has a member of the wrong type.
    Member {
        /// Number of the key.
        number: usize,
        /// The member.
        name: &'static str,
    },
    /// The text is not an object with a list of objects called `keys`, or a name occurs twice.
    NotKeySet,
    /// There is no key for any of the allowed algorithms.
    NothingUsable {
        /// Number of skipped keys, as in [`Jwks::skipped`].
        skipped: usize,
    },
    /// More than [`JWKS_LEN_MAX`] bytes.
    TooLong,
    /// [`KEYS_TRIED_MAX`] keys before this one have the same algorithm and name, or no name.
    TooManyAlike {
        /// Number of the key.
        number: usize,
    },
}

impl Jwks {
    /// Parses a key set for these algorithms. A key without `alg` gets the algorithm for its kind.
    /// Several keys may have the same name (RFC 7517 4.5); at most [`KEYS_TRIED_MAX`] of them are used
    /// for each algorithm.
    ///
    /// # Errors
    /// The text is too long or is not a key set. A key is private: every reader of the set could
    /// sign with it. No key is usable; the error is then that of the first faulty key, if any.
    pub fn read(text: &[u8], allowed: &[Algorithm]) -> Result<Self, JwksError> {
        if text.len() > JWKS_LEN_MAX {
            return Err(JwksError::TooLong);
        }
        let set = Object::parse(text).ok_or(JwksError::NotKeySet)?;
        let Some(Json::Array(entries)) = set.find("keys") else { return Err(JwksError::NotKeySet) };
        let (mut keys, mut ignored) = (Vec::<Key>::new(), Vec::new());
        for (entry, number) in entries.iter().zip(1..) {
            let Json::Object(entry) = entry else { return Err(JwksError::NotKeySet) };
            match (Entry { object: entry, number }).key(allowed) {
                Ok(Some(key))
                    if keys.iter().filter(|other| other.is_alike(&key)).count() >= KEYS_TRIED_MAX =>
                {
                    ignored.push(JwksError::TooManyAlike { number });
                }
                Ok(key) => keys.extend(key),
                Err(error @ JwksError::Key { error: KeyError::PrivateKey, .. }) => return Err(error),
                Err(error) => ignored.push(error),
            }
        }
        let skipped = entries.len() - keys.len() - ignored.len();
        match ignored.first() {
            Some(error) if keys.is_empty() => Err(*error),
            None if keys.is_empty() => Err(JwksError::NothingUsable { skipped }),
            _ => Ok(Self { keys, ignored, skipped }),
        }
    }
}

struct Entry<'a> {
    object: &'a Object<'a>,
    number: usize,
}

impl<'a> Entry<'a> {
    /// Reads the key; `None` if the key is skipped (see [`Jwks::skipped`]).
    fn key(&self, allowed: &[Algorithm]) -> Result<Option<Key>, JwksError> {
        let kind = self.text("kty")?.ok_or(JwksError::Member { number: self.number, name: "kty" })?;
        let curve = self.text("crv")?;
        let algorithm = match (kind, curve) {
            ("EC", Some("P-256")) => Algorithm::Es256,
            ("OKP", Some("Ed25519")) => Algorithm::EdDsa,
            ("RSA", _) => Algorithm::Rs256,
            ("oct", _) => Algorithm::Hs256,
            _ => return Ok(None),
        };
        // A private key is an error whatever its purpose.
        if algorithm != Algorithm::Hs256 && self.object.find("d").is_some() {
            return Err(self.wrong(KeyError::PrivateKey));
        }
        let other_algorithm = self.text("alg")?.is_some_and(|name| name != algorithm.name());
        let other_use = self.text("use")?.is_some_and(|name| name != "sig");
        if other_algorithm || other_use || !self.may_verify()? || !allowed.contains(&algorithm) {
            return Ok(None);
        }
        let key = match algorithm {
            Algorithm::EdDsa => self.ed25519(),
            Algorithm::Es256 => self.p256(),
            Algorithm::Hs256 => Key::hmac(&self.bytes("k")?).map_err(|error| self.wrong(error)),
            Algorithm::Rs256 => self.rsa(),
        }?;
        Ok(Some(match self.text("kid")? {
            Some(id) => key.with_id(id),
            None => key,
        }))
    }

    fn may_verify(&self) -> Result<bool, JwksError> {
        self.object.find("key_ops").map_or(Ok(true), |operations| {
            operations
                .names_any(|name| name == "verify")
                .ok_or(JwksError::Member { number: self.number, name: "key_ops" })
        })
    }

    fn ed25519(&self) -> Result<Key, JwksError> {
        let key = self.bytes("x")?;
        if key.len() != 32 {
            return Err(self.wrong(KeyError::Malformed));
        }
        Key::public(Algorithm::EdDsa, PublicKey::Ed25519(&key)).map_err(|error| self.wrong(error))
    }

    fn p256(&self) -> Result<Key, JwksError> {
        let (x, y) = (self.bytes("x")?, self.bytes("y")?);
        if x.len() != 32 || y.len() != 32 {
            return Err(self.wrong(KeyError::Malformed));
        }
        let point = [&[4], &*x, &*y].concat();
        Key::public(Algorithm::Es256, PublicKey::P256(&point)).map_err(|error| self.wrong(error))
    }

    fn rsa(&self) -> Result<Key, JwksError> {
        let (modulus, exponent) = (self.bytes("n")?, self.bytes("e")?);
        // Leading zeros are forbidden (RFC 7518 6.3.1), though some issuers write one.
        let modulus = modulus.strip_prefix(&[0]).unwrap_or(&modulus);
        check_rsa(modulus, &exponent).map_err(|error| self.wrong(error))?;
        Ok(Key::new(Algorithm::Rs256, Verifier::rsa_components(modulus, &exponent)))
    }

    fn text(&self, name: &'static str) -> Result<Option<&'a str>, JwksError> {
        self.object.text(name).map_err(|_| JwksError::Member { number: self.number, name })
    }

    fn bytes(&self, name: &'static str) -> Result<Vec<u8>, JwksError> {
        let member = JwksError::Member { number: self.number, name };
        let text = self.text(name)?.ok_or(member)?;
        token::decode(text.as_bytes()).map_err(|_| member)
    }

    const fn wrong(&self, error: KeyError) -> JwksError {
        JwksError::Key { number: self.number, error }
    }
}

impl fmt::Display for JwksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { number, .. } => write!(f, "key {number} of the set cannot be used"),
            Self::Member { number, name } => {
                write!(f, "`{name}` of key {number} is missing or of the wrong type")
            }
            Self::NotKeySet => f.write_str(
                "this is not a key set: an object with a list of objects called `keys` and unique names",
            ),
            Self::NothingUsable { skipped } => {
                write!(f, "the set has no key for the allowed algorithms; keys for other purposes: {skipped}")
            }
            Self::TooLong => write!(f, "the key set is longer than {JWKS_LEN_MAX} bytes"),
            Self::TooManyAlike { number } => write!(
                f,
                "key {number} of the set follows {KEYS_TRIED_MAX} keys for the same algorithm with the same `kid` or none"
            ),
        }
    }
}

impl std::error::Error for JwksError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Key { error, .. } => Some(error),
            _ => None,
        }
    }
}
