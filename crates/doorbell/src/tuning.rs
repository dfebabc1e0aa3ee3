//! Switches for the techniques of the drivers.
//!
//! Each technique can be measured alone, and disabled on a kernel with a bug.
//!
//! Does not know about: the benefit of a technique (`benches/rig/levers.md` has figures for each
//! kernel), its implementation.

use core::time::Duration;

use doorbell_ring::Levers;

/// Techniques that the drivers use.
///
/// The defaults had the best results in measurements. No switch changes the behaviour towards
/// clients.
///
/// Techniques that the kernel does not support are skipped without an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
#[non_exhaustive]
pub struct Tuning {
    /// How io_uring accepts. Default [`Accepting::Multishot`].
    pub accept: Accepting,
    /// io_uring: completions do not interrupt the thread (`IORING_SETUP_COOP_TASKRUN`). Default
    /// true.
    pub coop_taskrun: bool,
    /// io_uring: completions are processed only while the worker waits
    /// (`IORING_SETUP_DEFER_TASKRUN`). Default true.
    pub defer_taskrun: bool,
    /// io_uring with ordinary descriptors: receives and sends that probably complete at once (the
    /// first receive after a deferred accept, a reply) are plain system calls. Default true.
    pub direct_calls: bool,
    /// io_uring: omits the index array of the submission queue (`IORING_SETUP_NO_SQARRAY`). Default
    /// true.
    pub no_sqarray: bool,
    /// io_uring: a receive operation, as used with [`Receiving::SingleShot`] and with direct
    /// descriptors, polls before its first attempt (`IORING_RECVSEND_POLL_FIRST`). Default true.
    pub poll_first: bool,
    /// The way in which io_uring waits for input on an ordinary descriptor; always
    /// [`Receiving::SingleShot`] if [`Self::direct_calls`] is false. Default [`Receiving::Poll`].
    pub receive: Receiving,
    /// io_uring: registers the ring's descriptor with its thread (`IORING_REGISTER_RING_FDS`).
    /// Default true.
    pub registered_ring: bool,
    /// Holds back the last reply of a connection until the close, so that it leaves with the FIN
    /// (`MSG_MORE`). Default true.
    pub send_more: bool,
    /// io_uring: declares that only one thread submits (`IORING_SETUP_SINGLE_ISSUER`). Default
    /// true.
    pub single_issuer: bool,
    /// io_uring with direct descriptors: a successful close produces no completion
    /// (`IOSQE_CQE_SKIP_SUCCESS`). The driver counts the close as complete at once; the request
    /// reaches the kernel with the next wait. Default false.
    pub skip_success: bool,
    /// io_uring: after an accept, the next wait gathers further connections for this time, at most
    /// [`Self::WAIT_MIN_MAX`]. Default zero, which disables gathering.
    ///
    /// Works best with [`Accepting::Poll`]. Gathering trades latency for fewer wake-ups (with 64
    /// clients, 8 connections per wake-up instead of 2). It is unsuitable for few clients: a client
    /// that waits for each reply before its next request sends fewer requests. It is implemented as
    /// a plain timeout and not as a minimum wait (`IORING_FEAT_MIN_TIMEOUT`), because kernels up to
    /// 6.18 may lose a completion that arrives after the minimum wait.
    pub wait_min: Duration,
}

/// The way in which a ring accepts connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Accepting {
    /// One operation for all connections.
    #[default]
    Multishot,
    /// The listener is polled, and `accept4(2)` empties its backlog. Unlike an accept, a poll does
    /// not make the kernel wake the ring for each connection, so [`Tuning::wait_min`] can gather
    /// them.
    Poll,
    /// One operation per connection.
    SingleShot,
}

/// The way in which a ring receives input that has not arrived yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Receiving {
    /// One multishot poll per connection, for all its requests; `recv(2)` reads the bytes.
    #[default]
    Poll,
    /// One receive operation per wait, into a buffer of the ring's pool.
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
    /// The largest value of [`Tuning::wait_min`].
    pub const WAIT_MIN_MAX: Duration = Duration::from_millis(10);

    /// A copy whose times are within their bounds.
    pub(crate) fn bounded(&self) -> Self {
        Self { wait_min: self.wait_min.min(Self::WAIT_MIN_MAX), ..self.clone() }
    }

    /// The switches that are set-up flags of a ring.
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
