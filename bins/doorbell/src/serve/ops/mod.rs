//! The running program as operators see and steer it: one handle for the control socket, the admin pages, signals and systemd.
//!
//! Does not know about: sockets, pages, signals; how a server is made or ended.
//!
//! What is wanted takes effect before a call returns: the next probe is told. What ends the program goes through the queue of the
//! [supervisor](super::lifecycle), which alone closes listeners. Order of locks: ours, then a board's, then the journal's.

mod clock;
mod holds;
mod journal;
mod lane;
mod life;
mod running;
mod start;
#[cfg(test)]
mod tests;
mod view;

pub(in crate::serve) use clock::millis;
pub(in crate::serve) use journal::Journal;
pub(crate) use journal::{Followed, Follower};
pub(in crate::serve) use lane::OpsLane;
pub(in crate::serve) use running::Running;
pub(in crate::serve) use start::Ops;

use super::board::{Keeper, Subject};
use super::lifecycle::{Note, Notes};
use crate::config::format_duration;
use crate::wire::{Happening, HoldSource, ProberView, Refusal, RefusalKind};
use arc_swap::ArcSwapOption;
use clock::{Clock, unix_ms};
use holds::{Hold, Holds};
use life::{Life, Moved};
use running::Fate;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// The longest maintenance that ends by itself.
pub(crate) const HOLD_MAX: Duration = Duration::from_secs(366 * 86_400);

/// See the [module](self). Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Operator(Arc<Shared>);

struct Shared {
    clock: Clock,
    notes: Notes,
    journal: Arc<Journal>,
    running: ArcSwapOption<Running>,
    inside: Mutex<Inside>,
    hooks: Hooks,
}

#[derive(Debug, Default)]
struct Inside {
    life: Life,
    holds: Holds,
    /// Boards that answer somebody: the one in use, and those before it whose connections are not over.
    keepers: Vec<Weak<Keeper>>,
    generation: u64,
    fates: BTreeMap<u16, Fate>,
}

type Hook<T> = OnceLock<Box<dyn Fn() -> T + Send + Sync>>;

/// What other parts of the program do when asked.
#[derive(Default)]
struct Hooks {
    probers: Hook<Vec<ProberView>>,
    /// What is so now, or why nothing changed.
    reload: Hook<Result<String, String>>,
}

impl Operator {
    pub(in crate::serve) fn new(notes: Notes) -> Self {
        Self(Arc::new(Shared {
            clock: Clock::start(),
            notes,
            journal: Arc::default(),
            running: ArcSwapOption::empty(),
            inside: Mutex::default(),
            hooks: Hooks::default(),
        }))
    }

    // What makes a server tells.

    /// A board that will answer probes: it drains and is in maintenance as was wanted before, and reports from now on.
    pub(in crate::serve) fn adopt(&self, keeper: &Arc<Keeper>) {
        let mut inside = self.lock();
        keeper.report_to(&self.0.journal);
        keeper.drain(inside.life.is_draining());
        inside.keepers.retain(|keeper| keeper.strong_count() > 0);
        inside.keepers.push(Arc::downgrade(keeper));
        let now = self.0.clock.now();
        let targets: Vec<String> = inside.holds.targets().map(str::to_owned).collect();
        targets.iter().for_each(|target| inside.apply_to(keeper, target, now));
    }

    /// This is what runs from now on. Its board was adopted before.
    pub(in crate::serve) fn install(&self, running: Running) {
        self.0.running.store(Some(Arc::new(running)));
        let mut inside = self.lock();
        inside.generation += 1;
        inside.fates.clear();
        let moved = inside.life.set_serving(self.0.clock.now());
        self.record(&inside, moved);
    }

