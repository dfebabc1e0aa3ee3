//! The layer that limits the number of concurrent requests.

use super::Layer;
use crate::{MessageStart, Replied, Request, Responder, Service, StaticReply, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Limits the total number of concurrent requests on all threads. Requests above the limit get 503
/// with `Retry-After`.
///
/// Clones share the count.
#[derive(Clone, Debug)]
pub struct AtMost(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    max: u32,
    live: AtomicU32,
    refused: AtomicU64,
    refusal: StaticReply,
}

/// The place of a request in progress; released on drop.
#[derive(Debug)]
pub struct Admission<'a>(Option<&'a AtomicU32>);

/// The place of a deferred request; released on drop.
#[derive(Debug)]
struct OwnedAdmission(AtMost);

/// A service wrapped in [`AtMost`].
#[derive(Clone, Debug)]
pub struct AtMostService<S> {
    at_most: AtMost,
    inner: S,
}

impl AtMost {
    /// Creates a limit of `max` requests; 0 refuses all requests.
    pub fn new(max: u32) -> Self {
        let refusal = StaticReply::text(Status::SERVICE_UNAVAILABLE, "busy\n").header("Retry-After", "1");
        let refusal = refusal.expect("the constant is a valid field");
        Self(Arc::new(Inner { max, live: AtomicU32::new(0), refused: AtomicU64::new(0), refusal }))
    }

    /// Takes a place for a request, if a place is free.
    #[inline]
    pub fn enter(&self) -> Option<Admission<'_>> {
        let Inner { max, live, refused, .. } = &*self.0;
        let place = Admission(Some(live));
        // The place is taken before the check, so that the drop of `place` releases it if the
        // request is refused.
        if live.fetch_add(1, Ordering::Relaxed) < *max {
            return Some(place);
        }
        refused.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Handles a request, which holds a place until its immediate or deferred reply. Refuses the
    /// request if no place is free.
    #[inline]
    pub fn around<'a>(
        &self,
        reply: Responder<'a>,
        answer: impl FnOnce(Responder<'_>) -> Replied<'_>,
    ) -> Replied<'a> {
        let Some(place) = self.enter() else { return self.refuse(reply) };
        reply.watch(answer, || {
            let place = place.into_owned(self);
            Some(Box::new(move |_, _| drop(place)))
        })
    }

    /// Writes the reply to a request for which no place is free.
    #[cold]
    pub fn refuse<'a>(&self, reply: Responder<'a>) -> Replied<'a> {
        reply.send(&self.0.refusal)
    }

    /// Whether `other` shares its count with this limit.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Number of requests in progress.
    pub fn live(&self) -> u32 {
        self.0.live.load(Ordering::Relaxed)
    }

    /// Number of refused requests so far.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Admission<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(live) = self.0 {
            live.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Admission<'_> {
    /// Converts the place into one that can be held until a deferred request ends.
    fn into_owned(mut self, of: &AtMost) -> OwnedAdmission {
        self.0 = None;
        OwnedAdmission(of.clone())
    }
}

impl Drop for OwnedAdmission {
    fn drop(&mut self) {
        self.0.0.live.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S: Service> Layer<S> for AtMost {
    type Service = AtMostService<S>;

    fn layer(self, inner: S) -> AtMostService<S> {
        AtMostService { at_most: self, inner }
    }
}

impl<S: Service> Service for AtMostService<S> {
    fn inner(&self) -> Option<&dyn Service> {
        Some(&self.inner)
    }

    fn hands_over(&self, start: MessageStart<'_>) -> bool {
        self.inner.hands_over(start)
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        self.at_most.around(reply, |reply| self.inner.call(request, reply))
    }
}
