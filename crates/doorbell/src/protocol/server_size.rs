//! The size of a server, for protocols whose caps depend on it.

#[cfg(feature = "tls")]
use crate::tls::Shares;

/// Number of connections per permitted handshake in progress. A handshake costs much more than an
/// established connection, so only a part of the connections may be in a handshake.
#[cfg(feature = "tls")]
const CONNS_A_HANDSHAKE: u32 = 4;

/// The size of a server, shared by all its listeners.
///
/// A successor shares the counts of its predecessor: handshakes of both servers count together.
#[derive(Debug)]
pub struct ServerSize {
    conns_max: u32,
    #[cfg(feature = "tls")]
    tls: Shares,
}

impl ServerSize {
    /// Describes a server with at most `conns_max` connections.
    pub fn new(conns_max: u32) -> Self {
        Self {
            conns_max,
            #[cfg(feature = "tls")]
            tls: Shares::new(handshakes_max(conns_max)),
        }
    }

    /// Describes a successor with at most `conns_max` connections. Until it
    /// [settles](Self::settle), the caps of the predecessor apply to both.
    pub(crate) fn for_successor(&self, conns_max: u32) -> Self {
        Self {
            conns_max,
            #[cfg(feature = "tls")]
            tls: self.tls.clone(),
        }
    }

    /// Applies the caps of this server, also to its predecessor.
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
