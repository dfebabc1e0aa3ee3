//! PROXY protocol settings of a listener: whether its connections begin with a header, and which
//! peers are trusted to send a header.
//!
//! Does not know about: the format of the header (`doorbell-http` reads it), connections.

use doorbell_http::forwarded::Networks;
use doorbell_http::{Peer, proxy};

/// PROXY protocol settings of a listener.
///
/// Both versions are read; after a version 2 `LOCAL` or version 1 `UNKNOWN` header the client's
/// address is that of the peer.
#[derive(Clone, Debug)]
pub struct ProxyProtocol {
    required: bool,
    trusted: Networks,
    len_max: usize,
}

/// The expected first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A header is optional.
    MaybeHeader,
    /// A header is required; a connection without a header is closed.
    Header,
    /// No header is read: the protocol gets all bytes.
    NoHeader,
    /// The connection is closed, because the peer is not trusted or its address is unknown.
    Refuse,
}

impl ProxyProtocol {
    /// Reads headers from `trusted` peers. A connection without a header, or from another peer, is
    /// served with the address of its peer.
    pub const fn accept(trusted: Networks) -> Self {
        Self { required: false, trusted, len_max: proxy::LEN_MAX }
    }

    /// Requires a header on every connection, from a `trusted` peer; other connections are closed
    /// without a reply.
    pub const fn require(trusted: Networks) -> Self {
        Self { required: true, trusted, len_max: proxy::LEN_MAX }
    }

    /// Maximum length of a header of version 2. Default 536 bytes, as the specification recommends;
    /// proxies that send whole certificates need more.
    #[must_use]
    pub const fn len_max(mut self, bytes: usize) -> Self {
        self.len_max = bytes;
        self
    }

    pub(crate) const fn header_len_max(&self) -> usize {
        self.len_max
    }

    /// Returns the expected first bytes of a connection from `peer`. Peers of a Unix socket are
    /// trusted, because the permissions of its file admitted them.
    pub(crate) fn expects(&self, peer: Peer) -> Expected {
        let is_trusted = match peer {
            Peer::Addr(addr) => self.trusted.contains(addr),
            Peer::Unix => true,
            Peer::Unknown => return Expected::Refuse,
        };
        match (is_trusted, self.required) {
            (true, true) => Expected::Header,
            (true, false) => Expected::MaybeHeader,
            (false, true) => Expected::Refuse,
            (false, false) => Expected::NoHeader,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_headers_of_trusted_peers_are_expected() {
        let trusted = || Networks::parse(["10.0.0.0/8"]).unwrap();
        let [inside, outside] = ["10.1.2.3", "192.0.2.1"].map(|addr| Peer::Addr(addr.parse().unwrap()));
        let cases = [
            (ProxyProtocol::accept(trusted()), inside, Expected::MaybeHeader),
            (ProxyProtocol::accept(trusted()), outside, Expected::NoHeader),
            (ProxyProtocol::accept(trusted()), Peer::Unix, Expected::MaybeHeader),
            (ProxyProtocol::accept(trusted()), Peer::Unknown, Expected::Refuse),
            (ProxyProtocol::require(trusted()), inside, Expected::Header),
            (ProxyProtocol::require(trusted()), outside, Expected::Refuse),
            (ProxyProtocol::require(trusted()), Peer::Unix, Expected::Header),
            (ProxyProtocol::require(trusted()), Peer::Unknown, Expected::Refuse),
        ];
        for (proxy, peer, expected) in cases {
            assert_eq!(proxy.expects(peer), expected, "{proxy:?} {peer:?}");
        }
    }
}
