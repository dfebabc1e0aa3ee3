//! The acceptor: the current configuration, which is replaced as a whole, and the state that its
//! connections share.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, PoisonError, RwLock};

use doorbell_http::Peer;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;

use super::config::Sessions;
use super::handshakes::Handshakes;
use super::{
    Admission, HandedHandshake, HandshakeGate, Permit, PlainBytes, Shares, TlsConfig, TlsError, TlsLimits,
    TlsStats,
};
use crate::time::Time;

/// TLS settings and handshake state of listeners. Cheap to clone; clones share one state.
#[derive(Clone)]
pub struct Acceptor(Arc<AcceptorInner>);

struct AcceptorInner {
    current: RwLock<Current>,
    handshakes: Handshakes,
}

struct Current {
    rustls: Arc<ServerConfig>,
    /// The configuration for connections that are handed over; `None` if no protocols are
    /// configured for them.
    handed: Option<Arc<ServerConfig>>,
    /// Verifies clients' certificates, if they are requested.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    fingerprint: u64,
    sessions: Sessions,
    sessions_fingerprint: u64,
    certificates: Arc<[CertificateInfo]>,
}

/// A certificate that an [`Acceptor`] presents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateInfo {
    /// The certificate's file, or the name given to its bytes.
    pub origin: String,
    /// The host names for which the certificate is presented.
    pub names: Vec<String>,
    /// The end of the certificate's validity, in seconds since 1970.
    pub not_after: i64,
}

impl Acceptor {
    /// Creates an acceptor with default limits.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn new(config: &TlsConfig) -> Result<Self, TlsError> {
        Self::with_limits(config, TlsLimits::default(), None)
    }

    /// Creates an acceptor with these limits and an optional gate by address.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn with_limits(
        config: &TlsConfig,
        limits: TlsLimits,
        gate: Option<Box<dyn HandshakeGate>>,
    ) -> Result<Self, TlsError> {
        let current = Current::new(config, config.sessions()?)?;
        Ok(Self(Arc::new(AcceptorInner {
            current: RwLock::new(current),
            handshakes: Handshakes::new(limits, gate),
        })))
    }

    /// Replaces the configuration for new handshakes; existing connections keep the old one.
    ///
    /// Returns false if the configuration is unchanged; then nothing is replaced. Sessions can be
    /// resumed across a replacement unless client authentication or resumption changes.
    ///
    /// # Errors
    /// The configuration is invalid; the old one stays in use.
    pub fn replace(&self, config: &TlsConfig) -> Result<bool, TlsError> {
        let (fingerprint, sessions) = {
            let current = self.0.current.read().unwrap_or_else(PoisonError::into_inner);
            let keeps = current.sessions_fingerprint == config.sessions_fingerprint();
            (current.fingerprint, keeps.then(|| current.sessions.clone()))
        };
        if fingerprint == config.fingerprint() {
            return Ok(false);
        }
        let sessions = sessions.map_or_else(|| config.sessions(), Ok)?;
        let next = Current::new(config, sessions)?;
        *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(true)
    }

    /// Returns the certificates currently presented, for metrics and warnings.
    pub fn certificates(&self) -> Arc<[CertificateInfo]> {
        Arc::clone(&self.0.current.read().unwrap_or_else(PoisonError::into_inner).certificates)
    }

    /// Returns the counters.
    pub fn stats(&self) -> TlsStats {
        self.0.handshakes.stats()
    }

    /// Returns the limits.
    pub fn limits(&self) -> &TlsLimits {
        &self.0.handshakes.limits
    }

    /// Returns the configuration for a new handshake.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.current.read().unwrap_or_else(PoisonError::into_inner).rustls)
    }

    /// Whether a client's certificate, followed by its issuers, would be accepted now. The TLS
    /// library does not verify the certificate again when a session is resumed, but the certificate
    /// or a revocation list may have expired since. True for an empty chain, because a session
    /// without a certificate exists only if none is required.
    pub(super) fn still_trusts(&self, chain: &[CertificateDer<'_>], unix_secs: i64) -> bool {
        let Some((certificate, issuers)) = chain.split_first() else { return true };
        let verifier = self.0.current.read().unwrap_or_else(PoisonError::into_inner).verifier.clone();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(unix_secs).unwrap_or(0)));
        verifier.is_none_or(|verifier| verifier.verify_client_cert(certificate, issuers, now).is_ok())
    }

    /// Begins the handshake of a connection that was handed over with its ClientHello.
    ///
    /// Returns `None` if the gate refuses the client, too many handshakes are in progress, or
    /// [`TlsConfig::alpn_handed`] is empty; the caller then closes the connection.
    pub fn begin_handed(&self, client: Peer, now: Time) -> Option<HandedHandshake> {
        let config = self.0.current.read().unwrap_or_else(PoisonError::into_inner).handed.clone()?;
        let Admission::Admitted(permit) = self.admit() else { return None };
        let handshake = HandedHandshake::new(permit, config);
        if self.gate_admits(client, now) {
            return Some(handshake);
        }
        handshake.refused();
        None
    }

    /// Requests a permit for a handshake.
    pub(crate) fn admit(&self) -> Admission {
        Permit::acquire(self)
    }

    /// Replaces the counts of this acceptor by those that the acceptors of `server` share.
    pub(crate) fn join(&self, server: &Shares) {
        self.0.handshakes.join(server);
    }

    pub(crate) fn has_gate(&self) -> bool {
        self.0.handshakes.gate.is_some()
    }

    /// Whether the gate admits a client; true without a gate. A gate decides by address: clients of
    /// a Unix socket are admitted, and clients with an unknown address are refused.
    pub(crate) fn gate_admits(&self, client: Peer, now: Time) -> bool {
        match (&self.0.handshakes.gate, client) {
            (Some(gate), Peer::Addr(client)) => gate.admits(client, now),
            (Some(_), Peer::Unknown) => false,
            (Some(_), Peer::Unix) | (None, _) => true,
        }
    }

    /// Returns the total size of plaintext buffers, with the maximum of this acceptor.
    pub(crate) fn plain_bytes(&self) -> PlainBytes {
        self.0.handshakes.plain_bytes()
    }

    pub(super) fn handshakes(&self) -> &Handshakes {
        &self.0.handshakes
    }
}

impl Current {
    fn new(config: &TlsConfig, sessions: Sessions) -> Result<Self, TlsError> {
        let certificates = config.pairs().iter().map(|pair| CertificateInfo {
            origin: pair.origin.clone(),
            names: pair.names.clone(),
            not_after: pair.not_after,
        });
        let verifier = config.verifier()?;
        let rustls = config.build(&sessions, verifier.clone())?;
        let alpn_handed = config.handed_protocols();
        let handed = (!alpn_handed.is_empty()).then(|| {
            let mut handed = rustls.clone();
            handed.alpn_protocols = alpn_handed;
            Arc::new(handed)
        });
        Ok(Self {
            rustls: Arc::new(rustls),
            handed,
            verifier,
            fingerprint: config.fingerprint(),
            sessions,
            sessions_fingerprint: config.sessions_fingerprint(),
            certificates: certificates.collect(),
        })
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor")
            .field("certificates", &self.certificates())
            .field("handshakes", &self.0.handshakes)
            .finish()
    }
}
