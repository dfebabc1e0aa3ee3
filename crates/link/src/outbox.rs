//! Queues of outgoing statements: transitions until they are acknowledged, and results until they
//! are sent.

use crate::time::Time;
use crate::wire::{Measured, State, Statement, Subject};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Transitions and results in the order of sending.
///
/// If the queue of transitions is full, a new transition removes the oldest one of its own subject.
/// If that subject has none in the queue, the oldest transition that is not the latest one of its
/// subject is removed. The latest state of a subject is never dropped, so the queue exceeds the
/// limit if it contains more subjects than the limit.
#[derive(Debug)]
pub(crate) struct Outbox {
    transitions_max: usize,
    results_max: usize,
    /// Sequence number of the next transition.
    next: u64,
    kept: BTreeMap<u64, Statement>,
    /// Sequence numbers of the queued transitions of each subject, oldest first.
    by_subject: HashMap<Subject, VecDeque<u64>>,
    /// Sequence numbers of the queued transitions whose subject has a newer transition.
    outdated: BTreeSet<u64>,
    /// Latest statement about every existing subject.
    latest: HashMap<Subject, Statement>,
    results: VecDeque<(Statement, Option<Measured>)>,
    /// Last assigned `at_us`.
    last_at: u64,
    pub(crate) superseded: u64,
    pub(crate) results_dropped: u64,
}

impl Outbox {
    pub(crate) fn new(transitions_max: usize, results_max: usize) -> Self {
        Self {
            transitions_max,
            results_max,
            next: 1,
            kept: BTreeMap::new(),
            by_subject: HashMap::new(),
            outdated: BTreeSet::new(),
            latest: HashMap::new(),
            results: VecDeque::new(),
            last_at: 0,
            superseded: 0,
            results_dropped: 0,
        }
    }

    /// Creates a statement with a unique, increasing time.
    pub(crate) fn stamp(&mut self, now: Time, subject: Subject, state: State, reason: String) -> Statement {
        self.last_at = now.as_micros().max(self.last_at.saturating_add(1));
        Statement { subject, state, reason, at_us: self.last_at }
    }

    pub(crate) fn latest(&self, subject: &Subject) -> Option<State> {
        self.latest.get(subject).map(|statement| statement.state)
    }

