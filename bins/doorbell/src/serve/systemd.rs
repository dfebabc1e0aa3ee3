//! What the service manager is told (sd_notify(3)): when we are ready, what we do, that every worker and the checks go on, and that ending takes its time.
//!
//! Does not know about: how to end or reload. Where nobody listens, because `NOTIFY_SOCKET` is not set, it does nothing.

use super::fdstore;
use super::ops::Operator;
use crate::checks::Pulse;
use crate::config::model::{Config, ReadyOn, Systemd};
use crate::wire::{Lifecycle, Status};
use sd_notify::NotifyState;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The thread that tells; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Manager {
    end: Option<(SyncSender<()>, JoinHandle<()>)>,
}

/// How often there is a look while something is expected, and how often otherwise.
const TICK_SHORT: Duration = Duration::from_millis(50);
const TICK: Duration = Duration::from_millis(250);

/// How much longer than a tick we ask for while ending.
const EXTENSION: Duration = Duration::from_secs(10);

/// Whether the manager wants to hear of reloads: set while a [`Manager`] lives.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

impl Manager {
    /// Says that we are ready, now or when every check has a result, and goes on from there.
    pub(super) fn start(config: &Config, operator: &Operator) -> io::Result<Self> {
        fdstore::begin(operator, config.systemd);
        if !config.systemd.notify || std::env::var_os("NOTIFY_SOCKET").is_none() {
            return Ok(Self { end: None });
        }
        IS_TOLD.store(true, Ordering::Release);
        let watchdog = sd_notify::watchdog_enabled().filter(|_| config.systemd.watchdog);
        let mut teller = Teller {
            operator: operator.clone(),
            settings: config.systemd,
            grace: config.lifecycle.startup_grace,
            watchdog,
            is_ready: false,
            is_stopping: false,
            text: String::new(),
            turns: Vec::new(),
            generation: 0,
        };
        let (sender, ended) = sync_channel(0);
        // Whoever waits for us to be ready does not wait for a thread.
        teller.tell();
        let thread = std::thread::Builder::new().name("systemd".into()).spawn(move || teller.run(&ended))?;
        Ok(Self { end: Some((sender, thread)) })
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        IS_TOLD.store(false, Ordering::Release);
        fdstore::end();
        if let Some((sender, thread)) = self.end.take() {
            drop(sender);
            // It only waits for the channel that was just closed.
            let _ = thread.join();
        }
    }
}

/// Says that the configuration is read anew, and when that is done. `MONOTONIC_USEC` is for `Type=notify-reload`.
pub(super) fn while_reloading<T>(reload: impl FnOnce() -> T) -> T {
    if !IS_TOLD.load(Ordering::Acquire) {
        let outcome = reload();
        fdstore::settle();
        return outcome;
    }
    match NotifyState::monotonic_usec_now() {
        Ok(now) => say(&[NotifyState::Reloading, now]),
        Err(_) => say(&[NotifyState::Reloading]),
    }
    let outcome = reload();
    fdstore::settle();
    say(&[NotifyState::Ready]);
    outcome
}

struct Teller {
    operator: Operator,
    settings: Systemd,
    grace: Option<Duration>,
    watchdog: Option<Duration>,
    is_ready: bool,
    is_stopping: bool,
    text: String,
    /// Of each worker and of the thread of checks, when they were last woken.
    turns: Vec<u64>,
    /// Whose workers these are: a reload has others.
    generation: u64,
}

impl Teller {
    fn run(&mut self, ended: &Receiver<()>) {
        let calm =
            self.watchdog.map_or(TICK, |watchdog| (watchdog / 4).clamp(Duration::from_millis(5), TICK));
        loop {
            let tick = if self.is_ready { calm } else { TICK_SHORT.min(calm) };
            match ended.recv_timeout(tick) {
                Err(RecvTimeoutError::Timeout) => self.tell(),
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return self.tell_end(),
            }
        }
    }

