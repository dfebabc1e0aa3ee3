//! A worker's own memory for the protocols of its listeners: used by one thread, without locks.

use core::any::Any;
use core::fmt;
use std::sync::Arc;

use doorbell_http::parse::Seen;

use crate::id::{ConnId, ListenerIndex};

/// Makes a worker run a turn and deliver the messages in its mailboxes.
pub type Notify = Arc<dyn Fn() + Send + Sync>;

/// The memory of a stream protocol: the states of its connections on one worker.
pub trait StreamMemory: Any + Send {
    /// Takes the messages that have arrived since the last call.
    fn take_mail(&mut self);

    /// Passes the next message to its connection, and returns the connection.
    fn next_addressee(&mut self) -> Option<ConnId>;
}

/// A worker's memory for its protocols.
#[derive(Default)]
pub struct Local {
    /// The worker's cache of earlier HTTP requests, which makes similar requests cheaper.
    pub seen: Seen,
    /// By listener; `None` for protocols without such a memory.
    streams: Vec<Option<Box<dyn StreamMemory>>>,
}

impl Local {
    /// Memory of a worker without stream protocols.
    pub const fn new() -> Self {
        Self { seen: Seen::new(), streams: Vec::new() }
    }

    /// Memory of a worker with these stream memories, by [`ListenerIndex`].
    pub const fn of(streams: Vec<Option<Box<dyn StreamMemory>>>) -> Self {
        Self { seen: Seen::new(), streams }
    }

    /// The memory of a listener's stream protocol.
    pub(crate) fn stream(&mut self, listener: ListenerIndex) -> Option<&mut (dyn StreamMemory + 'static)> {
        self.streams.get_mut(listener.index())?.as_deref_mut()
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("seen", &self.seen).finish_non_exhaustive()
    }
}
