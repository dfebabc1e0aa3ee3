//! Why a server did not start, sorted by what helps.
//!
//! Does not know about: how it starts.

use std::io;

use super::WorkerFailure;
use super::builder::LISTENERS_MAX;
use crate::config::LimitsError;
use crate::driver::select::EngineUnavailable;
use crate::net::{ListenError, Unusable};

/// What kind of trouble kept a server from starting, for exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartErrorKind {
    /// Another socket has the address, and had it for half a second.
    AddressInUse,
    /// io_uring was demanded and does not work.
    EngineUnavailable,
    /// A limit, the lack of a listener, a descriptor or file of the wrong kind: what was asked cannot work.
    Misconfigured,
    /// The operating system said no for another reason.
    Other,
    /// A privileged port, or a socket file in a directory we may not write to.
    PermissionDenied,
    /// `RLIMIT_NOFILE` is too low.
    TooFewDescriptors,
}

/// Why a server did not start. Nothing is left open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// io_uring was demanded and does not work.
    #[error(transparent)]
    Engine(#[from] EngineUnavailable),
    /// Direct descriptors, which have no peer address, and something that needs it.
    #[error(
        "direct descriptors hide the peer's address, which {needs} on {addr} needs: choose ordinary descriptors, or do without it"
    )]
    AddressHidden {
        /// What needs the address.
        needs: &'static str,
        /// The listener's address as the user wrote it.
        addr: String,
    },
    /// A limit that cannot work.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// A listener could not be made.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// There is nothing to serve.
    #[error("a server needs at least one listener, and at most {LISTENERS_MAX}")]
    Listeners,
    /// A thread could not be started.
    #[error("a worker thread could not be started: {0}")]
    Thread(#[source] io::Error),
    /// Not enough descriptors.
    #[error(
        "{wanted} file descriptors are needed and {available} are allowed: raise the limit (ulimit -n, LimitNOFILE=) or lower the number of connections"
    )]
    TooFewDescriptors {
        /// For the connections asked for and everything else.
        wanted: u64,
        /// The hard limit, or the soft one where that is not raised.
        available: u64,
    },
    /// The listening sockets could not be copied for a successor.
    #[error("the listening sockets could not be copied: {0}")]
    Sockets(#[source] io::Error),
    /// A worker's driver could not be opened.
    #[error("a worker could not start: {0}")]
    Worker(#[source] WorkerFailure),
}

impl StartError {
    /// Its kind.
    pub fn kind(&self) -> StartErrorKind {
        match self {
            Self::Engine(_) => StartErrorKind::EngineUnavailable,
            Self::AddressHidden { .. } | Self::Limits(_) | Self::Listeners => StartErrorKind::Misconfigured,
            Self::Listen(error) => match error.error.kind() {
                io::ErrorKind::AddrInUse => StartErrorKind::AddressInUse,
                io::ErrorKind::PermissionDenied => StartErrorKind::PermissionDenied,
                _ if Unusable::is_cause_of(&error.error) => StartErrorKind::Misconfigured,
                _ if is_out_of_fds(&error.error) => StartErrorKind::TooFewDescriptors,
                _ => StartErrorKind::Other,
            },
            Self::Sockets(error) if is_out_of_fds(error) => StartErrorKind::TooFewDescriptors,
            Self::Sockets(_) | Self::Thread(_) => StartErrorKind::Other,
            Self::TooFewDescriptors { .. } => StartErrorKind::TooFewDescriptors,
            Self::Worker(WorkerFailure::Driver(fault)) if is_out_of_fds(&fault.errno.into()) => {
                StartErrorKind::TooFewDescriptors
            }
            Self::Worker(_) => StartErrorKind::Other,
        }
    }
}

fn is_out_of_fds(error: &io::Error) -> bool {
    let codes = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
    codes.contains(&error.raw_os_error())
}
