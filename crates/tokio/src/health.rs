//! Health of the program and heartbeats of its runtimes: set by async code, read by ring threads
//! with plain loads.
//!
//! Does not know about: paths, replies.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use doorbell::time::{Clock as _, OsClock, Time};

use crate::pulse::{Place, Pulse};
use crate::verdict::{Probe, Verdict};
use crate::waits::Waits;
use crate::workers::{SILENCE_MIN, Workers};

/// Ticks per limit; a runtime without a tick within the limit counts as stuck.
const TICKS_A_LIMIT: u32 = 8;

/// The health of the program.
///
/// Cheap to clone; clones share one state. Several servers may share it, also in several runtimes:
/// then the program is alive while none of these runtimes is stuck, and while the connections that
/// each server hands over are accepted.
///
/// Pass it to each server whose [`Probes`](crate::Probes) use it, by
/// [`Embed::health`](crate::Embed::health). Until the first such call, probes get a 503
/// ([`Verdict::Unwatched`]), because a stuck runtime would not be detected.
#[derive(Clone, Debug, Default)]
pub struct Health {
    inside: Arc<Inside>,
}

#[derive(Debug)]
struct Inside {
    dead: AtomicBool,
    draining: AtomicBool,
    ready: AtomicBool,
    started: AtomicBool,
    /// A server uses this health, or the detection is disabled.
    watched: AtomicBool,
    beats: Beat,
    /// `u64::MAX`: never.
    stalled_after_nanos: AtomicU64,
    accept_within_nanos: AtomicU64,
}

/// The heartbeat of one server, followed by those of other servers that share this health.
#[derive(Debug)]
struct Beat {
    /// Time of the last tick of its runtime, on the workers' clock.
    place: Place,
    /// Connections handed over and not yet accepted.
    waits: Arc<Waits>,
    /// Entries are never removed: there are as many as there were servers at the same time.
    next: OnceLock<Box<Self>>,
}

/// The heartbeat of a server, from before its start to its end.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    health: Health,
    /// Index of its place in the list.
    index: usize,
    /// Ownership of the place: after its end another server may take it.
    pulse: Pulse,
}

impl Default for Beat {
    fn default() -> Self {
        Self { place: Place::default(), waits: Arc::new(Waits::new(nanos_now)), next: OnceLock::new() }
    }
}

impl Default for Inside {
    fn default() -> Self {
        Self {
            dead: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            started: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            beats: Beat::default(),
            stalled_after_nanos: AtomicU64::new(nanos(Duration::from_secs(10))),
            accept_within_nanos: AtomicU64::new(nanos(Duration::from_secs(10))),
        }
    }
}

impl Health {
    /// A health that is alive, still starting, and not ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Time without a tick after which the runtime counts as stuck, and the program as not alive.
    /// Default 10 s; at least 100 ms, because the workers' clock is coarse. Call it before the
    /// start of the server.
    ///
    /// A single blocked worker of the runtime counts too, because connections and tasks wait for
    /// it. It is detected after the same time, but not before 6.1 s: Tokio updates its statistics
    /// of a worker every 61 polls (`event_interval`), so a worker that is busy with polls of up to
    /// 100 ms each is never taken for a blocked one.
    #[must_use]
    pub fn stalled_after(self, time: Duration) -> Self {
        let time = time.max(Duration::from_millis(100));
        self.inside.stalled_after_nanos.store(nanos(time), Ordering::Relaxed);
        self
    }

    /// Maximum time that a connection waits to be accepted from [`Handed`](crate::Handed).
    ///
    /// If one waits longer, the program is not ready; if none was accepted in that time, it is not
    /// alive either. Default 10 s.
    #[must_use]
    pub fn accept_within(self, time: Duration) -> Self {
        self.inside.accept_within_nanos.store(nanos(time), Ordering::Relaxed);
        self
    }

    /// Disables the detection of a stuck runtime, for a program that a heartbeat must not wake, or
    /// whose health is served without a runtime. Call it before the start of the server.
    ///
    /// [`Embed::health`](crate::Embed::health) is then optional. Without it, a dropped
    /// [`Handed`](crate::Handed) is not detected either.
    #[must_use]
    pub fn without_heartbeat(self) -> Self {
        self.inside.stalled_after_nanos.store(u64::MAX, Ordering::Relaxed);
        self.inside.watched.store(true, Ordering::Relaxed);
        self
    }

    /// Sets whether the program is alive; if not, it should be restarted. Default true.
    pub fn set_live(&self, live: bool) {
        self.inside.dead.store(!live, Ordering::Relaxed);
    }

    /// Sets whether the program takes traffic. The first `true` also ends the startup phase.
    /// Default false.
    pub fn set_ready(&self, ready: bool) {
        if ready {
            self.set_started();
        }
        self.inside.ready.store(ready, Ordering::Relaxed);
    }

    /// Ends the startup phase.
    pub fn set_started(&self) {
        self.inside.started.store(true, Ordering::Relaxed);
    }

