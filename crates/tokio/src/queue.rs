//! The queue between ring threads and the runtime: connections arrive in batches, with one wake-up
//! per batch.
//!
//! The hand-over limit bounds the length of the queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use doorbell::hand_over::HandedCount;
use doorbell::{HandedConn, Taker};

use crate::sync::{Mutex, MutexGuard, PoisonError, watch};
use crate::waits::Waits;

/// A queue of connections that were handed over: ring threads push, one receiver takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct HandedQueue {
    inner: Arc<Mutex<QueueInner>>,
    /// True once the queue has ended and the program has begun to read all connections. Tasks wait
    /// for it without the lock that ring threads take.
    delivered: watch::Sender<bool>,
}

/// Counts a connection that was taken from the queue, until its first bytes were read.
///
/// If a graceful shutdown begins before that, hyper closes the connection without a reply.
#[derive(Debug)]
pub(crate) struct Unread(HandedQueue);

#[derive(Debug, Default)]
struct QueueInner {
    /// Waiting connections, each with its time of arrival (0 without `waits`).
    conns: VecDeque<(u64, HandedConn)>,
    /// The task that waits for the next connection.
    taker: Option<Waker>,
    ended: bool,
    /// Number of [`Unread`].
    unread: usize,
    /// The receiver was dropped.
    gone: bool,
    places: Option<HandedCount>,
    /// The record of waiting times that health reads.
    waits: Option<Arc<Waits>>,
}

impl HandedQueue {
    /// Reports waiting connections to `waits`. Call it before any connection arrives.
    pub(crate) fn watch(&self, waits: Arc<Waits>) {
        self.lock().waits = Some(waits);
    }

    /// Stops reporting: another server may use `waits` from now on.
    pub(crate) fn unwatch(&self) {
        if let Some(waits) = self.lock().waits.take() {
            waits.reset();
        }
    }

    pub(crate) fn set_places(&self, places: HandedCount) {
        self.lock().places = Some(places);
    }

    /// Ends the queue: no more connections will arrive.
    pub(crate) fn end(&self) {
        let mut inner = self.lock();
        inner.ended = true;
        let taker = inner.taker.take();
        self.release(inner);
        taker.into_iter().for_each(Waker::wake);
    }

    /// Takes the next connection; `None` after the end.
    pub(crate) fn poll_take(&self, cx: &Context<'_>) -> Poll<Option<(HandedConn, Unread)>> {
        let mut inner = self.lock();
        if let Some(next) = inner.next() {
            inner.unread += 1;
            return Poll::Ready(Some((next, Unread(self.clone()))));
        }
        if inner.ended {
            return Poll::Ready(None);
        }
        match &mut inner.taker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Completes when the queue has ended, is empty, and each connection was dropped or its first
    /// bytes were read.
    pub(crate) fn delivered(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut delivered = self.delivered.subscribe();
        async move {
            // The server ends the queue before it drops it.
            let _ended = delivered.wait_for(|is_delivered| *is_delivered).await;
        }
    }

    /// Number of waiting connections.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().conns.len()
    }

    /// Closes waiting connections and refuses further ones. Called when the receiver is dropped.
    pub(crate) fn leave(&self) {
        let mut inner = self.lock();
        inner.gone = true;
        let conns = core::mem::take(&mut inner.conns);
        let places = inner.places.clone();
        if let Some(waits) = &inner.waits {
            waits.leave();
        }
        self.release(inner);
        if let Some(places) = places {
            places.close();
        }
        drop(conns);
    }

    /// Unlocks the queue and reports it as delivered if it is.
    fn release(&self, inner: MutexGuard<'_, QueueInner>) {
        let is_delivered = inner.ended && inner.conns.is_empty() && inner.unread == 0;
        drop(inner);
        if is_delivered {
            self.delivered.send_replace(true);
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueInner> {
        // No code that runs under this lock panics.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueInner {
    fn next(&mut self) -> Option<HandedConn> {
        let (_, conn) = self.conns.pop_front()?;
        if let Some(waits) = &self.waits {
            waits.accepted(self.conns.front().map(|(arrived, _)| *arrived));
        }
        Some(conn)
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.unread -= 1;
        self.0.release(inner);
    }
}

impl Taker for HandedQueue {
    fn take(&self, conns: &mut Vec<HandedConn>) {
        let mut inner = self.lock();
        if inner.gone {
            return;
        }
        let arrived = inner.waits.as_ref().map_or(0, |waits| {
            let now = waits.now();
            if inner.conns.is_empty() {
                waits.begin(now);
            }
            now
        });
        inner.conns.extend(conns.drain(..).map(|conn| (arrived, conn)));
        let waker = inner.taker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Wake;

    struct Task;

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    /// Each connection of a program may wait for the end of the server.
    #[test]
    fn a_dropped_future_keeps_no_task() {
        let (queue, task) = (HandedQueue::default(), Arc::new(Task));
        let waker = Waker::from(Arc::clone(&task));
        let poll = || pin!(queue.delivered()).poll(&mut Context::from_waker(&waker));
        assert_eq!((poll(), poll()), (Poll::Pending, Poll::Pending));
        assert_eq!(Arc::strong_count(&task), 2, "only `waker` keeps the task");
        queue.end();
        assert_eq!(poll(), Poll::Ready(()));
    }
}
