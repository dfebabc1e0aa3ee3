//! A request with a deferred reply: the connection pauses until the reply is available.
//!
//! Input that arrives in the meantime is held back in `carry`.

use super::{Conn, Io, Next, Phase};
use crate::reply::{Later, Outcome};
use crate::{Replied, Responder, Status, Time};

impl Conn {
    /// Begins to wait after the service has deferred its reply. The caller stores the remaining
    /// input.
    #[cold]
    pub(super) fn begin_wait(&mut self, io: &Io<'_>) -> Next {
        debug_assert!(io.out.later().is_some(), "the responder has deferred the reply");
        self.phase = Phase::Waiting;
        self.held_back = true;
        self.deadline = io.out.later().map_or(Time::ZERO, Later::deadline);
        Next::Wait
    }

    /// Takes over a connection for which [`Conn::answer_once`] returned [`Next::Wait`]. Call this
    /// method on a new [`Conn`], with the same `io`.
    pub fn wait_once(&mut self, io: &Io<'_>) {
        debug_assert!(self.requests == 0 && self.phase == Phase::Idle, "a new connection");
        self.requests = 1;
        let _wait = self.begin_wait(io);
    }

    /// Writes the deferred reply announced by [`Next::Wait`]. `later` is the result of
    /// [`crate::Out::take_later`]. `answer` gets the responder and may defer the reply again.
    pub fn handle_answer(
        &mut self,
        mut later: Later,
        mut io: Io<'_>,
        answer: impl FnOnce(Responder<'_>) -> Replied<'_>,
    ) -> Next {
        if self.phase != Phase::Waiting {
            debug_assert!(self.phase == Phase::Closing, "a reply is awaited, or the connection has ended");
            return Next::Close;
        }
        let unread = later.unread;
        let mut endings = std::mem::take(later.endings());
        // A panic during the reply becomes a 500.
        endings.otherwise(Some(Status::INTERNAL_SERVER_ERROR));
        let answered = answer(later.responder(io.out, io.date, io.closing));
        match answered.outcome {
            Outcome::Deferred | Outcome::HandOver => {}
            Outcome::HangUp | Outcome::Last | Outcome::Replied => {
                endings.call_all(answered.status(), answered.content_len());
            }
        }
        match answered.outcome {
            Outcome::HandOver => {
                // The request can no longer be handed over, because it was already read.
                self.refuse_late(&mut io);
                self.end_with_answer(unread, &mut io)
            }
            Outcome::HangUp => self.hang_up(),
            Outcome::Last => self.end_with_answer(unread, &mut io),
            Outcome::Deferred => {
                io.out.mark_unread(unread);
                io.out.on_end_all(endings);
                self.begin_wait(&io)
            }
            Outcome::Replied => {
                self.begin_idle(io.now, io.limits);
                debug_assert!(self.held_back, "held-back input is handled after the reply is sent");
                Next::Flush
            }
        }
    }

    /// Ends the connection after its last reply. `unread` means that a body was not read.
    fn end_with_answer(&mut self, unread: bool, io: &mut Io<'_>) -> Next {
        let is_all = io.carry.is_empty() && !unread;
        io.carry.clear();
        self.phase = Phase::Closing;
        self.deadline = Time::MAX;
        if is_all { Next::CloseClean } else { Next::CloseLinger }
    }
}
