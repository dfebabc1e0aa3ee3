//! Reasons for the end of a connection.

use thiserror::Error;

/// Reason for the end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Ended {
    /// The peer closed the connection.
    #[error("closed by the peer")]
    Closed,
    /// A frame cannot be decoded.
    #[error("invalid frame")]
    Garbled,
    /// The connection failed.
    #[error("{0}")]
    Io(String),
    /// The peer's greeting is not that of a link.
    #[error("the peer does not use the link protocol of doorbell")]
    NotLink,
    /// A frame is valid but not allowed at this point.
    #[error("unexpected frame: {0}")]
    Order(&'static str),
    /// A newer connection of the same peer replaced this one.
    #[error("replaced by a newer connection")]
    Replaced,
    /// Nothing arrived within the time limit.
    #[error("nothing received in time")]
    Silent,
    /// A frame exceeds the maximum length.
    #[error("frame of {len} bytes exceeds the maximum of {max}", max = crate::wire::FRAME_LEN_MAX)]
    TooLong {
        /// Length of the frame.
        len: usize,
    },
    /// The two sides have no common version of the protocol.
    #[error("no common protocol version: the peer supports {min} to {max}, this program {} to {}", crate::wire::VERSIONS.start(), crate::wire::VERSIONS.end())]
    Version {
        /// Lowest version of the peer.
        min: u16,
        /// Highest version of the peer.
        max: u16,
    },
}
