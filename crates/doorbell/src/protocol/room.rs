//! How much room a server has, for protocols whose caps follow from that.
//!
//! Does not know about: protocols, servers.

#[cfg(feature = "tls")]
use crate::tls::Shares;

/// A handshake costs much more than a connection that is through: so few of the connections may be in one.
#[cfg(feature = "tls")]
const CONNS_A_HANDSHAKE: u32 = 4;

/// One server's room, the same for all its listeners. One that follows it has the same: a handshake of either is one of both.
#[derive(Debug)]
pub struct Room {
    conns_max: u32,
    #[cfg(feature = "tls")]
    tls: Shares,
}

impl Room {
    /// For so many connections at most.
    pub fn new(conns_max: u32) -> Self {
        Self {
            conns_max,
            #[cfg(feature = "tls")]
            tls: Shares::new(handshakes_max(conns_max)),
        }
    }

    /// That of a server which follows the one with this room. Until it [settles](Self::settle), the caps of the one before hold for both.
    pub(crate) fn for_heir(&self, conns_max: u32) -> Self {
        Self {
            conns_max,
            #[cfg(feature = "tls")]
            tls: self.tls.clone(),
        }
    }

    /// From now on its caps hold, for the server before as well.
    pub(crate) fn settle(&self) {
        #[cfg(feature = "tls")]
        self.tls.set_handshakes_max(handshakes_max(self.conns_max));
    }

    /// Connections at most.
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
