//! Notifies the service manager (sd_notify(3)): readiness, status, watchdog, and extensions of the
//! stop timeout.
//!
//! Sends nothing unless `NOTIFY_SOCKET` is set.

use super::{datagram, descriptor_store};
use crate::operator::Operator;
use doorbell_checks::Heartbeat;
use doorbell_control::{Lifecycle, Status};
use doorbell_proxy_config::model::{Config, ReadyOn, Systemd};
use sd_notify::NotifyState;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The notifying thread, which ends on drop.
#[derive(Debug)]
pub(crate) struct Manager {
    end: Option<(SyncSender<()>, JoinHandle<()>)>,
}

/// Maximum intervals of updates: before readiness, and after it.
const TICK_SHORT: Duration = Duration::from_millis(50);
const TICK: Duration = Duration::from_millis(250);

/// Extension that each message requests during a stop, in addition to a tick. Also the maximum time
/// of a stop in addition to the configured time: after that, no extension is requested, and the
/// service manager kills the hung process.
const EXTENSION: Duration = Duration::from_secs(10);

/// Maximum size of the line for `systemctl status`. systemd drops messages of more than 4,096 bytes
/// (`NOTIFY_BUFFER_MAX`).
const TEXT_MAX: usize = 2048;

/// Maximum number of endpoints that the line for `systemctl status` names; if there are more, it
/// shows only the number of endpoints in each state.
const NAMED_MAX: usize = 16;

/// Whether to notify of reloads: true while the notifying thread runs.
static IS_ACTIVE: AtomicBool = AtomicBool::new(false);

/// Whether READY=1 was sent. Reloads before that are not announced, because the end of a reload is
/// announced with the same message.
static IS_READY: AtomicBool = AtomicBool::new(false);

impl Manager {
    /// Starts the thread. Announces readiness now or, depending on the configuration, when every
    /// scheduled check has a result or the grace period has passed.
    pub(crate) fn start(config: &Config, operator: &Operator) -> io::Result<Self> {
        descriptor_store::begin(operator, config.systemd);
        if !config.systemd.notify || std::env::var_os("NOTIFY_SOCKET").is_none() {
            return Ok(Self { end: None });
        }
        IS_ACTIVE.store(true, Ordering::Release);
        let watchdog = sd_notify::watchdog_enabled().filter(|_| config.systemd.watchdog);
        let mut notifier = Notifier {
            operator: operator.clone(),
            settings: config.systemd,
            grace: config.lifecycle.grace(),
            watchdog,
            is_stopping: false,
            ends_by: None,
            text: String::new(),
            turns: Vec::new(),
            generation: 0,
        };
        let (sender, ended) = sync_channel(0);
        // Announces readiness before the thread starts, if doorbell is ready already.
        notifier.update();
        let thread =
            std::thread::Builder::new().name("systemd".into()).spawn(move || notifier.run(&ended))?;
        Ok(Self { end: Some((sender, thread)) })
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        IS_ACTIVE.store(false, Ordering::Release);
        descriptor_store::end();
        if let Some((sender, thread)) = self.end.take() {
            drop(sender);
            // The thread waits for the channel, which is closed now, and for a limited time for the
            // service manager.
            let _ = thread.join();
        }
        // Only after the thread has ended, because it would announce readiness once more.
        IS_READY.store(false, Ordering::Release);
    }
}

/// Runs `reload`, and announces its start and end. `MONOTONIC_USEC` is for `Type=notify-reload`.
pub(crate) fn while_reloading<T>(reload: impl FnOnce() -> T) -> T {
    if !IS_ACTIVE.load(Ordering::Acquire) || !IS_READY.load(Ordering::Acquire) {
        let outcome = reload();
        descriptor_store::update();
        return outcome;
    }
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(_) => notify(&[NotifyState::Reloading]),
    };
    let outcome = reload();
    descriptor_store::update();
    // If sending READY=1 fails, the next update sends it.
    IS_READY.store(notify(&[NotifyState::Ready]), Ordering::Release);
    outcome
}

