//! Drains by operators, of all endpoints or of one. A drain takes effect before the call returns.
//!
//! A drain changes only what probers see; requests are served as before.

use super::drains::{Drain, TargetDrains};
use super::maintenance::{ALL, TARGETS_MAX};
use super::{Operator, OperatorInner, end_of, lasts, one_line, unix_ms, with_note};
use crate::operator::millis;
use crate::parent;
use doorbell_control::{EventKind, Refusal, RefusalKind};
use doorbell_probes::Subject;
use std::time::Duration;

/// Note about an endpoint that still drains.
const ALL_CONTINUES: &str = "the drain of all endpoints continues: `doorbell undrain` ends it";

/// The target of a drain.
#[derive(Debug)]
enum DrainTarget {
    All,
    /// An endpoint, by the name under which its drain is stored.
    Endpoint(String),
}

impl Operator {
    /// Drains one endpoint or all, until the drain is cancelled, its time limit is reached or the
    /// program ends. With `is_kept` the drain survives a restart. Drains with and without `is_kept`
    /// do not replace each other.
    pub(crate) fn drain(
        &self,
        target: &str,
        reason: &str,
        for_time: Option<Duration>,
        is_kept: bool,
    ) -> Result<String, Refusal> {
        let mut inner = self.lock();
        inner.refuse_if_closing()?;
        let drain_target = inner.drain_target(target)?;
        let now = self.0.clock.now();
        let ends = match &drain_target {
            DrainTarget::All => "doorbell undrain".to_owned(),
            DrainTarget::Endpoint(name) => format!("doorbell undrain {name}"),
        };
        let until = end_of(for_time, now, &ends)?;
        let lasts = lasts(for_time, &ends);
        let drain = Drain { reason: one_line(reason), since: now, until };
        let done = match &drain_target {
            DrainTarget::All => {
                let change = inner.life.set_drain(drain, is_kept, now);
                self.record(&inner, change);
                self.publish_drain(&inner);
                tracing::info!(reason, "draining {lasts}: not ready, requests are still served");
                format!("draining {lasts}: not ready, requests are still served")
            }
            DrainTarget::Endpoint(name) => {
                self.drain_one(&mut inner, name, drain, is_kept)?;
                tracing::info!(reason, "{name}: draining {lasts}: requests are still served");
                format!("{name}: draining {lasts}: not ready, requests are still served")
            }
        };
        drop(inner);
        // The supervisor has to compute its next deadline again.
        self.0.queue.wake();
        Ok(with_note(&done, if is_kept { self.save() } else { None }))
    }

    /// Cancels the drain of an endpoint, even if a reload has removed it; with `all`, every drain,
    /// and a stop that has not closed the listeners yet.
    pub(crate) fn undrain(&self, target: &str) -> Result<String, Refusal> {
        let mut inner = self.lock();
        inner.refuse_if_closing()?;
        let drain_target = inner.drain_target(target).or_else(|unknown| {
            let removed = OperatorInner::declared(target, |name| inner.drains.get(name).is_some());
            removed.map(DrainTarget::Endpoint).ok_or(unknown)
        })?;
        let outcome = match drain_target {
            DrainTarget::All => self.undrain_all(&mut inner),
            DrainTarget::Endpoint(name) => {
                let was_draining = self.undrain_one(&mut inner, &name);
                if was_draining {
                    tracing::info!("{name}: drain ended");
                }
                let done = if was_draining { "drain ended" } else { "had no drain of its own" };
                let still = inner.life.is_draining().then(|| format!("; {ALL_CONTINUES}"));
                format!("{name}: {done}{}", still.unwrap_or_default())
            }
        };
        drop(inner);
        self.0.queue.wake();
        Ok(with_note(&outcome, self.save().filter(|_| self.has_state_file())))
    }

    fn undrain_all(&self, inner: &mut OperatorInner) -> String {
        let alone: Vec<String> = inner.drains.all().map(|(endpoint, _)| endpoint.to_owned()).collect();
        if !inner.life.is_draining() && alone.is_empty() {
            return "nothing was draining".into();
        }
        for endpoint in alone {
            self.undrain_one(inner, &endpoint);
        }
        let cancels_stop = inner.life.stop().is_some();
        let change = inner.life.cancel(self.0.clock.now());
        self.record(inner, change);
        self.publish_drain(inner);
        if cancels_stop {
            parent::send_report(parent::ServerReport::StopCancelled);
            tracing::warn!("stop cancelled: doorbell keeps running");
        }
        if let Some(reason) = inner.life.command_exit() {
            return format!(
                "still not ready: {reason}; stop doorbell, or restart it together with the command"
            );
        }
        if cancels_stop {
            return "stop cancelled, all drains ended".into();
        }
        tracing::info!("all drains ended");
        "all drains ended".into()
    }

