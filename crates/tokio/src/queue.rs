//! The queue between ring threads and the runtime: connections arrive in batches, with one wake-up
//! per batch.
//!
//! The hand-over limit bounds the length of the queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use doorbell::hand_over::HandedCount;
use doorbell::{HandedConn, Taker};

use crate::sync::{Mutex, MutexGuard, PoisonError};
use crate::waits::Waits;

/// A queue of connections that were handed over: ring threads push, one receiver takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct HandedQueue(Arc<Mutex<QueueInner>>);

#[derive(Debug, Default)]
struct QueueInner {
    /// Waiting connections, each with its time of arrival (0 without `waits`).
    conns: VecDeque<(u64, HandedConn)>,
    /// The task that waits for the next connection.
    taker: Option<Waker>,
    /// Tasks that wait for the queue to be empty after the end.
    watchers: Vec<Waker>,
    ended: bool,
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
        let wakers = inner.taker.take().into_iter().chain(inner.watchers.drain(..)).collect::<Vec<_>>();
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Takes the next connection; `None` after the end.
    pub(crate) fn poll_take(&self, cx: &Context<'_>) -> Poll<Option<HandedConn>> {
        let mut inner = self.lock();
        let next = inner.next();
        if inner.ended && inner.conns.is_empty() {
            let watchers = core::mem::take(&mut inner.watchers);
            drop(inner);
            watchers.into_iter().for_each(Waker::wake);
            return Poll::Ready(next);
        }
        if next.is_some() {
            return Poll::Ready(next);
        }
        match &mut inner.taker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Ready when the queue has ended and is empty.
    pub(crate) fn poll_delivered(&self, cx: &Context<'_>) -> Poll<()> {
        let mut inner = self.lock();
        if inner.ended && inner.conns.is_empty() {
            return Poll::Ready(());
        }
        if !inner.watchers.iter().any(|waker| waker.will_wake(cx.waker())) {
            inner.watchers.push(cx.waker().clone());
        }
        Poll::Pending
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
        let watchers = core::mem::take(&mut inner.watchers);
        if let Some(waits) = &inner.waits {
            waits.leave();
        }
        drop(inner);
        if let Some(places) = places {
            places.close();
        }
        drop(conns);
        watchers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, QueueInner> {
        // No code that runs under this lock panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
