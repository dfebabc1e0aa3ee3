//! The last events, numbered, and their followers.
//!
//! A slow follower loses its oldest pending events, and receives the number of lost events.
//! Recording never waits for followers.

use super::clock::{Clock, millis, unix_ms};
use crate::history;
use doorbell_control::{Event, EventKind};
use doorbell_history::History;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Maximum number of stored events: about half a megabyte with names and reasons of usual length.
const STORED_MAX: usize = 2048;

/// Maximum number of pending events of a follower.
const WAITING_MAX: usize = 1024;

/// Log of the last events.
#[derive(Debug)]
pub(crate) struct EventLog {
    clock: Clock,
    state: Mutex<EventLogState>,
}

#[derive(Debug)]
struct EventLogState {
    /// Number of the last event.
    number: u64,
    stored: VecDeque<Arc<Event>>,
    /// `None` once the log has ended.
    sender: Option<broadcast::Sender<Arc<Event>>>,
    /// Stores events, if a history is configured.
    history: Option<Arc<History>>,
}

/// Receives events as they are recorded.
#[derive(Debug)]
pub(crate) struct Follower {
    /// Stored events from before the follower was created.
    backlog: VecDeque<Arc<Event>>,
    missed: u64,
    receiver: broadcast::Receiver<Arc<Event>>,
    /// The shutdown of the control plane waits until this permit is released.
    _place: Option<OwnedSemaphorePermit>,
}

/// What a follower receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Followed {
    Event(Arc<Event>),
    /// The number of events lost at this point.
    Missed(u64),
}

impl Default for EventLogState {
    fn default() -> Self {
        Self {
            number: 0,
            stored: VecDeque::new(),
            sender: Some(broadcast::Sender::new(WAITING_MAX)),
            history: None,
        }
    }
}

impl Default for EventLog {
    fn default() -> Self {
        Self::new(Clock::start())
    }
}

impl EventLog {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, state: Mutex::default() }
    }

    /// Records that a worker fell back to epoll, or failed.
    pub(crate) fn record_worker(&self, worker: u16, text: String) {
        self.record(EventKind::Worker { worker, text });
    }

    /// Records an event and sends it to the followers. Must be called in the order of events.
    pub(crate) fn record(&self, what: EventKind) {
        let mut state = self.state.lock();
        state.number += 1;
        let event = Arc::new(Event {
            number: state.number,
            at_unix_ms: unix_ms(),
            at_uptime_ms: millis(self.clock.now()),
            what,
        });
        if state.stored.len() == STORED_MAX {
            state.stored.pop_front();
        }
        // Recording in a history only waits for its lock, never for the database.
        state.history.iter().for_each(|history| history::record(history, &event));
        state.stored.push_back(Arc::clone(&event));
        // Sent under the lock, so that a new follower gets each event exactly once. An error only
        // means that there is no follower.
        let _no_follower = state.sender.as_ref().map(|sender| sender.send(event));
    }

    /// Stores further events in this history; with `None`, in no history.
    pub(crate) fn store_in(&self, history: Option<Arc<History>>) {
        self.state.lock().history = history;
    }

    /// The history in which events are stored.
    pub(crate) fn history(&self) -> Option<Arc<History>> {
        self.state.lock().history.clone()
    }

    /// Ends the log: followers get the events up to here, then the end.
    pub(crate) fn end(&self) {
        self.state.lock().sender = None;
    }

    /// The number of the last event.
    pub(crate) fn last(&self) -> u64 {
        self.state.lock().number
    }

    /// Returns the stored events after number `since`, oldest first, and the count of events after
    /// `since` that are no longer stored.
    pub(crate) fn since(&self, since: u64) -> (VecDeque<Arc<Event>>, u64) {
        self.state.lock().since(since)
    }

    /// Follows the log: first the stored events after number `since`, then new events.
    pub(crate) fn follow(&self, since: u64) -> Follower {
        let state = self.state.lock();
        let (backlog, missed) = state.since(since);
        let receiver = match &state.sender {
            Some(sender) => sender.subscribe(),
            None => broadcast::channel(1).1,
        };
        Follower { backlog, missed, receiver, _place: None }
    }
}

