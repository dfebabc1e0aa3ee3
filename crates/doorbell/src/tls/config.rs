//! Settings of a listener's handshakes: certificates, client authentication, versions, protocols.

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

/// Number of stored sessions, for TLS 1.2 clients without ticket support.
const SESSIONS_MAX: usize = 1024;

/// Number of tickets after a TLS 1.3 handshake. A prober opens one connection after another, so one
/// ticket is enough.
const TICKETS: usize = 1;

/// Treatment of a client if no certificate has the requested name.
///
/// A client that requests no name is treated as with [`Self::Default`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnknownName {
    /// The first pair is presented, or a pair with the same names that the client can verify.
    #[default]
    Default,
    /// The client is refused with an alert.
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

/// Storage for session resumption: tickets at the client, or a bounded table at the server.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    ticketer: Arc<dyn ProducesTickets>,
    storage: Arc<dyn StoresServerSessions>,
}

impl TlsConfig {
    /// Creates a configuration with one certificate for all names.
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

    /// Adds a certificate, for clients that request one of its names. Of several certificates with
    /// the same name, the first one that the client can verify is presented.
    pub fn pair(mut self, pair: CertPair) -> Self {
        self.pairs.push(pair);
        self
    }

    /// Sets the supported protocols (RFC 7301), in order of preference. Default `http/1.1`, then
    /// `http/1.0`. A client that offers only other protocols is refused. A client that offers no
    /// protocol is accepted.
    pub fn alpn<N: Into<String>>(mut self, protocols: impl IntoIterator<Item = N>) -> Self {
        self.alpn = protocols.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the protocols for clients that are handed over before their handshake
    /// ([`Tls::hand_over_if`]). The new owner begins the handshake with [`Acceptor::begin_handed`].
    /// Default none.
    ///
    /// [`Acceptor::begin_handed`]: super::Acceptor::begin_handed
    /// [`Tls::hand_over_if`]: crate::protocol::Tls::hand_over_if
    pub fn alpn_handed<N: Into<String>>(mut self, protocols: impl IntoIterator<Item = N>) -> Self {
        self.alpn_handed = protocols.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the minimum TLS version. Default 1.2.
    pub const fn min_version(mut self, version: TlsVersion) -> Self {
        self.min_version = version;
        self
    }

    /// Sets the requirement for client certificates. Default [`ClientAuth::None`].
    pub fn client_auth(mut self, client_auth: ClientAuth) -> Self {
        self.client_auth = client_auth;
        self
    }

    /// Sets the treatment of clients if no certificate has the requested name. Default
    /// [`UnknownName::Default`].
    pub const fn unknown_name(mut self, unknown_name: UnknownName) -> Self {
        self.unknown_name = unknown_name;
        self
    }

    /// Sets whether clients may resume sessions. Default true: with tickets whose keys change every
    /// six hours, and with a table of 1,024 sessions for TLS 1.2 clients without tickets.
    pub const fn resumption(mut self, on: bool) -> Self {
        self.resumption = on;
        self
    }

    /// Returns the certificate pairs.
    pub fn pairs(&self) -> &[CertPair] {
        &self.pairs
    }

    /// Returns a number that is equal for equal configurations within one process. A configuration
    /// need not be replaced by one with the same number.
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

    /// Returns a number that is equal for two configurations if a session of one may be resumed
    /// under the other. The number covers the settings for client certificates, which are not
    /// verified again when a session is resumed.
    pub(super) fn sessions_fingerprint(&self) -> u64 {
        fingerprint(&[&self.client_auth.fingerprint().to_ne_bytes(), &[u8::from(self.resumption)]])
    }

    /// Returns the protocols for handshakes after a hand-over.
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

    /// Returns the verifier of clients' certificates, if they are requested.
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

/// Returns the provider. Its first cipher suites are those with AES-128 and SHA-256, and the
/// client's order is ignored. Much of a TLS 1.3 handshake is hashing, and many processors have
/// instructions for SHA-256 but not for SHA-384.
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

/// A ticket producer that disables tickets.
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
