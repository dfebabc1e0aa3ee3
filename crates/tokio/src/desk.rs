//! Between the ring threads and the runtime: connections left in batches, and one wake-up for each batch.
//!
//! Does not know about: streams. How many connections may lie here is bounded by the places of the hand-over.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use doorbell::hand_over::Places;
use doorbell::{HandedConn, Taker};

use crate::sync::{Mutex, MutexGuard, PoisonError};
use crate::waits::Waits;

/// One side leaves, the other takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Desk(Arc<Mutex<Inside>>);

#[derive(Debug, Default)]
struct Inside {
    /// Each with its arrival, 0 without `waits`.
    conns: VecDeque<(u64, HandedConn)>,
    /// Whoever waits for the next connection.
    taker: Option<Waker>,
    /// Whoever waits for everything to be taken after the end.
    watchers: Vec<Waker>,
    ended: bool,
    /// The receiving side is gone.
    gone: bool,
    places: Option<Places>,
    /// What health hears of the connections here.
    waits: Option<Arc<Waits>>,
}

impl Desk {
    /// Reports in `waits` which connections lie here. To be called before any does.
    pub(crate) fn watch(&self, waits: Arc<Waits>) {
        self.lock().waits = Some(waits);
    }

    /// Reports nothing any more: `waits` may be another server's from now on.
    pub(crate) fn unwatch(&self) {
        if let Some(waits) = self.lock().waits.take() {
            waits.reset();
        }
    }

    pub(crate) fn set_places(&self, places: Places) {
        self.lock().places = Some(places);
    }

    /// No more will be left here.
    pub(crate) fn end(&self) {
        let mut inside = self.lock();
        inside.ended = true;
        let wakers = inside.taker.take().into_iter().chain(inside.watchers.drain(..)).collect::<Vec<_>>();
        drop(inside);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The next connection. `None`: there will be no more.
    pub(crate) fn poll_take(&self, cx: &Context<'_>) -> Poll<Option<HandedConn>> {
        let mut inside = self.lock();
        let next = inside.next();
        if inside.ended && inside.conns.is_empty() {
            let watchers = core::mem::take(&mut inside.watchers);
            drop(inside);
            watchers.into_iter().for_each(Waker::wake);
            return Poll::Ready(next);
        }
        if next.is_some() {
            return Poll::Ready(next);
        }
        match &mut inside.taker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Ready when no more will be left here and all that was left is taken.
    pub(crate) fn poll_delivered(&self, cx: &Context<'_>) -> Poll<()> {
        let mut inside = self.lock();
        if inside.ended && inside.conns.is_empty() {
            return Poll::Ready(());
        }
        if !inside.watchers.iter().any(|waker| waker.will_wake(cx.waker())) {
            inside.watchers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Connections that lie here.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().conns.len()
    }

    /// Nobody takes any more: what lies here is closed, and whoever comes is refused.
    pub(crate) fn leave(&self) {
        let mut inside = self.lock();
        inside.gone = true;
        let conns = core::mem::take(&mut inside.conns);
        let places = inside.places.clone();
        let watchers = core::mem::take(&mut inside.watchers);
        if let Some(waits) = &inside.waits {
            waits.leave();
        }
        drop(inside);
        if let Some(places) = places {
            places.close();
        }
        drop(conns);
        watchers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        // Nothing that can panic happens while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn next(&mut self) -> Option<HandedConn> {
        let (_, conn) = self.conns.pop_front()?;
        if let Some(waits) = &self.waits {
            waits.accepted(self.conns.front().map(|(arrived, _)| *arrived));
        }
        Some(conn)
    }
}

impl Taker for Desk {
    fn take(&self, conns: &mut Vec<HandedConn>) {
        let mut inside = self.lock();
        if inside.gone {
            return;
        }
        let arrived = inside.waits.as_ref().map_or(0, |waits| {
            let now = waits.now();
            if inside.conns.is_empty() {
                waits.begin(now);
            }
            now
        });
        inside.conns.extend(conns.drain(..).map(|conn| (arrived, conn)));
        let waker = inside.taker.take();
        drop(inside);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
