//! From the first signal to the end: drain, stop, or the failure of the server itself.
//!
//! Does not know about: how a server is made.

use super::board::Keeper;
use super::lane::Lane;
use super::watch::Watch;
use crate::config::format_duration;
use crate::config::model::Lifecycle;
use crate::exit::{Exit, Failure};
use doorbell::access_log::AccessLog;
use doorbell::{Handle, ServeError, Server};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use signal_hook::iterator::Signals;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Signals, taken over before the server starts so that none of them kills it half-started.
#[derive(Debug)]
pub(super) struct SignalWatch {
    sender: SyncSender<Note>,
    receiver: Receiver<Note>,
}

/// What signals ask for that does not end anything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Duties<'a> {
    pub(super) access: Option<&'a AccessLog>,
    pub(super) watch: &'a Watch,
    pub(super) lane: Option<&'a Lane>,
}

/// How long a look at all files may take before the next signal is heard.
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
enum Note {
    Ended(Result<(), ServeError>),
    Signal(i32),
}

impl SignalWatch {
    pub(super) fn start() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(Exit::Failure, format!("signals cannot be watched: {error}"))
        };
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM, SIGUSR2]).map_err(failed)?;
        let (sender, receiver) = sync_channel(16);
        let notes = sender.clone();
        let watch = move || {
            for signal in signals.forever() {
                // A full queue means that more signals wait than have a meaning.
                let _ = notes.try_send(Note::Signal(signal));
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(watch).map_err(failed)?;
        Ok(Self { sender, receiver })
    }

    /// Serves until a signal or a failure ends it.
    pub(super) fn serve(
        self,
        server: Server,
        lifecycle: &Lifecycle,
        keeper: &Keeper,
        duties: &Duties<'_>,
    ) -> Result<Exit, Failure> {
        let handle = server.handle();
        let ended = self.sender.clone();
        std::thread::Builder::new()
            .name("end".into())
            .spawn(move || ended.send(Note::Ended(server.wait())))
            .map_err(|error| Failure::new(Exit::Failure, format!("no thread could be started: {error}")))?;
        let Some(signal) = self.next(None, duties)? else { return Ok(Exit::Success) };
        if signal == SIGTERM && self.drain(&handle, lifecycle, keeper, duties)? {
            return Ok(Exit::Success);
        }
        tracing::info!("stopping now");
        handle.stop();
        duties.lane.into_iter().for_each(Lane::stop);
        while self.next(None, duties)?.is_some() {}
        Ok(Exit::Success)
    }

    /// True when the server ended by itself; false when a further signal asks to hurry.
    fn drain(
        &self,
        handle: &Handle,
        lifecycle: &Lifecycle,
        keeper: &Keeper,
        duties: &Duties<'_>,
    ) -> Result<bool, Failure> {
        keeper.drain();
        let (delay, timeout) = (lifecycle.drain_delay, lifecycle.drain_timeout);
        tracing::info!(
            delay = format_duration(delay),
            timeout = format_duration(timeout),
            "draining: not ready any more, still serving; a second signal stops at once"
        );
        match self.next(Some(delay), duties)? {
            Some(DELAY_OVER) => {}
            Some(_) => return Ok(false),
            None => return Ok(true),
        }
        tracing::info!("draining: no new connections");
        handle.drain_within(timeout);
        duties.lane.iter().for_each(|lane| lane.drain(timeout));
        Ok(self.next(None, duties)?.is_none())
    }

    /// The next signal that ends something, [`DELAY_OVER`], or nothing when the server ended well. Other signals are heeded meanwhile.
    #[expect(clippy::disallowed_methods, reason = "a signal that ends nothing does not lengthen the delay")]
    fn next(&self, delay: Option<Duration>, duties: &Duties<'_>) -> Result<Option<i32>, Failure> {
        let until = delay.map(|delay| Instant::now() + delay);
        loop {
            let note = match until {
                Some(until) => self.receiver.recv_timeout(until.saturating_duration_since(Instant::now())),
                None => self.receiver.recv().map_err(RecvTimeoutError::from),
            };
            match note {
                Ok(Note::Ended(Ok(()))) | Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Ok(Note::Ended(Err(error))) => return Err(Failure::new(Exit::Failure, error.to_string())),
                Ok(Note::Signal(SIGHUP)) => {
                    tracing::info!("looking at certificates, keys and stored files; the configuration stays");
                    duties.watch.look(LOOK_TIMEOUT);
                }
                Ok(Note::Signal(SIGUSR2)) => {
                    if let Some(access) = duties.access {
                        access.reopen();
                    }
                }
                Ok(Note::Signal(signal)) => return Ok(Some(signal)),
                Err(RecvTimeoutError::Timeout) => return Ok(Some(DELAY_OVER)),
            }
        }
    }
}

/// No signal has this number (signal(7)).
const DELAY_OVER: i32 = 0;
