//! What a board takes over from the one before it, when a configuration is read anew.
//!
//! Does not know about: configurations; the caller says which checks ask the same.

use super::{Board, Changes, Event, index_of};
use crate::check::{Check, Move};
use crate::endpoint::Class;
use crate::time::Time;
use std::collections::HashMap;
use std::time::Duration;

/// What a check takes over from the one of the same name before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carry {
    /// It asks something new: endpoints keep what they think of it until its first result, but no longer than this.
    Awaits(Duration),
    /// It asks the same: all that is known, judged as it is now.
    State,
}

impl Board {
    /// Takes over what is known of checks, by name: see [`Carry`]. Maintenance by an operator is each board's own. Both boards count time
    /// from the same origin. Called again, it takes over what was found meanwhile.
    pub fn inherit_checks(&mut self, before: &Self, carry: impl Fn(&str) -> Carry, now: Time) -> Changes<'_> {
        let now = self.advance(now);
        for at in 0..self.slots.len() {
            let slot = &mut self.slots[at];
            let elder = before.check_named(&slot.name).and_then(|index| before.check(index));
            let (own, is_new) = (slot.check.last().map(|(at, _)| at), slot.check.last().is_none());
            match (carry(&slot.name), elder) {
                (Carry::State, Some(elder)) if elder.last().is_some() => {
                    if own >= elder.last().map(|(at, _)| at) {
                        continue;
                    }
                    slot.check.inherit(elder, now);
                }
                // Nothing is known of it, which is no reason to begin anew.
                (Carry::State, Some(elder)) if is_new && elder.config() == slot.check.config() => {
                    slot.check.inherit(elder, now);
                }
                (Carry::State, Some(elder)) => match elder.awaited_until() {
                    Some(until) => slot.check.await_until(until),
                    None => continue,
                },
                (Carry::State, None) => continue,
                (Carry::Awaits(time), _) if is_new => slot.check.await_until(now.after(time)),
                (Carry::Awaits(_), _) => continue,
            }
            self.follow(index_of(at), [None, None], true, now);
        }
        self.settle(now);
        self.changes()
    }

    /// Takes over the drain of all, and what endpoints of the same name remember: latches, since when they are what they are, whether
    /// they drain alone, and what they think of checks whose first result is awaited. A check that joins an endpoint changes nothing
    /// before its first result. A latch stays whatever an endpoint requires now: the process has started once.
    pub fn inherit_endpoints(&mut self, before: &Self, now: Time) -> Changes<'_> {
        let now = self.advance(now);
        self.drain_all(before.drain_of_all.clone());
        for at in 0..self.endpoints.len() {
            let endpoint = &mut self.endpoints[at];
            let elder = before.endpoint_named(&endpoint.config().name);
            let Some(elder) = elder.and_then(|index| before.endpoint(index)) else { continue };
            endpoint.inherit(elder);
            let known = elder.config().uses.iter().zip(elder.classes());
            let known: HashMap<&str, Class> =
                known.filter_map(|(one, class)| Some((before.check_name(one.check)?, *class))).collect();
            for place in 0..endpoint.config().uses.len() {
                let index = endpoint.config().uses[place].check;
                let slot = &self.slots[index.as_usize()];
                if slot.check.awaited_until().is_some() {
                    let one = &endpoint.config().uses[place];
                    let joining = || elder.class_of_joining(endpoint.config(), one);
                    let class = known.get(&*slot.name).copied().unwrap_or_else(joining);
                    endpoint.stand_in(place, class, &slot.check);
                }
            }
            self.mark(at);
        }
        self.settle(now);
        self.changes()
    }

    /// How checks and endpoints of the same name differ from what they were on the board before, as transitions.
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
