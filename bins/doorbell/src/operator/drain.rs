//! Drains that operators want, of everything or of one endpoint, done before the call returns.
//!
//! Does not know about: who asks, what ends the program.
//!
//! What is drained is served as before; only probers are told otherwise.

use super::lifecycle::Drain;
use super::maintenance::{ALL, TARGETS_MAX};
use super::{Inside, Operator, end_of, one_line, unix_ms, with_note};
use crate::config::format_duration;
use crate::operator::millis;
use crate::parent;
use crate::wire::{Happening, Refusal, RefusalKind};
use doorbell_probes::Subject;
use std::time::Duration;

/// What is to drain.
#[derive(Debug)]
enum Drained {
    All,
    /// By the name under which it is kept.
    Endpoint(String),
}

impl Operator {
    /// Tells probers to stay away, those of one endpoint or of all. Everything is still served, until it is called off, its time is over or
    /// the program ends; with `is_kept` also after that.
    pub(crate) fn drain(
        &self,
        target: &str,
        reason: &str,
        for_time: Option<Duration>,
        is_kept: bool,
    ) -> Result<String, Refusal> {
        let mut inside = self.lock();
        inside.refuse_if_closing()?;
        let drained = inside.drained(target)?;
        let now = self.0.clock.now();
        let until = end_of(for_time, now)?;
        let drain = Drain { reason: one_line(reason), since: now, until, is_kept };
        let length = for_time.map(|time| format!(" for {}", format_duration(time))).unwrap_or_default();
        let done = match &drained {
            Drained::All => {
                let moved = inside.life.set_drain(drain, now);
                self.record(&inside, moved);
                self.drain_all(&inside, true);
                tracing::info!(
                    reason,
                    "draining{length}, until undrain: not ready, everything is still served"
                );
                format!(
                    "draining{length}: probers are told to stay away, everything is still served; `doorbell undrain` ends it"
                )
            }
            Drained::Endpoint(name) => {
                self.drain_one(&mut inside, name, drain)?;
                tracing::info!(reason, "{name}: draining{length}, until undrain: everything is still served");
                format!(
                    "{name}: draining{length}: its probers are told to stay away, everything is still served; `doorbell undrain {name}` ends it"
                )
            }
        };
        drop(inside);
        // Whoever lets time pass does not know when this one ends.
        self.0.queue.nudge();
        Ok(with_note(&done, if is_kept { self.save() } else { None }))
    }

    /// Calls a drain off; of all it is every drain, also one before the end of the program.
    pub(crate) fn undrain(&self, target: &str) -> Result<String, Refusal> {
        let mut inside = self.lock();
        inside.refuse_if_closing()?;
        let said = match inside.drained(target)? {
            Drained::All => self.undrain_all(&mut inside),
            Drained::Endpoint(name) => {
                let was_draining = self.undrain_one(&mut inside, &name);
                if was_draining {
                    tracing::info!("{name}: does not drain any more");
                }
                let done = if was_draining { "does not drain any more" } else { "was not draining alone" };
                let still =
                    inside.life.is_draining().then_some("; everything drains: `doorbell undrain` ends that");
                format!("{name}: {done}{}", still.unwrap_or_default())
            }
        };
        drop(inside);
        self.0.queue.nudge();
        Ok(with_note(&said, self.save().filter(|_| self.keeps())))
    }

    fn undrain_all(&self, inside: &mut Inside) -> String {
        let alone: Vec<String> = inside.drains.all().map(|(endpoint, _)| endpoint.to_owned()).collect();
        if !inside.life.is_draining() && alone.is_empty() {
            return "nothing was draining".into();
        }
        for endpoint in alone {
            self.undrain_one(inside, &endpoint);
        }
        let calls_off_stop = inside.life.stop().is_some();
        let moved = inside.life.call_off(self.0.clock.now());
        self.record(inside, moved);
        self.drain_all(inside, inside.life.is_draining());
        if calls_off_stop {
            parent::tell(parent::Word::GoesOn);
            tracing::warn!("the stop is called off: doorbell goes on");
        }
        if let Some(reason) = inside.life.lost_command() {
            return format!("not ready all the same: {reason}; end doorbell, or start both again");
        }
        if calls_off_stop {
            return "the stop is called off, and nothing drains any more".into();
        }
        tracing::info!("nothing drains any more");
        "nothing drains any more".into()
    }

