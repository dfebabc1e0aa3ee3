//! Admission: when each listener accepts, what follows an accept error, and how a stalled accept is
//! detected.
//!
//! The functions here decide, and the worker acts.

use core::time::Duration;

use crate::time::Time;

/// Percentage of the cap at which accepting resumes after it has stopped at the cap. Without this
/// margin, every closed and accepted connection would toggle accept.
const REOPEN_AT_PERCENT: u64 = 90;

/// Interval between checks of a listener that accepts nothing.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Maximum number of consecutive errors, without a connection in between, that are retried at once.
/// Only errors of a single client (accept(2)) or of the accept mode are retried at once.
const INSTANT_RETRIES_MAX: u32 = 16;

/// Whether the table has room for more connections.
#[derive(Debug)]
pub(crate) struct Admission {
    conns_max: u32,
    reopen_at: u32,
    full: bool,
}

impl Admission {
    pub(crate) fn new(conns_max: u32) -> Self {
        let reopen_at = u64::from(conns_max) * REOPEN_AT_PERCENT / 100;
        Self { conns_max, reopen_at: u32::try_from(reopen_at).expect("90 % of 32 bits fits"), full: false }
    }

    /// Records an accepted connection. Returns true if it filled the table.
    pub(crate) const fn fills(&mut self, live: u32) -> bool {
        let filled = !self.full && live >= self.conns_max;
        self.full |= filled;
        filled
    }

    /// Returns true once enough connections of a full table have closed: accepting resumes.
    pub(crate) const fn opens(&mut self, live: u32) -> bool {
        let opened = self.full && (live <= self.reopen_at && live < self.conns_max);
        self.full &= !opened;
        opened
    }

    /// True if the table has room for one more connection, even while no listener accepts.
    pub(crate) const fn has_room(&self, live: u32) -> bool {
        live < self.conns_max
    }

    /// True from the time the table fills until accepting resumes: new clients wait in the backlog.
    pub(crate) const fn is_full(&self) -> bool {
        self.full
    }
}

/// The accept state of one listener, or the receive state of one datagram socket.
#[derive(Debug)]
pub(crate) struct Gate {
    state: GateState,
    /// True unless the socket was passed in, or a successor accepts from it: no other server then
    /// serves its backlog, so a drain empties the backlog before the socket closes. Workers of this
    /// server may share the socket.
    pub(crate) exclusive: bool,
    /// True if other processes or servers have duplicates of this socket. A drain then leaves
    /// waiting clients to them instead of emptying the backlog, which is never empty under load.
    pub(crate) lent: bool,
    backoff: Duration,
    backoff_min: Duration,
    backoff_max: Duration,
    errors_in_row: u32,
    accepted: u64,
    accepted_at_watch: u64,
    accepted_published: u64,
    /// Number of connections that were accepted since the last publication and took a slot of the
    /// table.
    placed: u64,
    suspected: bool,
    /// True from a stall or an unsupported mode until accept is armed again in the next lower mode.
    downgrade: bool,
    /// True while accept must not be armed, because too many connections of the worker wait to be
    /// handed over, and some came from this listener.
    held: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GateState {
    /// Accept is armed.
    Armed,
    /// The listener is closed permanently.
    Closed,
    /// Accept is being disarmed: the last accept has not completed yet.
    Disarming,
    /// Accept is not armed.
    Idle,
    /// Accept is not armed until this time, after an error.
    Paused(Time),
}

/// Kind of an accept error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcceptFault {
    /// The error concerns one client: the next accept may succeed.
    Client,
    /// The accept mode is not supported: use the next lower mode.
    Mode,
    /// The socket no longer listens.
    Listener,
    /// A resource is exhausted, or the error is unknown: pause.
    Resources,
}

impl Gate {
    pub(crate) const fn new(exclusive: bool, backoff_min: Duration, backoff_max: Duration) -> Self {
        Self {
            state: GateState::Idle,
            exclusive,
            lent: false,
            backoff: backoff_min,
            backoff_min,
            backoff_max,
            errors_in_row: 0,
            accepted: 0,
            accepted_at_watch: 0,
            accepted_published: 0,
            placed: 0,
            suspected: false,
            downgrade: false,
            held: false,
        }
    }

    /// Returns true when accept should be armed now; the caller must then arm it.
    pub(crate) fn should_arm(&mut self, now: Time) -> bool {
        let arm = match self.state {
            _ if self.held => false,
            GateState::Idle => true,
            GateState::Paused(until) => until <= now,
            GateState::Armed | GateState::Closed | GateState::Disarming => false,
        };
        if arm {
            self.state = GateState::Armed;
            self.accepted_at_watch = self.accepted;
            self.suspected = false;
        }
        arm
    }

    /// Forbids or allows arming this listener. Returns false if nothing changed.
    pub(crate) const fn hold(&mut self, held: bool) -> bool {
        core::mem::replace(&mut self.held, held) != held
    }

