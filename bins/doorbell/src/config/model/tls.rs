//! `[tls.NAME]`: what a TLS listener presents and demands.
//!
//! Does not know about: listeners, what is in the files it names.

use doorbell_config::Rate;
use std::path::PathBuf;
use std::time::Duration;

/// `[tls.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Named by listeners.
    pub name: String,
    /// At least one; the first is for clients that ask for no name.
    pub certificates: Vec<CertificateFiles>,
    /// Whether listeners stay closed until the certificates can be used, where a start would fail otherwise.
    pub wait_for_certificate: bool,
    /// The oldest version spoken.
    pub min_version: TlsVersion,
    /// Whether clients present a certificate.
    pub client_auth: ClientAuth,
    /// Whether a client may resume a session.
    pub session_resumption: bool,
    /// What a client gets that asks for a name which no certificate has.
    pub unknown_server_name: UnknownServerName,
    /// From accept to the end of the handshake.
    pub handshake_timeout: Duration,
    /// Handshakes that one address may begin with all listeners of this table; `None` is as many as it likes.
    pub handshakes_per_ip: Option<Rate>,
    /// The value of `Strict-Transport-Security` in every reply over TLS that has none of its own.
    pub hsts: Option<String>,
}

/// A certificate chain and its private key, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain, the server's certificate first.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Versions of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2 (RFC 5246)
    V1_2,
    /// 1.3 (RFC 8446)
    V1_3,
}

/// `client_auth = { .. }`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuth {
    /// Whether clients are asked.
    pub mode: ClientAuthMode,
    /// The bundle of those who sign clients' certificates; there unless the mode is `None`.
    pub ca: Option<PathBuf>,
    /// Revocation lists.
    pub crls: Vec<PathBuf>,
    /// Whether a revocation list past its `nextUpdate` is still believed. Otherwise no client with a certificate gets in then, since whom
    /// it would name by now nobody knows (RFC 5280 6.3.3).
    pub expired_crls_hold: bool,
}

/// Whether clients present a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuthMode {
    /// They are not asked.
    None,
    /// They are asked, and get in without one.
    Request,
    /// They are asked, and do not get in without one.
    Require,
}

/// What a client gets that asks for a name which no certificate has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownServerName {
    /// The first certificate.
    Default,
    /// An alert.
    Refuse,
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            name: String::new(),
            certificates: Vec::new(),
            wait_for_certificate: false,
            min_version: TlsVersion::V1_2,
            client_auth: ClientAuth {
                mode: ClientAuthMode::None,
                ca: None,
                crls: Vec::new(),
                expired_crls_hold: false,
            },
            session_resumption: true,
            unknown_server_name: UnknownServerName::Default,
            handshake_timeout: Duration::from_secs(5),
            handshakes_per_ip: Some(Rate { requests: 50, period: Duration::from_secs(1) }),
            hsts: None,
        }
    }
}
