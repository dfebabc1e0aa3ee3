//! Reasons why a server did not start, grouped by remedy.

use std::io;

use super::WorkerFailure;
use super::builder::LISTENERS_MAX;
use crate::config::LimitsError;
use crate::driver::select::EngineUnavailable;
use crate::net::{ListenError, Unusable};

/// Category of a start error, for exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartErrorKind {
    /// The address was still in use after half a second.
    AddressInUse,
    /// io_uring was required and does not work.
    EngineUnavailable,
    /// Invalid settings, such as a limit, a missing listener, or a descriptor or file of the wrong
    /// type.
    Misconfigured,
    /// Another error of the operating system.
    Other,
    /// A privileged port, or a socket file in a directory without write permission.
    PermissionDenied,
    /// `RLIMIT_NOFILE`, or the system's limit of open files, is too low.
    TooFewDescriptors,
}

/// The reason why a server did not start. No resource is left open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// io_uring was required and does not work.
    #[error(transparent)]
    Engine(#[from] EngineUnavailable),
    /// Direct descriptors hide the peer's address, and another setting needs it.
    #[error(
        "{needs} on {addr} needs the peer's address, which direct descriptors hide: use ordinary descriptors"
    )]
    AddressHidden {
        /// The setting that needs the address.
        needs: &'static str,
        /// The listener's address as configured.
        addr: String,
    },
    /// Invalid limits.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// A listener could not be created.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// There is no listener, or there are too many.
    #[error("a server needs at least one listener, and at most {LISTENERS_MAX}")]
    Listeners,
    /// A thread could not be started.
    #[error("a worker thread could not be started: {0}")]
    Thread(#[source] io::Error),
    /// There are not enough file descriptors.
    #[error(
        "{wanted} file descriptors are needed and {available} are allowed: raise the limit (ulimit -n, LimitNOFILE=) or lower the number of connections"
    )]
    TooFewDescriptors {
        /// Number of descriptors needed: for the connections set by
        /// [`ServerBuilder::conns_max`](super::ServerBuilder::conns_max), or else for 16
        /// connections, and for everything else except hand-overs.
        wanted: u64,
        /// Number of descriptors allowed: the hard limit, or the soft limit if raising it is
        /// disabled.
        available: u64,
    },
    /// The listening sockets could not be copied for a successor.
    #[error("the listening sockets could not be copied: {0}")]
    Sockets(#[source] io::Error),
    /// A worker could not open its driver or eventfd, or panicked.
    #[error("a worker could not start: {0}")]
    Worker(#[source] WorkerFailure),
}

impl StartError {
    /// The category of the error.
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
