//! The queue of the supervisor: signals, ends of servers, and requests of operators.
//!
//! Does not know about: what follows from a message.

use crate::parent;
use doorbell::ServeError;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Pending messages. The supervisor takes each within moments.
const MESSAGES_MAX: usize = 64;

/// The sending end.
#[derive(Clone, Debug)]
pub(crate) struct Queue(SyncSender<Message>);

#[derive(Debug)]
pub(crate) enum Message {
    /// The operator's state has changed: a drain began or was cancelled.
    Changed,
    /// The command that `doorbell run` started together with this server has exited.
    CommandEnded(parent::CommandEnd),
    /// The server of this generation has ended.
    Ended(u64, Result<(), ServeError>),
    Signal(i32),
    /// Stop without a drain, as an operator requested.
    StopNow,
}

impl Queue {
    pub(crate) fn new() -> (Self, Receiver<Message>) {
        let (sender, receiver) = sync_channel(MESSAGES_MAX);
        (Self(sender), receiver)
    }

    /// Has the supervisor look at the operator's state. A full queue means that it is about to.
    pub(crate) fn nudge(&self) {
        let _full = self.0.try_send(Message::Changed);
    }

    /// Waits for room: this message must not be lost.
    pub(crate) fn send(&self, message: Message) {
        // Without a supervisor the process is about to end.
        let _gone = self.0.send(message);
    }
}
