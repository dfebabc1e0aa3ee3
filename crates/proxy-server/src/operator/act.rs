//! Commands of operators: maintenance, reload, stop. A command takes effect before its call
//! returns, except an immediate stop.

use super::maintenance::{self, Hold};
use super::{Operator, OperatorInner, end_of, lasts, one_line, with_note};
use crate::supervisor::queue::Message;
use doorbell_control::{EventKind, HoldSource, Refusal, RefusalKind, Request, Response};
use doorbell_proxy_config::format_duration;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl Operator {
    /// Handles a request, but does not follow events. May block on the disk or on a run of a check.
    pub(crate) fn handle(&self, request: Request) -> Result<Response, Refusal> {
        let time = |for_ms: Option<u64>| for_ms.map(Duration::from_millis);
        let done = match request {
            Request::Checks { name, history } => {
                return self.checks(name.as_deref(), history).map(Response::Checks);
            }
            Request::Events { since, follow: _ } => {
                let (events, missed) = self.events_since(since);
                return Ok(Response::Events { events, missed });
            }
            Request::Links => return Ok(Response::Links(self.links())),
            Request::Probers => return Ok(Response::Probers(self.probers())),
            Request::RunCheck { name } => return Ok(Response::Checks(vec![self.run_check(&name)?])),
            Request::Status => return Ok(Response::Status(Box::new(self.status()))),
            Request::Drain { target, reason, for_ms, is_kept } => {
                self.drain(&target, &reason, time(for_ms), is_kept)
            }
            Request::Maintain { target, reason, for_ms } => self.maintain(&target, &reason, time(for_ms)),
            Request::Quit { now } => self.quit(now),
            Request::Ready { target } => self.ready(&target),
            Request::Reload => self.reload(),
            Request::Undrain { target } => self.undrain(&target),
        };
        done.map(Response::Done)
    }

    /// Starts maintenance of an endpoint, a check or, with `all`, every readiness endpoint.
    pub(crate) fn maintain(
        &self,
        target: &str,
        reason: &str,
        for_time: Option<Duration>,
    ) -> Result<String, Refusal> {
        let mut inner = self.lock();
        let (_, name) = inner.subject(target)?;
        if !inner.maintenance.has_capacity_for(&name) {
            let text =
                format!("too many targets in maintenance: the maximum is {}", maintenance::TARGETS_MAX);
            return Err(Refusal::new(RefusalKind::Busy, text));
        }
        let now = self.0.clock.now();
        let ends = format!("doorbell ready {name}");
        let until = end_of(for_time, now, &ends)?;
        let hold = Hold { reason: one_line(reason), until };
        self.hold(&mut inner, &name, HoldSource::Operator, Some(hold), now);
        drop(inner);
        self.0.queue.wake();
        let lasts = lasts(for_time, &ends);
        tracing::info!(reason, "{name}: maintenance {lasts}");
        Ok(with_note(&format!("{name}: maintenance {lasts}"), self.save()))
    }

    /// Ends an operator's maintenance, the open windows and the drain of a target, even if a reload
    /// has removed it; with `all`, of every target, and cancels a stop that has not closed the
    /// listeners yet.
    pub(crate) fn ready(&self, target: &str) -> Result<String, Refusal> {
        let mut inner = self.lock();
        let name = inner.subject(target).map(|(_, name)| name).or_else(|unknown| {
            let is_declared = |name: &str| {
                inner.drains.get(name).is_some() || inner.maintenance.targets().any(|held| held == name)
            };
            OperatorInner::declared(target, is_declared).ok_or(unknown)
        })?;
        let is_all = name == maintenance::ALL;
        let held = inner.maintenance.of_source(HoldSource::Operator).map(|(target, _)| target.to_owned());
        let ended: Vec<String> = held.filter(|target| is_all || *target == name).collect();
        let now = self.0.clock.now();
        for target in &ended {
            self.hold(&mut inner, target, HoldSource::Operator, None, now);
        }
        let windows = inner.end_windows(&name);
        self.evaluate_windows(&mut inner, now);
        let drains = match is_all {
            true => inner.life.is_draining() || inner.drains.all().next().is_some(),
            false => inner.drains.get(&name).is_some(),
        };
        let mut still = inner.still_held(&name);
        if !drains {
            still.extend(inner.still_drained(&name));
        }
        drop(inner);
        self.0.queue.wake();
        let ends_windows = !windows.is_empty();
        let mut messages: Vec<String> =
            ended.iter().map(|target| format!("{target}: maintenance ended")).collect();
        messages
            .extend(windows.into_iter().map(|target| format!("{target}: maintenance window ended early")));
        // Logged and saved first, because this function returns early if the end of the drain is
        // refused.
        if !ended.is_empty() {
            tracing::info!("maintenance ended: {}", ended.join(", "));
        }
        if !ended.is_empty() || ends_windows {
            // Without a state file, a restart ends maintenance, but opens a window again.
            messages.extend(self.save().filter(|_| self.has_state_file() || ends_windows));
        }
        if drains {
            messages.push(self.undrain(&name)?);
        }
        messages.extend(still);
        if messages.is_empty() {
            messages.push(format!("{name}: was not in maintenance"));
        }
        Ok(messages.join("\n"))
    }

    /// Whether `name` is an endpoint, a check or `all`.
    pub(super) fn is_target(&self, name: &str) -> bool {
        self.lock().subject(name).is_ok()
    }

    /// Sets the maintenance declared by files; `reasons` maps each target to its reason. Returns
    /// unknown targets.
    pub(super) fn set_file_maintenance(&self, reasons: &BTreeMap<String, String>) -> BTreeSet<String> {
        let mut inner = self.lock();
        inner.files.clone_from(reasons);
        self.apply_files(&mut inner, self.0.clock.now())
    }

    /// Applies the maintenance in `inner.files`. Returns targets that the current registry does
    /// not have.
    pub(super) fn apply_files(&self, inner: &mut OperatorInner, now: Duration) -> BTreeSet<String> {
        let mut unknown = BTreeSet::new();
        let mut declared = BTreeMap::new();
        for (target, reason) in &inner.files {
            match inner.subject(target) {
                Ok((_, name)) => drop(declared.insert(name, one_line(reason))),
                Err(_) => drop(unknown.insert(target.clone())),
            }
        }
        let before: Vec<String> =
            inner.maintenance.of_source(HoldSource::File).map(|(target, _)| target.to_owned()).collect();
        for target in before.iter().filter(|target| !declared.contains_key(*target)) {
            self.hold(inner, target, HoldSource::File, None, now);
        }
        for (target, reason) in declared {
            self.hold(inner, &target, HoldSource::File, Some(Hold { reason, until: None }), now);
        }
        unknown
    }

    /// Reloads the configuration and returns the result as a sentence.
    pub(crate) fn reload(&self) -> Result<String, Refusal> {
        let Some(reload) = self.0.hooks.reload.get() else {
            let text = "this instance cannot reload its configuration: restart it";
            return Err(Refusal::new(RefusalKind::NotSupported, text));
        };
        let outcome = reload();
        let ok = outcome.is_ok();
        let (Ok(text) | Err(text)) = outcome.clone();
        let refused = (!ok).then(|| (text.clone(), self.0.clock.now()));
        self.lock().refused_reload = refused;
        self.0.event_log.record(EventKind::Reload { ok, text });
        outcome.map_err(|text| Refusal::new(RefusalKind::Failed, text))
    }

    /// Forgets a failed reload, because its configuration is in use now.
    pub(crate) fn end_refused_reload(&self) {
        self.lock().refused_reload = None;
        let text = "the configuration that was refused is in use now".to_owned();
        self.0.event_log.record(EventKind::Reload { ok: true, text });
    }

    /// Drains and stops; with `now`, stops immediately.
    pub(crate) fn quit(&self, now: bool) -> Result<String, Refusal> {
        if now {
            self.0.queue.send(Message::StopNow);
            return Ok("stopping now".into());
        }
        self.lock().refuse_if_closing()?;
        self.begin_stop("doorbell quit");
        let left = self.status().stops_in_ms.map_or(Duration::ZERO, Duration::from_millis);
        self.0.queue.wake();
        Ok(match left.is_zero() {
            true => "draining: listeners close now".into(),
            false => format!(
                "draining for {} before listeners close; until then `doorbell undrain` cancels the stop",
                format_duration(left)
            ),
        })
    }
}