    /// True while arming is forbidden.
    pub(crate) const fn is_held(&self) -> bool {
        self.held
    }

    /// Returns true when the caller should disarm accept.
    pub(crate) const fn should_disarm(&mut self) -> bool {
        match self.state {
            GateState::Armed => {
                self.state = GateState::Disarming;
                true
            }
            GateState::Paused(_) => {
                self.state = GateState::Idle;
                false
            }
            GateState::Closed | GateState::Disarming | GateState::Idle => false,
        }
    }

    /// Records an accepted connection.
    #[inline(always)]
    pub(crate) const fn on_accepted(&mut self) {
        self.accepted += 1;
        if self.errors_in_row > 0 {
            self.errors_in_row = 0;
            self.backoff = self.backoff_min;
        }
    }

    /// Records that another worker serves the last accepted connection.
    pub(crate) const fn on_passed(&mut self) {
        self.accepted_published += 1;
    }

    /// Records a connection that another worker has accepted for this one.
    pub(crate) const fn on_adopted(&mut self) {
        self.accepted += 1;
        self.accepted_at_watch += 1;
    }

    /// Records that an accepted connection took a slot of the table.
    #[inline]
    pub(crate) const fn on_placed(&mut self) {
        self.placed += 1;
    }

    /// Returns the number of connections accepted since the last call, and the number of these that
    /// took a slot. The other connections have already ended.
    #[inline]
    pub(crate) const fn take_accepted(&mut self) -> (u64, u64) {
        let accepted = self.accepted - core::mem::replace(&mut self.accepted_published, self.accepted);
        (accepted, core::mem::replace(&mut self.placed, 0))
    }

    /// Records that accept ended on request, or without an error.
    pub(crate) fn on_ended(&mut self) {
        if self.state != GateState::Closed {
            self.state = GateState::Idle;
        }
    }

    /// Records that accept ended with an error of the given kind.
    pub(crate) fn on_error(&mut self, fault: AcceptFault, now: Time) {
        if self.state == GateState::Closed {
            return;
        }
        self.errors_in_row += 1;
        let instant = match fault {
            AcceptFault::Client | AcceptFault::Mode => self.errors_in_row <= INSTANT_RETRIES_MAX,
            AcceptFault::Listener | AcceptFault::Resources => false,
        };
        self.downgrade |= fault == AcceptFault::Mode;
        if instant {
            self.state = GateState::Idle;
            return;
        }
        self.state = GateState::Paused(now.after(self.backoff));
        self.backoff = (self.backoff * 2).min(self.backoff_max);
    }

    /// Returns true once after a stall or an unsupported mode: the caller must then switch to the
    /// next lower mode before it arms accept again.
    pub(crate) const fn takes_downgrade(&mut self) -> bool {
        core::mem::replace(&mut self.downgrade, false)
    }

    /// Detects a stalled accept; called once per [`WATCH_EVERY`]. `backlogged` queries the kernel
    /// whether clients wait. Returns true when accept is armed and clients waited at two
    /// consecutive checks without an accept in between: the caller must then disarm accept and
    /// switch to the next lower mode.
    pub(crate) fn watch(&mut self, backlogged: impl FnOnce() -> bool) -> bool {
        let quiet = self.accepted == self.accepted_at_watch;
        self.accepted_at_watch = self.accepted;
        if self.state != GateState::Armed || !quiet || !backlogged() {
            self.suspected = false;
            return false;
        }
        let stalled = core::mem::replace(&mut self.suspected, true);
        self.downgrade |= stalled;
        stalled
    }

    /// Records that the listener was closed.
    pub(crate) const fn close(&mut self) {
        self.state = GateState::Closed;
    }

    /// True when the listener may be closed now.
    pub(crate) const fn can_close(&self) -> bool {
        matches!(self.state, GateState::Idle | GateState::Paused(_))
    }

    /// True when the listener is closed.
    pub(crate) const fn is_closed(&self) -> bool {
        matches!(self.state, GateState::Closed)
    }

    /// True when accept is armed and not being disarmed.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.state, GateState::Armed)
    }

    /// True when accept is armed or being disarmed.
    pub(crate) const fn is_armed(&self) -> bool {
        matches!(self.state, GateState::Armed | GateState::Disarming)
    }

    /// Returns the end of the current pause, if there is one.
    pub(crate) const fn paused_until(&self) -> Option<Time> {
        match self.state {
            GateState::Paused(until) => Some(until),
            _ => None,
        }
    }
}

/// The timer for [`Gate::watch`].
#[derive(Debug)]
pub(crate) struct WatchTimer {
    due: Time,
}

impl WatchTimer {
    pub(crate) fn new(now: Time) -> Self {
        Self { due: now.after(WATCH_EVERY) }
    }

