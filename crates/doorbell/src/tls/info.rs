//! Collects the results of a handshake for the requests of its connection.

use rustls::{CommonState, HandshakeKind, ProtocolVersion};

use super::certificate::ClientNames;
use super::{Acceptor, TlsInfo, TlsVersion};

/// Returns the results of a handshake, or `None` if the session was resumed and its client
/// certificate is no longer accepted.
pub(crate) fn info_of(
    acceptor: &Acceptor,
    session: &CommonState,
    server_name: Option<String>,
    unix_secs: i64,
) -> Option<TlsInfo> {
    let resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
    let chain = session.peer_certificates().unwrap_or_default();
    if resumed && !acceptor.still_trusts(chain, unix_secs) {
        return None;
    }
    let certificate = chain.first();
    let ClientNames { for_logs, all } = certificate.map(ClientNames::read).unwrap_or_default();
    let alpn = session.alpn_protocol().and_then(|alpn| core::str::from_utf8(alpn).ok());
    Some(TlsInfo {
        server_name,
        alpn: alpn.map(str::to_owned),
        // A certificate of a completed handshake is valid, because an invalid one ends the
        // handshake.
        client_verified: certificate.is_some(),
        client_name: for_logs,
        client_names: all,
        version: match session.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => TlsVersion::Tls12,
            _ => TlsVersion::Tls13,
        },
        resumed,
    })
}
