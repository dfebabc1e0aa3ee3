//! The queue of the supervisor: signals, ends of servers, and requests of operators.

use crate::parent;
use doorbell::ServeError;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Maximum number of pending messages; beyond it, [`Queue::send`] waits.
const MESSAGES_MAX: usize = 64;

/// The sending end.
#[derive(Clone, Debug)]
pub(crate) struct Queue(SyncSender<Message>);

#[derive(Debug)]
pub(crate) enum Message {
    /// The operator's state has changed, for example because a drain began or was cancelled.
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

    /// Wakes the supervisor to examine the operator's state. If the queue is full, the supervisor
    /// examines the state soon anyway.
    pub(crate) fn wake(&self) {
        let _full = self.0.try_send(Message::Changed);
    }

    /// Sends a message. Waits while the queue is full, because the message must not be lost.
    pub(crate) fn send(&self, message: Message) {
        // If the supervisor has ended, the process is about to end.
        let _gone = self.0.send(message);
    }
}
