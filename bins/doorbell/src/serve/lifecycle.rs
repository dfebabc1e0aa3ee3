//! The supervisor: what signals and operators want, in one queue, from the start of the server to its end.
//!
//! Does not know about: how a server is made, what a drain does to endpoints.

use super::generation::Fleet;
use super::ops::Operator;
use super::state;
use crate::exit::{Exit, Failure};
use crate::parent;
use doorbell::ServeError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};

/// Notes that wait. Each of them is taken within moments, and more have no meaning.
const NOTES_MAX: usize = 64;

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
    /// The command that `doorbell run` started beside this server has ended.
    CommandEnded(parent::CommandEnd),
    /// The server of this generation ended.
    Ended(u64, Result<(), ServeError>),
    Signal(i32),
    /// An operator wants the end, without a drain.
    StopNow,
}

/// What follows from a note.
enum Next {
    Ended,
    GoOn,
    /// Without a drain, for this reason.
    StopNow(String),
}

impl Notes {
    /// Something has changed that the supervisor should look at. A full queue means that it is about to look anyway.
    pub(super) fn nudge(&self) {
        let _full = self.0.try_send(Note::Changed);
    }

    /// Waits for a place: this one must not be lost.
    pub(super) fn tell(&self, note: Note) {
        // Without a supervisor the process is about to end.
        let _gone = self.0.send(note);
    }
}

impl Supervisor {
    /// Takes signals over.
    pub(super) fn start() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(Exit::Failure, format!("signals cannot be watched: {error}"))
        };
        let mut signals =
            Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2]).map_err(failed)?;
        let (sender, receiver) = sync_channel(NOTES_MAX);
        let notes = Notes(sender);
        let heard = notes.clone();
        // While there is no place, the kernel remembers what else comes.
        let watch = move || signals.forever().for_each(|signal| heard.tell(Note::Signal(signal)));
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
    pub(super) fn serve(self, operator: &Operator, fleet: &Fleet) -> Result<Exit, Failure> {
        loop {
            if operator.let_time_pass() {
                close(operator, fleet);
            }
            let note = match operator.idle_for() {
                Some(idle) => self.receiver.recv_timeout(idle),
                None => self.receiver.recv().map_err(RecvTimeoutError::from),
            };
            let next = match note {
                Ok(note) => heed(note, operator, fleet)?,
                Err(RecvTimeoutError::Timeout) => Next::GoOn,
                Err(RecvTimeoutError::Disconnected) => Next::Ended,
            };
            match next {
                Next::Ended => return Ok(Exit::Success),
                Next::GoOn => {}
                Next::StopNow(reason) => {
                    operator.close(&reason);
                    tracing::info!(reason, "stopping now");
                    fleet.stop();
                }
            }
        }
    }
}

fn heed(note: Note, operator: &Operator, fleet: &Fleet) -> Result<Next, Failure> {
    match note {
        Note::Changed => {}
        Note::CommandEnded(end) => return Ok(without_command(end, operator)),
        Note::Ended(number, Ok(())) => {
            if fleet.ended(number) {
                return Ok(Next::Ended);
            }
        }
        Note::Ended(number, Err(error)) => {
            if !fleet.serves(number) {
                tracing::warn!(generation = number, %error, "a former configuration's server failed");
                // It may be the last one of all: the one that serves has ended before it.
                return Ok(if fleet.ended(number) { Next::Ended } else { Next::GoOn });
            }
            return Err(Failure::new(Exit::Failure, error.to_string()));
        }
        Note::Signal(SIGHUP) if fleet.heeds_sighup() => {
            // Said by whoever reloads, either way.
            let _said = operator.reload();
        }
        Note::Signal(SIGHUP) => {
            tracing::info!("looking at certificates, keys and stored files; the configuration stays");
            fleet.look();
        }
        Note::Signal(SIGUSR1) => state::tell(operator),
        Note::Signal(SIGUSR2) => fleet.reopen_logs(),
        Note::Signal(SIGTERM) if operator.begin_stop("SIGTERM") => {}
        Note::Signal(_) | Note::StopNow => return Ok(Next::StopNow("stop".to_owned())),
    }
    Ok(Next::GoOn)
}

fn without_command(end: parent::CommandEnd, operator: &Operator) -> Next {
    let code = parent::code_of(end.status);
    let reason = format!("the command ended ({})", end.status);
    match end.status.success() {
        true => tracing::info!(code, "{reason}"),
        false => tracing::error!(code, "{reason}"),
    }
    if end.stays {
        operator.lose_command(&reason);
        return Next::GoOn;
    }
    Next::StopNow(reason)
}

/// From now on nothing can be called off.
fn close(operator: &Operator, fleet: &Fleet) {
    let timeout =
        operator.running().map(|running| running.lifecycle.clone()).unwrap_or_default().drain_timeout;
    tracing::info!("draining: no new connections");
    fleet.drain(timeout);
    parent::tell(parent::Word::Closes);
}
