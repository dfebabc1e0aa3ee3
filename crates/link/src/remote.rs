//! States of a peer's checks and endpoints, from the statements that have arrived.

use crate::link::Event;
use crate::time::Time;
use crate::wire::{State, Statement, Subject};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Maximum number of subjects of one peer; statements about further ones are ignored and counted.
pub const SUBJECTS_MAX: usize = 20_000;

/// The last statement about each subject of one peer.
#[derive(Debug, Default)]
pub struct RemoteStates {
    known: HashMap<Subject, Known>,
    /// Removed subjects, oldest first, which are evicted if there are too many subjects. Without
    /// this list, each subject beyond the limit would require a search through all known ones.
    removed: VecDeque<Subject>,
    ignored: u64,
}

#[derive(Debug)]
struct Known {
    state: State,
    reason: String,
    at_us: u64,
    arrived: Time,
    /// Whether the subject is in the list of removed subjects. It may have been added again since.
    is_listed: bool,
}

/// State of a subject at the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteState {
    /// The state; unknown if no statement arrived within the maximum age.
    pub state: State,
    /// Reason; may be empty.
    pub reason: String,
}

impl RemoteStates {
    /// Applies an event of the link. Returns the subject if its state changed.
    pub fn take(&mut self, now: Time, event: Event) -> Option<Subject> {
        match event {
            Event::Opened { is_new_peer: true } => {
                self.known.clear();
                self.removed.clear();
                None
            }
            Event::Opened { .. } | Event::Receipt(_) => None,
            Event::Result(statement, _) | Event::Transition(statement) => self.state(now, statement),
        }
    }

    /// Applies a statement, unless it was made before the last one: a result may be sent after a
    /// transition that was made later.
    fn state(&mut self, now: Time, statement: Statement) -> Option<Subject> {
        let Statement { subject, state, reason, at_us } = statement;
        let is_removed = state == State::Removed;
        if let Some(known) = self.known.get_mut(&subject) {
            if at_us <= known.at_us {
                return None;
            }
            let (has_changed, was_listed) = (known.state != state, known.is_listed);
            *known = Known { state, reason, at_us, arrived: now, is_listed: was_listed || is_removed };
            if is_removed && !was_listed {
                self.removed.push_back(subject.clone());
            }
            return has_changed.then_some(subject);
        }
        if self.known.len() >= SUBJECTS_MAX && !self.forget_one() {
            self.ignored += 1;
            return None;
        }
        if is_removed {
            self.removed.push_back(subject.clone());
        }
        self.known
            .insert(subject.clone(), Known { state, reason, at_us, arrived: now, is_listed: is_removed });
        Some(subject)
    }

    /// Evicts the subject that was removed first. Returns false if there is none.
    fn forget_one(&mut self) -> bool {
        while let Some(subject) = self.removed.pop_front() {
            match self.known.get_mut(&subject) {
                Some(known) if known.state != State::Removed => known.is_listed = false,
                _ => return self.known.remove(&subject).is_some(),
            }
        }
        false
    }

    /// Returns the state of a subject at the peer.
    #[must_use]
    pub fn state_of(&self, now: Time, subject: &Subject, max_age: Duration) -> RemoteState {
        match self.known.get(subject) {
            Some(known) if now.since(known.arrived) <= max_age => {
                RemoteState { state: known.state, reason: known.reason.clone() }
            }
            Some(_) => RemoteState { state: State::Unknown, reason: "stale".to_owned() },
            None => RemoteState { state: State::Unknown, reason: String::new() },
        }
    }

    /// Number of known subjects, including removed ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no subject is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Number of statements that were ignored because of [`SUBJECTS_MAX`].
    #[must_use]
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_AGE: Duration = Duration::from_secs(15);

    const fn at(seconds: u64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    fn statement(name: &str, state: State, at_us: u64) -> Statement {
        Statement { subject: Subject::check(name), state, reason: String::new(), at_us }
    }

    #[test]
    fn late_and_old_results_change_nothing() {
        let db = Subject::check("db");
        let mut remote = RemoteStates::default();
        let remote_state = |remote: &RemoteStates, now| remote.state_of(at(now), &db, MAX_AGE).state;
        assert_eq!(remote_state(&remote, 0), State::Unknown);
        let down = remote.take(at(1), Event::Transition(statement("db", State::Down, 20)));
        assert_eq!((down, remote_state(&remote, 1)), (Some(db.clone()), State::Down));
        let late = remote.take(at(9), Event::Result(statement("db", State::Up, 19), None));
        assert_eq!((late, remote_state(&remote, 9)), (None, State::Down), "made before the transition");
        assert_eq!(remote_state(&remote, 17), State::Unknown, "and it does not refresh");
        remote.take(at(18), Event::Result(statement("db", State::Down, 21), None));
        assert_eq!((remote_state(&remote, 33), remote_state(&remote, 34)), (State::Down, State::Unknown));
    }

    #[test]
    fn another_run_of_the_peer_has_another_clock() {
        let mut remote = RemoteStates::default();
        remote.take(at(1), Event::Transition(statement("db", State::Down, 900)));
        remote.take(at(2), Event::Opened { is_new_peer: false });
        assert_eq!(remote.len(), 1);
        remote.take(at(2), Event::Opened { is_new_peer: true });
        assert!(remote.is_empty());
        let changed = remote.take(at(3), Event::Transition(statement("db", State::Up, 5)));
        assert_eq!(changed, Some(Subject::check("db")));
    }

    #[test]
    fn the_number_of_subjects_is_limited() {
        let mut remote = RemoteStates::default();
        for number in 0..SUBJECTS_MAX + 3 {
            remote.take(at(1), Event::Transition(statement(&number.to_string(), State::Up, 1)));
        }
        assert_eq!((remote.len(), remote.ignored()), (SUBJECTS_MAX, 3));
        remote.take(at(2), Event::Transition(statement("0", State::Removed, 2)));
        remote.take(at(2), Event::Transition(statement("new", State::Up, 2)));
        assert_eq!((remote.len(), remote.ignored()), (SUBJECTS_MAX, 3));
        // Added again after its removal.
        for (state, at_us) in [(State::Removed, 3), (State::Up, 4), (State::Removed, 5), (State::Up, 6)] {
            remote.take(at(3), Event::Transition(statement("1", state, at_us)));
        }
        remote.take(at(3), Event::Transition(statement("2", State::Removed, 3)));
        for name in ["newer", "newest"] {
            remote.take(at(3), Event::Transition(statement(name, State::Up, 3)));
        }
        assert_eq!((remote.len(), remote.ignored(), remote.removed.len()), (SUBJECTS_MAX, 4, 0));
        let state = |name: &str| remote.state_of(at(3), &Subject::check(name), MAX_AGE).state;
        assert_eq!(
            ["1", "2", "newer", "newest"].map(state),
            [State::Up, State::Unknown, State::Up, State::Unknown]
        );
    }
}
