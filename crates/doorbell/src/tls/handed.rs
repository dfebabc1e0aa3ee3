//! Handshakes of connections that were handed over with their ClientHello: the new owner performs
//! the handshake, with the settings of an acceptor.

use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};

use super::info::info_of;
use super::{Outcome, Permit, TlsInfo};

/// A handshake in progress, after [`Acceptor::begin_handed`](super::Acceptor::begin_handed).
///
/// Dropping the value without a recorded result counts as an abandoned handshake.
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

    /// Returns the settings for the handshake, with the protocols of
    /// [`TlsConfig::alpn_handed`](super::TlsConfig::alpn_handed) only.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// Records a completed handshake.
    ///
    /// `unix_secs` is the current time. Returns `None` if the session was resumed but its client
    /// certificate is no longer accepted, because the certificate or a revocation list has expired.
    /// The caller then closes the connection.
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

    /// Records a failed handshake.
    pub fn failed(self, error: &rustls::Error) {
        self.permit.end(Outcome::of(error));
    }

    /// Records a refusal by the gate.
    pub(super) fn refused(self) {
        self.permit.end(Outcome::GateRefused);
    }

    /// Records that the handshake took longer than
    /// [`TlsLimits::handshake_timeout`](super::TlsLimits::handshake_timeout).
    pub fn timed_out(self) {
        self.permit.end(Outcome::TimedOut);
    }
}
