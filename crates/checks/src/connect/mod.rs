//! Connections to a host and port, with TLS if requested.
//!
//! Does not know about: data on a connection.

pub(crate) mod certificate;
pub(crate) mod connector;
pub(crate) mod datagrams;
pub(crate) mod dialer;
#[cfg(feature = "icmp")]
mod hops;
pub(crate) mod resolver;
pub(crate) mod tls;