    /// Fails readiness permanently. [`crate::Control::drain`] calls it.
    pub fn set_draining(&self) {
        self.inside.draining.store(true, Ordering::Relaxed);
    }

    /// The verdict for a probe at a given time. `now` is a worker's time, as in `Request::now`.
    pub fn verdict(&self, probe: Probe, now: Time) -> Verdict {
        let inside = &*self.inside;
        if !inside.watched.load(Ordering::Relaxed) {
            return Verdict::Unwatched;
        }
        if self.is_stalled(now) {
            return Verdict::Stalled;
        }
        // A draining program is not required to accept.
        let draining = self.is_draining();
        let is_gone = || self.beats().any(|beat| beat.waits.is_gone());
        if !draining && (is_gone() || self.waits_beyond(now, Waits::idle)) {
            return Verdict::NotAccepting;
        }
        let dead = inside.dead.load(Ordering::Relaxed);
        match probe {
            Probe::Live if dead => Verdict::Down,
            Probe::Ready if draining => Verdict::Draining,
            Probe::Ready if dead || !inside.ready.load(Ordering::Relaxed) => Verdict::NotReady,
            Probe::Ready if self.waits_beyond(now, Waits::oldest) => Verdict::Backlog,
            Probe::Started if !self.is_started() => Verdict::Starting,
            Probe::Live | Probe::Ready | Probe::Started => Verdict::Ok,
        }
    }

    /// The current verdict for a probe of this path; `None` if the path is not one of a probe. For
    /// programs that reply to probes themselves and cannot use `Health::layer` (feature `axum`).
    pub fn ask(&self, path: &str) -> Option<Verdict> {
        Probe::of(path).map(|probe| self.verdict(probe, OsClock.now()))
    }

    /// True while `/livez` gets 200. `now` is a worker's time, as in `Request::now`.
    #[inline]
    pub fn is_live(&self, now: Time) -> bool {
        self.verdict(Probe::Live, now) == Verdict::Ok
    }

    /// True while `/readyz` gets 200.
    #[inline]
    pub fn is_ready(&self, now: Time) -> bool {
        self.verdict(Probe::Ready, now) == Verdict::Ok
    }

    /// True after the startup phase.
    #[inline]
    pub fn is_started(&self) -> bool {
        self.inside.started.load(Ordering::Relaxed)
    }

    /// True from the start of a drain.
    #[inline]
    pub fn is_draining(&self) -> bool {
        self.inside.draining.load(Ordering::Relaxed)
    }

    /// True if a runtime has not ticked within the limit, or one of its workers is blocked.
    #[inline]
    pub fn is_stalled(&self, now: Time) -> bool {
        let after = self.inside.stalled_after_nanos.load(Ordering::Relaxed);
        self.beats().any(|beat| {
            let nanos = beat.place.nanos();
            nanos != 0 && now.as_nanos().saturating_sub(nanos) > after
        })
    }

    /// Whether connections of any server wait longer than the limit. `since` returns the start of
    /// the wait, 0 for none.
    fn waits_beyond(&self, now: Time, since: impl Fn(&Waits) -> u64) -> bool {
        let limit = self.inside.accept_within_nanos.load(Ordering::Relaxed);
        self.beats().any(|beat| {
            let nanos = since(&beat.waits);
            nanos != 0 && now.as_nanos().saturating_sub(nanos) > limit
        })
    }

    /// Begins the heartbeat of a server: its runtime must tick until [`Heartbeat::end`].
    pub(crate) fn begin(&self) -> Heartbeat {
        self.inside.watched.store(true, Ordering::Relaxed);
        let mut beat = &self.inside.beats;
        let mut index = 0;
        while !beat.place.take(nanos_now()) {
            beat = beat.next.get_or_init(Box::default);
            index += 1;
        }
        Heartbeat { health: self.clone(), index, pulse: Pulse::default() }
    }

    fn beats(&self) -> impl Iterator<Item = &Beat> {
        std::iter::successors(Some(&self.inside.beats), |beat| beat.next.get().map(Box::as_ref))
    }
}

impl Heartbeat {
    /// Whether a missing tick is detected.
    pub(crate) fn ticks(&self) -> bool {
        self.limit_nanos() != u64::MAX
    }

    /// Ticks until the server ends.
    pub(crate) async fn tick(self: Arc<Self>) {
        let limit = Duration::from_nanos(self.limit_nanos());
        let mut ticks = tokio::time::interval(limit / TICKS_A_LIMIT);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut workers = Workers::new(tokio::runtime::Handle::current().metrics());
        // A beat records the last activity of the worker that has been inactive longest. A worker
        // may be inactive for `SILENCE_MIN`, which can exceed the limit of the runtime: the
        // difference is added.
        let allowance = nanos(SILENCE_MIN.saturating_sub(limit));
        loop {
            let now = nanos_now();
            if !self.beat(workers.oldest_sign(now).saturating_add(allowance).min(now)) {
                return;
            }
            ticks.tick().await;
        }
    }

    /// Records that the runtime ran at this time. False after the end.
    fn beat(&self, nanos: u64) -> bool {
        self.place().is_some_and(|place| self.pulse.beat(place, nanos))
    }

