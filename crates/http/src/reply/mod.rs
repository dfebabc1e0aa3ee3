//! Replies: what a handler may say, written straight into the connection's output.
//!
//! Does not know about: requests, beyond whether content is wanted and whether the connection lives on.
//! `Content-Length`, `Date` and `Connection` are written here and nowhere else.

mod builder;
mod out;
mod shared;
mod write;

pub use builder::ReplyBuilder;
pub use out::Out;
pub use shared::StaticReply;

use crate::{ApiMisuse, Date, Status};
use write::put_end;

/// The one chance to answer a request.
#[must_use = "a request that is not answered cannot be finished"]
#[derive(Debug)]
pub struct Responder<'a> {
    out: &'a mut Out,
    date: &'a Date,
    persist: Persist,
    /// The request was `HEAD`.
    head_only: bool,
}

impl<'a> Responder<'a> {
    #[inline]
    pub(crate) fn new(out: &'a mut Out, date: &'a Date, persist: Persist, head_only: bool) -> Self {
        out.begin_reply();
        Self { out, date, persist, head_only }
    }

    /// Sends a shared reply: up to 16 KiB of content are copied beside the head, more is sent without a copy.
    #[inline]
    pub fn send(self, reply: &StaticReply) -> Answered {
        reply.put(self.out, self.date, self.persist, self.head_only);
        self.answered()
    }

    /// Starts a reply made for this request.
    pub fn status(self, status: Status) -> ReplyBuilder<'a> {
        ReplyBuilder::new(self, status)
    }

    /// `405 Method Not Allowed`, with `Allow` as RFC 9110 15.5.6 demands; `allow` is for instance `GET, HEAD`.
    pub fn method_not_allowed(self, allow: &[u8]) -> Answered {
        self.status(Status::METHOD_NOT_ALLOWED).header("Allow", allow).empty()
    }

    /// The reply that follows will be the last of the connection.
    pub const fn close_after(mut self) -> Self {
        self.persist = Persist::Close;
        self
    }

    /// Closes the connection without a reply.
    pub const fn close(self) -> Answered {
        Answered(Outcome::HangUp)
    }

    /// Replaces whatever was written of this reply by a 500 and remembers why.
    fn refuse(self, misuse: ApiMisuse) -> Answered {
        put_refusal(misuse, self.out, self.date, self.persist);
        self.answered()
    }

    #[inline]
    const fn answered(&self) -> Answered {
        Answered(if matches!(self.persist, Persist::Close) { Outcome::Last } else { Outcome::Replied })
    }
}

/// Proof that a request was answered; only a [`Responder`] makes one.
#[must_use]
#[derive(Debug)]
pub struct Answered(pub(crate) Outcome);

/// What the answer means for the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Closes without a reply.
    HangUp,
    /// A reply that closes the connection.
    Last,
    /// A reply; the connection lives on.
    Replied,
}

/// What the reply says about the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persist {
    /// `Connection: close`.
    Close,
    /// Stays, as is the rule in HTTP/1.1: nothing to say.
    Implied,
    /// `Connection: keep-alive`, for HTTP/1.0.
    Stated,
}

/// Writes a reply without content.
pub(crate) fn put_failure(status: Status, out: &mut Out, date: &Date, persist: Persist) {
    put_failure_with(b"", status, out, date, persist);
}

/// A 500 instead of whatever was written of this reply.
fn put_refusal(misuse: ApiMisuse, out: &mut Out, date: &Date, persist: Persist) {
    out.refuse_reply(misuse);
    put_failure(Status::INTERNAL_SERVER_ERROR, out, date, persist);
}

/// As [`put_failure`], with rendered field lines of our own.
pub(crate) fn put_failure_with(lines: &[u8], status: Status, out: &mut Out, date: &Date, persist: Persist) {
    write::put_status(&mut out.head, status);
    out.head.extend_from_slice(lines);
    write::put_length(&mut out.head, status, 0);
    put_end(&mut out.head, date, persist);
}

/// Content up to this size is copied beside its head: one buffer, one send.
const COPIED_BYTES_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests;
