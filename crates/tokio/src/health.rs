//! What the program says of itself, and when its runtimes last showed that they run: set from async code, read by ring threads with plain
//! loads.
//!
//! Does not know about: paths, replies.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use doorbell::time::{Clock as _, OsClock, Time};

use crate::pulse::{Place, Pulse};

/// Ticks in the time after which a missing one means that the runtime is stuck.
const TICKS_A_LIMIT: u32 = 8;

/// The program's health. Cheap to clone; every clone is the same. It may be given to several servers, also in several runtimes: then it is
/// alive while none of these is stuck.
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
    beats: Beat,
    stalled_after_nanos: AtomicU64,
}

/// One server's heartbeat, and those of the others that have this health.
#[derive(Debug, Default)]
struct Beat {
    /// When its runtime last ticked, on the workers' clock.
    place: Place,
    /// Never taken away again; as many as there were servers at once.
    next: OnceLock<Box<Self>>,
}

/// The heartbeat of a server, from before its start to its end.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    health: Health,
    /// Its place in the list.
    index: usize,
    /// After its end another server may have the place.
    pulse: Pulse,
}

impl Default for Inside {
    fn default() -> Self {
        Self {
            dead: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            started: AtomicBool::new(false),
            beats: Beat::default(),
            stalled_after_nanos: AtomicU64::new(nanos(Duration::from_secs(10))),
        }
    }
}

impl Health {
    /// Alive, not started, not ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// After so long without a tick the runtime counts as stuck, and the program as not alive. Default 10 s; at least 100 ms, because the
    /// workers' clock is coarse. Set it before the server is started.
    #[must_use]
    pub fn stalled_after(self, time: Duration) -> Self {
        let time = time.max(Duration::from_millis(100));
        self.inside.stalled_after_nanos.store(nanos(time), Ordering::Relaxed);
        self
    }

    /// Whether the program should live on. Default true.
    pub fn set_live(&self, live: bool) {
        self.inside.dead.store(!live, Ordering::Relaxed);
    }

    /// Whether the program takes traffic. The first true is also the end of starting up. Default false.
    pub fn set_ready(&self, ready: bool) {
        if ready {
            self.set_started();
        }
        self.inside.ready.store(ready, Ordering::Relaxed);
    }

    /// Starting up is over.
    pub fn set_started(&self) {
        self.inside.started.store(true, Ordering::Relaxed);
    }

    /// From now on the program takes no more traffic. [`crate::Control::drain`] calls it.
    pub fn set_draining(&self) {
        self.inside.draining.store(true, Ordering::Relaxed);
    }

    /// True unless the program said otherwise or its runtime is stuck. `now` is a worker's time, as in `Request::now`.
    #[inline]
    pub fn is_live(&self, now: Time) -> bool {
        !self.inside.dead.load(Ordering::Relaxed) && !self.is_stalled(now)
    }

    /// True while the program takes traffic, and is alive.
    #[inline]
    pub fn is_ready(&self, now: Time) -> bool {
        let inside = &self.inside;
        inside.ready.load(Ordering::Relaxed) && !inside.draining.load(Ordering::Relaxed) && self.is_live(now)
    }

    /// True once starting up is over.
    #[inline]
    pub fn is_started(&self) -> bool {
        self.inside.started.load(Ordering::Relaxed)
    }

    /// True from the start of a drain on.
    #[inline]
    pub fn is_draining(&self) -> bool {
        self.inside.draining.load(Ordering::Relaxed)
    }

    /// True when a runtime has not ticked for too long.
    #[inline]
    pub fn is_stalled(&self, now: Time) -> bool {
        let after = self.inside.stalled_after_nanos.load(Ordering::Relaxed);
        self.beats().any(|beat| {
            let nanos = beat.place.nanos();
            nanos != 0 && now.as_nanos().saturating_sub(nanos) > after
        })
    }

    /// A server begins, and its runtime is one that has to tick from now on. It must until [`Heartbeat::end`].
    pub(crate) fn begin(&self) -> Heartbeat {
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
    /// Ticks for as long as the runtime lives and the server runs.
    pub(crate) async fn tick(self: Arc<Self>) {
        let limit = Duration::from_nanos(self.health.inside.stalled_after_nanos.load(Ordering::Relaxed));
        let mut ticks = tokio::time::interval(limit / TICKS_A_LIMIT);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while self.beat() {
            ticks.tick().await;
        }
    }

    /// Notes that the runtime runs. False after the end.
    fn beat(&self) -> bool {
        self.place().is_some_and(|place| self.pulse.beat(place, nanos_now()))
    }

    /// The server has ended: nobody misses its runtime.
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
    fn states_are_what_was_set() {
        let health = Health::new();
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
        assert!(health.is_live(after(limit * 9)), "nobody ticks, nobody is missed");
        let heartbeat = health.begin();
        assert!(health.is_live(after(limit - Duration::from_millis(100))));
        let late = after(limit + Duration::from_millis(100));
        assert!(!health.is_live(late) && !health.is_ready(late) && health.is_stalled(late));
        assert!(heartbeat.beat());
        assert!(health.is_live(OsClock.now()));
        heartbeat.end();
        assert!(!heartbeat.beat() && health.is_live(after(limit * 9)), "its server is gone");
    }

    /// As if that runtime had stopped so long ago.
    fn stop(heartbeat: &Heartbeat, ago: Duration) {
        let long_ago = nanos_now().saturating_sub(nanos(ago)).max(1);
        assert!(heartbeat.pulse.beat(heartbeat.place().unwrap(), long_ago));
    }

    #[test]
    fn one_of_several_runtimes_that_is_stuck_is_not_hidden_by_the_others() {
        let health = Health::new().stalled_after(Duration::from_millis(100));
        let beats = [(); 3].map(|()| health.begin());
        for stuck in &beats {
            stop(stuck, Duration::from_millis(500));
            for other in beats.iter().filter(|other| other.index != stuck.index) {
                assert!(other.beat());
                assert!(health.is_stalled(OsClock.now()), "{} hides {}", other.index, stuck.index);
            }
            assert!(stuck.beat() && !health.is_stalled(OsClock.now()));
        }
        // A place is used again, and whoever had it has no part in it any more.
        beats[1].end();
        let next = health.begin();
        assert_eq!(next.index, 1);
        stop(&next, Duration::from_millis(500));
        beats[1].end();
        assert!(!beats[1].beat() && health.is_stalled(OsClock.now()));
    }
}
