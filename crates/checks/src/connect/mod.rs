//! From a host and a port to a connection, with TLS where it is asked for.
//!
//! Does not know about: what is said on a connection.

pub(crate) mod certificate;
pub(crate) mod connector;
pub(crate) mod dialer;
pub(crate) mod resolver;
pub(crate) mod tls;
