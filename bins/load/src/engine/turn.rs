//! The turn of a worker: start due work, wait, handle events. The clock is read after the wait, and
//! again after some events.
//!
//! Does not know about: other threads; which replies are good; execution of actions (`act`).

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use doorbell_ring::{Event, EventKind, Payload, Ring, Token};

use super::Gauge;
use super::delays::Delays;
use super::dial::Dialer;
use super::pace::Pace;
use super::requests::Requests;
use super::worker::Ended;
use crate::clock::{Clock, NEVER, Nanos};
use crate::conn::{Conn, Job, Next};
use crate::exit::{Exit, Failure};
use crate::stats::Stats;

/// A connection with its descriptor. The slot owns the send buffer while the ring does not use it.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) conn: Conn,
    pub(super) fd: Option<OwnedFd>,
    pub(super) generation: u32,
    pub(super) buf: Option<Vec<u8>>,
}

/// The measured part of a run.
pub(super) struct Window {
    pub(super) from: Nanos,
    /// No request starts from this time on.
    pub(super) until: Nanos,
    /// Number of measured requests.
    pub(super) requests: Option<u64>,
    /// Minimum end. With a rate and a number of requests, each request has an interval of the
    /// measured time, also the last one.
    pub(super) planned_until: Nanos,
}

/// A running worker. Its ring is dropped before its descriptors, because the drop ends the
/// operations in flight.
pub(super) struct Turn<'a> {
    pub(super) ring: Ring,
    pub(super) dialer: Dialer,
    pub(super) slots: Vec<Slot>,
    pub(super) requests: Requests,
    pub(super) job: Job,
    pub(super) pace: Pace,
    pub(super) pipeline: u32,
    pub(super) stats: Stats,
    /// Slots without a connection.
    pub(super) free: Vec<u32>,
    /// Slots with an open, idle connection.
    pub(super) idle: VecDeque<u32>,
    pub(super) paused: Delays,
    pub(super) backed_off: Delays,
    pub(super) clock: Clock,
    pub(super) now: Nanos,
    pub(super) sweep_at: Nanos,
    pub(super) sweep_every: Nanos,
    pub(super) stop: &'a AtomicBool,
}

/// Number of events in one turn after which the clock is read again.
const EVENTS_A_READING: u32 = 16;
/// Maximum number of connections that [`Turn::begin_due`] gives work in one turn, so that a server
/// does not get all connections at once.
const BEGIN_MAX: u32 = 256;
/// Maximum time for a cancelled operation to end.
const CANCEL_MAX: Nanos = 5_000_000_000;
/// Maximum time between two checks of `stop`.
const WAIT_MAX: Nanos = 100_000_000;

