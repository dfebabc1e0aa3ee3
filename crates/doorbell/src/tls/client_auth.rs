//! Mutual TLS: whether clients present a certificate, and which CA must have signed it.
//!
//! If there are such routes, HTTP enforces the requirement per route, and the listener uses
//! [`ClientAuth::Request`].

use core::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use super::certificate::crl_end;
use super::pair::{certificates_of, fingerprint};
use super::{TlsError, TlsWarning};

/// The requirement for client certificates.
#[derive(Clone, Debug, Default)]
pub enum ClientAuth {
    /// No certificate is requested.
    #[default]
    None,
    /// A certificate is requested but optional. A client without a certificate is anonymous; an
    /// invalid certificate fails the handshake.
    Request(ClientCa),
    /// A certificate is required: without a valid certificate the handshake fails.
    Require(ClientCa),
}

/// The CA of clients' certificates, and revocation lists.
#[derive(Clone)]
pub struct ClientCa {
    roots: Arc<RootCertStore>,
    crls: Vec<CertificateRevocationListDer<'static>>,
    crl_origin: String,
    /// The expiry time (`nextUpdate`) of each revocation list that has one, in seconds since 1970,
    /// and the file of the list.
    crls_end: Vec<(i64, String)>,
    expired_crls_hold: bool,
    fingerprint: u64,
}

impl ClientCa {
    /// Reads the CA certificates from a PEM bundle.
    ///
    /// # Errors
    /// The bundle is empty, or a certificate cannot be used.
    pub fn from_pem(bundle: &[u8]) -> Result<Self, TlsError> {
        Self::from_named_pem(bundle, "the CA bundle")
    }

    /// Reads a PEM bundle, with a name for error messages.
    ///
    /// # Errors
    /// As [`ClientCa::from_pem`].
    pub fn from_named_pem(bundle: &[u8], origin: &str) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for (index, certificate) in certificates_of(bundle, origin)?.into_iter().enumerate() {
            roots.add(certificate).map_err(|error| TlsError::BadCertificate {
                origin: origin.to_owned(),
                position: index + 1,
                why: error.to_string(),
            })?;
        }
        Ok(Self {
            roots: Arc::new(roots),
            crls: Vec::new(),
            crl_origin: String::new(),
            crls_end: Vec::new(),
            expired_crls_hold: false,
            fingerprint: fingerprint(&[bundle]),
        })
    }

    /// Adds the revocation lists in a file, PEM or DER. With at least one list, every certificate
    /// of a client's chain must be covered by a list of its issuer.
    ///
    /// # Errors
    /// The file contains no list, or a list that cannot be read.
    pub fn crl(self, bytes: &[u8]) -> Result<Self, TlsError> {
        self.named_crl(bytes, "the revocation list")
    }

    /// Adds revocation lists, with a name for error messages.
    ///
    /// # Errors
    /// As [`ClientCa::crl`].
    pub fn named_crl(mut self, bytes: &[u8], origin: &str) -> Result<Self, TlsError> {
        let bad = |why: String| TlsError::BadCrl { origin: origin.to_owned(), why };
        let before = self.crls.len();
        if bytes.starts_with(&[0x30]) {
            self.crls.push(CertificateRevocationListDer::from(bytes.to_vec()));
        } else {
            for crl in CertificateRevocationListDer::pem_slice_iter(bytes) {
                self.crls.push(crl.map_err(|error| bad(error.to_string()))?);
            }
        }
        if self.crls.len() == before {
            return Err(bad("the file contains none".to_owned()));
        }
        let ends = self.crls[before..].iter().filter_map(|crl| crl_end(crl));
        self.crls_end.extend(ends.map(|end| (end, origin.to_owned())));
        origin.clone_into(&mut self.crl_origin);
        self.fingerprint = fingerprint(&[&self.fingerprint.to_ne_bytes(), bytes]);
        self.verifier(&Arc::new(rustls::crypto::aws_lc_rs::default_provider()), false)?;
        Ok(self)
    }

    /// Sets whether an expired revocation list (past its `nextUpdate`) is still used. Default
    /// false: clients are refused until the list is replaced.
    #[must_use]
    pub const fn expired_crls_hold(mut self, on: bool) -> Self {
        self.expired_crls_hold = on;
        self
    }

    /// Returns the warnings that apply at a time in seconds since 1970.
    pub fn warnings(&self, unix_secs: i64) -> Vec<TlsWarning> {
        let past = self.crls_end.iter().filter(|(end, _)| *end < unix_secs);
        let warning = |(end, origin): &(i64, String)| TlsWarning::CrlExpired {
            origin: origin.clone(),
            ago_secs: unix_secs.abs_diff(*end),
            holds: self.expired_crls_hold,
        };
        past.map(warning).collect()
    }

    /// Returns the earliest expiry (`nextUpdate`) of the revocation lists that have not expired at
    /// the given time. Both times are in seconds since 1970.
    pub fn next_crl_end(&self, unix_secs: i64) -> Option<i64> {
        self.crls_end.iter().map(|(end, _)| *end).filter(|end| *end >= unix_secs).min()
    }

    fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
        optional: bool,
    ) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let mut builder =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&self.roots), Arc::clone(provider))
                .with_crls(self.crls.iter().cloned());
        if !self.expired_crls_hold {
            builder = builder.enforce_revocation_expiration();
        }
        if optional {
            builder = builder.allow_unauthenticated();
        }
        builder
            .build()
            .map_err(|error| TlsError::BadCrl { origin: self.crl_origin.clone(), why: error.to_string() })
    }
}

impl ClientAuth {
    /// Returns the verifier, if certificates are requested.
    pub(super) fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
        match self {
            Self::None => Ok(None),
            Self::Request(ca) => ca.verifier(provider, true).map(Some),
            Self::Require(ca) => ca.verifier(provider, false).map(Some),
        }
    }

    /// Returns a number that is equal for equal settings. A session may be resumed under other
    /// settings only if the numbers are equal.
    pub(super) fn fingerprint(&self) -> u64 {
        let (kind, ca) = match self {
            Self::None => return 0,
            Self::Request(ca) => (1, ca),
            Self::Require(ca) => (2, ca),
        };
        fingerprint(&[&[kind, u8::from(ca.expired_crls_hold)], &ca.fingerprint.to_ne_bytes()])
    }
}

impl fmt::Debug for ClientCa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCa")
            .field("roots", &self.roots.len())
            .field("crls", &self.crls.len())
            .field("expired_crls_hold", &self.expired_crls_hold)
            .finish_non_exhaustive()
    }
}
