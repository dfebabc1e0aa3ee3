//! The supervisor: handles signals, requests of operators and ended servers from one queue, until the
//! process ends.

mod hangups;
pub(crate) mod queue;

use crate::exit::{Exit, Failure};
use crate::operator::Operator;
use crate::operator::state_log;
use crate::parent;
use crate::reload::Generations;
use hangups::Hangups;
use queue::{Message, Queue};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

/// The supervisor. Created before the server, so that a signal during the start does not kill the
/// process.
#[derive(Debug)]
pub(crate) struct Supervisor {
    queue: Queue,
    receiver: Receiver<Message>,
}

/// Action that follows a message.
enum Next {
    Ended,
    Continue,
    /// Stop without a drain, for this reason.
    StopNow(String),
}

impl Supervisor {
    /// Installs the signal handlers.
    pub(crate) fn start() -> Result<Self, Failure> {
        let failed =
            |error: std::io::Error| Failure::new(Exit::Failure, format!("cannot handle signals: {error}"));
        let mut signals =
            Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2]).map_err(failed)?;
        let (queue, receiver) = Queue::new();
        let signalled = queue.clone();
        // While the queue is full, further signals stay pending.
        let watch = move || signals.forever().for_each(|signal| signalled.send(Message::Signal(signal)));
        std::thread::Builder::new().name("signals".into()).spawn(watch).map_err(failed)?;
        Ok(Self { queue, receiver })
    }

    /// Creates a supervisor without signal handlers, for tests.
    #[cfg(test)]
    pub(crate) fn without_signals() -> Self {
        let (queue, receiver) = Queue::new();
        Self { queue, receiver }
    }

    pub(crate) fn queue(&self) -> Queue {
        self.queue.clone()
    }

    /// Serves until a signal, an operator or a failure ends the process.
    pub(crate) fn serve(self, operator: &Operator, generations: &Arc<Generations>) -> Result<Exit, Failure> {
        let hangups = Hangups::start(operator, generations).map_err(Failure::no_thread)?;
        loop {
            if operator.expire_due() {
                close(operator, generations);
            }
            let message = match operator.next_deadline_in() {
                Some(idle) => self.receiver.recv_timeout(idle),
                None => self.receiver.recv().map_err(RecvTimeoutError::from),
            };
            let next = match message {
                Ok(Message::Signal(SIGHUP)) => {
                    hangups.request();
                    Next::Continue
                }
                Ok(message) => handle(message, operator, generations)?,
                Err(RecvTimeoutError::Timeout) => Next::Continue,
                Err(RecvTimeoutError::Disconnected) => Next::Ended,
            };
            match next {
                Next::Ended => return Ok(Exit::Success),
                Next::Continue => {}
                Next::StopNow(reason) => {
                    operator.close(&reason);
                    tracing::info!(reason, "stopping now");
                    generations.stop();
                }
            }
        }
    }
}

fn handle(message: Message, operator: &Operator, generations: &Generations) -> Result<Next, Failure> {
    match message {
        Message::Changed => {}
        Message::CommandEnded(end) => return Ok(command_ended(end, operator)),
        Message::Ended(number, Ok(())) => {
            if generations.ended(number) {
                return Ok(Next::Ended);
            }
        }
        Message::Ended(number, Err(error)) => {
            if !generations.is_current(number) {
                tracing::warn!(generation = number, %error, "server of a former configuration failed");
                // This may be the last server, if the current one has already ended.
                return Ok(if generations.ended(number) { Next::Ended } else { Next::Continue });
            }
            return Err(Failure::new(Exit::Failure, error.to_string()));
        }
        Message::Signal(SIGUSR1) => state_log::log_state(operator),
        Message::Signal(SIGUSR2) => generations.reopen_logs(),
        Message::Signal(SIGTERM) if operator.begin_stop_on_sigterm() => {}
        Message::Signal(_) | Message::StopNow => return Ok(Next::StopNow("stop".to_owned())),
    }
    Ok(Next::Continue)
}

fn command_ended(end: parent::CommandEnd, operator: &Operator) -> Next {
    let code = parent::code_of(end.status);
    let reason = format!("the command exited ({})", end.status);
    match end.status.success() {
        true => tracing::info!(code, "{reason}"),
        false => tracing::error!(code, "{reason}"),
    }
    if end.stays {
        operator.record_command_exit(&reason);
        return Next::Continue;
    }
    Next::StopNow(reason)
}

/// Closes the listeners. The stop can no longer be cancelled.
fn close(operator: &Operator, generations: &Generations) {
    let timeout =
        operator.running().map(|running| running.lifecycle.clone()).unwrap_or_default().drain_timeout;
    tracing::info!("draining: no new connections");
    generations.drain(timeout);
    parent::send_report(parent::ServerReport::Closing);
}
