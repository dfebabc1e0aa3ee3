//! Settings of a listener's handshakes: certificates, client authentication, versions, protocols.
//!
//! Does not know about: handshakes in progress, replacement at run time.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    NoServerSessionStorage, ProducesTickets, ServerSessionMemoryCache, StoresServerSessions,
};
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, ServerConfig, SupportedProtocolVersion};

use super::pair::fingerprint;
use super::resolver::ByName;
use super::{CertPair, ClientAuth, TlsError, TlsVersion};

/// Stored sessions, for TLS 1.2 clients without ticket support.
const SESSIONS_MAX: usize = 1024;

/// Tickets after a TLS 1.3 handshake. A prober opens one connection after another, so one is
/// enough.
const TICKETS: usize = 1;

/// What happens if no certificate has the requested name.
///
/// A client that requests no name always gets the first pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UnknownName {
    /// Presents the first pair.
    #[default]
    Default,
    /// Refuses the client with an alert.
    Refuse,
}

/// Settings of a listener's handshakes. The documentation of each method names the default.
#[derive(Clone, Debug)]
#[must_use = "a configuration does nothing until an acceptor has it"]
pub struct TlsConfig {
    pairs: Vec<CertPair>,
    alpn: Vec<String>,
    alpn_handed: Vec<String>,
    min_version: TlsVersion,
    client_auth: ClientAuth,
    unknown_name: UnknownName,
    resumption: bool,
}

/// Storage for session resumption: tickets at the client, or a bounded table here.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    ticketer: Arc<dyn ProducesTickets>,
    storage: Arc<dyn StoresServerSessions>,
}

impl TlsConfig {
    /// A configuration with one certificate for all names.
    pub fn new(pair: CertPair) -> Self {
        Self {
            pairs: vec![pair],
            alpn: ["http/1.1", "http/1.0"].map(str::to_owned).into(),
            alpn_handed: Vec::new(),
            min_version: TlsVersion::Tls12,
            client_auth: ClientAuth::None,
            unknown_name: UnknownName::Default,
            resumption: true,
        }
    }

    /// Adds a certificate, for clients that request one of its names. Of several with the same
    /// name, the first one that the client can verify is presented.
    pub fn pair(mut self, pair: CertPair) -> Self {
        self.pairs.push(pair);
        self
    }

    /// Supported protocols (RFC 7301), in order of preference. Default `http/1.1`, then `http/1.0`.
    /// A client that offers only other protocols is refused; one that offers none is accepted.
    pub fn alpn<N: Into<String>>(mut self, protocols: impl IntoIterator<Item = N>) -> Self {
        self.alpn = protocols.into_iter().map(Into::into).collect();
        self
    }

    /// Protocols for clients that are handed over before their handshake ([`Tls::hand_over_if`]);
    /// the new owner begins it with [`Acceptor::begin_handed`]. Default none.
    ///
    /// [`Acceptor::begin_handed`]: super::Acceptor::begin_handed
    /// [`Tls::hand_over_if`]: crate::protocol::Tls::hand_over_if
    pub fn alpn_handed<N: Into<String>>(mut self, protocols: impl IntoIterator<Item = N>) -> Self {
        self.alpn_handed = protocols.into_iter().map(Into::into).collect();
        self
    }

    /// Minimum TLS version. Default 1.2.
    pub const fn min_version(mut self, version: TlsVersion) -> Self {
        self.min_version = version;
        self
    }

    /// Whether clients present a certificate. Default [`ClientAuth::None`].
    pub fn client_auth(mut self, client_auth: ClientAuth) -> Self {
        self.client_auth = client_auth;
        self
    }

    /// What happens if no certificate has the requested name. Default [`UnknownName::Default`].
    pub const fn unknown_name(mut self, unknown_name: UnknownName) -> Self {
        self.unknown_name = unknown_name;
        self
    }