    fn tell(&mut self) {
        let status = self.operator.status();
        if std::mem::replace(&mut self.generation, status.generation) != status.generation {
            self.turns.clear();
        }
        self.pet(status.lifecycle == Lifecycle::Stopping);
        if self.operator.running().is_some_and(|running| !running.handle.is_healthy()) {
            // Whoever connects to a socket of a worker that failed is not left waiting.
            fdstore::settle();
        }
        let mut states = Vec::new();
        if !self.is_ready && self.is_started(&status) {
            self.is_ready = true;
            states.push(NotifyState::Ready);
        }
        let is_ending = status.lifecycle == Lifecycle::Stopping || status.stops_in_ms.is_some();
        // A stop that is not begun can be called off, and the manager does not take the word back.
        if status.lifecycle == Lifecycle::Stopping && !self.is_stopping {
            self.is_stopping = true;
            states.push(NotifyState::Stopping);
        }
        let extension = u32::try_from((TICK + EXTENSION).as_micros()).unwrap_or(u32::MAX);
        if is_ending {
            states.push(NotifyState::ExtendTimeoutUsec(extension));
        }
        let text = text_of(&status);
        let is_news = text != self.text;
        self.text = text;
        if is_news {
            states.push(NotifyState::Status(&self.text));
        }
        if !states.is_empty() {
            say(&states);
        }
    }

    /// An end that came between two looks, or without a drain.
    fn tell_end(&self) {
        if !self.is_stopping {
            say(&[NotifyState::Stopping]);
        }
    }

    fn is_started(&self, status: &Status) -> bool {
        let grace = self.grace.is_some_and(|grace| u128::from(status.uptime_ms) >= grace.as_millis());
        let waits = |check: &crate::wire::CheckView| check.next_in_ms.is_some() && check.last.is_none();
        let pending = || self.operator.checks(None, false).is_ok_and(|checks| checks.iter().any(waits));
        self.settings.ready_on == ReadyOn::Listeners || grace || !pending()
    }

    /// Only when every worker, and the thread of checks, has turned since it was last woken. At the end they leave one after the other, and
    /// other times apply.
    fn pet(&mut self, is_ending: bool) {
        let (Some(_), Some(running)) = (self.watchdog, self.operator.running()) else { return };
        let workers = running.handle.worker_stats().into_iter().map(|stats| stats.turns);
        let turns: Vec<u64> = workers.chain(running.pulse.iter().map(Pulse::turns)).collect();
        if is_ending || (all_turned(&self.turns, &turns) && running.handle.is_healthy()) {
            say(&[NotifyState::Watchdog]);
            self.turns = turns;
            running.handle.wake();
            running.pulse.iter().for_each(Pulse::wake);
        }
    }
}

/// A worker that was not there before has turned. One that is there no more has not.
fn all_turned(before: &[u64], now: &[u64]) -> bool {
    before.len() <= now.len() && before.iter().zip(now).all(|(before, now)| now > before)
}

/// One line for `systemctl status`.
fn text_of(status: &Status) -> String {
    let mut text = match status.lifecycle {
        Lifecycle::Starting => "starting".to_owned(),
        Lifecycle::Ready => "serving".to_owned(),
        Lifecycle::Draining if status.stops_in_ms.is_some() => "draining, then it ends".to_owned(),
        Lifecycle::Draining => "draining".to_owned(),
        Lifecycle::Stopping => "ending: no new connections".to_owned(),
    };
    if !status.reason.is_empty() {
        text.push_str(&format!(" ({})", status.reason));
    }
    for endpoint in &status.endpoints {
        text.push_str(&format!(", {} {}", endpoint.name, endpoint.state));
    }
    let checks: Vec<String> = status.checks.iter().map(|(state, count)| format!("{count} {state}")).collect();
    if !checks.is_empty() {
        text.push_str(&format!("; checks: {}", checks.join(", ")));
    }
    // What is said ends with a line.
    text.replace('\n', " ")
}

/// A manager that cannot be reached is nobody to be told.
fn say(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager was not told");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_stands_still_is_seen() {
        for (before, now, expected) in [
            (&[][..], &[1, 1][..], true),
            (&[1, 1], &[2, 5], true),
            (&[1, 1], &[2, 1], false),
            (&[1, 1], &[1, 1], false),
            (&[1, 1], &[2], false),
        ] {
            assert_eq!(all_turned(before, now), expected, "{before:?} {now:?}");
        }
    }
}