    /// A worker goes on with epoll, or is gone.
    pub(in crate::serve) fn worker_changed(&self, worker: u16, text: String, has_failed: bool) {
        let mut inside = self.lock();
        let fate = inside.fates.entry(worker).or_default();
        *(if has_failed { &mut fate.failed } else { &mut fate.fell_back }) = Some(text.clone());
        self.0.journal.record(Happening::Worker { worker, text });
    }

    /// Who tells which probers there are; the first stays.
    pub(in crate::serve) fn on_probers(&self, tell: impl Fn() -> Vec<ProberView> + Send + Sync + 'static) {
        self.0.hooks.probers.get_or_init(|| Box::new(tell));
    }

    /// Who reads the configuration anew and says what is so now, or why nothing changed; the first stays. Runs on the thread of whoever
    /// calls [`Operator::reload`].
    pub(in crate::serve) fn on_reload(
        &self,
        reload: impl Fn() -> Result<String, String> + Send + Sync + 'static,
    ) {
        self.0.hooks.reload.get_or_init(|| Box::new(reload));
    }

    // What operators want.

    /// Tells probers to stay away. Everything is still served, until [`Operator::undrain`] or the end.
    pub(crate) fn drain(&self, reason: &str) -> Result<String, Refusal> {
        let mut inside = self.lock();
        inside.refuse_if_closing()?;
        let moved = inside.life.set_drain(one_line(reason), self.0.clock.now());
        inside.keepers().for_each(|keeper| keeper.drain(true));
        self.record(&inside, moved);
        drop(inside);
        tracing::info!(reason, "draining until undrain: not ready, everything is still served");
        Ok("draining: probers are told to stay away, everything is still served; `doorbell undrain` ends it"
            .into())
    }

    /// Calls a drain off, also one before the end of the program.
    pub(crate) fn undrain(&self) -> Result<String, Refusal> {
        let mut inside = self.lock();
        inside.refuse_if_closing()?;
        if !inside.life.is_draining() {
            return Ok("nothing was draining".into());
        }
        let calls_off_stop = inside.life.stop().is_some();
        let moved = inside.life.call_off(self.0.clock.now());
        inside.keepers().for_each(|keeper| keeper.drain(false));
        self.record(&inside, moved);
        drop(inside);
        self.0.notes.leave(Note::Changed);
        if calls_off_stop {
            tracing::warn!("the stop is called off: doorbell goes on");
            return Ok("the stop is called off, and nothing drains any more".into());
        }
        tracing::info!("nothing drains any more");
        Ok("nothing drains any more".into())
    }

    /// Declares maintenance of an endpoint, a check or, as `all`, of every endpoint that is about taking traffic.
    pub(crate) fn maintain(
        &self,
        target: &str,
        reason: &str,
        for_time: Option<Duration>,
    ) -> Result<String, Refusal> {
        let mut inside = self.lock();
        let (_, name) = inside.subject(target)?;
        if !inside.holds.has_place_for(&name) {
            let text = format!("{} targets are in maintenance, no more are kept", holds::TARGETS_MAX);
            return Err(Refusal::new(RefusalKind::Busy, text));
        }
        let now = self.0.clock.now();
        let until = for_time.map(|time| now.saturating_add(time.min(HOLD_MAX)));
        let hold = Hold { reason: one_line(reason), until };
        self.hold(&mut inside, &name, HoldSource::Operator, Some(hold), now);
        drop(inside);
        self.0.notes.leave(Note::Changed);
        let length = for_time.map_or_else(
            || format!("until `doorbell ready {name}`"),
            |time| format!("for {}", format_duration(time)),
        );
        Ok(format!("{name}: maintenance {length}"))
    }

