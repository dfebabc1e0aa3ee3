//! What a TLS listener presents and demands: certificates by name, client certificates, versions, resumption; exchanged while running.
//!
//! Does not know about: connections, records, sockets (`protocol::tls` speaks; this configures).
//!
//! An [`Acceptor`] holds a [`TlsConfig`]. [`Acceptor::replace`] swaps it for the next handshakes; connections keep what they
//! began with. What cannot work is refused before anything is swapped, with an error that names the file and a fix.
//!
//! Versions and cipher suites are those of rustls with aws-lc-rs: TLS 1.2 (ECDHE with AES-GCM or ChaCha20-Poly1305) and 1.3. There
//! is no renegotiation, no compression and no early data (0-RTT): a replayed request would be answered again.

mod acceptor;
mod certificate;
mod client_auth;
mod config;
mod error;
mod files;
mod handed;
mod handshakes;
mod info;
mod pair;
mod resolver;
mod shares;

pub use acceptor::{Acceptor, CertificateInfo};
pub use client_auth::{ClientAuth, ClientCa};
pub use config::{TlsConfig, UnknownName};
pub use doorbell_http::{TlsInfo, TlsVersion};
pub use error::{TlsError, TlsWarning};
pub use files::{CertFiles, read_client_ca};
pub use handed::HandedHandshake;
pub use handshakes::{HandshakeGate, TlsLimits, TlsStats};
pub use pair::CertPair;

pub(crate) use handshakes::{Admission, Outcome, Permit};
pub(crate) use info::info_of;
pub(crate) use resolver::take_asked_name;
pub(crate) use shares::{PlainBytes, Shares};
