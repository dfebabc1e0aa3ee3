//! Exit codes and the error that carries one.

use std::fmt;
use std::process::ExitCode;

/// Exit status of the program. Numbers from 64 on are those of sysexits.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: no request and no connection failed.
    Clean,
    /// 1: a request or connection failed, wrong bytes arrived, or another error occurred.
    Failures,
    /// 69: a network namespace cannot be created (sysexits: unavailable).
    NoNetwork,
    /// 69: io_uring does not work here (sysexits: unavailable).
    NoRing,
    /// 2: the command line is wrong.
    Usage,
}

/// A failure without a report: one sentence for the user, and the exit code.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// The error and its remedy, without a final line break.
    pub message: String,
}

impl Exit {
    /// The number of the exit code.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Failures => 1,
            Self::NoNetwork | Self::NoRing => 69,
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
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