    pub(crate) fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.latest.keys()
    }

    pub(crate) fn push(&mut self, statement: Statement) {
        let subject = statement.subject.clone();
        if self.kept.len() >= self.transitions_max {
            self.supersede(&subject);
        }
        if statement.state == State::Removed {
            self.latest.remove(&subject);
        } else {
            self.latest.insert(subject.clone(), statement.clone());
        }
        let sequences = self.by_subject.entry(subject).or_default();
        self.outdated.extend(sequences.back());
        sequences.push_back(self.next);
        self.kept.insert(self.next, statement);
        self.next += 1;
    }

    /// Makes room: removes the oldest queued transition of this subject or, if there is none, the
    /// oldest one in `outdated`.
    fn supersede(&mut self, subject: &Subject) {
        let own = self.by_subject.get(subject).and_then(|sequences| sequences.front().copied());
        if let Some(sequence) = own.or_else(|| self.outdated.first().copied()) {
            self.remove(sequence);
            self.superseded += 1;
        }
    }

    fn remove(&mut self, sequence: u64) {
        let Some(statement) = self.kept.remove(&sequence) else { return };
        self.outdated.remove(&sequence);
        if let Some(sequences) = self.by_subject.get_mut(&statement.subject) {
            sequences.retain(|kept| *kept != sequence);
            if sequences.is_empty() {
                self.by_subject.remove(&statement.subject);
            }
        }
    }

    /// Removes the transitions up to this sequence number.
    pub(crate) fn acknowledge(&mut self, sequence: u64) {
        while let Some(first) = self.kept.first_key_value().map(|(first, _)| *first) {
            if first > sequence {
                return;
            }
            self.remove(first);
        }
    }

    /// Queues the latest state of every subject without a queued transition, for a peer that has
    /// none of these states.
    pub(crate) fn restate(&mut self) {
        let known = |subject: &&Subject| !self.by_subject.contains_key(*subject);
        let mut subjects: Vec<Subject> = self.latest.keys().filter(known).cloned().collect();
        subjects.sort();
        for subject in subjects {
            if let Some(statement) = self.latest.get(&subject).cloned() {
                self.push(statement);
            }
        }
    }

    /// Returns the first queued transition from this sequence number on.
    pub(crate) fn transition_from(&self, sequence: u64) -> Option<(u64, &Statement)> {
        self.kept.range(sequence..).next().map(|(sequence, statement)| (*sequence, statement))
    }

    /// Whether this sequence number has been assigned.
    pub(crate) const fn has_given(&self, sequence: u64) -> bool {
        sequence < self.next
    }

    pub(crate) fn kept(&self) -> usize {
        self.kept.len()
    }

    pub(crate) fn push_result(&mut self, statement: Statement, measured: Option<Measured>) {
        if self.results.len() >= self.results_max {
            self.results.pop_front();
            self.results_dropped += 1;
        }
        self.results.push_back((statement, measured));
    }

    pub(crate) fn pop_result(&mut self) -> Option<(Statement, Option<Measured>)> {
        self.results.pop_front()
    }

    pub(crate) fn has_result(&self) -> bool {
        !self.results.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn push(outbox: &mut Outbox, name: &str, state: State) {
        let statement = outbox.stamp(Time::default(), Subject::check(name), state, String::new());
        outbox.push(statement);
    }

    fn kept(outbox: &Outbox) -> Vec<String> {
        let one = |(sequence, statement): (&u64, &Statement)| {
            format!("{sequence} {} {}", statement.subject.name, statement.state)
        };
        outbox.kept.iter().map(one).collect()
    }

    #[test]
    fn a_full_queue_supersedes_the_same_subject_first() {
        let mut outbox = Outbox::new(3, 1);
        for (name, state) in [("a", State::Up), ("b", State::Up), ("a", State::Down)] {
            push(&mut outbox, name, state);
        }
        push(&mut outbox, "b", State::Down);
        assert_eq!(kept(&outbox), ["1 a up", "3 a down", "4 b down"], "its own previous state");
        push(&mut outbox, "c", State::Up);
        assert_eq!(kept(&outbox), ["3 a down", "4 b down", "5 c up"], "otherwise the oldest outdated one");
        push(&mut outbox, "d", State::Up);
        assert_eq!((outbox.kept(), outbox.superseded), (4, 2), "the latest state is never dropped");
    }

    #[test]
    fn a_new_receiver_gets_the_latest_states() {
        let mut outbox = Outbox::new(9, 1);
        for name in ["a", "b", "c"] {
            push(&mut outbox, name, State::Up);
        }
        outbox.acknowledge(3);
        push(&mut outbox, "b", State::Down);
        push(&mut outbox, "c", State::Removed);
        outbox.restate();
        assert_eq!(kept(&outbox), ["4 b down", "5 c removed", "6 a up"]);
    }

    proptest! {
        #[test]
        fn bounds_and_the_latest_states_hold(
            max in 1_usize..6,
            steps in proptest::collection::vec((0_u8..4, 0_u8..3, any::<bool>()), 0..80),
        ) {
            let states = [State::Up, State::Down, State::Degraded];
            let mut outbox = Outbox::new(max, 1);
            let (mut pushed, mut acknowledged) = (0_u64, 0);
            for (subject, state, acknowledges) in steps {
                push(&mut outbox, &subject.to_string(), states[usize::from(state)]);
                pushed += 1;
                if acknowledges {
                    let first = *outbox.kept.first_key_value().unwrap().0;
                    outbox.acknowledge(first);
                    acknowledged += 1;
                }
                prop_assert!(outbox.kept() <= max.max(4));
                prop_assert_eq!(pushed, acknowledged + outbox.superseded + outbox.kept() as u64);
                let sequences: usize = outbox.by_subject.values().map(VecDeque::len).sum();
                prop_assert_eq!(sequences, outbox.kept());
                prop_assert_eq!(outbox.outdated.len(), outbox.kept() - outbox.by_subject.len());
                for (subject, sequences) in &outbox.by_subject {
                    let last = &outbox.kept[sequences.back().unwrap()];
                    prop_assert_eq!(last.state, outbox.latest[subject].state);
                }
            }
        }
    }
}
