//! One event of a connection: the calls of its handler, and the step that follows.
//!
//! Does not know about: which event the worker reports (see `protocol.rs`), sockets.

use doorbell_http::{Client, Next};

use super::conn::{After, Requested, StreamConn, Wait};
use super::handler::{Context, StreamHandler};
use super::mail::Due;
use super::memory::Slot;
use super::protocol::Stream;
use crate::error::CloseReason;
use crate::time::Time;

/// One event of one connection: the state that the handler's calls use.
pub(super) struct ConnEvent<'a, H: StreamHandler> {
    pub(super) stream: &'a Stream<H>,
    pub(super) conn: &'a mut StreamConn,
    pub(super) slot: &'a mut Slot<H>,
    pub(super) out: &'a mut Vec<u8>,
    pub(super) client: &'a Client<'a>,
    pub(super) now: Time,
    pub(super) draining: bool,
    pub(super) requested: Requested,
    /// True if the timeout of the next wait starts anew: a frame was consumed, or the output of
    /// earlier frames has been sent.
    pub(super) restarts: bool,
}

impl<H: StreamHandler> ConnEvent<'_, H> {
    /// Calls the handler, with the state of the connection, which is first created if necessary.
    /// `None` if the connection ends or is handed over, so that no event may follow.
    pub(super) fn call<R>(
        &mut self,
        event: impl FnOnce(&H, &mut H::Conn, &mut Context<'_, H>) -> R,
    ) -> Option<R> {
        self.open();
        if self.ends() {
            return None;
        }
        self.with_context(|handler, state, cx| Some(event(handler, state.as_mut()?, cx)))
    }

    /// Creates the state of the connection, unless it exists.
    pub(super) fn open(&mut self) {
        if self.slot.conn.is_none() && self.conn.ending.is_none() {
            self.with_context(|handler, state, cx| *state = Some(handler.open(cx)));
        }
    }

    fn with_context<R>(
        &mut self,
        call: impl FnOnce(&H, &mut Option<H::Conn>, &mut Context<'_, H>) -> R,
    ) -> R {
        let Slot { conn: state, link, .. } = &mut *self.slot;
        let mut cx = Context {
            out: self.out,
            now: self.now,
            opened: self.conn.opened,
            client: self.client,
            draining: self.draining,
            link,
            requested: self.requested,
        };
        let result = call(&self.stream.handler, state, &mut cx);
        self.requested = cx.requested;
        result
    }

    const fn ends(&self) -> bool {
        self.conn.ending.is_some() || self.requested.close || self.requested.hand_over
    }

    /// True if the output must be sent before anything else is handled.
    fn is_full(&self) -> bool {
        self.out.len() >= self.stream.output_bytes_max
    }

    /// True if no more input may be handled now.
    fn stops(&self) -> bool {
        self.conn.ending.is_some() || self.requested.stops() || self.slot.link.has_job() || self.is_full()
    }

    /// Passes input to the handler, frame by frame, and returns the number of consumed bytes.
    pub(super) fn frames(&mut self, input: &[u8]) -> usize {
        self.open();
        let mut at = 0;
        while at < input.len() && !self.stops() {
            let rest = &input[at..];
            let used = self.call(|handler, state, cx| handler.data(state, rest, cx)).unwrap_or(0);
            debug_assert!(used <= rest.len(), "a handler consumes at most what it gets");
            if used == 0 {
                break;
            }
            at += used.min(rest.len());
            self.conn.requests += 1;
            self.restarts = true;
        }
        at
    }

    /// Reports the end of input to the handler, once, after all earlier frames and messages.
    /// Returns true if this call reported it.
    pub(super) fn end(&mut self, rest: &[u8]) -> bool {
        if !self.conn.peer_finished || self.conn.end_handled || self.stops() {
            return false;
        }
        self.conn.end_handled = true;
        self.call(|handler, state, cx| handler.end(state, rest, cx)).is_some()
    }

    /// Continues after all output was sent.
    pub(super) fn resume(&mut self) {
        self.restarts |= core::mem::take(&mut self.conn.is_busy) && !self.conn.is_own_deadline;
        if self.conn.wants_writable {
            self.requested.writable = false;
            self.call(|handler, state, cx| handler.writable(state, cx));
            // Cleared after the call: if the handler panics, the reply stays marked as incomplete.
            self.conn.wants_writable = false;
        }
        self.messages();
    }

    /// Passes messages to the handler, but none between the parts of a reply.
    pub(super) fn messages(&mut self) {
        while !self.ends()
            && !self.requested.writable
            && !self.is_full()
            && let Some(mail) = self.slot.link.next_mail()
        {
            self.conn.was_pushed |= matches!(mail, Due::Pushed(_));
            match mail {
                Due::Pushed(message) | Due::Result(message) => {
                    self.call(|handler, state, cx| handler.message(state, message, cx));
                }
                Due::JobFailed => self.conn.end(Next::CloseLinger, CloseReason::HandlerPanic),
            }
        }
    }

    /// Decides the step after an event that left `rest` bytes of input unconsumed.
    pub(super) fn next(&mut self, after: After, rest: usize) -> Next {
        // A handler that closes cannot request another part. A part that an earlier event requested
        // stays recorded and marks the reply as incomplete.
        if !self.requested.close {
            self.conn.wants_writable = self.requested.writable;
        }
        self.conn.requests +=
            u32::from(self.requested.close && self.conn.requests == 0 && !self.out.is_empty());
        if self.requested.close {
            let reason = match after {
                After::End if rest == 0 => CloseReason::ClientFin,
                After::End => CloseReason::ClientGone,
                After::Data | After::Message | After::Open | After::Timeout => CloseReason::Done,
            };
            self.conn.end(self.last_step(after, rest), reason);
        }
        // Only then is the rest an incomplete frame: after other events, and while no more input
        // may be handled, it may contain frames that the handler has not seen yet.
        let is_incomplete = after == After::Data && !self.stops();
        if is_incomplete && rest >= self.stream.frame_bytes_max {
            self.conn.end(Next::CloseLinger, CloseReason::Refused);
        }
        if is_incomplete && self.draining && rest == 0 && self.conn.requests > 0 {
            self.conn.end(Next::CloseLinger, CloseReason::Done);
        }
        if let Some(last) = self.conn.ending {
            return last;
        }
        if self.requested.hand_over {
            self.conn.deadline = Time::MAX;
            return Next::HandOver;
        }
        let has_job = self.slot.link.has_job();
        self.wait(after, rest, has_job);
        self.conn.is_busy |= self.conn.wants_writable || self.is_full();
        match after {
            // This also applies during a job, because messages that precede its result may write
            // output.
            _ if self.conn.is_busy => Next::Flush,
            _ if has_job => Next::Wait,
            // `Flush` also handles input that arrived before the message, or during a job that is
            // now abandoned; `Read` would wait for new bytes.
            After::Message | After::Timeout => Next::Flush,
            // Another receive would report the same end.
            _ if self.conn.peer_finished => Next::Wait,
            After::Data | After::End | After::Open => Next::Read,
        }
    }

    /// The last step of a connection that its handler has closed.
    const fn last_step(&self, after: After, rest: usize) -> Next {
        match after {
            After::Data if rest == 0 => Next::CloseClean,
            After::End => Next::CloseClean,
            // The peer may still send, and a reset would destroy the output.
            After::Data | After::Message | After::Open | After::Timeout => Next::CloseLinger,
        }
    }

    /// Sets the deadline of the wait that follows.
    fn wait(&mut self, after: After, rest: usize, has_job: bool) {
        let wait = match rest {
            _ if has_job => Wait::Job,
            0 if self.conn.requests == 0 => Wait::First,
            0 => Wait::Idle,
            _ => Wait::Frame,
        };
        let is_new = wait != self.conn.wait || self.restarts || after == After::Timeout;
        self.conn.wait = wait;
        match self.requested.deadline {
            Some(deadline) => (self.conn.deadline, self.conn.is_own_deadline) = (deadline, true),
            None if is_new && wait != Wait::Job => self.stream.restart(self.conn, self.now),
            None => {}
        }
    }
}
