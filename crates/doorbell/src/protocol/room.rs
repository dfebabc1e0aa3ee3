//! The size of a server, for protocols whose caps depend on it.
//!
//! Does not know about: protocols, servers.

#[cfg(feature = "tls")]
use crate::tls::Shares;

/// Connections per handshake: a handshake costs much more than an established connection, so only a
/// part of the connections may be in one.
#[cfg(feature = "tls")]
const CONNS_A_HANDSHAKE: u32 = 4;

/// The size of a server, shared by all its listeners.
///
/// A successor shares it: both count the same handshakes.
#[derive(Debug)]
pub struct Room {
    conns_max: u32,
    #[cfg(feature = "tls")]
    tls: Shares,
}

impl Room {
    /// The size for a maximum number of connections.
    pub fn new(conns_max: u32) -> Self {
        Self {
            conns_max,
            #[cfg(feature = "tls")]
            tls: Shares::new(handshakes_max(conns_max)),
        }
    }

    /// The size for a successor. Until it [settles](Self::settle), the caps of the predecessor
    /// apply to both.
    pub(crate) fn for_successor(&self, conns_max: u32) -> Self {
        Self {
            conns_max,
            #[cfg(feature = "tls")]
            tls: self.tls.clone(),
        }
    }

    /// Applies this server's caps, also to its predecessor.
    pub(crate) fn settle(&self) {
        #[cfg(feature = "tls")]
        self.tls.set_handshakes_max(handshakes_max(self.conns_max));
    }

    /// Maximum number of connections.
    pub const fn conns_max(&self) -> u32 {
        self.conns_max
    }

    #[cfg(feature = "tls")]
    pub(crate) const fn tls(&self) -> &Shares {
        &self.tls
    }
}

#[cfg(feature = "tls")]
fn handshakes_max(conns_max: u32) -> u32 {
    (conns_max / CONNS_A_HANDSHAKE).max(1)
}
