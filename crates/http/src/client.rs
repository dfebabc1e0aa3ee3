//! Information about the sender of a request that is not part of the request: address and TLS
//! session.
//!
//! Does not know about: the source of this information. The client in a `Forwarded` field is found
//! by [`crate::forwarded`].

use crate::scheme::Scheme;
use std::net::IpAddr;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    /// An address: that of the socket, or the address in a PROXY protocol header from a trusted
    /// peer.
    Addr(IpAddr),
    /// A Unix socket. The permissions of the socket file determine which processes can connect.
    Unix,
    /// An unknown peer, because the address was not requested ([`crate::Service::wants_client`]) or
    /// is not available. Must not be trusted.
    #[default]
    Unknown,
}

impl Peer {
    /// The address of the peer, if known.
    #[inline]
    pub const fn addr(self) -> Option<IpAddr> {
        match self {
            Self::Addr(addr) => Some(addr),
            Self::Unix | Self::Unknown => None,
        }
    }
}

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client<'a> {
    /// The other end of the client's connection.
    pub peer: Peer,
    /// The TLS session, if there is one.
    pub tls: Option<&'a TlsInfo>,
    /// The scheme of the connection between the client and the first trusted proxy, if that proxy
    /// reported it. See [`crate::forwarded`].
    pub scheme: Option<Scheme>,
}

impl Client<'_> {
    /// An unknown client.
    pub const UNKNOWN: Self = Self { peer: Peer::Unknown, tls: None, scheme: None };

    /// A client at this address, without TLS.
    pub const fn at(addr: IpAddr) -> Self {
        Self { peer: Peer::Addr(addr), tls: None, scheme: None }
    }

    /// The address of the peer, if known.
    #[inline]
    pub const fn addr(&self) -> Option<IpAddr> {
        self.peer.addr()
    }
}

/// The results of a TLS handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsInfo {
    /// The name requested by the client (RFC 6066 3), in lower case.
    pub server_name: Option<String>,
    /// The negotiated protocol (RFC 7301), for instance `http/1.1`.
    pub alpn: Option<String>,
    /// Whether the client presented a certificate that was verified.
    pub client_verified: bool,
    /// The name of the client in logs: the common name in its certificate or, without one, the
    /// first of its other names.
    pub client_name: Option<String>,
    /// The names that identify the client: the certificate's alternative names (DNS, mail, URI, IP
    /// address), or its common name if it has no alternative names (RFC 9525 6.3). Names that are
    /// not printable are omitted.
    pub client_names: Vec<String>,
    /// The TLS version.
    pub version: TlsVersion,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
}

/// The supported versions of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    /// TLS 1.2, RFC 5246.
    Tls12,
    /// TLS 1.3, RFC 8446.
    #[default]
    Tls13,
}

impl TlsVersion {
    /// The number, `1.2` or `1.3`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        }
    }
}
