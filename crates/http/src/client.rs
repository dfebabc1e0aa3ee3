//! Who sent a request, as far as anything beside its bytes tells: address and TLS session.
//!
//! Does not know about: how it was found out. A `Forwarded` field is part of the request: see [`crate::forwarded`].

use crate::scheme::Scheme;
use std::net::IpAddr;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    /// At this address: its own, or the one in a PROXY protocol header from a trusted peer.
    Addr(IpAddr),
    /// On a Unix socket: the permissions of the socket's file decide which processes can connect.
    Unix,
    /// Not asked for ([`crate::Service::wants_client`]), or not available. Never a reason to trust.
    #[default]
    Unknown,
}

impl Peer {
    /// Its address, if it has one that is known.
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
    /// The other end of its connection.
    pub peer: Peer,
    /// The TLS session, if there is one.
    pub tls: Option<&'a TlsInfo>,
    /// How the client reached the first trusted proxy, where that proxy said it. See [`crate::forwarded`].
    pub scheme: Option<Scheme>,
}

impl Client<'_> {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { peer: Peer::Unknown, tls: None, scheme: None };

    /// At this address, without TLS.
    pub const fn at(addr: IpAddr) -> Self {
        Self { peer: Peer::Addr(addr), tls: None, scheme: None }
    }

    /// The address of the peer, if it has one that is known.
    #[inline]
    pub const fn addr(&self) -> Option<IpAddr> {
        self.peer.addr()
    }
}

/// What a finished TLS handshake told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsInfo {
    /// The name the client asked for (RFC 6066 3), in lower case.
    pub server_name: Option<String>,
    /// The protocol both agreed on (RFC 7301), for instance `http/1.1`.
    pub alpn: Option<String>,
    /// True when the client presented a certificate that was verified.
    pub client_verified: bool,
    /// What logs call the client: the common name in that certificate, or else the first of its names.
    pub client_name: Option<String>,
    /// The names that identify the client: the certificate's alternative names (DNS, mail, URI, IP
    /// address), or its common name if it has none of these (RFC 9525 6.3). Only printable ones.
    pub client_names: Vec<String>,
    /// 1.2 or 1.3.
    pub version: TlsVersion,
    /// True when an earlier session was resumed.
    pub resumed: bool,
}

/// The versions of TLS that are spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    #[default]
    Tls13,
}

impl TlsVersion {
    /// `1.2` or `1.3`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        }
    }
}
