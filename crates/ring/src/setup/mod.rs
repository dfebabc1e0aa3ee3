//! Owns the requested settings of a ring (`Setup`) and the effective settings (`SetupReport`).
//! Does not know about: the steps of set-up (`open`), the causes of failures (`error`).

mod error;
mod ladder;
mod open;

use std::fmt;

pub use error::{Hint, SetupError};
pub use open::opcodes;
pub(crate) use open::open;

use crate::Errno;

/// Requested settings of a ring.
///
/// Set-up may reduce sizes; [`SetupReport`] contains the effective sizes.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Entries of the submission queue, 64 to 32,768, rounded up to a power of two. Default 1,024.
    pub sq_entries: u32,
    /// Entries of the completion queue. Default 0: twice `slots` plus 1,024, so that the queue does
    /// not overflow. The kernel's limit is 65,536.
    pub cq_entries: u32,
    /// Number of slots that may send: a token of a send must name a slot below this number. A slot
    /// uses no memory before its first send. Default 1,024.
    pub slots: u32,
    /// Entries of the table of direct descriptors. Default 0: no table. The limit is
    /// `RLIMIT_NOFILE`.
    pub fixed_files: u32,
    /// Receive buffers, rounded up to a power of two, 32,768 at most. Default 256.
    pub recv_bufs: u16,
    /// Bytes of one receive buffer. Default 4,096.
    pub recv_buf_len: u32,
    /// Buffers for [`Ring::recv_datagrams`](crate::Ring::recv_datagrams), rounded up to a power of
    /// two, 32,768 at most. Default 0: the ring receives no datagrams.
    pub datagram_bufs: u16,
    /// Maximum length of a datagram in bytes; longer ones are truncated. Default 1,500.
    pub datagram_len: u32,
    /// Whether the ring is restricted to the operations of this crate. Default true.
    pub restrict: bool,
    /// Set-up flags to request. Default all.
    pub levers: Levers,
    /// Step of set-up that fails, and its errno, for tests of fallbacks. Default none.
    #[doc(hidden)]
    pub fault: Option<(Step, i32)>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            sq_entries: 1_024,
            cq_entries: 0,
            slots: 1_024,
            fixed_files: 0,
            recv_bufs: 256,
            recv_buf_len: 4_096,
            datagram_bufs: 0,
            datagram_len: 1_500,
            restrict: true,
            levers: Levers::default(),
            fault: None,
        }
    }
}

impl Setup {
    /// Fails if a fault is configured for `step`.
    pub(crate) fn check_fault(&self, step: Step) -> Result<(), Errno> {
        match self.fault {
            Some((at, errno)) if at == step => Err(Errno(errno)),
            _ => Ok(()),
        }
    }
}

/// Set-up flags. True means requested in [`Setup`], effective in [`SetupReport`].
///
/// See `io_uring_setup(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of the kernel")]
pub struct Levers {
    /// The kernel reduces sizes beyond its limit instead of refusing them (Linux 5.6).
    pub clamp: bool,
    /// Completions do not interrupt the thread (Linux 5.19).
    pub coop_taskrun: bool,
    /// The size of the completion queue is set separately (Linux 5.5).
    pub cqsize: bool,
    /// Completions are processed in `enter` only (Linux 6.1). Needs `single_issuer`.
    pub defer_taskrun: bool,
    /// The submission queue has no array of indices (Linux 6.6).
    pub no_sqarray: bool,
    /// The ring starts disabled, which restrictions require (Linux 5.10).
    pub r_disabled: bool,
    /// The ring's descriptor is registered with the thread (Linux 5.18).
    pub registered_fd: bool,
    /// Only one thread submits (Linux 6.0).
    pub single_issuer: bool,
    /// An entry that fails does not stop the submission of later entries (Linux 5.18).
    pub submit_all: bool,
}

impl Levers {
    /// No flags, as on the oldest kernel with io_uring.
    pub const NONE: Self = Self {
        clamp: false,
        coop_taskrun: false,
        cqsize: false,
        defer_taskrun: false,
        no_sqarray: false,
        r_disabled: false,
        registered_fd: false,
        single_issuer: false,
        submit_all: false,
    };
}

impl Default for Levers {
    fn default() -> Self {
        Self {
            clamp: true,
            coop_taskrun: true,
            cqsize: true,
            defer_taskrun: true,
            no_sqarray: true,
            r_disabled: true,
            registered_fd: true,
            single_issuer: true,
            submit_all: true,
        }
    }
}

