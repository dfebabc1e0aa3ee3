//! Faults of a simulation: the kinds, the probability of each for a seed, and how often each
//! happened.
//!
//! Does not know about: where a fault occurs; the [`World`](super::World) draws at every
//! opportunity.
//!
//! Some faults are missing because the contract of a driver hides them: faults of the ring itself
//! (a full or short submission, an overflowing completion queue, a wrong or duplicate index, a
//! failed registration), which `doorbell-ring` tests, and a denied io_uring, which the target
//! `denied` tests on real kernels.

use core::fmt;

use doorbell::driver::Errno;

use super::rng::Rng;

macro_rules! faults {
    ($($(#[$doc:meta])* $kind:ident: $name:literal, $millionths:literal;)*) => {
        /// The faults that the contract of a driver makes visible to a worker.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum FaultKind { $($(#[$doc])* $kind,)* }

        impl FaultKind {
            /// All faults.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// The name in summaries.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// Maximum probability per opportunity, in millionths, in a plan of
            /// [`FaultPlan::random`].
            const fn millionths_max(self) -> u32 {
                match self { $(Self::$kind => $millionths,)* }
            }
        }
    };
}

faults! {
    /// `EAGAIN` ends accept.
    AcceptAgain: "accept EAGAIN", 60_000;
    /// `ECONNABORTED` ends accept; the client has closed its connection.
    AcceptConnAborted: "accept ECONNABORTED", 60_000;
    /// Accept ends although it reported no error and the worker did not cancel it.
    AcceptEndedSilently: "accept ended without error", 60_000;
    /// `EHOSTUNREACH` ends accept.
    AcceptHostUnreach: "accept EHOSTUNREACH", 60_000;
    /// `EINTR` ends accept.
    AcceptInterrupted: "accept EINTR", 60_000;
    /// `EINVAL` ends accept.
    AcceptInvalid: "accept EINVAL", 60_000;
    /// `ENETDOWN` ends accept.
    AcceptNetDown: "accept ENETDOWN", 60_000;
    /// `ENOBUFS` ends accept.
    AcceptNoBufs: "accept ENOBUFS", 60_000;
    /// `ENOMEM` ends accept.
    AcceptNoMemory: "accept ENOMEM", 60_000;
    /// `EPERM` ends accept.
    AcceptNotPermitted: "accept EPERM", 60_000;
    /// `EMFILE` ends accept.
    AcceptProcessFds: "accept EMFILE", 60_000;
    /// `EPROTO` ends accept.
    AcceptProtocol: "accept EPROTO", 60_000;
    /// Accept stays armed and reports nothing although clients wait.
    AcceptStalled: "accept stalled", 60_000;
    /// `ENFILE` ends accept.
    AcceptSystemFds: "accept ENFILE", 60_000;
    /// Connections are reported between a disarm and its confirmation.
    AcceptedAfterDisarm: "accepted after disarm", 400_000;
    /// 4,096 clients connect at the same moment.
    BurstOfClients: "burst of 4,096 clients", 12_000;
    /// A pending operation completes although it was cancelled.
    CancelLost: "cancel lost the race", 300_000;
    /// A `close` takes one to five minutes.
    CloseDelayed: "close delayed for minutes", 20_000;
    /// A completion is seen up to 20 ms after it happened.
    CompletionDelayed: "completion delayed", 100_000;
    /// A completion for an earlier use of a slot arrives.
    CompletionStale: "completion across slot reuse", 50_000;
    /// The completions of one wait arrive in another order.
    CompletionsShuffled: "completions shuffled", 300_000;
    /// Bytes arrive after `close` was queued and before it takes effect.
    DataAfterClose: "data after close queued", 30_000;
    /// Data and FIN arrive in one segment.
    DataWithFin: "data and FIN together", 300_000;
    /// A connection cannot be detached from the driver.
    DetachRefused: "detach EMFILE", 60_000;
    /// The peer's FIN arrives instead of its data.
    RecvEof: "recv 0 bytes", 8_000;
    /// `EINTR` from recv.
    RecvInterrupted: "recv EINTR", 8_000;
    /// `ENOBUFS` from recv.
    RecvNoBufs: "recv ENOBUFS", 8_000;
    /// One byte although more is available.
    RecvOneByte: "recv 1 byte", 200_000;
    /// `ECONNRESET` from recv.
    RecvReset: "recv ECONNRESET", 8_000;
    /// `ETIMEDOUT` from recv.
    RecvTimedOut: "recv ETIMEDOUT", 8_000;
    /// `EPIPE` from send.
    SendBrokenPipe: "send EPIPE", 10_000;
    /// A send makes no progress for 60 s.
    SendDelayed: "send delayed 60 s", 6_000;
    /// A send waits although there is room (the counterpart of `EAGAIN`).
    SendPending: "send EAGAIN", 200_000;
    /// `ECONNRESET` from send.
    SendReset: "send ECONNRESET", 10_000;
    /// A send accepts 1 to n-1 bytes.
    SendShort: "send short", 300_000;
    /// A wait returns early without completions.
    WaitEarly: "wait returned early", 100_000;
    /// The driver fails permanently.
    WaitFault: "wait fault", 500;
    /// A wait returns 1 s late.
    WaitOverrun: "wait overrun 1 s", 4_000;
    /// A wait reports only the first 16 completions, or none if it was interrupted.
    WaitPartial: "wait returned a part", 100_000;
    /// A wait returns 1 min late: later than most deadlines.
    WaitStalled: "wait overrun 1 min", 1_000;
    /// The wall clock goes back an hour.
    WallClockBack: "wall clock -1 h", 2_000;
    /// The wall clock goes forward an hour.
    WallClockForward: "wall clock +1 h", 2_000;
}

impl FaultKind {
    /// The errors that can end an accept, with their fault kinds.
    pub const ACCEPT_ERRNOS: [(Self, Errno); 12] = [
        (Self::AcceptAgain, Errno::AGAIN),
        (Self::AcceptConnAborted, Errno::CONNABORTED),
        (Self::AcceptHostUnreach, Errno::HOSTUNREACH),
        (Self::AcceptInterrupted, Errno::INTR),
        (Self::AcceptInvalid, Errno::INVAL),
        (Self::AcceptNetDown, Errno::NETDOWN),
        (Self::AcceptNoBufs, Errno::NOBUFS),
        (Self::AcceptNoMemory, Errno::NOMEM),
        (Self::AcceptNotPermitted, Errno::PERM),
        (Self::AcceptProcessFds, Errno::MFILE),
        (Self::AcceptProtocol, Errno::PROTO),
        (Self::AcceptSystemFds, Errno::NFILE),
    ];
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The probability of each fault per opportunity, in millionths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    millionths: Vec<u32>,
}

impl FaultPlan {
    /// A plan without faults.
    pub fn none() -> Self {
        Self { millionths: vec![0; FaultKind::ALL.len()] }
    }

    /// Each kind is off in half of the plans. In the other half, its probability is its maximum, or
    /// a quarter or a twentieth of it. A plan with all faults would hide the combined effect of a
    /// few.
    pub fn random(rng: &mut Rng) -> Self {
        let mut plan = Self::none();
        for kind in FaultKind::ALL {
            if rng.hits(500_000) {
                let scale = *rng.pick(&[1, 1, 4, 20]);
                plan.millionths[*kind as usize] = (kind.millionths_max() / scale).max(1);
            }
        }
        plan
    }

    /// The same plan with one probability changed.
    #[must_use]
    pub fn with(mut self, kind: FaultKind, millionths: u32) -> Self {
        self.millionths[kind as usize] = millionths;
        self
    }

    /// The probability of a kind.
    pub fn millionths(&self, kind: FaultKind) -> u32 {
        self.millionths[kind as usize]
    }
}

/// Number of occurrences of each fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultCounts {
    counts: Vec<u64>,
}

impl Default for FaultCounts {
    fn default() -> Self {
        Self { counts: vec![0; FaultKind::ALL.len()] }
    }
}

impl FaultCounts {
    /// Counts an occurrence.
    pub fn count(&mut self, kind: FaultKind) {
        self.counts[kind as usize] += 1;
    }

    /// Number of occurrences of this kind.
    pub fn of(&self, kind: FaultKind) -> u64 {
        self.counts[kind as usize]
    }

    /// Adds another simulation's counts.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
    }

    /// Kinds that never occurred.
    pub fn missing(&self) -> Vec<FaultKind> {
        FaultKind::ALL.iter().copied().filter(|kind| self.of(*kind) == 0).collect()
    }

    /// Number of all occurrences.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl fmt::Display for FaultCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, kind) in FaultKind::ALL.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{kind}: {}", self.of(*kind))?;
        }
        Ok(())
    }
}
