//! Runs the machines of all shared checks on Tokio.

use super::machine::{Action, ShareCounters, ShareMachine, ShareOptions};
use super::message::{Message, SharedResult};
use crate::store::{Lease, SharedStore, Stamp};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Maximum number of queued events of a check; further ones are dropped and counted.
const EVENTS_MAX: usize = 64;

/// Maximum sleep of a task.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// Runs the checks of this instance, and applies results of other instances. Implemented by the
/// caller.
pub trait Local: Send + Sync + 'static {
    /// Schedules a run. Its end is reported with [`Shares::ran`].
    fn run(&self, check: usize);

    /// Applies a result of another instance.
    fn take(&self, check: usize, result: &SharedResult);
}

/// The shared checks of this instance, identified by their position in the argument of
/// [`Self::new`].
#[derive(Debug)]
pub struct Shares {
    checks: Vec<Share>,
    dropped: AtomicU64,
}

#[derive(Debug)]
struct Share {
    options: ShareOptions,
    events: mpsc::Sender<Event>,
    /// The receiver of the channel, until [`Shares::run`] takes it.
    waiting: Mutex<Option<mpsc::Receiver<Event>>>,
    view: Mutex<ShareView>,
}

/// State of a shared check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareView {
    /// Whether this instance runs the check for all.
    pub is_holder: bool,
    /// The instance that produced the last result; `None` for this instance, or without a result.
    pub from: Option<String>,
    /// The stamp of the newest result, own or of another instance.
    pub newest: Stamp,
    /// Counters.
    pub counters: ShareCounters,
}

#[derive(Debug)]
enum Event {
    Received(Vec<u8>),
    Leased(Option<Lease>),
    Published(Stamp, Option<bool>),
    Ran(Duration, Option<SharedResult>),
    Notified,
}

impl Shares {
    /// Creates shared checks with these options.
    #[must_use]
    pub fn new(checks: Vec<ShareOptions>) -> Arc<Self> {
        let share = |options| {
            let (events, waiting) = mpsc::channel(EVENTS_MAX);
            Share { options, events, waiting: Mutex::new(Some(waiting)), view: Mutex::default() }
        };
        Arc::new(Self { checks: checks.into_iter().map(share).collect(), dropped: AtomicU64::new(0) })
    }

    /// Continues the work of `earlier`, whose [`Self::run`] must have ended: its counters, and those
    /// of each check, even if the options of the check differ. The newest result of a check with the
    /// same options is not applied again.
    pub fn continue_from(&self, earlier: &Self) {
        self.dropped.fetch_add(earlier.dropped(), Ordering::Relaxed);
        for share in &self.checks {
            let known = earlier.checks.iter().find(|known| known.options.name == share.options.name);
            let Some(known) = known else { continue };
            let ShareView { from, newest, counters, .. } = lock(&known.view).clone();
            let mut view = ShareView { counters, ..ShareView::default() };
            if known.options.check == share.options.check {
                (view.from, view.newest) = (from, newest);
            }
            *lock(&share.view) = view;
        }
    }

    /// Shares the checks. The first call never completes; with at least one check, further calls
    /// return at once.
    pub async fn run(self: Arc<Self>, store: impl SharedStore, local: Arc<impl Local>) {
        let mut tasks = JoinSet::new();
        for check in 0..self.checks.len() {
            let waiting = lock(&self.checks[check].waiting).take();
            let Some(events) = waiting else { return };
            tasks.spawn(drive(Arc::clone(&self), check, events, store.clone(), Arc::clone(&local)));
        }
        let ids: Vec<String> = self.checks.iter().map(|share| share.options.check.clone()).collect();
        if self.checks.is_empty() {
            return std::future::pending().await;
        }
        store.follow(ids, |check, message| self.leave(check, Event::Received(message))).await;
    }

    /// Reports the end of a run. `next` is the time until the next one; `result` is `None` if the
    /// run produced no result.
    pub fn ran(&self, check: usize, next: Duration, result: Option<SharedResult>) {
        self.leave(check, Event::Ran(next, result));
    }

    fn leave(&self, check: usize, event: Event) {
        let Some(share) = self.checks.get(check) else { return };
        if share.events.try_send(event).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the state of a check.
    #[must_use]
    pub fn view(&self, check: usize) -> Option<ShareView> {
        Some(lock(&self.checks.get(check)?.view).clone())
    }

    /// Number of dropped events: messages, or reports of runs. Includes those of earlier shared
    /// checks whose work these continue.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn show(&self, check: usize, machine: &ShareMachine, from: Option<Option<String>>) {
        let mut view = lock(&self.checks[check].view);
        (view.is_holder, view.counters) = (machine.is_holder(), machine.counters());
        view.newest = machine.newest();
        if let Some(from) = from {
            view.from = from;
        }
    }
}

async fn drive(
    shares: Arc<Shares>,
    check: usize,
    mut events: mpsc::Receiver<Event>,
    store: impl SharedStore,
    local: Arc<impl Local>,
) {
    let origin = Instant::now();
    let ShareView { newest, counters, .. } = lock(&shares.checks[check].view).clone();
    let options = shares.checks[check].options.clone();
    let mut machine = ShareMachine::after(options, newest, counters, Duration::ZERO);
    let mut calls = JoinSet::new();
    loop {
        while let Some(action) = machine.poll(origin.elapsed()) {
            match action {
                Action::Run => local.run(check),
                Action::Take(Message { from, result, .. }) => {
                    result.iter().for_each(|result| local.take(check, result));
                    shares.show(check, &machine, Some(Some(from)));
                }
                other => {
                    calls.spawn(call(store.clone(), other));
                }
            }
        }
        shares.show(check, &machine, None);
        let deadline = machine.deadline().min(origin.elapsed() + SLEEP_MAX);
        let event = tokio::select! {
            Some(event) = events.recv() => event,
            // A call that panicked counts as a lease request without a reply.
            Some(called) = calls.join_next() => called.unwrap_or(Event::Leased(None)),
            () = sleep_until(origin + deadline) => continue,
        };
        let now = origin.elapsed();
        match event {
            Event::Received(message) => machine.received(now, &message),
            Event::Leased(lease) => machine.leased(now, lease),
            Event::Published(stamp, accepted) => machine.published(now, stamp, accepted),
            Event::Ran(next, result) => {
                machine.ran(now, next, result);
                shares.show(check, &machine, Some(None));
            }
            Event::Notified => {}
        }
    }
}

/// Calls the store.
async fn call(store: impl SharedStore, action: Action) -> Event {
    match action {
        Action::Lease(request) => Event::Leased(store.lease(request).await.ok()),
        Action::Publish(result) => {
            let stamp = result.stamp;
            Event::Published(stamp, store.publish(result).await.ok())
        }
        Action::Notify(notification) => {
            // A lost message is replaced by the next one, or by the reply to a lease request. The
            // next lease request also shows that the lease is lost.
            let _lost = store.notify(notification).await;
            Event::Notified
        }
        Action::Run | Action::Take(_) => Event::Notified,
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
