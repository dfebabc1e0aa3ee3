//! Who waits for the end of a server: a thread that is there before the server, so that a server which accepts is never without it.
//!
//! Does not know about: what follows from the end.

use crate::http2::Http2;
use crate::supervisor::queue::{Message, Queue};
use doorbell::Server;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

/// A thread that ends at once where it gets no server.
#[derive(Debug)]
pub(super) struct Waiter(SyncSender<Task>);

struct Task {
    number: u64,
    server: Server,
    http2: Option<Arc<Http2>>,
    queue: Queue,
}

impl Waiter {
    pub(super) fn start() -> io::Result<Self> {
        let (give, given) = sync_channel::<Task>(1);
        let wait = move || {
            let Ok(Task { number, server, http2, queue }) = given.recv() else { return };
            let ended = server.wait();
            if let Some(http2) = http2 {
                http2.end();
            }
            queue.send(Message::Ended(number, ended));
        };
        std::thread::Builder::new().name("end".into()).spawn(wait)?;
        Ok(Self(give))
    }

    /// Tells the supervisor when this server has ended, and its connections outside the rings.
    pub(super) fn wait_for(self, number: u64, server: Server, http2: Option<Arc<Http2>>, queue: Queue) {
        let _waits = self.0.send(Task { number, server, http2, queue });
    }
}
