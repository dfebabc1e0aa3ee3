//! Exit codes and the error that carries one.
//!
//! Does not know about: what went wrong.

use std::fmt;
use std::process::ExitCode;

/// Why a command ends, as the shell sees it. Numbers from 64 on are those of sysexits.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 73: another process listens on an address (sysexits: cannot create).
    AddressInUse,
    /// 78: the configuration cannot be used.
    BadConfig,
    /// What the command means by it, or the code of the program that it ran.
    Code(u8),
    /// 69: the requested driver does not work on this system.
    DriverUnavailable,
    /// 1: it failed, or the answer is no.
    Failure,
    /// 77: a permission is missing, as for a port below 1024.
    NoPermission,
    /// 0: it worked.
    Success,
    /// 71: the limit of open files is too low (sysexits: system error).
    TooFewDescriptors,
    /// 69: no doorbell answers (sysexits: unavailable).
    Unavailable,
    /// 2: the command line is wrong.
    Usage,
}

/// One sentence for the user, and the exit code.
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
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