impl Turn<'_> {
    pub(super) fn run(&mut self, window: &Window, gauge: &Gauge) -> Result<Ended, Failure> {
        let mut is_measuring = false;
        let mut over_at = NEVER;
        let mut planned_until = window.planned_until;
        if window.requests.is_some() {
            self.pace.warm_up();
        }
        loop {
            if !is_measuring && self.now >= window.from {
                is_measuring = true;
                self.stats.reset();
                if let Some(requests) = window.requests {
                    self.pace.limit(requests);
                }
            }
            if self.stop.load(Ordering::Relaxed) {
                over_at = over_at.min(self.now);
                planned_until = 0;
                break;
            }
            let begun_all = self.begin_due();
            if over_at == NEVER && self.pace.is_over(self.now) {
                over_at = self.now;
            }
            if self.busy() == 0 && over_at != NEVER || self.now > self.give_up_at(over_at) {
                break;
            }
            let wait =
                if begun_all { self.wait_time(if is_measuring { NEVER } else { window.from }) } else { 0 };
            let entered = self.ring.enter(u32::from(wait > 0), Some(Duration::from_nanos(wait)));
            entered.map_err(|error| Failure::new(Exit::NoRing, error.to_string()))?;
            self.now = self.clock.now();
            self.reap();
            gauge.requests.store(self.stats.requests, Ordering::Relaxed);
            gauge.failures.store(self.stats.failures.total(), Ordering::Relaxed);
        }
        if !is_measuring {
            self.stats.reset();
        }
        let ended_at =
            over_at.max(self.stats.last_done).max(planned_until).min(window.until).max(window.from);
        self.stats.unstarted = self.pace.unstarted(over_at);
        self.stats.unfinished = self.slots.iter().map(|slot| slot.conn.requests_under_way()).sum();
        let ring = self.ring.report().to_string();
        Ok(Ended {
            stats: std::mem::take(&mut self.stats),
            is_measuring,
            measured_from: window.from,
            ended_at,
            ring,
        })
    }

    /// Starts due work. Returns false if more work is due than one turn may start.
    fn begin_due(&mut self) -> bool {
        while let Some(slot) = self.paused.pop(self.now) {
            let next = self.slots[slot as usize].conn.handle_gap_over(self.now, &self.job);
            self.act(slot, next);
        }
        while let Some(slot) = self.backed_off.pop(self.now) {
            self.free.push(slot);
        }
        if self.now >= self.sweep_at {
            self.sweep_at = self.now + self.sweep_every;
            self.sweep();
        }
        for _ in 0..BEGIN_MAX {
            if self.free.is_empty() && self.idle.is_empty() {
                return true;
            }
            let Some(batch) = self.pace.take(self.now, self.pipeline) else { return true };
            let slot = self.free.pop().or_else(|| self.idle.pop_front()).expect("one of them is not empty");
            let conn = &mut self.slots[slot as usize].conn;
            let next = if conn.is_idle() { Some(Next::SendRequests) } else { None };
            conn.begin(self.now, batch, &self.job);
            let next = next.unwrap_or_else(|| self.connect(slot));
            self.act(slot, next);
        }
        false
    }

    /// Time at which the worker stops waiting for the kernel. Every exchange ends by its deadline,
    /// so this limit applies only if the kernel does not cancel as requested.
    const fn give_up_at(&self, over_at: Nanos) -> Nanos {
        over_at.saturating_add(self.job.timeout).saturating_add(self.job.gap).saturating_add(CANCEL_MAX)
    }

    fn busy(&self) -> usize {
        self.slots.len() - self.free.len() - self.idle.len() - self.backed_off.len()
    }

    /// Time until the next work is due if no event arrives.
    fn wait_time(&self, measured_from: Nanos) -> Nanos {
        let has_room = !self.free.is_empty() || !self.idle.is_empty();
        let work = if has_room { self.pace.next_due() } else { NEVER };
        let due = self.sweep_at.min(self.paused.next_due()).min(self.backed_off.next_due());
        due.min(work).min(measured_from).saturating_sub(self.now).min(WAIT_MAX)
    }

    fn sweep(&mut self) {
        for index in 0..self.slots.len() {
            let conn = &mut self.slots[index].conn;
            if conn.deadline() <= self.now {
                let next = conn.handle_deadline(self.now, &mut self.stats);
                self.act(u32::try_from(index).expect("a slot"), next);
            }
        }
    }

    fn reap(&mut self) {
        let mut until_reading = EVENTS_A_READING;
        while let Some(event) = self.ring.next() {
            self.apply(event);
            until_reading -= 1;
            if until_reading == 0 {
                until_reading = EVENTS_A_READING;
                self.now = self.clock.now();
            }
        }
    }

    fn apply(&mut self, event: Event) {
        let index = event.token.slot;
        let slot = &mut self.slots[index as usize];
        debug_assert_eq!(
            event.token,
            Token::new(index, slot.generation),
            "a slot is free when nothing is in flight"
        );
        let next = match event.kind {
            EventKind::Received(Ok(received)) => {
                let bytes = received.buf.as_ref().map(|buf| self.ring.received(buf));
                let next = slot.conn.handle_received(self.now, Ok(bytes), &self.job, &mut self.stats);
                if let Some(buf) = received.buf {
                    self.ring.recycle(buf);
                }
                next
            }
            EventKind::Received(Err(errno)) => {
                slot.conn.handle_received(self.now, Err(errno), &self.job, &mut self.stats)
            }
            EventKind::Sent { result, mut buf } => {
                if let Ok(sent) = result {
                    buf.from += sent as usize;
                }
                let left = buf.remaining().len();
                let result = result.map(drop);
                let next = slot.conn.handle_sent(self.now, result, left, &self.job, &mut self.stats);
                if next == Next::SendRest {
                    slot.conn.note_send();
                    return self.send(index, buf);
                }
                if let Payload::Owned(bytes) = buf.payload {
                    slot.buf = Some(bytes);
                }
                next
            }
            // No other operation is ever pushed.
            EventKind::Accepted(_)
            | EventKind::Datagram(_)
            | EventKind::Closed(_)
            | EventKind::Readable(_)
            | EventKind::Ready(_)
            | EventKind::Installed(_)
            | EventKind::ShutDown(_) => Next::Wait,
        };
        self.act(index, next);
    }
}
