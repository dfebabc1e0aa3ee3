//! Connections and datagram sockets to targets, TLS, certificates, and the resolver.

pub(crate) mod certificate;
pub(crate) mod connector;
pub(crate) mod datagrams;
pub(crate) mod dialer;
#[cfg(feature = "icmp")]
mod hops;
pub(crate) mod resolver;
pub(crate) mod tls;