    /// Ends maintenance that an operator declared of this target; with `all` of every target, and a drain, too.
    pub(crate) fn ready(&self, target: &str) -> Result<String, Refusal> {
        let mut inside = self.lock();
        let (subject, name) = inside.subject(target)?;
        let ended: Vec<String> = match subject {
            Subject::All => {
                inside.holds.by(HoldSource::Operator).map(|(target, _)| target.to_owned()).collect()
            }
            _ => inside.holds.said(&name, HoldSource::Operator).map(|_| name.clone()).into_iter().collect(),
        };
        let now = self.0.clock.now();
        for target in &ended {
            self.hold(&mut inside, target, HoldSource::Operator, None, now);
        }
        let drains = subject == Subject::All && inside.life.is_draining();
        let still = inside.still_held(subject, &name);
        drop(inside);
        self.0.notes.leave(Note::Changed);
        let mut said: Vec<String> =
            ended.iter().map(|target| format!("{target}: maintenance ended")).collect();
        if drains {
            said.push(self.undrain()?);
        }
        said.extend(still);
        if said.is_empty() {
            said.push(format!("{name}: was not in maintenance"));
        }
        Ok(said.join("\n"))
    }

    /// Reads the configuration anew; what is so now.
    pub(crate) fn reload(&self) -> Result<String, Refusal> {
        let Some(reload) = self.0.hooks.reload.get() else {
            let text = "this doorbell does not read its configuration anew yet: restart it";
            return Err(Refusal::new(RefusalKind::NotSupported, text));
        };
        let outcome = reload();
        let (ok, text) = match &outcome {
            Ok(text) => (true, text.clone()),
            Err(text) => (false, text.clone()),
        };
        self.0.journal.record(Happening::Reload { ok, text });
        outcome.map_err(|text| Refusal::new(RefusalKind::Failed, text))
    }

    /// Drains and ends, or ends now.
    pub(crate) fn quit(&self, now: bool) -> Result<String, Refusal> {
        self.0.notes.leave(Note::Quit { now });
        let delay = self.0.running.load().as_ref().map_or(0, |running| running.drain_delay_ms());
        match now {
            true => Ok("stopping now".into()),
            false => Ok(format!(
                "draining for {} before listeners close; until then `doorbell undrain` calls it off",
                format_duration(Duration::from_millis(delay))
            )),
        }
    }

    // What the supervisor does.

    /// Begins the drain before the end, once.
    pub(in crate::serve) fn begin_stop(&self, reason: &str, delay: Duration) {
        let mut inside = self.lock();
        let moved = inside.life.set_stop(reason.to_owned(), delay, self.0.clock.now());
        inside.keepers().for_each(|keeper| keeper.drain(true));
        self.record(&inside, moved);
    }

    /// Whether the end has begun and was not called off.
    pub(in crate::serve) fn is_stopping(&self) -> bool {
        self.lock().life.stop().is_some()
    }

    /// Lets time pass: what is over ends. True when listeners are to be closed now, from when on nothing can be called off.
    pub(in crate::serve) fn let_time_pass(&self) -> bool {
        let now = self.0.clock.now();
        let mut inside = self.lock();
        for (target, source, hold) in inside.holds.expire(now) {
            tracing::info!(reason = hold.reason, "{target}: maintenance is over");
            self.changed_hold(&inside, &target, source, None, now);
        }
        let was_closing = inside.life.is_closing();
        let moved = inside.life.close_if_due(now);
        self.record(&inside, moved);
        inside.life.is_closing() && !was_closing
    }

    /// The end begins now, whatever was wanted.
    pub(in crate::serve) fn close(&self, reason: &str) {
        let mut inside = self.lock();
        let moved = inside.life.close(reason, self.0.clock.now());
        self.record(&inside, moved);
    }

    /// How long until [`Self::let_time_pass`] has something to do.
    pub(in crate::serve) fn idle_for(&self) -> Option<Duration> {
        let inside = self.lock();
        let closes = inside.life.stop().filter(|_| !inside.life.is_closing()).map(|stop| stop.closes_at);
        let next = closes.into_iter().chain(inside.holds.next_end()).min()?;
        Some(next.saturating_sub(self.0.clock.now()))
    }

