//! Replies of handlers, written directly into the connection's output.
//!
//! `Content-Length`, `Date` and `Connection` are written only here.

mod builder;
mod default_field;
mod ending;
mod later;
mod out;
mod owned;
mod shared;
mod write;

pub use builder::ReplyBuilder;
pub use default_field::DefaultField;
pub use ending::Ending;
pub use later::Later;
pub use out::Out;
pub use owned::Reply;
pub use shared::StaticReply;
pub(crate) use write::Persist;

use crate::{ApiMisuse, Date, Status};
use out::ImageId;
use std::marker::PhantomData;
use write::put_end;

/// Replies to a request, exactly once.
#[must_use = "a request without a reply cannot be finished"]
#[derive(Debug)]
pub struct Responder<'a> {
    out: &'a mut Out,
    date: &'a Date,
    persist: Persist,
    /// Whether the request was `HEAD`.
    head_only: bool,
}

impl<'a> Responder<'a> {
    #[inline(always)]
    pub(crate) fn new(out: &'a mut Out, date: &'a Date, persist: Persist, head_only: bool) -> Self {
        out.forget_left_over();
        out.begin_any_reply();
        Self { out, date, persist, head_only }
    }

    /// Sends a shared reply. Up to 16 KiB of content are copied next to the head; longer content is
    /// sent without a copy.
    #[inline(always)]
    pub fn send(self, reply: &StaticReply) -> Replied<'a> {
        let image = reply.image(self.date, self.persist, self.head_only);
        if self.out.resend_if_same(&image) {
            return self.replied(reply.status(), reply.image_content_len(self.head_only));
        }
        self.send_changed(reply, image)
    }

    #[inline(never)]
    fn send_changed(self, reply: &StaticReply, image: ImageId) -> Replied<'a> {
        self.out.forget_sent();
        let is_all = self.out.head.is_empty() && !self.out.has_lines();
        let content_len = reply.put(self.out, self.date, self.persist, self.head_only);
        if is_all && self.out.body.is_empty() {
            self.out.is_image(image);
        }
        self.answered(reply.status(), content_len)
    }

    /// Adds a field line to the reply of the handler behind a layer. Framing, connection and date
    /// fields are forbidden; they replace the reply by a 500.
    #[inline(never)]
    pub fn header(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.out.add_line(name.as_bytes(), value.as_ref());
        self
    }

    /// Like [`Self::header`], for complete lines from this crate.
    #[inline(always)]
    pub(crate) fn add_lines(&mut self, lines: &[u8]) {
        self.out.add_lines(lines);
    }

    /// Starts a reply for this request.
    pub fn status(self, status: Status) -> ReplyBuilder<'a> {
        self.out.forget_sent();
        ReplyBuilder::new(self, status)
    }

    /// Sends `405 Method Not Allowed` with the `Allow` field required by RFC 9110 15.5.6. `allow`
    /// is the field's value, for instance `GET, HEAD`.
    pub fn method_not_allowed(self, allow: &[u8]) -> Replied<'a> {
        self.status(Status::METHOD_NOT_ALLOWED).header("Allow", allow).empty()
    }

    /// Makes the reply the last one of the connection.
    pub const fn close_after(mut self) -> Self {
        self.persist = Persist::Close;
        self
    }

    /// Closes the connection without a reply.
    pub fn close(self) -> Replied<'a> {
        self.out.forget_sent();
        self.out.forget_lines();
        Replied::without_reply(Outcome::HangUp)
    }

    /// Hands over the connection: the receiver gets it with all input from the first byte of this
    /// request on. Replies to earlier requests are sent before the hand-over. If there is no
    /// receiver, the client gets a 503.
    ///
    /// A request with a body must be handed over before its body is read. This is possible in
    /// [`crate::Service::hands_over`]. It is possible with this method only if
    /// [`crate::Limits::answer_before_body`] is set and the service does not want the body.
    #[inline(never)]
    pub fn hand_over(self) -> Replied<'a> {
        self.out.forget_sent();
        self.out.forget_lines();
        Replied::without_reply(Outcome::HandOver)
    }

    /// Lets `serve` reply. If `serve` defers the reply, the callback from `ending` is called when
    /// the request ends, because a layer that counts or logs requests gets the result only then.
    #[inline]
    pub fn watch(
        self,
        serve: impl FnOnce(Responder<'_>) -> Replied<'_>,
        ending: impl FnOnce() -> Option<Ending>,
    ) -> Replied<'a> {
        self.watch_with(&mut (), |reply, ()| serve(reply), |()| ending())
    }

    /// Lets `serve` reply as [`Self::watch`] does, with data shared between `serve` and `ending`.
    #[inline]
    pub fn watch_with<T>(
        self,
        data: &mut T,
        serve: impl for<'r> FnOnce(Responder<'r>, &mut T) -> Replied<'r>,
        ending: impl FnOnce(&mut T) -> Option<Ending>,
    ) -> Replied<'a> {
        let Self { out, date, persist, head_only } = self;
        let Replied { outcome, status, content_len, .. } =
            serve(Responder { out, date, persist, head_only }, data);
        if outcome == Outcome::Deferred
            && let Some(ending) = ending(data)
        {
            out.on_end(ending);
        }
        Replied { outcome, status, content_len, of: PhantomData }
    }

    /// Replies with a 500, because a service needs the client's address and did not get it.
    #[cold]
    pub(crate) fn refuse_unknown_client(self) -> Replied<'a> {
        self.refuse(ApiMisuse::ClientUnknown)
    }

    /// Replies with a 500, because a service wants the body and did not get it.
    #[cold]
    pub(crate) fn refuse_skipped_body(self) -> Replied<'a> {
        self.refuse(ApiMisuse::BodySkipped)
    }

    /// Replaces the reply by a 500 and records the reason.
    #[cold]
    #[inline(never)]
    fn refuse(self, misuse: ApiMisuse) -> Replied<'a> {
        self.out.forget_lines();
        put_refusal(misuse, self.out, self.date, self.persist);
        self.replied(Status::INTERNAL_SERVER_ERROR, 0)
    }

    #[inline(always)]
    fn answered(self, status: Status, content_len: u32) -> Replied<'a> {
        if self.out.has_lines() {
            self.answered_with_lines(status, content_len)
        } else {
            self.replied(status, content_len)
        }
    }

    #[cold]
    #[inline(never)]
    fn answered_with_lines(self, status: Status, content_len: u32) -> Replied<'a> {
        match self.out.insert_lines() {
            Ok(()) => self.replied(status, content_len),
            Err(misuse) => self.refuse(misuse),
        }
    }

    #[inline(always)]
    fn replied(&self, status: Status, content_len: u32) -> Replied<'a> {
        let outcome = if matches!(self.persist, Persist::Close) { Outcome::Last } else { Outcome::Replied };
        Replied { outcome, status, content_len, of: PhantomData }
    }
}

