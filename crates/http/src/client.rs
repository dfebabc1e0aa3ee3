//! Who sent a request, as far as anything beside its bytes tells: address and TLS session.
//!
//! Does not know about: how it was found out. A `Forwarded` field is part of the request: see [`crate::forwarded`].

use std::net::IpAddr;

/// Whoever sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client<'a> {
    /// The address of the peer, or the one a PROXY protocol header told. `None` on a Unix socket, and where the service does not
    /// ask for it ([`crate::Service::wants_client`]).
    pub addr: Option<IpAddr>,
    /// The TLS session, if there is one.
    pub tls: Option<&'a TlsInfo>,
}

impl Client<'_> {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { addr: None, tls: None };
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
