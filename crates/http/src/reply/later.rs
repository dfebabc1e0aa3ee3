//! A deferred request: the data for its reply, and the work that produces the reply.
//!
//! [`crate::Conn::handle_answer`] takes the [`Later`] back with the reply.

use super::ending::Endings;
use super::out::Lines;
use super::{Outcome, Persist, Replied, Responder};
use crate::{Out, Status, Time};
use std::any::Any;
use std::fmt;

/// A deferred request, returned by [`crate::Out::take_later`] after [`crate::Next::Wait`].
pub struct Later {
    pub(crate) persist: Persist,
    pub(crate) head_only: bool,
    /// Whether the request has a body that was not read.
    pub(crate) unread: bool,
    deadline: Time,
    lines: Lines,
    endings: Endings,
    work: Option<Box<dyn Any + Send>>,
}

impl Later {
    /// The time until which the connection waits.
    pub const fn deadline(&self) -> Time {
        self.deadline
    }

    /// Takes the work for this request; later calls return `None`.
    pub fn take_work(&mut self) -> Option<Box<dyn Any + Send>> {
        self.work.take()
    }

    /// The work for this request, if it has the type `T`.
    pub fn work<T: Any>(&self) -> Option<&T> {
        self.work.as_deref()?.downcast_ref()
    }

    /// Field lines that layers have added to the reply, each with its CRLF.
    pub fn lines(&self) -> &[u8] {
        &self.lines.bytes
    }

    /// Reports that the reply was sent completely by means other than
    /// [`crate::Conn::handle_answer`]. Layers treat the request as in progress until this call or
    /// until the value is dropped.
    pub fn answered(&mut self, status: Status, content_len: usize) {
        self.endings.call_all(Some(status), content_len);
    }

    /// Reports that the wait timed out and the connection's protocol sent the error.
    pub fn timed_out(&mut self) {
        self.endings.call_all(Some(Status::SERVICE_UNAVAILABLE), 0);
    }

    /// Reports that the work panicked and the connection's protocol sent the error.
    pub fn panicked(&mut self) {
        self.endings.call_all(Some(Status::INTERNAL_SERVER_ERROR), 0);
    }

    pub(crate) const fn endings(&mut self) -> &mut Endings {
        &mut self.endings
    }

    /// Creates the responder that writes the deferred reply.
    pub(crate) fn responder<'a>(
        self,
        out: &'a mut Out,
        date: &'a crate::Date,
        closing: bool,
    ) -> Responder<'a> {
        let persist = if closing { Persist::Close } else { self.persist };
        out.begin_reply();
        out.put_lines(self.lines);
        Responder { out, date, persist, head_only: self.head_only }
    }
}

impl<'a> Responder<'a> {
    /// Defers the reply: the caller of [`crate::Conn`] gets `work` and executes it. Until
    /// `deadline` the connection waits and handles no other request; then it ends with a 503.
    /// Fields added by layers are kept for the reply.
    pub fn later(self, deadline: Time, work: Box<dyn Any + Send>) -> Replied<'a> {
        self.out.forget_sent();
        let Self { out, persist, head_only, .. } = self;
        let lines = out.take_lines();
        out.put_later(Box::new(Later {
            persist,
            head_only,
            unread: false,
            deadline,
            lines,
            endings: Endings::default(),
            work: Some(work),
        }));
        Replied::without_reply(Outcome::Deferred)
    }
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Later")
            .field("persist", &self.persist)
            .field("head_only", &self.head_only)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
