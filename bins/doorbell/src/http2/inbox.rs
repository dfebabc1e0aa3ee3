//! Between the ring threads and the lane: connections are left in batches, with one wake-up a batch.
//!
//! Does not know about: what becomes of them. How many may lie here is bounded by the places of the hand-over.

use doorbell::{HandedConn, Taker};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// One side leaves, the other takes.
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
    /// Everything that was left, once something is.
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

    /// What lies here is closed, and so is whatever still comes.
    pub(super) fn close(&self) {
        let mut conns = self.lock();
        conns.is_closed = true;
        let waiting = core::mem::take(&mut conns.waiting);
        drop(conns);
        drop(waiting);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Conns> {
        // Nothing that can panic happens while it is held.
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
