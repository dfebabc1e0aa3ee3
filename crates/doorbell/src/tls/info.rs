//! What a finished handshake told, in the form that requests carry.
//!
//! Does not know about: who did the handshake.

use rustls::{CommonState, HandshakeKind, ProtocolVersion};

use super::certificate::client_name;
use super::{TlsInfo, TlsVersion};

/// `None`: the session was resumed, and the client's certificate has expired since it was made.
pub(crate) fn info_of(session: &CommonState, server_name: Option<String>, unix_secs: i64) -> Option<TlsInfo> {
    let resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
    let certificate = session.peer_certificates().and_then(<[_]>::first);
    let (client_name, not_after) = certificate.map_or((None, i64::MAX), client_name);
    if resumed && not_after < unix_secs {
        return None;
    }
    let alpn = session.alpn_protocol().and_then(|alpn| core::str::from_utf8(alpn).ok());
    Some(TlsInfo {
        server_name,
        alpn: alpn.map(str::to_owned),
        // One that does not verify ends the handshake.
        client_verified: certificate.is_some(),
        client_name,
        version: match session.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => TlsVersion::Tls12,
            _ => TlsVersion::Tls13,
        },
        resumed,
    })
}
