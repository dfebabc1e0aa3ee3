//! TLS settings of listeners, replaceable at run time: certificates, client authentication,
//! versions, resumption.
//!
//! Does not know about: connections, records, sockets (`protocol::tls` implements the protocol;
//! this module configures it).
//!
//! An [`Acceptor`] holds a [`TlsConfig`]. [`Acceptor::replace`] replaces it for new handshakes;
//! existing connections keep the old one. Invalid settings are refused with an error that names the
//! file and a remedy, and the old settings stay in use.
//!
//! Versions and cipher suites are those of rustls with aws-lc-rs: TLS 1.2 (ECDHE with AES-GCM or
//! ChaCha20-Poly1305) and 1.3. Renegotiation, compression and early data (0-RTT) are not supported:
//! a server cannot distinguish replayed early data from a new request. Acceptors do not use the
//! process default of rustls. A program that uses rustls itself, with another provider, calls
//! `CryptoProvider::install_default` first: with two providers, rustls has no default.

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
