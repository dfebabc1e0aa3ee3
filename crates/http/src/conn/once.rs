//! The fastest path: a new connection with a single cached request and its reply, without
//! connection state.

use super::{Conn, Io, Next};
use crate::parse::Seen;
use crate::reply::{Outcome, Persist};
use crate::{Responder, Service};

impl Conn {
    /// Handles the first input of a new connection if the input is exactly one cached head that
    /// closes the connection. Otherwise returns `None` without any effect. The result is that of
    /// [`Conn::handle_input`] on a new [`Conn`], which would then have one request and no error.
    /// After [`Next::Wait`], call [`Conn::wait_once`] on a new [`Conn`]. After [`Next::HandOver`],
    /// the request has no reply, and `carry` contains `fresh`.
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
            uncommon => Some(Self::end_uncommon(uncommon, fresh, io.carry)),
        }
    }

    #[cold]
    #[inline(never)]
    fn end_uncommon(outcome: Outcome, fresh: &[u8], carry: &mut Vec<u8>) -> Next {
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
