//! State that a board takes over from its predecessor at a reload of the configuration.
//!
//! The caller decides which checks test the same target as before.

use super::{Board, Changes, Event, index_of};
use crate::check::{Check, Move};
use crate::endpoint::Class;
use crate::time::Time;
use std::collections::HashMap;
use std::time::Duration;

/// What a check takes over from the check of the same name on the previous board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inheritance {
    /// The check is new, or tests a different target than before. Until its first result, but at
    /// most for this time, an endpoint counts it in the class of the previous check or, if the
    /// endpoint did not use that check, in a class that does not change the endpoint's state.
    Awaits(Duration),
    /// The check tests the same target as before: it takes over all results and judges them by its
    /// new configuration.
    State,
}

impl Board {
    /// Takes over the state of checks by name; see [`Inheritance`]. Declared maintenance is not
    /// taken over. Both boards must count time from the same origin. The call can be repeated, to
    /// take over results that the previous board has received in the meantime; a wait for a first
    /// result begins with the first call only.
    pub fn inherit_checks(
        &mut self,
        before: &Self,
        inheritance: impl Fn(&str) -> Inheritance,
        now: Time,
    ) -> Changes<'_> {
        let now = self.advance(now);
        let is_first = !core::mem::replace(&mut self.has_inherited, true);
        for at in 0..self.slots.len() {
            let slot = &mut self.slots[at];
            let predecessor = before.check_named(&slot.name).and_then(|index| before.check(index));
            let (own, is_new) = (slot.check.last().map(|(at, _)| at), slot.check.last().is_none());
            match (inheritance(&slot.name), predecessor) {
                (Inheritance::State, Some(predecessor)) if predecessor.last().is_some() => {
                    if own >= predecessor.last().map(|(at, _)| at) {
                        continue;
                    }
                    slot.check.inherit(predecessor, now);
                }
                // Neither check has a result, but the schedule of the previous check is taken over.
                (Inheritance::State, Some(predecessor))
                    if is_new && predecessor.config() == slot.check.config() =>
                {
                    slot.check.inherit(predecessor, now);
                }
                (Inheritance::State, Some(predecessor)) => match predecessor.awaited_until() {
                    Some(until) if is_first => slot.check.await_until(until),
                    _ => continue,
                },
                (Inheritance::State, None) => continue,
                (Inheritance::Awaits(time), _) if is_new && is_first => {
                    slot.check.await_until(now.after(time))
                }
                (Inheritance::Awaits(_), _) => continue,
            }
            self.follow(index_of(at), [None, None], true, now);
        }
        self.settle(now);
        self.changes()
    }

    /// Takes over the drain of all endpoints and, by name, the state of endpoints: latches
    /// ([`EndpointConfig::latch`](crate::EndpointConfig::latch)), the start times of grace and
    /// fail-open, the time of the last change, and the endpoints' own drains. Checks whose first
    /// result is awaited count as described at [`Inheritance::Awaits`]. A latch stays set even if
    /// the endpoint has other checks now, because a reload does not restart the process.
    pub fn inherit_endpoints(&mut self, before: &Self, now: Time) -> Changes<'_> {
        let now = self.advance(now);
        self.drain_all(before.drain_of_all.clone());
        for at in 0..self.endpoints.len() {
            let endpoint = &mut self.endpoints[at];
            let predecessor = before.endpoint_named(&endpoint.config().name);
            let Some(predecessor) = predecessor.and_then(|index| before.endpoint(index)) else { continue };
            endpoint.inherit(predecessor);
            let known = predecessor.config().uses.iter().zip(predecessor.classes());
            let known: HashMap<&str, Class> =
                known.filter_map(|(one, class)| Some((before.check_name(one.check)?, *class))).collect();
            for place in 0..endpoint.config().uses.len() {
                let index = endpoint.config().uses[place].check;
                let slot = &self.slots[index.as_usize()];
                if slot.check.awaited_until().is_some() {
                    let one = &endpoint.config().uses[place];
                    let joining = || predecessor.provisional_class(endpoint.config(), one);
                    let class = known.get(&*slot.name).copied().unwrap_or_else(joining);
                    endpoint.set_provisional(place, class, &slot.check);
                }
            }
            self.mark(at);
        }
        self.settle(now);
        self.changes()
    }

    /// Returns the differences from the previous board as transitions of checks and endpoints,
    /// which are matched by name.
    pub fn changed_since(&self, before: &Self) -> Vec<Event> {
        let at = self.now;
        let checks = self.checks().filter_map(|(check, name, now)| {
            let was = before.check_named(name).and_then(|index| before.check(index)).map(Check::state)?;
            let moved = Move { from: was, to: now.state() };
            (moved.from != moved.to).then_some(Event::Check { at, check, moved })
        });
        let endpoints = self.endpoints.iter().filter_map(|endpoint| {
            let name = &endpoint.config().name;
            let was = before.endpoint_named(name).and_then(|index| before.endpoint(index))?;
            let (from, to, endpoint) = (was.verdict(), endpoint.verdict(), self.endpoint_named(name)?);
            (from != to).then_some(Event::Endpoint { at, endpoint, from, to })
        });
        checks.chain(endpoints).collect()
    }
}
