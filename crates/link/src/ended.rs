//! Why a connection of a link ended.
//!
//! Does not know about: what follows.

use thiserror::Error;

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Ended {
    /// The peer closed it.
    #[error("closed by the peer")]
    Closed,
    /// A frame cannot be decoded.
    #[error("invalid frame")]
    Garbled,
    /// The connection failed.
    #[error("{0}")]
    Io(String),
    /// The peer's greeting is not that of a link.
    #[error("the peer is not a link of doorbell")]
    NotLink,
    /// A frame is valid but must not come at this point.
    #[error("unexpected frame: {0}")]
    Order(&'static str),
    /// A newer connection of the same peer replaced it.
    #[error("replaced by a newer connection")]
    Replaced,
    /// Nothing arrived for too long.
    #[error("nothing received in time")]
    Silent,
    /// This side ends the link.
    #[error("stopped")]
    Stopped,
    /// A frame is too long.
    #[error("frame of {len} bytes, the maximum is {max}", max = crate::wire::FRAME_LEN_MAX)]
    TooLong {
        /// Its length.
        len: usize,
    },
    /// No common version.
    #[error("the peer knows the versions {min} to {max} of the protocol, this program {} to {}", crate::wire::VERSIONS.start(), crate::wire::VERSIONS.end())]
    Version {
        /// Lowest version of the peer.
        min: u16,
        /// Highest version of the peer.
        max: u16,
    },
}
