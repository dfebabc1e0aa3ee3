//! The switches of the engine: each technique by name, so that each can be measured alone and turned off where a kernel errs.
//!
//! Does not know about: what each is worth (`benches/rig/levers.md` has the figures on each kernel), how a driver does it.

use core::time::Duration;

use doorbell_ring::Levers;

/// Which techniques the drivers use. The defaults are what measured best; none of them changes what a client sees.
///
/// What the kernel does not have is left out without an error, as with the default.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
#[non_exhaustive]
pub struct Tuning {
    /// How io_uring accepts. Default [`Accepting::Multishot`].
    pub accept: Accepting,
    /// io_uring: completions do not interrupt the thread (`IORING_SETUP_COOP_TASKRUN`). Default true.
    pub coop_taskrun: bool,
    /// io_uring: completions are worked off only when the worker waits (`IORING_SETUP_DEFER_TASKRUN`). Default true.
    pub defer_taskrun: bool,
    /// io_uring with ordinary descriptors: what should complete at once (the first receive of a deferred accept, a reply, a
    /// close) is a plain system call and not a ring operation. Default true.
    pub direct_calls: bool,
    /// io_uring: no index array between submission and entries (`IORING_SETUP_NO_SQARRAY`). Default true.
    pub no_sqarray: bool,
    /// io_uring with [`Receiving::SingleShot`]: a receive that has to wait polls before it tries (`IORING_RECVSEND_POLL_FIRST`).
    /// Default true.
    pub poll_first: bool,
    /// How io_uring waits for the bytes of a connection with an ordinary descriptor. Default [`Receiving::Poll`].
    pub receive: Receiving,
    /// io_uring: the ring's descriptor is registered with its thread (`IORING_REGISTER_RING_FDS`). Default true.
    pub registered_ring: bool,
    /// A last reply waits for the close and leaves with the FIN (`MSG_MORE`). Default true.
    pub send_more: bool,
    /// io_uring: one thread submits (`IORING_SETUP_SINGLE_ISSUER`). Default true.
    pub single_issuer: bool,
    /// io_uring with direct descriptors: a close that succeeds makes no completion (`IOSQE_CQE_SKIP_SUCCESS`): it counts as done when
    /// it is asked for, and reaches the kernel with the next wait. Default false.
    pub skip_success: bool,
    /// io_uring: after connections came, the next wait gathers more of them for this long, at most 10 ms. Best with
    /// [`Accepting::Poll`]. It buys fewer wake-ups (8 connections each instead of 2 with 64 clients) with latency, and a client that
    /// asks again only after an answer asks less often: not for few clients. A plain timeout, because kernels up to 6.18 may forget
    /// a completion that comes after a wait's minimum (`IORING_FEAT_MIN_TIMEOUT`). Default zero: off.
    pub wait_min: Duration,
}

/// How a ring accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accepting {
    /// One operation for all connections.
    #[default]
    Multishot,
    /// The listener is polled, and `accept4(2)` empties its backlog: unlike an accept, a poll does not force the kernel to wake
    /// the ring for each connection, so [`Tuning::wait_min`] can gather them.
    Poll,
    /// One operation a connection.
    SingleShot,
}

/// How a ring receives what is not there yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Receiving {
    /// The connection is polled once for all its requests (multishot), and read by `recv(2)`.
    #[default]
    Poll,
    /// One receive operation for each wait, into a buffer of the ring's pool.
    SingleShot,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            accept: Accepting::Multishot,
            coop_taskrun: true,
            defer_taskrun: true,
            direct_calls: true,
            no_sqarray: true,
            poll_first: true,
            receive: Receiving::Poll,
            registered_ring: true,
            send_more: true,
            single_issuer: true,
            skip_success: false,
            wait_min: Duration::ZERO,
        }
    }
}

impl Tuning {
    /// The largest [`Tuning::wait_min`].
    pub const WAIT_MIN_MAX: Duration = Duration::from_millis(10);

    /// The set-up flags among the switches.
    pub(crate) fn levers(&self) -> Levers {
        Levers {
            coop_taskrun: self.coop_taskrun,
            defer_taskrun: self.defer_taskrun,
            no_sqarray: self.no_sqarray,
            registered_fd: self.registered_ring,
            single_issuer: self.single_issuer,
            ..Levers::default()
        }
    }
}