    fn drain_one(
        &self,
        inner: &mut OperatorInner,
        endpoint: &str,
        drain: Drain,
        is_kept: bool,
    ) -> Result<(), Refusal> {
        if !inner.drains.has_capacity_for(endpoint) {
            let text = format!("too many draining endpoints: the maximum is {TARGETS_MAX}");
            return Err(Refusal::new(RefusalKind::Busy, text));
        }
        inner.drains.set(endpoint, drain, is_kept);
        self.publish_drain_of(inner, endpoint);
        Ok(())
    }

    /// Ends the drains of one endpoint; false if it had none.
    fn undrain_one(&self, inner: &mut OperatorInner, endpoint: &str) -> bool {
        let was_draining = inner.drains.end(endpoint);
        if was_draining {
            self.publish_drain_of(inner, endpoint);
        }
        was_draining
    }

    /// Publishes and records the drain of one endpoint, or its end.
    fn publish_drain_of(&self, inner: &OperatorInner, endpoint: &str) {
        let drains = inner.drains.get(endpoint);
        let reason = drains.and_then(TargetDrains::reason);
        inner.registries().for_each(|registry| registry.drain_one(endpoint, reason));
        let left =
            |until: Duration| unix_ms().saturating_add(millis(until.saturating_sub(self.0.clock.now())));
        self.0.event_log.record(EventKind::Drain {
            endpoint: endpoint.to_owned(),
            on: reason.is_some(),
            reason: reason.unwrap_or_default().to_owned(),
            until_unix_ms: drains.and_then(TargetDrains::until).map(left),
        });
    }

    /// Publishes the drain of all endpoints with its reason, or the end of that drain. During a
    /// drain, connections are accepted without TCP_DEFER_ACCEPT, so that none remains unaccepted
    /// when listeners close.
    pub(super) fn publish_drain(&self, inner: &OperatorInner) {
        let reason = inner.life.drain_reason();
        inner.registries().for_each(|registry| registry.drain(reason));
        if let Some(running) = self.running() {
            running.handle.accept_at_once(reason.is_some());
        }
    }

    /// Ends drains whose time limit is reached; false if there are none.
    pub(super) fn expire_drains(&self, inner: &mut OperatorInner, now: Duration) -> bool {
        let ended = inner.drains.expire(now);
        for endpoint in &ended {
            match inner.drains.get(endpoint) {
                None => tracing::info!("{endpoint}: drain ended: time limit reached"),
                Some(_) => {
                    tracing::info!("{endpoint}: one drain ended: time limit reached; another continues")
                }
            }
            self.publish_drain_of(inner, endpoint);
        }
        let Some(change) = inner.life.end_drains_if_due(now) else { return !ended.is_empty() };
        self.record(inner, change);
        match inner.life.drains().is_empty() {
            true => tracing::info!("drain of all endpoints ended: time limit reached"),
            false => {
                tracing::info!("one drain of all endpoints ended: time limit reached; another continues")
            }
        }
        self.publish_drain(inner);
        true
    }

    /// Whether a command that waits for the drain of a target must wait longer: `drain_delay` has
    /// not passed or, for a drain of all endpoints, connections are open. The requests of one
    /// connection may be for several endpoints, so the drain of one endpoint does not depend on
    /// connections.
    pub(crate) fn is_drain_pending(&self, target: &str) -> bool {
        let Some(running) = self.running() else { return false };
        let inner = self.lock();
        let Ok(drain_target) = inner.drain_target(target) else { return false };
        let since = match &drain_target {
            DrainTarget::All => inner.drain_since(),
            DrainTarget::Endpoint(name) => inner.drains.get(name).and_then(TargetDrains::since),
        };
        drop(inner);
        let Some(since) = since else { return false };
        let is_announced = self.0.clock.now().saturating_sub(since) >= running.lifecycle.drain_delay;
        !is_announced || (matches!(drain_target, DrainTarget::All) && running.conns_open() > 0)
    }
}

impl OperatorInner {
    /// Start of the drain of all endpoints, if one is in progress.
    pub(super) fn drain_since(&self) -> Option<Duration> {
        let since = self.life.drains().since().unwrap_or_else(|| self.life.since());
        self.life.is_draining().then_some(since)
    }

    /// Returns a note if an endpoint drains because all endpoints do.
    pub(super) fn still_drained(&self, name: &str) -> Option<String> {
        let is_endpoint = matches!(self.drain_target(name), Ok(DrainTarget::Endpoint(_)));
        (is_endpoint && self.life.is_draining()).then(|| format!("{name}: {ALL_CONTINUES}"))
    }

    fn drain_target(&self, target: &str) -> Result<DrainTarget, Refusal> {
        if target == ALL {
            return Ok(DrainTarget::All);
        }
        match self.subject(target)? {
            (Subject::All, _) => Ok(DrainTarget::All),
            (Subject::Endpoint(_), name) => Ok(DrainTarget::Endpoint(name)),
            (Subject::Check(_), name) => {
                let text = format!("a check cannot drain: use `doorbell maint {name}`");
                Err(Refusal::new(RefusalKind::NotSupported, text))
            }
        }
    }
}