    pub(crate) fn takes(&mut self, now: Time) -> bool {
        let due = self.due <= now;
        if due {
            self.due = now.after(WATCH_EVERY);
        }
        due
    }

    pub(crate) const fn due(&self) -> Time {
        self.due
    }
}

/// Classifies an error of `accept(2)` or of a receive of datagrams.
pub(crate) const fn fault_of(errno: rustix::io::Errno) -> AcceptFault {
    use rustix::io::Errno;
    match errno {
        Errno::CONNABORTED
        | Errno::INTR
        | Errno::AGAIN
        | Errno::PROTO
        | Errno::HOSTUNREACH
        | Errno::NETDOWN
        | Errno::NETUNREACH
        | Errno::HOSTDOWN
        | Errno::NOPROTOOPT
        | Errno::NONET
        | Errno::CANCELED => AcceptFault::Client,
        Errno::INVAL | Errno::OPNOTSUPP => AcceptFault::Mode,
        Errno::BADF | Errno::NOTSOCK => AcceptFault::Listener,
        _ => AcceptFault::Resources,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at_ms(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn gate() -> Gate {
        Gate::new(true, Duration::from_millis(10), Duration::from_secs(1))
    }

    #[test]
    fn the_table_fills_once_and_opens_at_90_percent() {
        let mut admission = Admission::new(100);
        assert!(!admission.fills(99));
        assert!(admission.fills(100));
        assert!(!admission.fills(101), "reported once");
        assert!(!admission.opens(91));
        assert!(admission.opens(90));
        assert!(!admission.is_full());
    }

    #[test]
    fn a_table_of_one_opens_when_it_is_empty() {
        let mut admission = Admission::new(1);
        assert!(admission.fills(1));
        assert!(admission.opens(0));
    }

    #[test]
    fn resource_errors_back_off_from_10_ms_to_1_s_and_a_connection_resets_that() {
        let mut gate = gate();
        let mut now_ms = 0;
        let mut pauses = Vec::new();
        for _ in 0..9 {
            assert!(gate.should_arm(at_ms(now_ms)));
            gate.on_error(AcceptFault::Resources, at_ms(now_ms));
            let until = gate.paused_until().expect("paused");
            pauses.push(until.since(at_ms(now_ms)).as_millis());
            now_ms = until.as_nanos() / 1_000_000;
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert!(gate.should_arm(at_ms(now_ms)));
        gate.on_accepted();
        gate.on_error(AcceptFault::Resources, at_ms(0));
        assert_eq!(gate.paused_until(), Some(at_ms(10)));
    }

    #[test]
    fn a_clients_error_is_retried_at_once_but_not_forever() {
        let mut gate = gate();
        for _ in 0..INSTANT_RETRIES_MAX {
            assert!(gate.should_arm(at_ms(0)));
            gate.on_error(AcceptFault::Client, at_ms(0));
        }
        assert!(gate.should_arm(at_ms(0)));
        gate.on_error(AcceptFault::Client, at_ms(0));
        assert!(!gate.should_arm(at_ms(0)), "retries are used up");
    }

    #[test]
    fn two_checks_that_find_waiting_clients_and_no_accept_are_a_stall() {
        let mut gate = gate();
        assert!(gate.should_arm(at_ms(0)));
        assert!(!gate.watch(|| true), "one check is not enough");
        assert!(gate.watch(|| true));
        assert!(gate.takes_downgrade());
        gate.on_accepted();
        assert!(!gate.watch(|| true), "progress");
        assert!(!gate.watch(|| true));
        assert!(!gate.watch(|| false), "no client waits");
        assert!(!gate.watch(|| true));
    }

    #[test]
    fn a_connection_is_counted_by_the_worker_that_serves_it() {
        let (mut accepting, mut serving) = (gate(), gate());
        assert!(accepting.should_arm(at_ms(0)) && serving.should_arm(at_ms(0)));
        (0..3).for_each(|_| accepting.on_accepted());
        accepting.on_passed();
        serving.on_adopted();
        assert_eq!((accepting.take_accepted().0, serving.take_accepted().0), (2, 1));
        assert!(!serving.watch(|| true), "its own accept made no progress");
        assert!(serving.watch(|| true));
        assert!(!accepting.watch(|| true));
    }

    #[test]
    fn disarming_waits_for_the_end_and_a_closed_gate_stays_closed() {
        let mut gate = gate();
        assert!(gate.should_arm(at_ms(0)));
        assert!(gate.should_disarm());
        assert!(!gate.should_disarm(), "once");
        assert!(!gate.can_close() && gate.is_armed());
        gate.on_ended();
        assert!(gate.can_close());
        gate.close();
        gate.on_ended();
        gate.on_error(AcceptFault::Client, at_ms(0));
        assert!(gate.is_closed() && !gate.should_arm(at_ms(9)));
    }
}
