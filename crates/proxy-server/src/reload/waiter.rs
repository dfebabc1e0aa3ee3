//! Waits on a thread for the end of a server. The thread starts before the server, so that a
//! failure to start the thread cannot leave a running server without it.

use crate::supervisor::queue::{Message, Queue};
use doorbell::Server;
use doorbell_http2::Http2;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

/// The waiting thread, which ends immediately if this value is dropped without a server.
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
        let (sender, receiver) = sync_channel::<Task>(1);
        let wait = move || {
            let Ok(Task { number, server, http2, queue }) = receiver.recv() else { return };
            let ended = server.wait();
            if let Some(http2) = http2 {
                http2.end();
            }
            queue.send(Message::Ended(number, ended));
        };
        std::thread::Builder::new().name("end".into()).spawn(wait)?;
        Ok(Self(sender))
    }

    /// Notifies the supervisor when this server and its handed-over connections have ended.
    pub(super) fn wait_for(self, number: u64, server: Server, http2: Option<Arc<Http2>>, queue: Queue) {
        let _waits = self.0.send(Task { number, server, http2, queue });
    }
}
