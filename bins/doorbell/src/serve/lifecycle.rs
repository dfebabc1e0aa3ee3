//! From the first signal to the end: drain, stop, or the failure of the server itself.
//!
//! Does not know about: how a server is made.

use super::state::State;
use crate::config::format_duration;
use crate::config::model::Lifecycle;
use crate::exit::{Exit, Failure};
use doorbell::{Handle, ServeError, Server};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Signals, taken over before the server starts so that none of them kills it half-started.
#[derive(Debug)]
pub(super) struct SignalWatch {
    sender: SyncSender<Note>,
    receiver: Receiver<Note>,
}

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
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
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
        state: &Arc<State>,
    ) -> Result<Exit, Failure> {
        let handle = server.handle();
        let ended = self.sender.clone();
        std::thread::Builder::new()
            .name("end".into())
            .spawn(move || ended.send(Note::Ended(server.wait())))
            .map_err(|error| Failure::new(Exit::Failure, format!("no thread could be started: {error}")))?;
        let Some(signal) = self.next(None)? else { return Ok(Exit::Success) };
        if signal == SIGTERM && self.drain(&handle, lifecycle, state)? {
            return Ok(Exit::Success);
        }
        tracing::info!("stopping now");
        handle.stop();
        while self.next(None)?.is_some() {}
        Ok(Exit::Success)
    }

    /// True when the server ended by itself; false when a further signal asks to hurry.
    fn drain(&self, handle: &Handle, lifecycle: &Lifecycle, state: &Arc<State>) -> Result<bool, Failure> {
        state.set_draining();
        let (delay, timeout) = (lifecycle.drain_delay, lifecycle.drain_timeout);
        tracing::info!(
            delay = format_duration(delay),
            timeout = format_duration(timeout),
            "draining: not ready any more, still serving; a second signal stops at once"
        );
        match self.next(Some(delay))? {
            Some(DELAY_OVER) => {}
            Some(_) => return Ok(false),
            None => return Ok(true),
        }
        tracing::info!("draining: no new connections");
        handle.drain_within(timeout);
        Ok(self.next(None)?.is_none())
    }

    /// The next signal, [`DELAY_OVER`], or nothing when the server ended well.
    fn next(&self, delay: Option<Duration>) -> Result<Option<i32>, Failure> {
        let note = match delay {
            Some(delay) => self.receiver.recv_timeout(delay),
            None => self.receiver.recv().map_err(RecvTimeoutError::from),
        };
        match note {
            Ok(Note::Ended(Ok(()))) | Err(RecvTimeoutError::Disconnected) => Ok(None),
            Ok(Note::Ended(Err(error))) => Err(Failure::new(Exit::Failure, error.to_string())),
            Ok(Note::Signal(signal)) => Ok(Some(signal)),
            Err(RecvTimeoutError::Timeout) => Ok(Some(DELAY_OVER)),
        }
    }
}

/// No signal has this number (signal(7)).
const DELAY_OVER: i32 = 0;
