//! Whether a listener's connections begin with a PROXY protocol header, and from whom one is believed.
//!
//! Does not know about: the header's bytes (`doorbell-http` reads them), connections.

use core::net::IpAddr;

use doorbell_http::forwarded::Networks;
use doorbell_http::proxy;

/// The PROXY protocol of a listener. Both versions are read; version 2 `LOCAL` and version 1 `UNKNOWN` keep the peer's own address.
#[derive(Clone, Debug)]
pub struct ProxyProtocol {
    required: bool,
    trusted: Networks,
    len_max: usize,
}

/// What a connection has to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A header, or else the protocol itself.
    MaybeHeader,
    /// A header, or the connection is closed.
    Header,
    /// No header: if one comes it is taken for what the protocol makes of it.
    NoHeader,
    /// Nothing this peer could send is believed.
    Refuse,
}

impl ProxyProtocol {
    /// Headers from `trusted` peers are read. Without one, and from anybody else, the connection is taken as it is.
    pub const fn accept(trusted: Networks) -> Self {
        Self { required: false, trusted, len_max: proxy::LEN_MAX }
    }

    /// Every connection must come from a `trusted` peer and begin with a header; others are closed without an answer.
    pub const fn require(trusted: Networks) -> Self {
        Self { required: true, trusted, len_max: proxy::LEN_MAX }
    }

    /// The longest header of version 2. Default 536 bytes, as the protocol's own text recommends; senders of whole certificates
    /// need more.
    #[must_use]
    pub const fn len_max(mut self, bytes: usize) -> Self {
        self.len_max = bytes;
        self
    }

    pub(crate) const fn header_len_max(&self) -> usize {
        self.len_max
    }

    /// A peer without an address sits on a Unix socket: whoever may connect there is trusted by its file's permissions.
    pub(crate) fn expects(&self, peer: Option<IpAddr>) -> Expected {
        match (peer.is_none_or(|addr| self.trusted.contains(addr)), self.required) {
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
    fn only_trusted_peers_are_believed() {
        let trusted = || Networks::parse(["10.0.0.0/8"]).unwrap();
        let (inside, outside) = (Some("10.1.2.3".parse().unwrap()), Some("192.0.2.1".parse().unwrap()));
        let cases = [
            (ProxyProtocol::accept(trusted()), inside, Expected::MaybeHeader),
            (ProxyProtocol::accept(trusted()), outside, Expected::NoHeader),
            (ProxyProtocol::accept(trusted()), None, Expected::MaybeHeader),
            (ProxyProtocol::require(trusted()), inside, Expected::Header),
            (ProxyProtocol::require(trusted()), outside, Expected::Refuse),
            (ProxyProtocol::require(trusted()), None, Expected::Header),
        ];
        for (proxy, peer, expected) in cases {
            assert_eq!(proxy.expects(peer), expected, "{proxy:?} {peer:?}");
        }
    }
}
