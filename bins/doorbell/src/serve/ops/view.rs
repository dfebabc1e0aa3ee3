//! What operators see: answers made when somebody asks.
//!
//! Does not know about: who asks.

use super::clock::{millis, unix_ms};
use super::{Follower, Operator};
use crate::wire::{CheckView, Event, ProberView, Refusal, RefusalKind, Status};
use std::collections::BTreeMap;

impl Operator {
    /// Everything at a glance.
    pub(crate) fn status(&self) -> Status {
        let running = self.running();
        let now = self.0.clock.now();
        let inside = self.lock();
        let life = &inside.life;
        let stop = life.stop().filter(|_| !life.is_closing());
        let mut status = Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            now_unix_ms: unix_ms(),
            uptime_ms: millis(now),
            lifecycle: life.state(),
            lifecycle_age_ms: millis(now.saturating_sub(life.since())),
            reason: life.reason().to_owned(),
            stops_in_ms: stop.map(|stop| millis(stop.closes_at.saturating_sub(now))),
            config: String::new(),
            generation: inside.generation,
            addresses: Vec::new(),
            workers: Vec::new(),
            endpoints: Vec::new(),
            checks: BTreeMap::new(),
            maintenance: inside.holds.views(now),
            counters: BTreeMap::new(),
            event: self.0.journal.last(),
        };
        let fates = inside.fates.clone();
        drop(inside);
        if let Some(running) = running {
            status.config.clone_from(&running.origin);
            status.addresses.clone_from(&running.addresses);
            status.workers = running.workers(&fates);
            status.endpoints = running.keeper.endpoints();
            status.checks = running.keeper.check_counts();
            status.counters = running.counters();
        }
        status
    }

    /// All checks or the one with this name, in the order of the configuration.
    pub(crate) fn checks(&self, name: Option<&str>, history: bool) -> Result<Vec<CheckView>, Refusal> {
        let views = self.running().map(|running| running.checks(name, history)).unwrap_or_default();
        match name {
            Some(name) if views.is_empty() => {
                let text = format!("there is no check {name:?}: `doorbell checks` lists them");
                Err(Refusal::new(RefusalKind::NotFound, text))
            }
            _ => Ok(views),
        }
    }

    /// Who probes.
    pub(crate) fn probers(&self) -> Vec<ProberView> {
        self.0.hooks.probers.get().map(|tell| tell()).unwrap_or_default()
    }

    /// The events after this number that are kept, oldest first, and how many of them are not.
    pub(crate) fn events_since(&self, since: u64) -> (Vec<Event>, u64) {
        let (events, missed) = self.0.journal.since(since);
        (events.iter().map(|event| Event::clone(event)).collect(), missed)
    }

    /// The same, and whatever comes.
    pub(crate) fn follow(&self, since: u64) -> Follower {
        self.0.journal.follow(since)
    }
}
