//! Owns `Errno`, an error number of the kernel.

use std::{fmt, io};

/// A positive `errno`, as in `errno(3)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// The descriptor or index is invalid.
    pub const BADF: Self = Self(libc::EBADF);
    /// The operation was cancelled.
    pub const CANCELED: Self = Self(libc::ECANCELED);
    /// Input/output error; also used for impossible completions.
    pub const IO: Self = Self(libc::EIO);
    /// No receive buffer was free.
    pub const NOBUFS: Self = Self(libc::ENOBUFS);

    /// The symbolic name of common error numbers, otherwise an empty string.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            libc::EACCES => "EACCES",
            libc::EAGAIN => "EAGAIN",
            libc::EBADF => "EBADF",
            libc::EBADFD => "EBADFD",
            libc::EBADR => "EBADR",
            libc::EBUSY => "EBUSY",
            libc::ECANCELED => "ECANCELED",
            libc::ECONNRESET => "ECONNRESET",
            libc::EEXIST => "EEXIST",
            libc::EFAULT => "EFAULT",
            libc::EINVAL => "EINVAL",
            libc::EIO => "EIO",
            libc::EMFILE => "EMFILE",
            libc::ENFILE => "ENFILE",
            libc::ENOBUFS => "ENOBUFS",
            libc::ENOMEM => "ENOMEM",
            libc::ENOSYS => "ENOSYS",
            libc::ENOTSOCK => "ENOTSOCK",
            libc::EOPNOTSUPP => "EOPNOTSUPP",
            libc::EPERM => "EPERM",
            libc::EPIPE => "EPIPE",
            libc::ETIME => "ETIME",
            _ => "",
        }
    }

    /// The number of an `io::Error`, or `EIO` if it has none.
    pub(crate) fn of(error: &io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }

    /// The value of `errno` after a failed system call.
    pub(crate) fn last() -> Self {
        Self::of(&io::Error::last_os_error())
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "" => write!(f, "Errno({})", self.0),
            name => f.write_str(name),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "" => io::Error::from(*self).fmt(f),
            name => f.write_str(name),
        }
    }
}

impl std::error::Error for Errno {}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> Self {
        Self::from_raw_os_error(errno.0)
    }
}