struct Notifier {
    operator: Operator,
    settings: Systemd,
    grace: Option<Duration>,
    watchdog: Option<Duration>,
    is_stopping: bool,
    /// Latest end of a stop in progress.
    ends_by: Option<Instant>,
    text: String,
    /// Turn counters of each worker and of the check thread at the last watchdog message.
    turns: Vec<u64>,
    /// Generation of the workers in `turns`.
    generation: u64,
}

impl Notifier {
    fn run(&mut self, ended: &Receiver<()>) {
        let ready_tick =
            self.watchdog.map_or(TICK, |watchdog| (watchdog / 4).clamp(Duration::from_millis(5), TICK));
        loop {
            let tick = if IS_READY.load(Ordering::Acquire) { ready_tick } else { TICK_SHORT.min(ready_tick) };
            match ended.recv_timeout(tick) {
                Err(RecvTimeoutError::Timeout) => self.update(),
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return self.notify_stopping(),
            }
        }
    }

    fn update(&mut self) {
        let status = self.operator.status();
        if std::mem::replace(&mut self.generation, status.generation) != status.generation {
            self.turns.clear();
        }
        let needs_extension = self.needs_extension(&status);
        self.notify_watchdog(needs_extension && status.lifecycle == Lifecycle::Stopping);
        if self.operator.running().is_some_and(|running| !running.handle.is_healthy()) {
            // Clients must not wait in the backlog of a failed worker's socket.
            descriptor_store::update();
        }
        let mut states = Vec::new();
        let is_ready = !IS_READY.load(Ordering::Acquire) && self.is_started(&status);
        if is_ready {
            states.push(NotifyState::Ready);
        }
        // STOPPING=1 cannot be revoked, so it is sent only when the stop cannot be cancelled.
        let is_stopping = status.lifecycle == Lifecycle::Stopping;
        if is_stopping && !self.is_stopping {
            states.push(NotifyState::Stopping);
        }
        let extension = u32::try_from((TICK + EXTENSION).as_micros()).unwrap_or(u32::MAX);
        if needs_extension {
            states.push(NotifyState::ExtendTimeoutUsec(extension));
        }
        let text = status_text(&status);
        if text != self.text {
            states.push(NotifyState::Status(&text));
        }
        // States that were not sent are sent by the next update.
        if states.is_empty() || !notify(&states) {
            return;
        }
        self.is_stopping |= is_stopping;
        self.text = text;
        if is_ready {
            IS_READY.store(true, Ordering::Release);
        }
    }

    /// Whether to request an extension: from the start of the drain that precedes a stop, until the
    /// latest end of the stop.
    #[expect(clippy::disallowed_methods, reason = "the service manager measures real time")]
    fn needs_extension(&mut self, status: &Status) -> bool {
        if status.lifecycle != Lifecycle::Stopping && status.stops_in_ms.is_none() {
            self.ends_by = None;
            return false;
        }
        let now = Instant::now();
        let timeout =
            self.operator.running().map(|running| running.lifecycle.drain_timeout).unwrap_or_default();
        let delay = Duration::from_millis(status.stops_in_ms.unwrap_or_default());
        let ends_by = end_of(self.ends_by, now, delay, timeout);
        self.ends_by = Some(ends_by);
        now < ends_by
    }

    /// Announces the stop, unless an update has announced it.
    fn notify_stopping(&self) {
        if !self.is_stopping {
            notify(&[NotifyState::Stopping]);
        }
    }

    fn is_started(&self, status: &Status) -> bool {
        let grace = self.grace.is_some_and(|grace| u128::from(status.uptime_ms) >= grace.as_millis());
        let waits = |check: &doorbell_control::CheckView| check.next_in_ms.is_some() && check.last.is_none();
        let pending = || self.operator.checks(None, false).is_ok_and(|checks| checks.iter().any(waits));
        self.settings.ready_on == ReadyOn::Listeners || grace || !pending()
    }

