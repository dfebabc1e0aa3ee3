//! Connections and datagram sockets to targets, TLS, certificates, and the resolver.
//!
//! Does not know about: the protocols of the kinds.

pub(crate) mod certificate;
pub(crate) mod connector;
pub(crate) mod datagrams;
pub(crate) mod dialer;
#[cfg(feature = "icmp")]
mod hops;
pub(crate) mod resolver;
pub(crate) mod tls;
