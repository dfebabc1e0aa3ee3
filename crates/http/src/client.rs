//! Information about the sender of a request that is not part of the request: address and TLS
//! session.
//!
//! The client behind proxies is found by [`crate::forwarded`].

use crate::scheme::Scheme;
use std::net::IpAddr;
use std::num::NonZeroU16;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    /// An address: that of the socket, the one in a PROXY protocol header from a trusted peer, or
    /// the one that trusted proxies reported ([`Client::forwarded`]).
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
#[non_exhaustive]
pub struct Client<'a> {
    /// The other end of the client's connection.
    pub peer: Peer,
    /// The TLS session, if there is one.
    pub tls: Option<&'a TlsInfo>,
    /// The scheme that a trusted proxy reported. See
    /// [`Origin::scheme`](crate::forwarded::Origin::scheme).
    pub scheme: Option<Scheme>,
    port: Option<NonZeroU16>,
    /// The number of the listener, plus one.
    listener: Option<NonZeroU16>,
}

impl<'a> Client<'a> {
    /// An unknown client.
    pub const UNKNOWN: Self = Self::new(Peer::Unknown);

    /// A client without TLS.
    pub const fn new(peer: Peer) -> Self {
        Self { peer, tls: None, scheme: None, port: None, listener: None }
    }

    /// A client at this address, without TLS.
    pub const fn at(addr: IpAddr) -> Self {
        Self::new(Peer::Addr(addr))
    }

    /// Sets the TLS session.
    #[must_use]
    pub const fn with_tls(mut self, tls: Option<&'a TlsInfo>) -> Self {
        self.tls = tls;
        self
    }

    /// This client without its TLS session, which is borrowed.
    pub(crate) const fn without_tls(&self) -> Client<'static> {
        let Self { peer, scheme, port, listener, .. } = *self;
        Client { peer, tls: None, scheme, port, listener }
    }

    /// Sets the client's port. 0 means unknown.
    #[must_use]
    pub const fn with_port(mut self, port: u16) -> Self {
        self.port = NonZeroU16::new(port);
        self
    }

    /// Sets the number of the listener that accepted the connection.
    #[must_use]
    pub const fn with_listener(mut self, listener: u16) -> Self {
        self.listener = NonZeroU16::new(listener.wrapping_add(1));
        self
    }

    /// This client with the address and scheme that trusted proxies reported: see
    /// [`crate::forwarded`]. The port is then unknown.
    #[must_use]
    pub const fn forwarded(mut self, addr: IpAddr, scheme: Option<Scheme>) -> Self {
        (self.peer, self.port, self.scheme) = (Peer::Addr(addr), None, scheme);
        self
    }

    /// The address of the peer, if known.
    #[inline]
    pub const fn addr(&self) -> Option<IpAddr> {
        self.peer.addr()
    }

    /// The port that belongs to the address: that of the socket, or the one in a PROXY protocol
    /// header from a trusted peer. `None` without an address, and for a client that trusted proxies
    /// reported ([`Self::forwarded`]).
    pub const fn port(&self) -> Option<u16> {
        match self.port {
            Some(port) => Some(port.get()),
            None => None,
        }
    }

    /// Index, from 0, of the listener that accepted the connection, in the order in which the
    /// server's listeners were added. Known if the address was requested, see
    /// [`crate::Service::wants_client`].
    pub const fn listener(&self) -> Option<u16> {
        match self.listener {
            Some(number) => Some(number.get() - 1),
            None => None,
        }
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
