//! The usual exchange, in one pass: bytes came, the protocol answers, the reply is sent, and the connection is closed or waits.
//!
//! Does not know about: anything unusual. What does not complete at once goes on in [`super::apply`], from where it stands.

use doorbell_http::Next;

use super::Worker;
use super::apply::Todo;
use super::say::Input;
use crate::conn::Phase;
use crate::driver::{Chunk, Driver, Errno, Expect, Received, Sent, Step};
use crate::id::ConnId;
use crate::time::Clock;

impl<D: Driver, C: Clock> Worker<D, C> {
    /// A connection whose bytes should be there: a fresh one of a listener that defers accept, or one that is ready.
    #[inline(always)]
    pub(super) fn begin(&mut self, id: ConnId) {
        match self.driver.recv(id, Expect::Now) {
            Step::Done(Received::Data { chunk, drained }) => self.exchange(id, chunk, drained),
            Step::Done(received) => self.drive(id, Todo::Received(received)),
            Step::Pending => {
                self.table.live_mut(id).recv_in_flight = true;
                self.park(id);
            }
        }
    }

    /// What a connection waits for can be read.
    #[inline]
    pub(super) fn on_ready(&mut self, id: ConnId) {
        let Some(conn) = self.table.lookup(id) else {
            self.shared.counters.stale_completions.add(1);
            return;
        };
        conn.recv_in_flight = false;
        if conn.phase() == Phase::Open && !conn.send_in_flight {
            self.begin(id);
        } else {
            self.drive(id, Todo::Recv(Expect::Now));
        }
    }

    /// Bytes of an open connection with nothing in flight.
    pub(super) fn exchange(&mut self, id: ConnId, chunk: Chunk, drained: bool) {
        self.shared.counters.bytes_in.add(u64::from(chunk.len));
        let conn = self.table.live_mut(id);
        conn.heard = true;
        conn.drained = drained;
        let (speaker, conn, driver) = self.speaker(id);
        let next = speaker.say(conn, Input::Bytes(driver.received(&chunk)));
        self.driver.recycle(chunk);
        let closes = match next {
            Next::Close | Next::CloseClean if drained => true,
            Next::Read => false,
            Next::Close | Next::CloseClean | Next::CloseLinger | Next::Flush | Next::Wait => {
                return self.go_on(id, next, None);
            }
        };
        let reply = &mut self.buffers.reply;
        if !reply.body.is_empty() {
            return self.go_on(id, next, None);
        }
        if !reply.head.is_empty() {
            let more = closes && self.server.tuning.send_more;
            let outcome = self.driver.send_now(id, &reply.head, more);
            if outcome != Some(Ok(reply.head.len())) {
                return self.go_on(id, next, outcome);
            }
            self.shared.counters.bytes_out.add(reply.head.len() as u64);
            reply.clear();
            self.table.live_mut(id).replied = true;
        }
        if closes { self.finish(id) } else { self.read_on(id, drained) }
    }

    /// The connection is answered, and nothing is in flight: close it.
    #[inline(always)]
    fn finish(&mut self, id: ConnId) {
        let reason = self.reason_of(id);
        self.table.live_mut(id).begin_close(reason);
        if let Step::Done(()) = self.driver.close(id) {
            self.forget(id);
        }
    }

    #[inline(always)]
    fn read_on(&mut self, id: ConnId, drained: bool) {
        if !drained {
            return self.drive(id, Todo::Recv(Expect::Now));
        }
        match self.driver.recv(id, Expect::Later) {
            Step::Done(received) => self.drive(id, Todo::Received(received)),
            Step::Pending => {
                self.table.live_mut(id).recv_in_flight = true;
                self.park(id);
            }
        }
    }

    /// The way with all its turns, from after the protocol spoke. `outcome` is what became of a first attempt to send.
    #[cold]
    fn go_on(&mut self, id: ConnId, next: Next, outcome: Option<Result<usize, Errno>>) {
        self.buffers.move_reply(&mut self.table.live_mut(id).out);
        let Some(result) = outcome else { return self.drive(id, Todo::Next(next)) };
        let _flush = self.follow(id, next);
        let Some(buf) = self.take_output(id) else { return self.drive(id, Todo::AfterSend) };
        self.drive(id, Todo::Sent(Sent { result, buf }));
    }
}