    fn limit_nanos(&self) -> u64 {
        self.health.inside.stalled_after_nanos.load(Ordering::Relaxed)
    }

    /// Where its server reports waiting connections.
    pub(crate) fn waits(&self) -> Option<Arc<Waits>> {
        self.health.beats().nth(self.index).map(|beat| Arc::clone(&beat.waits))
    }

    /// Ends the heartbeat: the runtime need not tick any more.
    pub(crate) fn end(&self) {
        if let Some(place) = self.place() {
            self.pulse.end(place);
        }
    }

    fn place(&self) -> Option<&Place> {
        self.health.beats().nth(self.index).map(|beat| &beat.place)
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.end();
    }
}

fn nanos_now() -> u64 {
    OsClock.now().as_nanos().max(1)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(time: Duration) -> Time {
        OsClock.now().after(time)
    }

    #[test]
    fn states_are_the_values_set() {
        let health = Health::new().without_heartbeat();
        let now = OsClock.now();
        assert!(health.is_live(now) && !health.is_ready(now) && !health.is_started());
        let other = health.clone();
        other.set_ready(true);
        assert!(health.is_ready(now) && health.is_started());
        health.set_draining();
        assert!(!health.is_ready(now) && health.is_live(now));
        health.set_live(false);
        assert!(!health.is_live(now));
    }

    #[test]
    fn without_a_beat_for_the_limit_it_is_stalled_and_a_beat_heals_it() {
        let limit = Duration::from_secs(5);
        let health = Health::new().stalled_after(limit);
        health.set_ready(true);
        assert_eq!(
            health.verdict(Probe::Live, OsClock.now()),
            Verdict::Unwatched,
            "a missing Embed::health is reported"
        );
        let heartbeat = health.begin();
        assert!(health.is_live(after(limit - Duration::from_millis(100))));
        let late = after(limit + Duration::from_millis(100));
        assert!(!health.is_live(late) && !health.is_ready(late) && health.is_stalled(late));
        assert!(heartbeat.beat(nanos_now()));
        assert!(health.is_live(OsClock.now()));
        heartbeat.end();
        assert!(!heartbeat.beat(nanos_now()) && health.is_live(after(limit * 9)), "its server is gone");
    }

    /// Simulates a runtime that stopped this long ago.
    fn stop(heartbeat: &Heartbeat, ago: Duration) {
        let long_ago = nanos_now().saturating_sub(nanos(ago)).max(1);
        assert!(heartbeat.pulse.beat(heartbeat.place().unwrap(), long_ago));
    }

    #[test]
    fn one_stuck_runtime_of_several_is_detected() {
        let health = Health::new().stalled_after(Duration::from_millis(100));
        let beats = [(); 3].map(|()| health.begin());
        for stuck in &beats {
            stop(stuck, Duration::from_millis(500));
            for other in beats.iter().filter(|other| other.index != stuck.index) {
                assert!(other.beat(nanos_now()));
                assert!(health.is_stalled(OsClock.now()), "{} hides {}", other.index, stuck.index);
            }
            assert!(stuck.beat(nanos_now()) && !health.is_stalled(OsClock.now()));
        }
        // A place is reused, and its previous owner no longer affects it.
        beats[1].end();
        let next = health.begin();
        assert_eq!(next.index, 1);
        stop(&next, Duration::from_millis(500));
        beats[1].end();
        assert!(!beats[1].beat(nanos_now()) && health.is_stalled(OsClock.now()));
    }

    #[test]
    fn unaccepted_connections_fail_readiness_first() {
        let limit = Duration::from_secs(5);
        let health = Health::new().accept_within(limit);
        health.set_ready(true);
        let heartbeat = health.begin();
        let waits = heartbeat.waits().unwrap();
        let told = |probe, at| health.verdict(probe, at);
        let (soon, late) = (after(limit / 2), after(limit + Duration::from_millis(100)));
        waits.begin(nanos_now());
        assert_eq!((told(Probe::Live, soon), told(Probe::Ready, soon)), (Verdict::Ok, Verdict::Ok));
        for probe in [Probe::Live, Probe::Ready, Probe::Started] {
            assert_eq!(told(probe, late), Verdict::NotAccepting);
        }
        // Others are accepted, but this one is not accepted in time.
        let long_ago = nanos_now().saturating_sub(nanos(limit * 2)).max(1);
        waits.accepted(Some(long_ago));
        assert_eq!((told(Probe::Live, soon), told(Probe::Ready, soon)), (Verdict::Ok, Verdict::Backlog));
        waits.accepted(None);
        assert_eq!((told(Probe::Live, late), told(Probe::Ready, late)), (Verdict::Ok, Verdict::Ok));
        waits.leave();
        assert_eq!(told(Probe::Live, soon), Verdict::NotAccepting, "the receiver was dropped");
        health.set_draining();
        assert_eq!((told(Probe::Live, soon), told(Probe::Ready, soon)), (Verdict::Ok, Verdict::Draining));
    }
}
