//! Counts each request of a route when it ends.

use super::RouteEntry;
use doorbell::http::{Method, Replied, Responder};
use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Marks a request as a probe of a whole endpoint. The prober statistics have counted it, so the
/// counters of its route do not. A request that a guard or the compute lane refuses has no mark.
#[derive(Debug, Default)]
pub(super) struct ProbeMark {
    is_set: Cell<bool>,
    /// The mark of a deferred request, shared by its parts.
    shared: OnceCell<Arc<AtomicBool>>,
}

impl ProbeMark {
    pub(super) fn set(&self) {
        match self.shared.get() {
            None => self.is_set.set(true),
            Some(shared) => shared.store(true, Ordering::Relaxed),
        }
    }

    fn is_set(&self) -> bool {
        self.shared.get().map_or_else(|| self.is_set.get(), |shared| shared.load(Ordering::Relaxed))
    }

    /// Returns the same mark, for a part of the request that runs later.
    pub(super) fn share(&self) -> Self {
        let shared = self.shared.get_or_init(|| Arc::new(AtomicBool::new(self.is_set.get())));
        Self { is_set: Cell::new(false), shared: OnceCell::from(Arc::clone(shared)) }
    }
}

impl RouteEntry {
    /// Lets `serve` reply, and counts the request with the status that the client gets: a deferred
    /// reply may come from a handler, or from a job that is refused, times out or panics.
    pub(super) fn count<'a>(
        &self,
        method: Method,
        reply: Responder<'a>,
        serve: impl for<'r> FnOnce(Responder<'r>, &ProbeMark) -> Replied<'r>,
    ) -> Replied<'a> {
        let mark = ProbeMark::default();
        let Some(counters) = &self.counters else { return serve(reply, &mark) };
        let answered = reply.watch(
            |reply| serve(reply, &mark),
            || {
                let (counters, mark) = (Arc::clone(counters), mark.share());
                Some(Box::new(move |status, _len| {
                    if !mark.is_set() {
                        status.into_iter().for_each(|status| counters.count_status(method, status, 1));
                    }
                }))
            },
        );
        if !mark.is_set() {
            counters.count(method, &answered);
        }
        answered
    }
}
