//! What a board takes over from the one before it, when a configuration is read anew.
//!
//! Does not know about: configurations; whoever calls says which checks are still the same.

use super::{Board, Changes, CheckIndex};
use crate::time::Time;

impl Board {
    /// Takes over what is known of the checks that `carries` says are the same as there, by name, if they are judged in the same way:
    /// no such check becomes unknown. Maintenance by an operator is each board's own. Both boards count time from the same origin.
    pub fn inherit_checks(
        &mut self,
        before: &Self,
        carries: impl Fn(&str) -> bool,
        now: Time,
    ) -> Changes<'_> {
        let now = self.advance(now);
        for at in 0..self.slots.len() {
            let slot = &mut self.slots[at];
            let elder = before.check_named(&slot.name).and_then(|index| before.check(index));
            let Some(elder) = elder.filter(|elder| elder.config() == slot.check.config()) else { continue };
            let is_news = slot.check.last().map(|(at, _)| at) < elder.last().map(|(at, _)| at);
            if carries(&slot.name) && (is_news || slot.check.last().is_none()) {
                slot.check.inherit(elder, now);
                let index = u32::try_from(at).expect("every cap is far below u32::MAX");
                self.follow(CheckIndex(index), [None, None], true, now);
            }
        }
        self.settle(now);
        self.changes()
    }

    /// Takes over what endpoints of the same name remember: latches, since when they are what they are, and whether they drain. A latch stays
    /// whatever an endpoint requires now: the process has started once.
    pub fn inherit_endpoints(&mut self, before: &Self, now: Time) -> Changes<'_> {
        let now = self.advance(now);
        for at in 0..self.endpoints.len() {
            let endpoint = &mut self.endpoints[at];
            let elder = before.endpoint_named(&endpoint.config().name);
            if let Some(elder) = elder.and_then(|index| before.endpoint(index)) {
                endpoint.inherit(elder);
                self.mark(at);
            }
        }
        self.settle(now);
        self.changes()
    }
}
