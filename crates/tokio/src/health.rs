//! What the program says of itself, and when its runtime last showed that it runs: set from async code, read by ring threads with plain
//! loads.
//!
//! Does not know about: paths, replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use doorbell::time::{Clock as _, OsClock, Time};

/// Ticks in the time after which a missing one means that the runtime is stuck.
const TICKS_A_LIMIT: u32 = 8;

/// The program's health. Cheap to clone; every clone is the same.
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
    /// When the runtime last ticked, on the workers' clock. 0: nobody ticks, and nobody is missed.
    beat_nanos: AtomicU64,
    stalled_after_nanos: AtomicU64,
}

impl Default for Inside {
    fn default() -> Self {
        Self {
            dead: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            started: AtomicBool::new(false),
            beat_nanos: AtomicU64::new(0),
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

    /// True when the runtime has not ticked for too long.
    #[inline]
    pub fn is_stalled(&self, now: Time) -> bool {
        let beat = self.inside.beat_nanos.load(Ordering::Relaxed);
        beat != 0
            && now.as_nanos().saturating_sub(beat) > self.inside.stalled_after_nanos.load(Ordering::Relaxed)
    }

    /// Notes that the runtime runs.
    pub(crate) fn beat(&self) {
        self.inside.beat_nanos.store(OsClock.now().as_nanos().max(1), Ordering::Relaxed);
    }

    /// Ticks for as long as the runtime lives and the program has a use for it: whoever holds the health beside this task.
    pub(crate) async fn tick(self) {
        let limit = Duration::from_nanos(self.inside.stalled_after_nanos.load(Ordering::Relaxed));
        let mut ticks = tokio::time::interval(limit / TICKS_A_LIMIT);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while Arc::strong_count(&self.inside) > 1 {
            ticks.tick().await;
            self.beat();
        }
    }
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
        health.beat();
        assert!(health.is_live(after(limit - Duration::from_millis(100))));
        let late = after(limit + Duration::from_millis(100));
        assert!(!health.is_live(late) && !health.is_ready(late) && health.is_stalled(late));
        health.beat();
        assert!(health.is_live(OsClock.now()));
    }
}