    fn drain_one(&self, inside: &mut Inside, endpoint: &str, drain: Drain) -> Result<(), Refusal> {
        if !inside.drains.has_place_for(endpoint) {
            let text = format!("{TARGETS_MAX} endpoints drain, no more are kept");
            return Err(Refusal::new(RefusalKind::Busy, text));
        }
        let drain = inside.drains.set(endpoint, drain).clone();
        inside.registries().for_each(|registry| registry.drain_one(endpoint, Some(&drain.reason)));
        let left =
            |until: Duration| unix_ms().saturating_add(millis(until.saturating_sub(self.0.clock.now())));
        self.0.event_log.record(Happening::Drain {
            endpoint: endpoint.to_owned(),
            on: true,
            reason: drain.reason,
            until_unix_ms: drain.until.map(left),
        });
        Ok(())
    }

    /// False where it did not drain alone.
    fn undrain_one(&self, inside: &mut Inside, endpoint: &str) -> bool {
        let was_draining = inside.drains.end(endpoint);
        if was_draining {
            self.drained_one(inside, endpoint);
        }
        was_draining
    }

    /// It drains alone no more: has that answered and written down.
    fn drained_one(&self, inside: &Inside, endpoint: &str) {
        inside.registries().for_each(|registry| registry.drain_one(endpoint, None));
        let (endpoint, reason) = (endpoint.to_owned(), String::new());
        self.0.event_log.record(Happening::Drain { endpoint, on: false, reason, until_unix_ms: None });
    }

    /// Has everybody answered so. Whoever connects meanwhile is accepted at once: he is not to be found waiting when listeners close.
    pub(super) fn drain_all(&self, inside: &Inside, on: bool) {
        inside.registries().for_each(|registry| registry.drain(on));
        if let Some(running) = self.running() {
            running.handle.accept_at_once(on);
        }
    }

    /// Drains whose time is over.
    pub(super) fn expire_drains(&self, inside: &mut Inside, now: Duration) {
        for endpoint in inside.drains.expire(now) {
            tracing::info!("{endpoint}: does not drain any more, its time is over");
            self.drained_one(inside, &endpoint);
        }
        let moved = inside.life.end_drain_if_due(now);
        self.record(inside, moved);
        if moved.is_some() {
            tracing::info!("nothing drains any more but what was named alone: the time is over");
            self.drain_all(inside, false);
        }
    }

    /// How long load balancers still have to hear of a drain of this target; `None` where it does not drain, or where it is over: all of
    /// them had `drain_delay`, and nobody is connected. Whose connections are whose nobody knows: an endpoint's drain is over by time alone.
    pub(crate) fn has_to_drain(&self, target: &str) -> bool {
        let Some(running) = self.running() else { return false };
        let inside = self.lock();
        let Ok(drained) = inside.drained(target) else { return false };
        let begun = match &drained {
            Drained::All => inside.drain_begun(),
            Drained::Endpoint(name) => inside.drains.get(name).map(|drain| drain.since),
        };
        drop(inside);
        let Some(begun) = begun else { return false };
        let is_heard = self.0.clock.now().saturating_sub(begun) >= running.lifecycle.drain_delay;
        !is_heard || (matches!(drained, Drained::All) && running.conns_open() > 0)
    }
}

impl Inside {
    /// When the drain of everything began; `None` while there is none.
    pub(super) fn drain_begun(&self) -> Option<Duration> {
        let begun = self.life.drain().map_or_else(|| self.life.since(), |drain| drain.since);
        self.life.is_draining().then_some(begun)
    }

    fn drained(&self, target: &str) -> Result<Drained, Refusal> {
        if target == ALL {
            return Ok(Drained::All);
        }
        match self.subject(target)? {
            (Subject::All, _) => Ok(Drained::All),
            (Subject::Endpoint(_), name) => Ok(Drained::Endpoint(name)),
            (Subject::Check(_), name) => {
                let text = format!("only endpoints drain: `doorbell maint {name}` takes the check out");
                Err(Refusal::new(RefusalKind::NotSupported, text))
            }
        }
    }
}
