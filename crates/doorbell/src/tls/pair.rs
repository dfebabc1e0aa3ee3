//! A certificate chain and its private key, checked to match.
//!
//! Does not know about: files (see [`super::CertFiles`]), clients.

use core::fmt;
use core::hash::Hasher;
use std::hash::DefaultHasher;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};

use super::certificate::Facts;
use super::{TlsError, TlsWarning};

/// A certificate chain and its private key, checked to match. Cheap to clone.
#[derive(Clone)]
pub struct CertPair {
    pub(super) certified: Arc<CertifiedKey>,
    pub(super) names: Vec<String>,
    pub(super) origin: String,
    pub(super) not_before: i64,
    pub(super) not_after: i64,
    /// End of validity of each other certificate of the chain.
    pub(super) issuers_end: Vec<i64>,
    pub(super) fingerprint: u64,
    /// The key's file and its permission bits, if known.
    pub(super) key_mode: Option<(String, u32)>,
}

impl CertPair {
    /// Reads a chain, the server's certificate first, and its key, both PEM. The host names are
    /// read from the certificate.
    ///
    /// # Errors
    /// Certificate and key do not match, or cannot be used.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        Self::from_named_pem(certificates, "the certificate", key, "the key")
    }

    /// Reads a chain and its key, with names for error messages.
    ///
    /// # Errors
    /// As [`CertPair::from_pem`].
    pub fn from_named_pem(
        certificates: &[u8],
        certificates_origin: &str,
        key: &[u8],
        key_origin: &str,
    ) -> Result<Self, TlsError> {
        let fingerprint = fingerprint(&[certificates, key]);
        let chain = certificates_of(certificates, certificates_origin)?;
        let key = key_of(key, key_origin)?;
        let facts = facts_of(&chain, certificates_origin)?;
        let certified = certify(chain, key, certificates_origin, key_origin)?;
        let mismatched = facts.windows(2).position(|pair| !pair[0].is_issued_by(&pair[1]));
        if let Some(before) = mismatched {
            let origin = certificates_origin.to_owned();
            return Err(TlsError::ChainOrder { origin, position: before + 2 });
        }
        let issuers_end = facts.iter().skip(1).map(|facts| facts.not_after).collect();
        let Some(Facts { names, not_before, not_after, .. }) = facts.into_iter().next() else {
            return Err(TlsError::NoCertificate { origin: certificates_origin.to_owned(), hint: "" });
        };
        Ok(Self {
            certified: Arc::new(certified),
            names,
            origin: certificates_origin.to_owned(),
            not_before,
            not_after,
            issuers_end,
            fingerprint,
            key_mode: None,
        })
    }

    /// Replaces the host names of the certificate by exact names, or by `*.` and a domain, which
    /// matches all names one label below the domain.
    #[must_use]
    pub fn names<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.names = names.into_iter().map(|name| name.into().to_ascii_lowercase()).collect();
        self
    }

    /// Returns the end of the certificate's validity, in seconds since 1970.
    pub const fn not_after(&self) -> i64 {
        self.not_after
    }

    /// Returns a hash of the PEM input, for comparisons within one process.
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the warnings that apply at a time in seconds since 1970.
    pub fn warnings(&self, unix_secs: i64) -> Vec<TlsWarning> {
        let mut warnings = Vec::new();
        let origin = || self.origin.clone();
        if self.not_after < unix_secs {
            warnings
                .push(TlsWarning::Expired { origin: origin(), ago_secs: unix_secs.abs_diff(self.not_after) });
        }
        for (index, end) in self.issuers_end.iter().enumerate().filter(|(_, end)| **end < unix_secs) {
            let (position, ago_secs) = (index + 2, unix_secs.abs_diff(*end));
            warnings.push(TlsWarning::ChainExpired { origin: origin(), position, ago_secs });
        }
        if self.not_before > unix_secs {
            let in_secs = self.not_before.abs_diff(unix_secs);
            warnings.push(TlsWarning::NotYetValid { origin: origin(), in_secs });
        }
        if let Some((origin, mode)) = self.key_mode.clone().filter(|(_, mode)| mode & 0o007 != 0) {
            warnings.push(TlsWarning::KeyReadableByOthers { origin, mode });
        }
        warnings
    }
}

