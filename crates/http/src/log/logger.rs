//! The layer that sees every request and passes records of the selected requests to a sink.

use super::filter::Successes;
use super::{Entry, Filter, Record, Sink};
use crate::layer::Layer;
use crate::prober::prober_with;
use crate::{Client, Ending, MessageStart, Replied, Request, RequestError, Responder, Service, Status, Time};
use std::sync::atomic::{AtomicU64, Ordering};

/// Logs requests to a sink.
///
/// Add this layer last: it then sees requests first, and the log includes the replies of guards. A
/// logger around a single route adds the route's index.
#[derive(Debug)]
pub struct Logger<K> {
    filter: Filter,
    sink: K,
    route: Option<u16>,
    probe: bool,
    /// Number of requests counted for sampling, on all threads.
    turn: AtomicU64,
}

/// A service wrapped in a [`Logger`].
#[derive(Debug)]
pub struct Logged<S, K> {
    logger: Logger<K>,
    inner: S,
}

impl<K: Sink> Logger<K> {
    /// A logger for all routes.
    pub const fn new(filter: Filter, sink: K) -> Self {
        Self { filter, sink, route: None, probe: false, turn: AtomicU64::new(0) }
    }

    /// Sets the route, as an index of [`Renderer::routes`](super::Renderer::routes).
    #[must_use]
    pub const fn route(mut self, index: u16) -> Self {
        self.route = Some(index);
        self
    }

    /// Marks all requests of the route as probes.
    #[must_use]
    pub const fn probe(mut self) -> Self {
        self.probe = true;
        self
    }

    /// Logs a request with its reply. [`Logged`] calls this method. A service can call this method
    /// directly if it knows more about a request than a layer.
    #[inline]
    pub fn answered(&self, entry: &Entry<'_>) {
        if !self.filter.is_off() && (entry.is_error() || self.filter.successes() != Successes::None) {
            self.choose(entry);
        }
    }

    /// Logs a request that could not be parsed.
    #[cold]
    pub fn refused(&self, error: RequestError, client: &Client<'_>, now: Time) {
        if !self.filter.is_off() {
            self.sink.log(&Record::refused(error, client, now));
        }
    }

    #[inline(never)]
    fn choose(&self, entry: &Entry<'_>) {
        let user_agent = entry.request.header("user-agent");
        if entry.is_error() || self.shows_success(entry, user_agent) {
            self.sink.log(&Record::answered_with(entry, user_agent));
        }
    }

    fn shows_success(&self, entry: &Entry<'_>, user_agent: Option<&[u8]>) -> bool {
        match self.filter.successes() {
            Successes::All => true,
            Successes::None => false,
            Successes::OneIn { n, probes } => {
                (probes || !(entry.probe || prober_with(entry.request, user_agent).is_some()))
                    && self.turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(u64::from(n.get()))
            }
        }
    }

    /// Returns a callback that logs a deferred request when it ends, for [`Responder::watch`].
    /// `None` if the sink cannot log later.
    #[cold]
    pub fn later(&self, entry: &Entry<'_>) -> Option<Ending> {
        self.later_by(entry, || None)
    }

    /// Returns a callback as [`Self::later`] does, with a subject that is known only when the
    /// request ends. `subject` is called at that time. If it returns `None`, the subject of `entry`
    /// is used.
    #[cold]
    pub fn later_by(
        &self,
        entry: &Entry<'_>,
        subject: impl FnOnce() -> Option<Box<str>> + Send + 'static,
    ) -> Option<Ending> {
        let sink = self.sink.later()?;
        let user_agent = entry.request.header("user-agent");
        let shows_success = self.shows_success(entry, user_agent);
        let record = Record::answered_with(entry, user_agent);
        Some(Box::new(move |status, content_len| {
            if shows_success || status.is_none_or(|status| status.code() >= 400) {
                let mut record = record.ended(status, content_len);
                if let Some(subject) = subject() {
                    record.name(&subject);
                }
                sink.log(&record);
            }
        }))
    }

    #[cold]
    fn panicked(&self, request: &Request<'_>) {
        let entry = Entry {
            request,
            status: Some(Status::INTERNAL_SERVER_ERROR),
            content_len: 0,
            elsewhere: false,
            route: self.route,
            probe: self.probe,
            subject: request.client().tls.and_then(|tls| tls.client_name.as_deref()),
        };
        self.sink.log(&Record::answered(&entry).panicked());
    }
}

impl<K: Sink, S: Service> Layer<S> for Logger<K> {
    type Service = Logged<S, K>;

    fn layer(self, inner: S) -> Logged<S, K> {
        Logged { logger: self, inner }
    }
}

impl<S: Service, K: Sink> Service for Logged<S, K> {
    fn inner(&self) -> Option<&dyn Service> {
        Some(&self.inner)
    }

    fn wants_client(&self) -> bool {
        !self.logger.filter.is_off() || self.inner.wants_client()
    }

    fn hands_over(&self, start: MessageStart<'_>) -> bool {
        self.inner.hands_over(start)
    }

    fn refused(&self, error: RequestError, client: &Client<'_>, now: Time) {
        self.logger.refused(error, client, now);
        self.inner.refused(error, client, now);
    }

    #[inline]
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        if self.logger.filter.is_off() {
            return self.inner.call(request, reply);
        }
        let mut watch = Watch { logger: &self.logger, request, answered: false };
        let mut is_later = false;
        let answered = reply.watch(
            |reply| self.inner.call(request, reply),
            || {
                let ending = self.logger.later(&self.name(Entry::unanswered(request)));
                is_later = ending.is_some();
                ending
            },
        );
        watch.answered = true;
        if !is_later {
            self.logger.answered(&self.name(Entry::new(request, &answered)));
        }
        answered
    }
}

impl<S, K> Logged<S, K> {
    #[inline]
    const fn name<'a>(&self, entry: Entry<'a>) -> Entry<'a> {
        Entry { route: self.logger.route, probe: self.logger.probe, ..entry }
    }
}

/// Logs a request whose handler panics; the caller replies with a 500.
struct Watch<'a, K: Sink> {
    logger: &'a Logger<K>,
    request: &'a Request<'a>,
    answered: bool,
}

impl<K: Sink> Drop for Watch<'_, K> {
    #[inline]
    fn drop(&mut self) {
        if !self.answered {
            self.logger.panicked(self.request);
        }
    }
}
