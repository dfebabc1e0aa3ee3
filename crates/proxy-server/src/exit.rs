//! Exit codes and the error that carries one.

use std::fmt;
use std::process::ExitCode;

/// Exit code of a command. The named codes from 64 on follow sysexits.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 73: another process listens on an address (sysexits: cannot create).
    AddressInUse,
    /// 78: the configuration is invalid.
    BadConfig,
    /// A code of the command itself, or of the program that it ran.
    Code(u8),
    /// 69: the requested driver does not work on this system.
    DriverUnavailable,
    /// 1: failure, or a negative result.
    Failure,
    /// 77: permission denied, as for a port below 1024.
    NoPermission,
    /// 0: success.
    Success,
    /// 71: the limit of open files is too low (sysexits: system error).
    TooFewDescriptors,
    /// 69: no instance replies, or a database cannot be used (sysexits: unavailable).
    Unavailable,
    /// 2: invalid command line.
    Usage,
}

/// An error message for the user, with the exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What failed and what to do, without a trailing newline.
    pub message: String,
}

impl Exit {
    /// The numeric exit code.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::AddressInUse => 73,
            Self::BadConfig => 78,
            Self::Code(code) => code,
            Self::DriverUnavailable | Self::Unavailable => 69,
            Self::Failure => 1,
            Self::NoPermission => 77,
            Self::Success => 0,
            Self::TooFewDescriptors => 71,
            Self::Usage => 2,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl Failure {
    /// Creates an error with this message and exit code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// A configuration that cannot be used.
    pub(crate) fn bad_config(why: impl ToString) -> Self {
        Self::new(Exit::BadConfig, why.to_string())
    }

    /// A thread that cannot be started.
    pub(crate) fn no_thread(error: impl fmt::Display) -> Self {
        Self::new(Exit::Failure, format!("cannot start a thread: {error}"))
    }
}