impl fmt::Debug for CertPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertPair")
            .field("origin", &self.origin)
            .field("names", &self.names)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

/// Hashes `parts` to detect changes; not cryptographically secure.
pub(super) fn fingerprint(parts: &[&[u8]]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for part in parts {
        hasher.write_usize(part.len());
        hasher.write(part);
    }
    hasher.finish()
}

/// Returns the certificates in a PEM file; at least one.
pub(super) fn certificates_of(pem: &[u8], origin: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found =
        found.map_err(|error| TlsError::BadPem { origin: origin.to_owned(), why: error.to_string() })?;
    if found.is_empty() {
        let hint = if contains(pem, b"PRIVATE KEY") {
            ", but a private key; are certificate and key swapped?"
        } else if pem.starts_with(&[0x30]) {
            ", it looks like DER; convert it with `openssl x509 -inform der`"
        } else {
            "; PEM with `-----BEGIN CERTIFICATE-----` is needed"
        };
        return Err(TlsError::NoCertificate { origin: origin.to_owned(), hint });
    }
    Ok(found)
}

fn key_of(pem: &[u8], origin: &str) -> Result<PrivateKeyDer<'static>, TlsError> {
    let origin = || origin.to_owned();
    if contains(pem, b"ENCRYPTED PRIVATE KEY") || contains(pem, b"Proc-Type: 4,ENCRYPTED") {
        return Err(TlsError::EncryptedKey { origin: origin() });
    }
    match PrivateKeyDer::pem_slice_iter(pem).next() {
        Some(Ok(key)) => Ok(key),
        Some(Err(error)) => Err(TlsError::BadPem { origin: origin(), why: error.to_string() }),
        None => {
            let hint = if contains(pem, b"CERTIFICATE") {
                ", but a certificate; are certificate and key swapped?"
            } else {
                "; PEM with `-----BEGIN PRIVATE KEY-----` is needed"
            };
            Err(TlsError::NoKey { origin: origin(), hint })
        }
    }
}

fn facts_of(chain: &[CertificateDer<'_>], origin: &str) -> Result<Vec<Facts>, TlsError> {
    let read = |(index, certificate)| {
        Facts::read(certificate).map_err(|why| TlsError::BadCertificate {
            origin: origin.to_owned(),
            position: index + 1,
            why,
        })
    };
    chain.iter().enumerate().map(read).collect()
}

fn certify(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    chain_origin: &str,
    key_origin: &str,
) -> Result<CertifiedKey, TlsError> {
    let provider: CryptoProvider = rustls::crypto::aws_lc_rs::default_provider();
    let signer = provider
        .key_provider
        .load_private_key(key)
        .map_err(|error| TlsError::BadKey { origin: key_origin.to_owned(), why: error.to_string() })?;
    let certified = CertifiedKey::new(chain, signer);
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(mismatch(&certified, chain_origin, key_origin))
        }
        Err(error) => Err(TlsError::BadCertificate {
            origin: chain_origin.to_owned(),
            position: 1,
            why: error.to_string(),
        }),
    }
}

/// Creates the error for a key that matches no certificate of the chain, or only a later one.
fn mismatch(certified: &CertifiedKey, chain_origin: &str, key_origin: &str) -> TlsError {
    let fits = |certificate: &CertificateDer<'static>| {
        CertifiedKey::new(vec![certificate.clone()], Arc::clone(&certified.key)).keys_match().is_ok()
    };
    match certified.cert.iter().position(fits) {
        Some(index) => {
            TlsError::KeyOfLaterCertificate { origin: chain_origin.to_owned(), position: index + 1 }
        }
        None => TlsError::KeyMismatch { origin: key_origin.to_owned(), certificate: chain_origin.to_owned() },
    }
}

fn contains(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|window| window == what)
}