    /// Sends a watchdog message if every worker and the check thread have made progress since the
    /// last message. If `is_ending`, the message is always sent: the threads end one after another,
    /// and other timeouts apply.
    fn notify_watchdog(&mut self, is_ending: bool) {
        let (Some(_), Some(running)) = (self.watchdog, self.operator.running()) else { return };
        let workers = running.handle.worker_stats().into_iter().map(|stats| stats.turns);
        let turns: Vec<u64> = workers.chain(running.heartbeat.iter().map(Heartbeat::turns)).collect();
        if is_ending || (all_turned(&self.turns, &turns) && running.handle.is_healthy()) {
            notify(&[NotifyState::Watchdog]);
            self.turns = turns;
            running.handle.wake();
            running.heartbeat.iter().for_each(Heartbeat::wake);
        }
    }
}

/// Computes the latest end of a stop: `delay` until listeners close, then `timeout` for
/// connections, plus [`EXTENSION`]. Once `delay` is zero, the end is no later than `before`.
fn end_of(before: Option<Instant>, now: Instant, delay: Duration, timeout: Duration) -> Instant {
    let ends_by = now + delay + timeout + EXTENSION;
    before.filter(|_| delay.is_zero()).map_or(ends_by, |before| before.min(ends_by))
}

/// Whether all counters have increased. A new counter counts as progress, a missing one does not.
fn all_turned(before: &[u64], now: &[u64]) -> bool {
    before.len() <= now.len() && before.iter().zip(now).all(|(before, now)| now > before)
}

/// Formats the line for `systemctl status`.
fn status_text(status: &Status) -> String {
    let mut text = match status.lifecycle {
        Lifecycle::Starting => "starting".to_owned(),
        Lifecycle::Ready => "serving".to_owned(),
        Lifecycle::Draining if status.stops_in_ms.is_some() => "draining, then stopping".to_owned(),
        Lifecycle::Draining => "draining".to_owned(),
        Lifecycle::Stopping => "stopping: no new connections".to_owned(),
    };
    if !status.reason.is_empty() {
        text.push_str(&format!(" ({})", status.reason));
    }
    if status.endpoints.len() <= NAMED_MAX {
        for endpoint in &status.endpoints {
            text.push_str(&format!(", {} {}", endpoint.name, endpoint.state));
        }
    } else {
        let mut states = BTreeMap::<String, usize>::new();
        for endpoint in &status.endpoints {
            *states.entry(endpoint.state.to_string()).or_default() += 1;
        }
        let states: Vec<String> = states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        text.push_str(&format!("; endpoints: {}", states.join(", ")));
    }
    let checks: Vec<String> = status.checks.iter().map(|(state, count)| format!("{count} {state}")).collect();
    if !checks.is_empty() {
        text.push_str(&format!("; checks: {}", checks.join(", ")));
    }
    text.truncate(text.floor_char_boundary(TEXT_MAX));
    // A status must not contain line breaks.
    text.replace('\n', " ")
}

/// Sends states. Returns whether they were sent.
fn notify(states: &[NotifyState<'_>]) -> bool {
    let text: String = states.iter().map(|state| format!("{state}\n")).collect();
    datagram::Manager::of_env().send(&text, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "instants are of the real clock")]
    fn an_end_is_put_off_only_while_listeners_are_open() {
        let (now, secs) = (Instant::now(), Duration::from_secs);
        let begun = end_of(None, now, secs(5), secs(20));
        assert_eq!(begun, now + secs(25) + EXTENSION);
        // The delay gets shorter over time, or longer by a reload.
        assert_eq!(end_of(Some(begun), now + secs(3), secs(2), secs(20)), begun);
        let longer = end_of(Some(begun), now + secs(4), secs(16), secs(20));
        assert_eq!(longer, now + secs(40) + EXTENSION);
        // With a delay of zero, listeners are closed, or the stop is overdue.
        for at in [20, 60, 3600] {
            assert_eq!(
                end_of(Some(longer), now + secs(at), Duration::ZERO, secs(20)),
                longer.min(now + secs(at + 20) + EXTENSION)
            );
        }
    }

    #[test]
    fn a_hung_worker_is_detected() {
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
