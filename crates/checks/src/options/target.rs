//! What a check contacts.
//!
//! Does not know about: kinds of checks.

use super::address::{ClientTls, HostPort};

/// What a kind contacts.
pub(super) trait Target {
    /// TLS options of the connections, if the kind supports TLS.
    fn tls(&self) -> Option<&ClientTls> {
        None
    }

    /// The host to which the check connects; `None` if it is this machine.
    fn remote(&self) -> Option<&HostPort> {
        None
    }
}
