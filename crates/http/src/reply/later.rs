//! A request that was taken and is answered later: what its reply has to know, and what is to be done for it.
//!
//! Does not know about: what that is, who does it. [`crate::Conn::handle_answer`] takes it back with the answer.

use super::ending::Endings;
use super::out::Lines;
use super::{Answered, Outcome, Persist, Responder};
use crate::{Out, Status, Time};
use std::any::Any;
use std::fmt;

/// A request that waits for its answer. Comes out of [`crate::Out::take_later`] after [`crate::Next::Wait`].
pub struct Later {
    pub(crate) persist: Persist,
    pub(crate) head_only: bool,
    /// The request has a body that was not read.
    pub(crate) unread: bool,
    deadline: Time,
    lines: Lines,
    endings: Endings,
    work: Option<Box<dyn Any + Send>>,
}

impl Later {
    /// When the connection stops waiting.
    pub const fn deadline(&self) -> Time {
        self.deadline
    }

    /// What the service wants done; once.
    pub fn take_work(&mut self) -> Option<Box<dyn Any + Send>> {
        self.work.take()
    }

    /// What the service wants done, where it is of this type.
    pub fn work<T: Any>(&self) -> Option<&T> {
        self.work.as_deref()?.downcast_ref()
    }

    /// The field lines that layers have added for the answer, each with its CRLF.
    pub fn lines(&self) -> &[u8] {
        &self.lines.bytes
    }

    /// The answer was given by other means than [`crate::Conn::handle_answer`], and its last byte is out.
    /// Until then, or until this is dropped, the request is in progress for all layers.
    pub fn answered(&mut self, status: Status, content_len: usize) {
        self.endings.tell(Some(status), content_len);
    }

    /// The connection did not wait any longer, and its protocol said so.
    pub fn timed_out(&mut self) {
        self.endings.tell(Some(Status::SERVICE_UNAVAILABLE), 0);
    }

    /// Whoever makes the answer failed, and the protocol says so.
    pub fn panicked(&mut self) {
        self.endings.tell(Some(Status::INTERNAL_SERVER_ERROR), 0);
    }

    pub(crate) const fn endings(&mut self) -> &mut Endings {
        &mut self.endings
    }

    /// The chance to answer, once more.
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
    /// The answer comes later, from elsewhere: whoever drives the connection gets `work` and sees that it is done. Until `deadline`
    /// the connection waits and answers nothing else; then it ends with a 503. Fields that layers have added are kept for the answer.
    pub fn later(self, deadline: Time, work: Box<dyn Any + Send>) -> Answered<'a> {
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
        Answered::without_reply(Outcome::Deferred)
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