    /// What is served now.
    pub(in crate::serve) fn running(&self) -> Option<Arc<Running>> {
        self.0.running.load_full()
    }

    // Within.

    /// Sets what a source says of a target, has it answered and written down.
    fn hold(&self, inside: &mut Inside, target: &str, source: HoldSource, hold: Option<Hold>, now: Duration) {
        if inside.holds.set(target, source, hold.clone()) {
            self.changed_hold(inside, target, source, hold.as_ref(), now);
        }
    }

    fn changed_hold(
        &self,
        inside: &Inside,
        target: &str,
        source: HoldSource,
        hold: Option<&Hold>,
        now: Duration,
    ) {
        self.0.journal.record(Happening::Maintenance {
            target: target.to_owned(),
            source,
            on: hold.is_some(),
            reason: hold.map(|hold| hold.reason.clone()).unwrap_or_default(),
            until_unix_ms: hold
                .and_then(|hold| hold.until)
                .map(|until| unix_ms().saturating_add(millis(until.saturating_sub(now)))),
        });
        inside.keepers().for_each(|keeper| inside.apply_to(&keeper, target, now));
    }

    fn record(&self, inside: &Inside, moved: Moved) {
        if let Some((from, to)) = moved {
            let reason = inside.life.reason().to_owned();
            self.0.journal.record(Happening::Lifecycle { from, to, reason });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn keepers(&self) -> impl Iterator<Item = Arc<Keeper>> {
        self.keepers.iter().filter_map(Weak::upgrade)
    }

    /// Has a board answer what holds for a target.
    fn apply_to(&self, keeper: &Keeper, target: &str, now: Duration) {
        let Some(subject) = keeper.subject(target) else { return };
        let readiness: Vec<Subject> = keeper.readiness().collect();
        let meant = if subject == Subject::All { readiness.clone() } else { vec![subject] };
        for subject in meant {
            let Some(name) = keeper.name_of(subject) else { continue };
            let hold = self.holds.holding(&name, readiness.contains(&subject));
            let left = |until: Duration| until.saturating_sub(now);
            keeper.maintain(subject, hold.map(|hold| (hold.reason.as_str(), hold.until.map(left))));
        }
    }

    /// What a name means on the board in use, and the name by which it is kept.
    fn subject(&self, target: &str) -> Result<(Subject, String), Refusal> {
        let found = self.keepers().last().and_then(|keeper| {
            let subject = keeper.subject(target)?;
            Some((subject, keeper.name_of(subject)?))
        });
        found.ok_or_else(|| {
            let text = format!(
                "there is no endpoint and no check {target:?}: `doorbell status` and `doorbell checks` list them, and `all` is every endpoint that is about taking traffic"
            );
            Refusal::new(RefusalKind::NotFound, text)
        })
    }

    /// What still holds that an operator cannot end.
    fn still_held(&self, subject: Subject, name: &str) -> Vec<String> {
        let others = [HoldSource::File, HoldSource::Window].into_iter();
        let said = others.flat_map(|source| self.holds.by(source).map(move |(target, _)| (source, target)));
        let about =
            said.filter(|(_, target)| subject == Subject::All || *target == name || *target == holds::ALL);
        about
            .map(|(source, target)| match source {
                HoldSource::File => format!("{target}: still in maintenance by a file; remove that"),
                _ => format!("{target}: still in maintenance by a window of the configuration"),
            })
            .collect()
    }

    fn refuse_if_closing(&self) -> Result<(), Refusal> {
        match self.life.is_closing() {
            true => Err(Refusal::new(
                RefusalKind::TooLate,
                "listeners are closed already: doorbell is about to end",
            )),
            false => Ok(()),
        }
    }
}

/// An operator's words, as they are kept and shown.
fn one_line(text: &str) -> String {
    doorbell_health::Note::new(text.as_bytes()).as_str().trim().to_owned()
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator").field("inside", &self.inside).finish_non_exhaustive()
    }
}
