//! Exit codes and the error that carries one.
//!
//! Does not know about: what went wrong.

use std::fmt;
use std::process::ExitCode;

/// How the program ends, as the shell sees it. Numbers from 64 on are those of sysexits.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: every request got the reply that was expected.
    Clean,
    /// 1: a request failed or got wrong bytes, or nothing could be asked.
    Failures,
    /// 69: a network of its own cannot be had (sysexits: unavailable).
    NoNetwork,
    /// 69: io_uring does not work here (sysexits: unavailable).
    NoRing,
    /// 2: the command line is wrong.
    Usage,
}

/// Why no report came out: one sentence for the user, and the exit code.
#[derive(Debug)]
pub struct Failure {
    /// The code.
    pub exit: Exit,
    /// What went wrong and what to do, without a closing line break.
    pub message: String,
}

impl Exit {
    /// The number.
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
