//! The flap rule: the times of the last changes, and the end of the current hold.

use super::config::FlapRule;
use crate::time::Time;

/// The changes of one check that count for its flap rule.
#[derive(Clone, Debug)]
pub(super) struct Flap {
    rule: FlapRule,
    /// The last `transitions_max + 1` changes; when full, the oldest is at `next`.
    changes: Vec<Time>,
    next: usize,
    /// End of the hold; set only while flapping.
    held_until: Option<Time>,
}

impl Flap {
    pub(super) fn new(rule: FlapRule) -> Self {
        Self {
            rule,
            changes: Vec::with_capacity(rule.transitions_max as usize + 1),
            next: 0,
            held_until: None,
        }
    }

    /// Applies another rule to the same changes. If the new rule has the same window and maximum of
    /// changes, a current hold continues with the new duration. Otherwise the stored changes decide
    /// whether there is a hold.
    pub(super) fn under(&self, rule: FlapRule, now: Time) -> Self {
        let mut flap = Self::new(rule);
        self.changes().for_each(|change| flap.handle_change(change));
        if (rule.window, rule.transitions_max) == (self.rule.window, self.rule.transitions_max) {
            // The stored changes may no longer include those that caused the hold.
            let last = self.held_until.and_then(|_| self.changes().last());
            flap.held_until = last.map(|last| last.after(rule.hold));
        }
        flap.handle_time(now);
        flap
    }

    /// The stored changes, oldest first.
    fn changes(&self) -> impl Iterator<Item = Time> {
        let (newer, older) = self.changes.split_at(self.next);
        older.iter().chain(newer).copied()
    }

    /// Records a change between up and down.
    ///
    /// Changes stay stored when a hold ends: one more change within the window starts the next
    /// hold.
    pub(super) fn handle_change(&mut self, now: Time) {
        // End an expired hold first, so that only a current hold is prolonged.
        self.handle_time(now);
        let room = self.rule.transitions_max as usize + 1;
        if self.changes.len() < room {
            self.changes.push(now);
        } else {
            self.changes[self.next] = now;
            self.next = (self.next + 1) % room;
        }
        let too_many = self.changes.len() == room && now.since(self.changes[self.next]) <= self.rule.window;
        if too_many || self.held_until.is_some() {
            self.held_until = Some(now.after(self.rule.hold));
        }
    }

    /// Ends an expired hold.
    pub(super) fn handle_time(&mut self, now: Time) {
        if self.held_until.is_some_and(|until| now >= until) {
            self.held_until = None;
        }
    }

    /// The end of the hold; `Some` exactly while the check is held down.
    pub(super) fn held_until(&self) -> Option<Time> {
        self.held_until
    }
}