/// A step of set-up. The variants are in the order of the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Validation of the requested sizes.
    Check,
    /// `io_uring_setup`, and mapping the queues.
    Create,
    /// Probe for supported operations.
    Probe,
    /// Registration of the table of direct descriptors.
    RegisterFiles,
    /// Registration of the receive buffers.
    RegisterBuffers,
    /// Registration of the ring's own descriptor.
    RegisterRingFd,
    /// Restriction to the operations of this crate.
    Restrict,
    /// Starting a ring that was created disabled.
    Enable,
    /// The first `enter`, without an operation.
    Enter,
    /// Every `enter` after set-up; exists only for fault injection.
    EnterLater,
    /// The cancels of tear-down, which an injected fault omits; exists only for fault injection.
    CancelLater,
}

impl Step {
    /// Name of the system call or action.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CancelLater => "cancel",
            Self::Check => "check of the ring's sizes",
            Self::Create => "io_uring_setup",
            Self::Enable => "io_uring_register(ENABLE_RINGS)",
            Self::Enter | Self::EnterLater => "io_uring_enter",
            Self::Probe => "io_uring_register(PROBE)",
            Self::RegisterBuffers => "io_uring_register(PBUF_RING)",
            Self::RegisterFiles => "io_uring_register(FILES2)",
            Self::RegisterRingFd => "io_uring_register(RING_FDS)",
            Self::Restrict => "io_uring_register(RESTRICTIONS)",
        }
    }
}

/// A feature that set-up can drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lever {
    /// [`Levers::clamp`].
    Clamp,
    /// [`Levers::coop_taskrun`].
    CoopTaskrun,
    /// [`Levers::cqsize`].
    Cqsize,
    /// [`Levers::defer_taskrun`].
    DeferTaskrun,
    /// The table of direct descriptors.
    FixedFiles,
    /// [`Levers::no_sqarray`].
    NoSqarray,
    /// [`Levers::r_disabled`].
    RDisabled,
    /// [`Levers::registered_fd`].
    RegisteredFd,
    /// Restriction to the operations of this crate.
    Restrictions,
    /// Size of the queues: the submission queue was halved to this number of entries, and the
    /// completion queue was halved too.
    RingSize(u32),
    /// [`Levers::single_issuer`].
    SingleIssuer,
    /// [`Levers::submit_all`].
    SubmitAll,
}

impl Lever {
    /// The kernel's name of the feature, and the Linux version that introduced it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clamp => "CLAMP (5.6)",
            Self::CoopTaskrun => "COOP_TASKRUN (5.19)",
            Self::Cqsize => "CQSIZE (5.5)",
            Self::DeferTaskrun => "DEFER_TASKRUN (6.1)",
            Self::FixedFiles => "direct descriptors (5.19)",
            Self::NoSqarray => "NO_SQARRAY (6.6)",
            Self::RDisabled => "R_DISABLED (5.10)",
            Self::RegisteredFd => "registered ring descriptor (5.18)",
            Self::Restrictions => "restrictions (5.10)",
            Self::RingSize(_) => "full ring size",
            Self::SingleIssuer => "SINGLE_ISSUER (6.0)",
            Self::SubmitAll => "SUBMIT_ALL (5.18)",
        }
    }
}

/// One feature that set-up dropped, or that was not requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepDown {
    /// The feature.
    pub lever: Lever,
    /// The kernel's error; `None` if the feature was not requested.
    pub errno: Option<Errno>,
}

impl fmt::Display for StepDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lever {
            Lever::RingSize(entries) => write!(f, "ring halved to {entries} entries")?,
            lever => write!(f, "without {}", lever.name())?,
        }
        match self.errno {
            None => f.write_str(": not requested"),
            Some(errno) => write!(f, ": the kernel returned {errno}"),
        }
    }
}

/// The effective settings of a ring, and the reason for each reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupReport {
    /// Entries of the submission queue.
    pub sq_entries: u32,
    /// Entries of the completion queue.
    pub cq_entries: u32,
    /// Entries of the table of direct descriptors, 0 if there is none.
    pub fixed_files: u32,
    /// Whether an ordinary descriptor can be created for a direct descriptor: true if the ring has
    /// a table and the kernel supports the operation (Linux 6.8).
    pub fd_install: bool,
    /// Receive buffers.
    pub recv_bufs: u16,
    /// Bytes of one receive buffer.
    pub recv_buf_len: u32,
    /// Effective set-up flags.
    pub levers: Levers,
    /// Whether the ring refuses operations that this crate does not use.
    pub restricted: bool,
    /// Features that set-up dropped or that were not requested, in order.
    pub steps_down: Vec<StepDown>,
}

impl fmt::Display for SetupReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let restricted = if self.restricted { "restricted" } else { "unrestricted" };
        write!(
            f,
            "{} submission and {} completion entries, {} direct descriptors, {} receive buffers of {} bytes, {restricted}",
            self.sq_entries, self.cq_entries, self.fixed_files, self.recv_bufs, self.recv_buf_len
        )?;
        for step in &self.steps_down {
            write!(f, "; {step}")?;
        }
        Ok(())
    }
}
