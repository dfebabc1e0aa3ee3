//! The thread that renders and writes records.

use core::time::Duration;
use std::io;
use std::sync::Arc;

use doorbell_http::log::{Epoch, Record, Renderer};
use rustix::time::{ClockId, clock_gettime};

use super::LogTrouble;
use super::lane::{LogState, Output};
use super::outlet::Outlet;
use crate::time::{Clock as _, OsClock, Time};

/// A batch is written when it reaches this length, or when the queues are empty.
const BATCH_BYTES: usize = 64 * 1024;

/// Pause between two polls of the queues.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// Number of polls without a record after which the writer sleeps.
const IDLE_LOOKS_MAX: u32 = 20;

/// Longest sleep, and so the maximum delay of a record whose thread did not see that the writer
/// fell asleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Minimum interval between two lines about losses.
const LOSS_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Writer {
    shared: Arc<LogState>,
    outlet: Outlet,
    renderer: Renderer,
    on_trouble: Box<dyn FnMut(&LogTrouble) + Send>,
    lanes: Vec<Output>,
    batch: Vec<u8>,
    /// Number of lines in the batch; each line is one record.
    lines: u64,
    idle_looks: u32,
    losses: Losses,
    /// The failures that were reported and have not ended.
    reported: ReportedFailures,
}

/// Losses that the log has already reported.
#[derive(Default)]
struct Losses {
    dropped: u64,
    failed: u64,
    at: Option<Time>,
}

#[derive(Default)]
struct ReportedFailures {
    write: bool,
    reopen: bool,
}

impl Writer {
    pub(super) fn new(
        shared: Arc<LogState>,
        outlet: Outlet,
        renderer: Renderer,
        on_trouble: Box<dyn FnMut(&LogTrouble) + Send>,
    ) -> Self {
        Self {
            shared,
            outlet,
            renderer,
            on_trouble,
            lanes: Vec::new(),
            batch: Vec::with_capacity(BATCH_BYTES + 4096),
            lines: 0,
            idle_looks: 0,
            losses: Losses::default(),
            reported: ReportedFailures::default(),
        }
    }

    /// Runs until the log is stopped and all queued records are written.
    pub(super) fn run(mut self) {
        loop {
            let stopped = self.shared.is_stopped();
            self.lanes.append(&mut self.shared.take_arrivals());
            let records = self.drain();
            self.report_losses(stopped);
            if self.shared.take_reopen() {
                self.reopen();
            }
            if stopped {
                break;
            }
            self.rest(records);
        }
    }

    /// Writes all queued records; returns their number.
    fn drain(&mut self) -> u64 {
        let (epoch, mut lanes, mut records) = (epoch(), core::mem::take(&mut self.lanes), 0);
        let before = lanes.len();
        lanes.retain_mut(|lane| {
            // `is_abandoned` is read first, so that records queued before the thread ended are not
            // missed.
            let abandoned = lane.heads.is_abandoned();
            records += self.drain_lane(lane, epoch);
            !abandoned
        });
        self.shared.forget_lanes(before - lanes.len());
        self.lanes = lanes;
        self.write_batch();
        records
    }

    fn drain_lane(&mut self, lane: &mut Output, epoch: Epoch) -> u64 {
        let Output { heads, tails } = lane;
        let mut left = heads.slots();
        let records = left;
        while left > 0 {
            // The queue is read in chunks, so that room becomes free before a long batch is
            // complete.
            let Ok(chunk) = heads.read_chunk(left.min(64)) else { break };
            let (first, second) = chunk.as_slices();
            for head in first.iter().chain(second) {
                let tail = if head.has_tail() { tails.pop().ok() } else { None };
                let record = Record::from_parts(head, tail.as_ref());
                self.renderer.render(&record, epoch, &mut self.batch);
                self.lines += 1;
            }
            left -= chunk.len();
            chunk.commit_all();
            if self.batch.len() >= BATCH_BYTES {
                self.write_batch();
            }
        }
        records as u64
    }

    fn write_batch(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let lines = core::mem::take(&mut self.lines);
        match self.outlet.write(&self.batch) {
            Ok(()) => {
                self.shared.counts.written.add(lines);
                self.reported.write = false;
            }
            Err((taken, error)) => {
                let whole = self.batch[..taken].iter().filter(|&&byte| byte == b'\n').count() as u64;
                self.shared.counts.written.add(whole.min(lines));
                self.shared.counts.failed.add(lines.saturating_sub(whole));
                self.report_write_trouble(error);
            }
        }
        self.batch.clear();
    }

    fn report_write_trouble(&mut self, error: io::Error) {
        if !core::mem::replace(&mut self.reported.write, true) {
            (self.on_trouble)(&LogTrouble::Write(error));
        }
    }

    /// Writes a line about lost records, at most once per second, and at the end.
    fn report_losses(&mut self, at_end: bool) {
        let counters = self.shared.counters();
        let dropped = counters.dropped - self.losses.dropped;
        let failed = counters.failed - self.losses.failed;
        if dropped == 0 && failed == 0 {
            return;
        }
        let now = OsClock.now();
        if !at_end && self.losses.at.is_some_and(|at| now.since(at) < LOSS_PAUSE) {
            return;
        }
        self.losses.at = Some(now);
        let unix_millis = epoch().unix_millis(now);
        if dropped > 0 {
            self.renderer.render_dropped(dropped, unix_millis, &mut self.batch);
        }
        if failed > 0 {
            self.renderer.render_failed(failed, unix_millis, &mut self.batch);
        }
        match self.outlet.write(&self.batch) {
            Ok(()) => (self.losses.dropped, self.losses.failed) = (counters.dropped, counters.failed),
            Err((_, error)) => self.report_write_trouble(error),
        }
        self.batch.clear();
    }

    fn reopen(&mut self) {
        match self.outlet.reopen() {
            Ok(true) => {
                self.shared.counts.reopened.add(1);
                self.reported = ReportedFailures::default();
            }
            Ok(false) => {}
            Err(error) => {
                self.shared.counts.reopen_failed.add(1);
                if !core::mem::replace(&mut self.reported.reopen, true) {
                    (self.on_trouble)(&LogTrouble::Reopen(error));
                }
            }
        }
    }

    /// Pauses between two polls, or sleeps until a record wakes the writer.
    fn rest(&mut self, records: u64) {
        if records > 0 {
            self.idle_looks = 0;
        }
        if self.idle_looks < IDLE_LOOKS_MAX {
            self.idle_looks += 1;
            std::thread::park_timeout(LOOK_PAUSE);
            return;
        }
        if self.shared.fall_asleep() && self.lanes.iter().all(|lane| lane.heads.is_empty()) {
            std::thread::park_timeout(SLEEP_MAX);
        }
        self.shared.stay_awake();
    }
}

/// Stops the log when the writer ends for any reason, so that no more records are queued.
impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

/// Current time of the monotonic and of the real-time clock, to convert times of records to
/// calendar time.
fn epoch() -> Epoch {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    Epoch::new(OsClock.now(), now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec))
}
