//! The thread that writes batches to a store, with retries.

use crate::backoff::Backoff;
use crate::history::{History, millis};
use crate::increments::{Counter, Counters};
use crate::store::{Store, StoreError};
use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

/// Maximum time at shutdown, for the attempt in progress and the remaining rows together.
pub const END: Duration = Duration::from_secs(2);

/// Timing of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Maximum time that a row waits for its batch to fill.
    pub interval: Duration,
    /// Maximum duration of one attempt to write a batch.
    pub timeout: Duration,
}

/// Handle of the thread that writes the rows of a history. Dropping the handle stops the thread
/// within [`END`]; [`Writer::stop`] also waits until the thread has ended.
#[derive(Debug)]
pub struct Writer<S: Store> {
    target: watch::Sender<Option<Arc<Target<S>>>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Target<S> {
    store: S,
    options: Options,
}

impl<S: Store> Writer<S> {
    /// Starts the thread. `time_of_day` returns the time since 1970. `counters` returns the current
    /// values of all counters that are stored by minute; it is called on the thread: at its start,
    /// once a minute, and at shutdown.
    ///
    /// # Errors
    /// The system refuses a thread or an epoll descriptor.
    pub fn start(
        history: Arc<History>,
        store: S,
        options: Options,
        time_of_day: fn() -> Duration,
        counters: impl Fn() -> Vec<Counter> + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let first = Arc::new(Target { store, options });
        let (target, targets) = watch::channel(Some(Arc::clone(&first)));
        let run = move || {
            runtime.block_on(write(&history, first, targets, time_of_day, counters));
            // A plain drop would wait for a name lookup, which may still block a thread of the
            // runtime.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("history".into()).spawn(run)?;
        Ok(Self { target, thread: Some(thread) })
    }

    /// Replaces the store and the options. Rows in the buffer are written to the new store.
    pub fn change(&self, store: S, options: Options) {
        self.target.send_replace(Some(Arc::new(Target { store, options })));
    }

    /// Writes the remaining rows within [`END`], drops the rest, and ends the thread.
    pub fn stop(mut self) {
        self.target.send_replace(None);
        // If the thread panicked, the panic hook has reported it.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

impl<S: Store> Drop for Writer<S> {
    fn drop(&mut self) {
        self.target.send_replace(None);
    }
}

/// Writes rows until the target is `None`. Then flushes the buffer for at most [`END`], and drops
/// the rows that are left.
async fn write<S: Store>(
    history: &History,
    mut last: Arc<Target<S>>,
    mut targets: watch::Receiver<Option<Arc<Target<S>>>>,
    time_of_day: fn() -> Duration,
    counters: impl Fn() -> Vec<Counter>,
) {
    let counters = RefCell::new(Counters::new(counters));
    let mut ticks = pin!(history.tick_always(time_of_day, &counters));
    let until = Cell::new(None);
    loop {
        let Some(target) = targets.borrow_and_update().clone() else { break };
        last = target;
        until.set(None);
        let mut changes = targets.clone();
        let cut_short = async {
            let _next = changes.changed().await;
            let end = Instant::now() + END;
            until.set(Some(end));
            sleep_until(end).await;
        };
        tokio::select! {
            () = last.write(history, &mut targets) => {}
            () = &mut ticks => {}
            // The target has changed, and the attempt in progress takes too long. Its rows are
            // written to the new target, if there is one.
            () = cut_short => {}
        }
    }
    history.end_minute(millis(time_of_day()), &mut counters.borrow_mut());
    let until = until.get().unwrap_or_else(|| Instant::now() + END);
    let _in_time = timeout_at(until, last.flush(history, &mut false)).await;
    let lost = history.end();
    if lost > 0 {
        tracing::warn!(lost, "history: writer stopped: remaining rows dropped");
    }
}

impl<S: Store> Target<S> {
    /// Writes rows until the target changes. The attempt in progress is completed first, so that
    /// its rows are not written twice; the caller limits its duration.
    async fn write(&self, history: &History, targets: &mut watch::Receiver<Option<Arc<Self>>>) {
        let (mut backoff, mut is_checked) = (Backoff::default(), false);
        loop {
            tokio::select! {
                () = history.due(self.options.interval) => {}
                _changed = targets.changed() => return,
            }
            match self.flush(history, &mut is_checked).await {
                Ok(()) => backoff.reset(),
                Err(_reported) => {
                    let delay = backoff.next(RandomState::new().hash_one(0));
                    tokio::select! {
                        () = sleep(delay) => {}
                        _changed = targets.changed() => return,
                    }
                }
            }
            if targets.has_changed().unwrap_or(true) {
                return;
            }
        }
    }

    /// Writes the rows that are in the buffer at the time of the call. Later rows wait for the next
    /// call, so that they become part of a larger batch.
    async fn flush(&self, history: &History, is_checked: &mut bool) -> Result<(), StoreError> {
        let mut left = history.rows_live();
        while left > 0
            && let Some(batch) = history.next()
        {
            let (kind, rows) = (batch.kind().as_str(), batch.rows().len());
            left = left.saturating_sub(rows);
            match self.attempt(&batch, is_checked).await {
                Ok(()) => {
                    if history.written() {
                        let dropped = history.stats().sum(|counts| counts.dropped());
                        tracing::info!(dropped, "history: store available again");
                    }
                }
                Err(StoreError::TooLarge(why)) if history.split() => {
                    left = left.saturating_add(rows);
                    tracing::warn!(
                        kind,
                        rows,
                        "history: batch too large for the store, sent again in halves: {why}"
                    );
                }
                Err(StoreError::Refused(why) | StoreError::TooLarge(why)) => {
                    history.refused(&why);
                    tracing::error!(kind, rows, "history: rows refused by the store and dropped: {why}");
                }
                Err(StoreError::Unavailable(why)) => {
                    *is_checked = false;
                    if history.unavailable(&why) {
                        tracing::warn!("history: store unavailable, rows kept in memory: {why}");
                    }
                    return Err(StoreError::Unavailable(why));
                }
            }
        }
        Ok(())
    }

    async fn attempt(&self, batch: &crate::Batch, is_checked: &mut bool) -> Result<(), StoreError> {
        let attempt = async {
            if !*is_checked {
                self.store.check().await?;
                *is_checked = true;
            }
            self.store.insert(batch).await
        };
        let timed_out = |_| StoreError::Unavailable("no reply from the store in time".to_owned());
        timeout(self.options.timeout, attempt).await.map_err(timed_out)?
    }
}