impl EventLogState {
    fn since(&self, since: u64) -> (VecDeque<Arc<Event>>, u64) {
        let stored = self.stored.iter().filter(|event| event.number > since);
        let stored: VecDeque<_> = stored.map(Arc::clone).collect();
        let requested = self.number.saturating_sub(since);
        (stored.clone(), requested - stored.len() as u64)
    }
}

impl Follower {
    /// Makes the shutdown of the control plane wait until this follower is dropped.
    pub(super) fn hold(self, _place: Option<OwnedSemaphorePermit>) -> Self {
        Self { _place, ..self }
    }

    /// The next event; `None` after the last event of an ended log.
    pub(crate) async fn next(&mut self) -> Option<Followed> {
        if self.missed > 0 {
            return Some(Followed::Missed(std::mem::take(&mut self.missed)));
        }
        if let Some(event) = self.backlog.pop_front() {
            return Some(Followed::Event(event));
        }
        match self.receiver.recv().await {
            Ok(event) => Some(Followed::Event(event)),
            Err(RecvError::Lagged(missed)) => Some(Followed::Missed(missed)),
            Err(RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::Builder;

    fn happening(text: &str) -> EventKind {
        EventKind::Reload { ok: true, text: text.to_owned() }
    }

    fn record(event_log: &EventLog, count: usize) {
        (0..count).for_each(|n| event_log.record(happening(&n.to_string())));
    }

    fn numbers(events: &VecDeque<Arc<Event>>) -> Vec<u64> {
        events.iter().map(|event| event.number).collect()
    }

    #[test]
    fn the_last_events_are_kept_and_the_others_counted() {
        let event_log = EventLog::default();
        assert_eq!((event_log.since(0), event_log.last()), ((VecDeque::new(), 0), 0));
        record(&event_log, 3);
        assert_eq!((numbers(&event_log.since(0).0), event_log.since(0).1), (vec![1, 2, 3], 0));
        assert_eq!((numbers(&event_log.since(2).0), event_log.last()), (vec![3], 3));
        let (events, missed) = event_log.since(99);
        assert_eq!((numbers(&events), missed), (vec![], 0), "a number of another process");
        record(&event_log, STORED_MAX);
        let (events, missed) = event_log.since(1);
        assert_eq!((events.len(), missed), (STORED_MAX, 2));
        assert_eq!(event_log.since(3).1, 0);
    }

    #[test]
    fn a_follower_gets_each_event_once_and_the_number_of_missed_ones() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let event_log = EventLog::default();
        record(&event_log, 2);
        let mut follower = event_log.follow(1);
        record(&event_log, 1);
        let mut next = || runtime.block_on(follower.next());
        let number = |followed| match followed {
            Some(Followed::Event(event)) => event.number,
            other => panic!("{other:?}"),
        };
        assert_eq!([number(next()), number(next())], [2, 3]);
        record(&event_log, WAITING_MAX + 5);
        assert_eq!(next(), Some(Followed::Missed(5)));
        assert_eq!(number(next()), 9);
        let mut late = event_log.follow(0);
        assert!(matches!(runtime.block_on(late.next()), Some(Followed::Event(event)) if event.number == 1));
    }

    #[test]
    fn a_follower_gets_the_last_event_and_then_the_end() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let event_log = EventLog::default();
        record(&event_log, 1);
        let mut follower = event_log.follow(0);
        record(&event_log, 1);
        event_log.end();
        record(&event_log, 1);
        let mut late = event_log.follow(0);
        for (follower, last) in [(&mut follower, 2), (&mut late, 3)] {
            for expected in 1..=last {
                let next = runtime.block_on(follower.next());
                assert!(
                    matches!(next, Some(Followed::Event(event)) if event.number == expected),
                    "{expected}"
                );
            }
            assert_eq!(runtime.block_on(follower.next()), None);
        }
        assert_eq!(event_log.last(), 3, "events are recorded without followers");
    }
}
