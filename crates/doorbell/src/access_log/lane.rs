//! The queues: one per thread. The thread is the only producer, and the writer is the only
//! consumer.

use core::cell::RefCell;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;

use doorbell_http::log::{Record, RecordHead, RecordTail, Sink};
use rtrb::{Consumer, Producer, RingBuffer};

use super::counters::{Counts, LogCounters};

/// Maximum number of threads with a queue.
const LANES_MAX: usize = 1024;

/// The writer polls the queues.
const AWAKE: u8 = 0;
/// The writer sleeps: the next record must wake it.
const ASLEEP: u8 = 1;
/// The writer accepts no more records.
const STOPPED: u8 = 2;

thread_local! {
    static LANES: RefCell<Vec<Lane>> = const { RefCell::new(Vec::new()) };
}

/// The queue of a thread for one log.
struct Lane {
    log: u64,
    queue: Input,
}

/// The producer side. A long record, which is rare, has its second half in a separate queue, so
/// that the writer's processor fetches no unused memory.
struct Input {
    heads: Producer<RecordHead>,
    tails: Producer<RecordTail>,
}

/// The consumer side.
pub(super) struct Output {
    pub(super) heads: Consumer<RecordHead>,
    pub(super) tails: Consumer<RecordTail>,
}

impl Input {
    fn new(records_max: usize) -> (Self, Output) {
        let (heads, heads_out) = RingBuffer::new(records_max);
        let (tails, tails_out) = RingBuffer::new(records_max);
        (Self { heads, tails }, Output { heads: heads_out, tails: tails_out })
    }

    /// Queues a record. Returns false if the queue is full.
    #[inline]
    fn push(&mut self, record: &Record) -> bool {
        let (head, tail) = record.to_parts();
        // The writer frees a tail before its head, so room for a head implies room for its tail.
        // The tail is pushed first, so that a visible head always has its tail.
        !self.heads.is_full()
            && tail.is_none_or(|tail| self.tails.push(tail).is_ok())
            && self.heads.push(head).is_ok()
    }
}

/// A sink that puts records into the queue of the calling thread. The [module](super) documents the
/// queues.
#[derive(Clone)]
pub struct LogSink {
    shared: Arc<LogState>,
}

impl LogSink {
    pub(super) const fn new(shared: Arc<LogState>) -> Self {
        Self { shared }
    }

    /// Returns the counters of the log, summed over all threads.
    pub fn counters(&self) -> LogCounters {
        self.shared.counters()
    }
}

impl Sink for LogSink {
    #[inline]
    fn log(&self, record: &Record) {
        let shared = &*self.shared;
        let log = shared.log;
        // A terminating thread no longer has a queue.
        let pushed = shared.state.load(Ordering::Relaxed) != STOPPED
            && LANES
                .try_with(|lanes| {
                    let mut lanes = lanes.borrow_mut();
                    match lanes.iter_mut().find(|lane| lane.log == log) {
                        Some(lane) => lane.queue.push(record),
                        None => shared.push_first(&mut lanes, record),
                    }
                })
                .unwrap_or(false);
        if !pushed {
            shared.drop_one();
        } else if shared.state.load(Ordering::Relaxed) == ASLEEP {
            shared.wake();
        }
    }

    fn later(&self) -> Option<Box<dyn Sink + Send>> {
        Some(Box::new(self.clone()))
    }
}

impl fmt::Debug for LogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSink").field("log", &self.shared.log).finish_non_exhaustive()
    }
}

/// The state that sinks, the handle and the writer share.
pub(super) struct LogState {
    /// Number of this log, unique in the process.
    log: u64,
    records_max: usize,
    state: AtomicU8,
    reopen: AtomicBool,
    writer: OnceLock<Thread>,
    arrivals: Mutex<Vec<Output>>,
    lanes: AtomicUsize,
    pub(super) counts: Counts,
}

impl LogState {
    pub(super) fn new(records_max: usize) -> Self {
        static LOGS: AtomicU64 = AtomicU64::new(0);
        Self {
            log: LOGS.fetch_add(1, Ordering::Relaxed),
            records_max,
            state: AtomicU8::new(AWAKE),
            reopen: AtomicBool::new(false),
            writer: OnceLock::new(),
            arrivals: Mutex::default(),
            lanes: AtomicUsize::new(0),
            counts: Counts::default(),
        }
    }

    pub(super) fn set_writer(&self, thread: Thread) {
        self.writer.set(thread).expect("there is one writer");
    }

    pub(super) fn counters(&self) -> LogCounters {
        self.counts.snapshot()
    }

    pub(super) fn ask_reopen(&self) {
        self.reopen.store(true, Ordering::Release);
        self.unpark();
    }

    /// Whether a reopen was requested since the last call.
    pub(super) fn take_reopen(&self) -> bool {
        self.reopen.swap(false, Ordering::Acquire)
    }

    /// Refuses all further records.
    pub(super) fn stop(&self) {
        self.state.store(STOPPED, Ordering::Release);
        self.unpark();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.state.load(Ordering::Acquire) == STOPPED
    }

    /// Announces that the writer sleeps: the next record wakes it. Returns false if the log has
    /// stopped.
    pub(super) fn fall_asleep(&self) -> bool {
        self.state.compare_exchange(AWAKE, ASLEEP, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    pub(super) fn stay_awake(&self) {
        // A failure means that another thread has already changed the state, or that the log has
        // stopped.
        let _ = self.state.compare_exchange(ASLEEP, AWAKE, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Takes the queues of threads that logged for the first time.
    pub(super) fn take_arrivals(&self) -> Vec<Output> {
        core::mem::take(&mut *self.arrivals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lowers the number of queues by `count`, after the writer has released that many.
    pub(super) fn forget_lanes(&self, count: usize) {
        self.lanes.fetch_sub(count, Ordering::Relaxed);
    }

    /// Whether the next record wakes the writer.
    #[cfg(test)]
    pub(super) fn is_asleep(&self) -> bool {
        self.state.load(Ordering::SeqCst) == ASLEEP
    }

    /// Number of queues that the writer has not released.
    #[cfg(test)]
    pub(super) fn lanes_live(&self) -> usize {
        self.lanes.load(Ordering::SeqCst)
    }

    /// Whether the writer has read all records of this thread.
    #[cfg(test)]
    pub(super) fn is_drained(&self) -> bool {
        LANES.with_borrow(|lanes| {
            let lane = lanes.iter().find(|lane| lane.log == self.log);
            lane.is_none_or(|lane| lane.queue.heads.slots() == self.records_max)
        })
    }

    /// Creates the queue of this thread and queues its first record. Returns false if there are too
    /// many queues.
    #[cold]
    fn push_first(&self, lanes: &mut Vec<Lane>, record: &Record) -> bool {
        lanes.retain(|lane| !lane.queue.heads.is_abandoned());
        if self.lanes.fetch_add(1, Ordering::Relaxed) >= LANES_MAX {
            self.lanes.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let (mut queue, output) = Input::new(self.records_max);
        let pushed = queue.push(record);
        lanes.push(Lane { log: self.log, queue });
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).push(output);
        pushed
    }

    #[cold]
    fn drop_one(&self) {
        self.counts.dropped.add(1);
    }

    #[cold]
    fn wake(&self) {
        if self.state.compare_exchange(ASLEEP, AWAKE, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            self.counts.wakes.add(1);
            self.unpark();
        }
    }

    fn unpark(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }
}

impl fmt::Debug for LogState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogState")
            .field("log", &self.log)
            .field("state", &self.state)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}
