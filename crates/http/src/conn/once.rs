//! The shortest way: a connection that is one remembered request and its reply, without a state of its own.
//!
//! Does not know about: anything that is not over with this one call.

use super::{Conn, Io, Next};
use crate::parse::Seen;
use crate::reply::{Outcome, Persist};
use crate::{Responder, Service};

impl Conn {
    /// Answers the first input of a new connection if that ends the connection: it is all of one remembered head that asks for a
    /// close. The result is what [`Conn::handle_input`] of a new [`Conn`] comes to, which has then had one request and no error;
    /// after [`Next::Wait`] that is made with [`Conn::wait_once`]. After [`Next::HandOver`] no request was answered, and `carry` holds
    /// `fresh`. `None`: nothing was done.
    #[inline(always)]
    pub fn answer_once<S: Service + ?Sized>(
        fresh: &[u8],
        io: Io<'_>,
        service: &S,
        seen: &Seen,
    ) -> Option<Next> {
        let head = seen.find_all(fresh, io.limits).filter(|head| !head.keeps_alive())?;
        let request = Self::request_of(fresh, head, b"", &io);
        let responder = Responder::new(io.out, io.date, Persist::Close, request.is_head());
        match service.call(&request, responder).outcome {
            Outcome::Last | Outcome::Replied => Some(Next::CloseClean),
            seldom => Some(Self::end_seldom(seldom, fresh, io.carry)),
        }
    }

    #[cold]
    #[inline(never)]
    fn end_seldom(outcome: Outcome, fresh: &[u8], carry: &mut Vec<u8>) -> Next {
        match outcome {
            Outcome::Deferred => Next::Wait,
            Outcome::HandOver => {
                carry.extend_from_slice(fresh);
                Next::HandOver
            }
            Outcome::HangUp | Outcome::Last | Outcome::Replied => Next::Close,
        }
    }
}
