//! The queue from the workers to the lane: connections arrive in batches, with one wake-up per batch.
//!
//! Does not know about: what happens to them. The permits of the hand-over limit their number.

use doorbell::{HandedConn, Taker};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// The shared queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Inbox(Arc<Inside>);

#[derive(Debug, Default)]
struct Inside {
    conns: Mutex<Conns>,
    left: Notify,
}

#[derive(Debug, Default)]
struct Conns {
    waiting: Vec<HandedConn>,
    is_closed: bool,
}

impl Inbox {
    /// Waits for connections and takes all of them.
    pub(super) async fn take(&self) -> Vec<HandedConn> {
        loop {
            let left = self.0.left.notified();
            let conns = core::mem::take(&mut self.lock().waiting);
            if !conns.is_empty() {
                return conns;
            }
            left.await;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// Closes queued connections and all later ones.
    pub(super) fn close(&self) {
        let mut conns = self.lock();
        conns.is_closed = true;
        let waiting = core::mem::take(&mut conns.waiting);
        drop(conns);
        drop(waiting);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Conns> {
        // No code that can panic runs while it is locked.
        self.0.conns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taker for Inbox {
    fn take(&self, conns: &mut Vec<HandedConn>) {
        let mut inside = self.lock();
        if inside.is_closed {
            return;
        }
        inside.waiting.append(conns);
        drop(inside);
        self.0.left.notify_one();
    }
}
