//! Heartbeats of runtimes, and waiting connections of servers: atomics that tasks and ring threads
//! write, and that the internal checks read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use doorbell::time::{Clock as _, OsClock};
use tokio::runtime::{Handle, RuntimeMetrics};

use crate::pulse::{Pulse, PulseSlot};
use crate::waits::Waits;
use crate::workers::{Silence, Workers};

/// A heartbeat of one runtime or server, as a node of the list of all heartbeats of a `Health`.
#[derive(Debug)]
pub(crate) struct HeartbeatNode {
    /// Time of the last tick of its runtime, on the clock of the ring threads.
    slot: PulseSlot,
    /// False if no runtime is monitored.
    ticks: AtomicBool,
    /// Waiting times of connections handed over and not yet accepted.
    waits: Arc<Waits>,
    workers: Mutex<Option<Workers>>,
    /// Nodes are reused and never removed, so their number is the largest number of heartbeats that
    /// existed at the same time.
    next: OnceLock<Box<Self>>,
}

/// All heartbeats of a `Health`.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeartbeatList(Arc<HeartbeatNode>);

/// The heartbeat of a server until its end, or of the runtime of the checks.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    heartbeats: HeartbeatList,
    /// Index of its node in the list.
    index: usize,
    /// Ownership of the node: after this heartbeat ends, another server may use the node.
    pulse: Pulse,
    ended: AtomicBool,
}

impl Default for HeartbeatNode {
    fn default() -> Self {
        Self {
            slot: PulseSlot::default(),
            ticks: AtomicBool::new(false),
            waits: Arc::new(Waits::new(nanos_now)),
            workers: Mutex::default(),
            next: OnceLock::new(),
        }
    }
}

impl HeartbeatNode {
    /// Waiting times of connections handed over and not yet accepted.
    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Time since the last tick. `None` if the node is free or no runtime is monitored.
    pub(crate) fn since_tick(&self, now: u64) -> Option<Duration> {
        let nanos = self.slot.nanos();
        let ticks = nanos != 0 && self.ticks.load(Ordering::Relaxed);
        ticks.then(|| Duration::from_nanos(now.saturating_sub(nanos)))
    }

    /// The worker that has been inactive longest.
    pub(crate) fn silence(&self, now: u64) -> Option<Silence> {
        self.lock().as_mut()?.longest_silence(now)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Workers>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeartbeatList {
    /// Begins a heartbeat. Without `runtime`, it only monitors waiting connections.
    pub(crate) fn begin(&self, runtime: Option<RuntimeMetrics>) -> Heartbeat {
        let (mut beat, mut index) = (&*self.0, 0);
        while !beat.slot.take(nanos_now()) {
            beat = beat.next.get_or_init(Box::default);
            index += 1;
        }
        beat.ticks.store(runtime.is_some(), Ordering::Relaxed);
        *beat.lock() = runtime.map(Workers::new);
        Heartbeat { heartbeats: self.clone(), index, pulse: Pulse::default(), ended: AtomicBool::new(false) }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &HeartbeatNode> {
        std::iter::successors(Some(&*self.0), |beat| beat.next.get().map(Box::as_ref))
    }
}

impl Heartbeat {
    /// Ticks on this runtime until the heartbeat ends.
    pub(crate) fn tick_on(self: &Arc<Self>, runtime: &Handle, interval: Duration) {
        let heartbeat = Arc::clone(self);
        runtime.spawn(async move {
            let mut ticks = tokio::time::interval(interval);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            while heartbeat.beat(nanos_now()) {
                ticks.tick().await;
            }
        });
    }

    /// Records that the runtime ran at this time. False after the end.
    pub(crate) fn beat(&self, nanos: u64) -> bool {
        self.slot().is_some_and(|beat| self.pulse.beat(&beat.slot, nanos))
    }

    /// The record to which the server of this heartbeat reports waiting connections.
    pub(crate) fn waits(&self) -> Option<Arc<Waits>> {
        self.slot().map(|beat| Arc::clone(&beat.waits))
    }

    /// Ends the heartbeat. The runtime is no longer monitored.
    pub(crate) fn end(&self) {
        if self.ended.swap(true, Ordering::SeqCst) {
            return;
        }
        if let Some(beat) = self.slot() {
            // This must precede the release of the node, because the next owner then sets its own
            // value.
            *beat.lock() = None;
            self.pulse.end(&beat.slot);
        }
    }

    fn slot(&self) -> Option<&HeartbeatNode> {
        self.heartbeats.iter().nth(self.index)
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.end();
    }
}

/// The time on the clock of the ring threads; never 0.
pub(crate) fn nanos_now() -> u64 {
    OsClock.now().as_nanos().max(1)
}
