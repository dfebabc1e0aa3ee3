//! The supervisor: what signals and operators want, in one queue, from the start of the server to its end.
//!
//! Does not know about: how a server is made, what a drain does to endpoints.

use super::lane::Lane;
use super::ops::Operator;
use super::systemd;
use super::watch::Watch;
use crate::exit::{Exit, Failure};
use doorbell::access_log::AccessLog;
use doorbell::{Handle, ServeError, Server};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use signal_hook::iterator::Signals;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Notes that wait. Each of them is taken within moments, and more have no meaning.
const NOTES_MAX: usize = 64;

/// How long a look at all files may take before the next signal is heard.
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// The queue, made before the server so that no signal kills it half-started.
#[derive(Debug)]
pub(super) struct Supervisor {
    notes: Notes,
    receiver: Receiver<Note>,
}

/// Where notes for the supervisor are left.
#[derive(Clone, Debug)]
pub(super) struct Notes(SyncSender<Note>);

/// What the supervisor is told.
#[derive(Debug)]
pub(super) enum Note {
    /// Something is wanted that has an end, or not any more.
    Changed,
    /// The server ended.
    Ended(Result<(), ServeError>),
    Signal(i32),
    /// An operator wants the end, without a drain.
    StopNow,
}

/// What signals ask for that does not end anything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Duties<'a> {
    pub(super) access: Option<&'a AccessLog>,
    pub(super) watch: &'a Watch,
    pub(super) lane: Option<&'a Lane>,
}

/// What follows from a note.
enum Next {
    Ended,
    GoOn,
    StopNow,
}

impl Notes {
    /// A full queue means that the supervisor is about to look anyway.
    pub(super) fn leave(&self, note: Note) {
        let _full = self.0.try_send(note);
    }
}

impl Supervisor {
    /// Takes signals over.
    pub(super) fn start() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(Exit::Failure, format!("signals cannot be watched: {error}"))
        };
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM, SIGUSR2]).map_err(failed)?;
        let (sender, receiver) = sync_channel(NOTES_MAX);
        let notes = Notes(sender);
        let heard = notes.clone();
        let watch = move || signals.forever().for_each(|signal| heard.leave(Note::Signal(signal)));
        std::thread::Builder::new().name("signals".into()).spawn(watch).map_err(failed)?;
        Ok(Self { notes, receiver })
    }

    /// A queue that no signal fills.
    #[cfg(test)]
    pub(super) fn without_signals() -> Self {
        let (sender, receiver) = sync_channel(NOTES_MAX);
        Self { notes: Notes(sender), receiver }
    }

    /// Where operators leave what they want.
    pub(super) fn notes(&self) -> Notes {
        self.notes.clone()
    }

    /// Serves until a signal, an operator or a failure ends it.
    pub(super) fn serve(
        self,
        server: Server,
        operator: &Operator,
        duties: &Duties<'_>,
    ) -> Result<Exit, Failure> {
        let handle = server.handle();
        let Notes(ended) = self.notes.clone();
        std::thread::Builder::new()
            .name("end".into())
            .spawn(move || ended.send(Note::Ended(server.wait())))
            .map_err(|error| Failure::new(Exit::Failure, format!("no thread could be started: {error}")))?;
        loop {
            if operator.let_time_pass() {
                close(&handle, operator, duties);
            }
            let note = match operator.idle_for() {
                Some(idle) => self.receiver.recv_timeout(idle),
                None => self.receiver.recv().map_err(RecvTimeoutError::from),
            };
            let next = match note {
                Ok(note) => heed(note, operator, duties)?,
                Err(RecvTimeoutError::Timeout) => Next::GoOn,
                Err(RecvTimeoutError::Disconnected) => Next::Ended,
            };
            match next {
                Next::Ended => return Ok(Exit::Success),
                Next::GoOn => {}
                Next::StopNow => {
                    operator.close("stop");
                    tracing::info!("stopping now");
                    handle.stop();
                    duties.lane.into_iter().for_each(Lane::stop);
                }
            }
        }
    }
}

fn heed(note: Note, operator: &Operator, duties: &Duties<'_>) -> Result<Next, Failure> {
    match note {
        Note::Changed => {}
        Note::Ended(Ok(())) => return Ok(Next::Ended),
        Note::Ended(Err(error)) => return Err(Failure::new(Exit::Failure, error.to_string())),
        Note::Signal(SIGHUP) => {
            tracing::info!("looking at certificates, keys and stored files; the configuration stays");
            systemd::while_reloading(|| duties.watch.look(LOOK_TIMEOUT));
        }
        Note::Signal(SIGUSR2) => {
            if let Some(access) = duties.access {
                access.reopen();
            }
        }
        Note::Signal(SIGTERM) if operator.begin_stop("SIGTERM") => {}
        Note::Signal(_) | Note::StopNow => return Ok(Next::StopNow),
    }
    Ok(Next::GoOn)
}

/// From now on nothing can be called off.
fn close(handle: &Handle, operator: &Operator, duties: &Duties<'_>) {
    let timeout =
        operator.running().map(|running| running.lifecycle.clone()).unwrap_or_default().drain_timeout;
    tracing::info!("draining: no new connections");
    handle.drain_within(timeout);
    duties.lane.iter().for_each(|lane| lane.drain(timeout));
}
