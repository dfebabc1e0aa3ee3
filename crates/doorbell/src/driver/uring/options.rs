//! The options of the io_uring driver.

use crate::driver::AcceptMode;
use crate::tuning::Tuning;

/// The features of the ring that the driver uses.
#[derive(Clone, Debug)]
pub struct UringOptions {
    /// Keep connections in the ring's fixed-file table.
    pub direct: bool,
    /// Initial mode of listeners and of datagram sockets.
    pub accept_mode: AcceptMode,
    /// Submission queue length. Default 1,024.
    pub sq_entries: u32,
    /// The optional techniques that the driver uses.
    pub tuning: Tuning,
    /// By [`ListenerIndex`](crate::id::ListenerIndex): true if other workers or processes accept
    /// from the same socket. Such a listener is polled in any accept mode, and all connections of
    /// its driver are ordinary descriptors. Default: none.
    pub shared: Vec<bool>,
}

impl Default for UringOptions {
    fn default() -> Self {
        Self {
            direct: false,
            accept_mode: AcceptMode::Multishot,
            sq_entries: 1024,
            tuning: Tuning::default(),
            shared: Vec::new(),
        }
    }
}