/// Proof that this request has a reply.
///
/// Only a [`Responder`] creates a proof, with its own lifetime. A proof for one request can
/// therefore not be stored and returned for another request.
///
/// ```compile_fail,E0521
/// use doorbell_http::{Replied, Request, Responder, Service, Status};
/// use std::sync::Mutex;
///
/// struct Keeps(Mutex<Option<Replied<'static>>>);
///
/// impl Service for Keeps {
///     fn call<'a>(&self, _: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
///         let answered = reply.status(Status::OK).empty();
///         *self.0.lock().unwrap() = Some(answered);
///         panic!("the next request gets the stored proof");
///     }
/// }
/// ```
#[must_use]
#[derive(Debug)]
pub struct Replied<'a> {
    pub(crate) outcome: Outcome,
    /// The status of the reply; meaningless without a reply.
    status: Status,
    /// The content length, saturated at 4 GiB so that the whole value fits into one register.
    content_len: u32,
    /// Makes the lifetime invariant, so that neither a longer nor a shorter lifetime is accepted.
    of: PhantomData<fn(&'a ()) -> &'a ()>,
}

const _: () = assert!(size_of::<Replied<'_>>() <= 8);

impl Replied<'_> {
    /// A result without a reply, or without a reply so far.
    const fn without_reply(outcome: Outcome) -> Self {
        Self { outcome, status: Status::OK, content_len: 0, of: PhantomData }
    }

    /// Status of the reply. `None` if the connection was closed without a reply or handed over, and
    /// if the reply is deferred.
    #[inline]
    pub const fn status(&self) -> Option<Status> {
        match self.outcome {
            Outcome::Deferred | Outcome::HandOver | Outcome::HangUp => None,
            Outcome::Last | Outcome::Replied => Some(self.status),
        }
    }

    /// Whether the connection is handed over.
    #[inline]
    pub const fn is_handed_over(&self) -> bool {
        matches!(self.outcome, Outcome::HandOver)
    }

    /// Whether the reply is deferred.
    #[inline]
    pub const fn is_pending(&self) -> bool {
        matches!(self.outcome, Outcome::Deferred)
    }

    /// Bytes of content sent.
    #[inline]
    pub const fn content_len(&self) -> usize {
        self.content_len as usize
    }
}

/// Effect of a reply on the connection. Deliberately not in alphabetical order: the common variants
/// are in the middle, where testing for them is cheaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Hands over the request and the connection.
    HandOver,
    /// Closes without a reply.
    HangUp,
    /// A reply that closes the connection.
    Last,
    /// A reply; the connection stays open.
    Replied,
    /// The reply is deferred.
    Deferred,
}

/// Writes a reply without content.
pub(crate) fn put_failure(status: Status, out: &mut Out, date: &Date, persist: Persist) {
    put_failure_with(b"", status, out, date, persist);
}

/// Writes a 500 instead of the reply.
pub(crate) fn put_refusal(misuse: ApiMisuse, out: &mut Out, date: &Date, persist: Persist) {
    out.refuse_reply(misuse);
    put_failure(Status::INTERNAL_SERVER_ERROR, out, date, persist);
}

/// Like [`put_failure`], with additional field lines from this crate.
pub(crate) fn put_failure_with(lines: &[u8], status: Status, out: &mut Out, date: &Date, persist: Persist) {
    write::put_status(&mut out.head, status);
    out.head.extend_from_slice(lines);
    out.put_default_field();
    write::put_length(&mut out.head, status, 0);
    put_end(&mut out.head, date, persist);
}

#[cfg(test)]
mod tests;
