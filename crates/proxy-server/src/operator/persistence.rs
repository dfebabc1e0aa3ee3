//! Saves drains, maintenance and ended windows to the state file and restores them.

use super::clock::millis;
use super::drains::Drain;
use super::maintenance::{ALL, Hold, TARGETS_MAX};
use super::state_file::{Moment, SavedHold, SavedState, SavedWindow, StateFile};
use super::windows::EndedWindow;
use super::{HOLD_MAX, Operator, OperatorInner, lasts, one_line};
use doorbell_control::HoldSource;
use parking_lot::Mutex;
use std::path::Path;
use std::time::Duration;

/// Time until the state is saved again after a failure, such as a full disk.
const SAVE_AGAIN_AFTER: Duration = Duration::from_secs(10);

impl Operator {
    /// Restores the saved state; later changes are saved. Must be called before a registry is
    /// prepared, because [`Operator::prepare`] applies the state to the registry.
    pub(crate) fn open_state_file(&self, path: &Path) {
        let mut state_file = StateFile::new(path);
        if state_file.claim_after_predecessor().is_err() {
            let path = path.display();
            tracing::warn!(
                "state file {path} is in use by another instance: not read, and drains and maintenance are lost at a restart; give each instance its own `lifecycle.state_file`"
            );
            self.0
                .state_file
                .get_or_init(|| Err(format!("the state file {path} is in use by another instance")));
            return;
        }
        let saved = state_file.load();
        self.0.state_file.get_or_init(|| Ok(Mutex::new(state_file)));
        let Some(saved) = saved else { return };
        let mut inner = self.lock();
        let now = self.0.clock.now();
        inner.restore(saved, now);
        let left = |until: Option<Duration>, ends: &str| {
            // Whole seconds, because the time since the save is not known exactly.
            let left = until.map(|until| Duration::from_secs(until.saturating_sub(now).as_secs()));
            lasts(left, ends)
        };
        if let Some(drain) = inner.life.drains().kept() {
            let lasts = left(drain.until, "doorbell undrain");
            tracing::warn!(reason = drain.reason, "drain restored {lasts}");
        }
        for (endpoint, drain) in inner.kept_drains() {
            let lasts = left(drain.until, &format!("doorbell undrain {endpoint}"));
            tracing::warn!(reason = drain.reason, "{endpoint}: drain restored {lasts}");
        }
        for (target, hold) in inner.maintenance.of_source(HoldSource::Operator) {
            let lasts = left(hold.until, &format!("doorbell ready {target}"));
            tracing::warn!(reason = hold.reason, "{target}: maintenance restored {lasts}");
        }
    }

    /// Whether changes are saved to a state file.
    pub(super) fn has_state_file(&self) -> bool {
        matches!(self.0.state_file.get(), Some(Ok(_)))
    }

    /// Saves the current state. Returns a note for the operator if the state is not kept across
    /// restarts.
    pub(super) fn save(&self) -> Option<String> {
        let state_file = match self.0.state_file.get() {
            Some(Ok(state_file)) => state_file,
            Some(Err(why)) => return Some(format!("not kept across restarts: {why}")),
            None => return Some("not kept across restarts: `lifecycle.state_file` is not set".into()),
        };
        // The lock covers collecting and writing the state, so that the latest state is written
        // last.
        let mut state_file = state_file.lock();
        let now = self.0.clock.now();
        let saved = self.lock().saved_state(now);
        let failed = state_file.save(&saved).err();
        self.lock().unsaved = failed.clone().map(|why| (why, now + SAVE_AGAIN_AFTER));
        failed.map(|why| format!("not kept across restarts: {why}"))
    }

    /// Why the state is not saved to the configured state file.
    pub(super) fn unsaved(&self, inner: &OperatorInner) -> Option<String> {
        let in_use = self.0.state_file.get().and_then(|opened| opened.as_ref().err());
        in_use.or_else(|| inner.unsaved.as_ref().map(|(why, _)| why)).cloned()
    }
}

impl OperatorInner {
    /// The drains of single endpoints that are kept across a restart.
    fn kept_drains(&self) -> impl Iterator<Item = (&str, &Drain)> {
        self.drains.all().filter_map(|(endpoint, drains)| Some((endpoint, drains.kept()?)))
    }

    fn saved_state(&self, now: Duration) -> SavedState {
        let saved = |target: &str, reason: &str, until: Option<Duration>| SavedHold {
            target: target.to_owned(),
            reason: reason.to_owned(),
            left_ms: until.map(|until| millis(until.saturating_sub(now))),
        };
        let all = self.life.drains().kept().map(|drain| (ALL, drain));
        let drains = all.into_iter().chain(self.kept_drains());
        let maintenance = self.maintenance.of_source(HoldSource::Operator);
        SavedState {
            moment: Moment::now(),
            drains: drains.map(|(target, drain)| saved(target, &drain.reason, drain.until)).collect(),
            maintenance: maintenance.map(|(target, hold)| saved(target, &hold.reason, hold.until)).collect(),
            ended_windows: self.windows.ended().map(SavedWindow::from).collect(),
        }
    }

    fn restore(&mut self, saved: SavedState, now: Duration) {
        let passed = saved.moment.until(&Moment::now());
        // The new end; `None` if the time limit has passed.
        let until = |left_ms: Option<u64>| match left_ms {
            None => Some(None),
            Some(left) => {
                let left = Duration::from_millis(left).min(HOLD_MAX).saturating_sub(passed);
                (!left.is_zero()).then(|| Some(now.saturating_add(left)))
            }
        };
        for SavedHold { target, reason, left_ms } in saved.maintenance.into_iter().take(TARGETS_MAX) {
            if let Some(until) = until(left_ms) {
                let hold = Hold { reason: one_line(&reason), until };
                self.maintenance.set(&target, HoldSource::Operator, Some(hold));
            }
        }
        let ended = saved.ended_windows.into_iter().take(TARGETS_MAX);
        self.windows.restore_ended(ended.map(EndedWindow::from));
        for SavedHold { target, reason, left_ms } in saved.drains.into_iter().take(TARGETS_MAX) {
            let Some(until) = until(left_ms) else { continue };
            let drain = Drain { reason: one_line(&reason), since: now, until };
            // No event is recorded, because the drain continues across the restart.
            match target.as_str() {
                ALL => {
                    let _change = self.life.set_drain(drain, true, now);
                }
                endpoint => {
                    self.drains.set(endpoint, drain, true);
                }
            }
        }
    }
}

impl From<&EndedWindow> for SavedWindow {
    fn from(window: &EndedWindow) -> Self {
        Self {
            schedule: window.schedule.clone(),
            length_ms: millis(window.length),
            since_unix_ms: window.since,
            target: window.target.clone(),
        }
    }
}

impl From<SavedWindow> for EndedWindow {
    fn from(window: SavedWindow) -> Self {
        Self {
            schedule: window.schedule,
            length: Duration::from_millis(window.length_ms),
            since: window.since_unix_ms,
            target: window.target,
        }
    }
}
