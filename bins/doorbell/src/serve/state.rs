//! What every probe looks at: is the process draining, has a worker failed? And what a health endpoint makes of that.
//!
//! Does not know about: routes, replies, who changes it.

use crate::config::model::{Health, HealthState};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Told of every change.
type Observer = Box<dyn Fn(&State) + Send + Sync>;

/// Read by every probe and written a few times in a life.
#[derive(Default)]
pub(super) struct State {
    degraded: AtomicBool,
    draining: AtomicBool,
    observers: Mutex<Vec<Observer>>,
}

/// What a health endpoint answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Degraded,
    Down,
    Draining,
    Up,
}

/// A health endpoint, wherever it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    initial: HealthState,
    /// False for endpoints that stay up while the process lives.
    is_readiness: bool,
}

impl State {
    pub(super) fn set_degraded(&self) {
        self.degraded.store(true, Ordering::Relaxed);
        self.tell();
    }

    pub(super) fn set_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.tell();
    }

    /// Calls `observer` now and after every change.
    pub(super) fn observe(&self, observer: impl Fn(&Self) + Send + Sync + 'static) {
        let mut observers = self.observers.lock().unwrap_or_else(PoisonError::into_inner);
        // A change meanwhile waits for the lock and tells then.
        observer(self);
        observers.push(Box::new(observer));
    }

    /// The verdict of an endpoint that is about taking traffic.
    fn readiness(&self) -> Verdict {
        if self.draining.load(Ordering::Relaxed) {
            Verdict::Draining
        } else if self.degraded.load(Ordering::Relaxed) {
            Verdict::Degraded
        } else {
            Verdict::Up
        }
    }

    fn tell(&self) {
        self.observers.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|tell| tell(self));
    }
}

impl Endpoint {
    pub(super) fn of(health: &Health) -> Self {
        let is_readiness = health.name != "livez" && health.name != "startupz";
        Self { initial: health.initial, is_readiness }
    }

    #[inline]
    pub(super) fn verdict(self, state: &State) -> Verdict {
        match (self.initial, self.is_readiness) {
            (HealthState::Down, _) => Verdict::Down,
            (HealthState::Up, true) => state.readiness(),
            (HealthState::Up, false) => Verdict::Up,
        }
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("degraded", &self.degraded)
            .field("draining", &self.draining)
            .finish_non_exhaustive()
    }
}
