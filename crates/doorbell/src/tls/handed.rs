//! A handshake that somebody else does with what an acceptor presents: for connections that were handed over with their ClientHello.
//!
//! Does not know about: how it is done, connections.

use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};

use super::info::info_of;
use super::{Outcome, Permit, TlsInfo};

/// A place among an acceptor's handshakes in progress, from [`Acceptor::begin_handed`](super::Acceptor::begin_handed) until it is over.
/// One that is dropped counts as left by the peer.
#[derive(Debug)]
pub struct HandedHandshake {
    permit: Permit,
    config: Arc<ServerConfig>,
}

impl HandedHandshake {
    pub(super) const fn new(mut permit: Permit, config: Arc<ServerConfig>) -> Self {
        permit.begin();
        Self { permit, config }
    }

    /// What is presented and demanded, with the protocols of [`TlsConfig::alpn_handed`](super::TlsConfig::alpn_handed) and no others.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// It is done. `unix_secs` is now; `None`: the session was resumed, but its client's certificate would be
    /// refused by now (it or a revocation list has expired); the connection is to be closed.
    pub fn done(self, session: &ServerConnection, unix_secs: i64) -> Option<TlsInfo> {
        let info = info_of(
            self.permit.acceptor(),
            session,
            session.server_name().map(str::to_ascii_lowercase),
            unix_secs,
        );
        self.permit.end(match &info {
            Some(info) => Outcome::Done { version: info.version, resumed: info.resumed },
            None => Outcome::ClientRefused,
        });
        info
    }

    /// It failed.
    pub fn failed(self, error: &rustls::Error) {
        self.permit.end(Outcome::of(error));
    }

    /// The gate says no.
    pub(super) fn refused(self) {
        self.permit.end(Outcome::GateRefused);
    }

    /// It took longer than [`TlsLimits::handshake_timeout`](super::TlsLimits::handshake_timeout).
    pub fn timed_out(self) {
        self.permit.end(Outcome::TimedOut);
    }
}