    /// Whether clients may resume sessions. Default true: tickets under keys that change every six
    /// hours, and a table of 1,024 sessions for TLS 1.2 clients without tickets.
    pub const fn resumption(mut self, on: bool) -> Self {
        self.resumption = on;
        self
    }

    /// The certificate pairs.
    pub fn pairs(&self) -> &[CertPair] {
        &self.pairs
    }

    /// Equal for equal configurations within one process, which need no replacement.
    pub fn fingerprint(&self) -> u64 {
        let mut parts: Vec<Vec<u8>> =
            vec![vec![self.min_version as u8, self.unknown_name as u8, u8::from(self.resumption)]];
        parts.push(self.client_auth.fingerprint().to_ne_bytes().to_vec());
        parts.extend(self.alpn.iter().map(|protocol| protocol.clone().into_bytes()));
        parts.extend(self.alpn_handed.iter().map(|protocol| format!("handed {protocol}").into_bytes()));
        for pair in &self.pairs {
            parts.push(pair.fingerprint.to_ne_bytes().to_vec());
            parts.extend(pair.names.iter().map(|name| name.clone().into_bytes()));
        }
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        fingerprint(&parts)
    }

    /// Settings that two configurations must share so that a session of one can be resumed under
    /// the other: client certificates are not verified again.
    pub(super) fn sessions_fingerprint(&self) -> u64 {
        fingerprint(&[&self.client_auth.fingerprint().to_ne_bytes(), &[u8::from(self.resumption)]])
    }

    /// Protocols for handshakes after a hand-over.
    pub(super) fn handed_protocols(&self) -> Vec<Vec<u8>> {
        self.alpn_handed.iter().map(|protocol| protocol.clone().into_bytes()).collect()
    }

    pub(super) fn sessions(&self) -> Result<Sessions, TlsError> {
        let storage: Arc<dyn StoresServerSessions> = if self.resumption {
            ServerSessionMemoryCache::new(SESSIONS_MAX)
        } else {
            Arc::new(NoServerSessionStorage {})
        };
        let ticketer: Arc<dyn ProducesTickets> = if self.resumption {
            rustls::crypto::aws_lc_rs::Ticketer::new().map_err(refused)?
        } else {
            Arc::new(NoTickets)
        };
        Ok(Sessions { ticketer, storage })
    }

    /// Verifies clients' certificates, if they are requested.
    pub(super) fn verifier(&self) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
        self.client_auth.verifier(&Arc::new(provider()))
    }

    pub(super) fn build(
        &self,
        sessions: &Sessions,
        verifier: Option<Arc<dyn ClientCertVerifier>>,
    ) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(provider());
        let versions: &[&'static SupportedProtocolVersion] = match self.min_version {
            TlsVersion::Tls12 => &[&TLS13, &TLS12],
            TlsVersion::Tls13 => &[&TLS13],
        };
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(refused)?;
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let refuses_unknown = self.unknown_name == UnknownName::Refuse;
        let mut config = builder.with_cert_resolver(Arc::new(ByName::new(&self.pairs, refuses_unknown)));
        config.alpn_protocols = self.alpn.iter().map(|protocol| protocol.clone().into_bytes()).collect();
        config.session_storage = Arc::clone(&sessions.storage);
        config.ticketer = Arc::clone(&sessions.ticketer);
        config.send_tls13_tickets = if self.resumption { TICKETS } else { 0 };
        config.ignore_client_order = true;
        config.max_early_data_size = 0;
        config.send_half_rtt_data = false;
        Ok(config)
    }
}

/// Suites with AES-128 and SHA-256 come first, regardless of the client's order: much of a TLS 1.3
/// handshake is hashing, and processors have instructions for SHA-256 but not for SHA-384.
fn provider() -> CryptoProvider {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| {
        !matches!(
            suite.suite(),
            CipherSuite::TLS13_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        )
    });
    provider
}

fn refused(error: rustls::Error) -> TlsError {
    TlsError::Refused(error.to_string())
}

/// Disables tickets.
#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _plain: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _cipher: &[u8]) -> Option<Vec<u8>> {
        None
    }
}
