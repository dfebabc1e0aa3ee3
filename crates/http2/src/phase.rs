//! The phases of the thread that serves HTTP/2.

/// Phase of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Serving,
    /// Every connection is being shut down gracefully.
    Draining,
    /// No new connections arrive: the thread ends after its last open connection.
    Ending,
    /// The thread ends immediately.
    Stopped,
}
