//! A handler as a listener's protocol: its limits, and its events as the worker reports them.
//!
//! Does not know about: sockets, the worker, the step after an event (see `event.rs`).

use core::any::Any;
use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use doorbell_http::Next;

use super::super::local::{Notify, StreamMemory};
use super::super::{Io, Local, Protocol};
use super::conn::{After, Requested, StreamConn, Wait};
use super::event::ConnEvent;
use super::handler::StreamHandler;
use super::mail::MessageCounters;
use super::memory::Memory;
use crate::error::CloseReason;
use crate::id::{ConnId, ListenerIndex};
use crate::time::Time;

/// The protocol of a [`StreamHandler`], with the limits of its connections.
#[derive(Clone)]
pub struct Stream<H> {
    pub(super) handler: H,
    first_timeout: Duration,
    frame_timeout: Duration,
    idle_timeout: Duration,
    pub(super) frame_bytes_max: usize,
    pub(super) output_bytes_max: usize,
    messages_max: u32,
    counters: MessageCounters,
}

impl<H: StreamHandler> Stream<H> {
    /// Creates a protocol with default limits.
    pub fn new(handler: H) -> Self {
        Self {
            handler,
            first_timeout: Duration::from_secs(10),
            frame_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            frame_bytes_max: 64 * 1024,
            output_bytes_max: 64 * 1024,
            messages_max: 64,
            counters: MessageCounters::default(),
        }
    }

    /// Sets the maximum time until the client's first byte, also if the server sends first. Default
    /// 10 s.
    #[must_use]
    pub fn first_timeout(mut self, timeout: Duration) -> Self {
        self.first_timeout = timeout;
        self
    }

    /// Sets the maximum time from the first to the last byte of a frame. Default 10 s.
    #[must_use]
    pub fn frame_timeout(mut self, timeout: Duration) -> Self {
        self.frame_timeout = timeout;
        self
    }

    /// Sets the maximum time from a frame to the first byte of the next one. Default 60 s.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Sets the length from which an incomplete frame closes its connection. Default 64 KiB.
    ///
    /// All incomplete frames together are limited by
    /// [`Limits::input_bytes_max`](crate::Limits::input_bytes_max).
    #[must_use]
    pub fn frame_bytes_max(mut self, bytes: usize) -> Self {
        self.frame_bytes_max = bytes.max(1);
        self
    }

    /// Sets the length of unsent output from which no further frame or message of a connection is
    /// handled until the output is sent. Default 64 KiB. A single frame may write more; see
    /// [`Context::notify_writable`](super::Context::notify_writable).
    #[must_use]
    pub fn output_bytes_max(mut self, bytes: usize) -> Self {
        self.output_bytes_max = bytes.max(1);
        self
    }

    /// Sets the maximum number of pushed messages that wait for one connection. Default 64.
    #[must_use]
    pub fn messages_max(mut self, messages: u32) -> Self {
        self.messages_max = messages;
        self
    }

    /// Returns the counters of pushed messages. They are never reset.
    pub fn message_counters(&self) -> MessageCounters {
        self.counters.clone()
    }

    /// The memory of a test with one connection, which runs jobs on the calling thread.
    pub(crate) fn memory_of_test(&self, id: ConnId) -> Box<dyn StreamMemory> {
        let notify: Notify = Arc::new(|| ());
        let mut memory = Memory::<H>::new(1, &notify, self.counters.clone(), self.messages_max);
        memory.slot(id).link.runs_jobs_here = true;
        Box::new(memory)
    }

    const fn timeout_of(&self, wait: Wait) -> Duration {
        match wait {
            Wait::First => self.first_timeout,
            Wait::Frame => self.frame_timeout,
            Wait::Idle => self.idle_timeout,
            // The deadline of a job comes from its `Offload`.
            Wait::Job => Duration::MAX,
        }
    }
}

impl<H: StreamHandler> Stream<H> {
    /// Begins an event. Also returns the input, which an event does not change. `None` if `local`
    /// has no [`Memory`] of the listener, which never happens for a listener of this protocol.
    fn begin<'a>(
        &'a self,
        conn: &'a mut StreamConn,
        io: Io<'a>,
    ) -> Option<(ConnEvent<'a, H>, &'a mut Vec<u8>)> {
        let Io { now, input, out, draining, local, client, .. } = io;
        let listener = ListenerIndex(client.listener()?);
        let memory: &mut dyn Any = local.stream(listener)?;
        let slot = memory.downcast_mut::<Memory<H>>()?.slot(conn.id?);
        let (out, requested) =
            (&mut out.head, Requested { writable: conn.wants_writable, ..Requested::default() });
        conn.earlier_len = out.len();
        Some((
            ConnEvent { stream: self, conn, slot, out, client, now, draining, requested, restarts: false },
            input,
        ))
    }

    /// Begins the full timeout of the current wait.
    pub(super) fn restart(&self, conn: &mut StreamConn, now: Time) {
        conn.deadline = now.after(self.timeout_of(conn.wait));
        conn.is_own_deadline = false;
    }

    /// Handles an event other than input, and decides the next step.
    fn event(
        &self,
        conn: &mut StreamConn,
        io: Io<'_>,
        after: After,
        handle: impl FnOnce(&mut ConnEvent<'_, H>, &[u8]),
    ) -> Next {
        let Some((mut event, input)) = self.begin(conn, io) else { return Next::Close };
        handle(&mut event, input);
        event.next(after, input.len())
    }
}

impl<H: StreamHandler> Protocol for Stream<H> {
    type Conn = StreamConn;

    fn speaks_first(&self) -> bool {
        self.handler.speaks_first()
    }

    fn wants_client(&self) -> bool {
        self.handler.wants_client()
    }

    fn memory(&self, slots_max: u32, notify: &Notify) -> Option<Box<dyn StreamMemory>> {
        let counters = self.counters.clone();
        Some(Box::new(Memory::<H>::new(slots_max, notify, counters, self.messages_max)))
    }

    fn open(&self, now: Time) -> StreamConn {
        StreamConn::new(now, now.after(self.first_timeout))
    }

    fn identify(&self, conn: &mut StreamConn, id: ConnId) {
        conn.id = Some(id);
    }

    fn greet(&self, conn: &mut StreamConn, io: Io<'_>) -> Next {
        self.event(conn, io, After::Open, |event, _| event.open())
    }

    fn handle_input(&self, conn: &mut StreamConn, fresh: &[u8], io: Io<'_>) -> Next {
        let Some((mut event, input)) = self.begin(conn, io) else { return Next::Close };
        if fresh.is_empty() {
            event.resume();
        }
        let mut rest = 0;
        if input.is_empty() {
            let used = event.frames(fresh);
            rest += fresh.len() - used;
            if rest != 0 {
                input.extend_from_slice(&fresh[used..]);
            }
        } else {
            input.extend_from_slice(fresh);
            let used = event.frames(input);
            rest += input.len() - used;
            input.drain(..used);
        }
        let after = if event.end(input) { After::End } else { After::Data };
        event.next(after, rest)
    }

    fn handle_sent(&self, conn: &mut StreamConn, now: Time) {
        if matches!(conn.wait, Wait::Frame | Wait::Idle) && !conn.is_own_deadline {
            self.restart(conn, now);
        }
    }

    fn handle_message(&self, conn: &mut StreamConn, io: Io<'_>) -> Next {
        self.event(conn, io, After::Message, |event, _| event.messages())
    }

    fn handle_eof(&self, conn: &mut StreamConn, io: Io<'_>) -> Next {
        let Some((mut event, input)) = self.begin(conn, io) else { return Next::Close };
        if event.slot.conn.is_none() {
            // No event has occurred, so the handler has no state of the connection.
            event.conn.end(Next::Close, CloseReason::ClientFin);
            return Next::Close;
        }
        event.conn.peer_finished = true;
        event.end(input);
        event.next(After::End, input.len())
    }

    fn handle_timeout(&self, conn: &mut StreamConn, io: Io<'_>) -> Next {
        let wait = conn.wait;
        let reason = match wait {
            Wait::First | Wait::Idle => CloseReason::IdleTimeout,
            Wait::Frame => CloseReason::HeaderTimeout,
            Wait::Job => CloseReason::JobTimeout,
        };
        let Some((mut event, input)) = self.begin(conn, io) else { return Next::Close };
        event.slot.link.give_up_job();
        event.call(|handler, state, cx| handler.timeout(state, wait, cx));
        let answered = !event.out.is_empty();
        let next = event.next(After::Timeout, input.len());
        if event.conn.reason == CloseReason::Done && event.conn.ending.is_some() && !answered {
            event.conn.reason = reason;
        }
        next
    }

    fn handle_panic(&self, conn: &mut StreamConn, io: Io<'_>) -> Next {
        // Over TLS, `io.out` may still contain output of earlier events.
        io.out.head.truncate(conn.earlier_len);
        conn.ending = None;
        conn.end(Next::CloseLinger, CloseReason::HandlerPanic);
        Next::CloseLinger
    }

    fn handle_overload(&self, conn: &mut StreamConn, reason: CloseReason, io: Io<'_>) -> Next {
        io.input.clear();
        // The output written before a refused hand-over is still sent. Any other overload discards
        // the output.
        if reason != CloseReason::NotTaken {
            io.out.head.clear();
        }
        conn.ending = None;
        conn.end(Next::Close, reason);
        Next::Close
    }

    fn handle_drain(&self, conn: &mut StreamConn, io: Io<'_>) -> Next {
        let Some((mut event, _)) = self.begin(conn, io) else { return Next::CloseLinger };
        if event.slot.conn.is_some() {
            event.call(|handler, state, cx| handler.drain(state, cx));
        }
        event.conn.end(Next::CloseLinger, CloseReason::Done);
        Next::CloseLinger
    }

    fn handle_closed(
        &self,
        conn: &StreamConn,
        listener: ListenerIndex,
        local: &mut Local,
        reason: CloseReason,
    ) {
        let memory: Option<&mut dyn Any> = local.stream(listener).map(|memory| memory as _);
        let memory = memory.and_then(<dyn Any>::downcast_mut::<Memory<H>>);
        if let Some(state) = memory.zip(conn.id).and_then(|(memory, id)| memory.end(id)) {
            self.handler.closed(state, reason);
        }
    }

    fn deadline(&self, conn: &StreamConn) -> Time {
        conn.deadline
    }

    fn requests(&self, conn: &StreamConn) -> u32 {
        conn.requests
    }

    fn has_served(&self, conn: &StreamConn) -> bool {
        conn.requests > 0 || conn.was_pushed
    }

    fn is_idle(&self, conn: &StreamConn) -> bool {
        // Between the parts of a reply a close would make a partial reply look complete.
        matches!(conn.wait, Wait::First | Wait::Idle) && !conn.is_busy
    }

    fn has_begun_reply(&self, conn: &StreamConn) -> bool {
        conn.wants_writable
    }

    fn close_reason(&self, conn: &StreamConn) -> CloseReason {
        conn.reason
    }
}

impl<H> fmt::Debug for Stream<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("frame_bytes_max", &self.frame_bytes_max)
            .field("messages_max", &self.messages_max)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use doorbell_http::{Client, Date, Out};

    use super::super::handler::Context;
    use super::*;
    use crate::id::{Generation, SlotIndex};

    const IDLE: Duration = Duration::from_secs(5);

    /// Replies to each byte with two parts.
    struct TwoParts;

    impl StreamHandler for TwoParts {
        type Conn = ();
        type Message = ();

        fn open(&self, _cx: &mut Context<'_, Self>) {}

        fn data(&self, _conn: &mut (), _input: &[u8], cx: &mut Context<'_, Self>) -> usize {
            cx.write(b"one ");
            cx.notify_writable();
            1
        }

        fn writable(&self, _conn: &mut (), cx: &mut Context<'_, Self>) {
            cx.write(b"two\n");
        }
    }

    /// A connection of a stream protocol, and the memory of its worker.
    struct Stand {
        stream: Stream<TwoParts>,
        conn: StreamConn,
        local: Local,
        input: Vec<u8>,
    }

    impl Stand {
        fn new(stream: Stream<TwoParts>) -> Self {
            let notify: Notify = Arc::new(|| ());
            let (mut conn, local) = (stream.open(Time::ZERO), Local::of(vec![stream.memory(1, &notify)]));
            stream.identify(&mut conn, ConnId { slot: SlotIndex(0), generation: Generation::new(0) });
            Self { stream, conn, local, input: Vec::new() }
        }

        /// Passes `fresh` to the protocol, with the clock at `second` seconds. An empty input means
        /// that all output was sent.
        fn input(&mut self, second: u64, fresh: &[u8]) -> (Next, Vec<u8>) {
            self.event(second, |stream, conn, io| stream.handle_input(conn, fresh, io))
        }

        /// Reports the expiry of the deadline.
        fn timeout(&mut self, second: u64) -> (Next, Vec<u8>) {
            self.event(second, Protocol::handle_timeout)
        }

        fn event(
            &mut self,
            second: u64,
            event: impl FnOnce(&Stream<TwoParts>, &mut StreamConn, Io<'_>) -> Next,
        ) -> (Next, Vec<u8>) {
            let mut out = Out::new();
            let io = Io {
                now: Time::ZERO.after(Duration::from_secs(second)),
                date: &Date::new(0),
                input: &mut self.input,
                out: &mut out,
                draining: false,
                local: &mut self.local,
                client: &Client::UNKNOWN.with_listener(0),
            };
            let next = event(&self.stream, &mut self.conn, io);
            (next, out.head)
        }
    }

    #[test]
    fn a_reply_in_parts_is_neither_drained_nor_counted_as_idle_time() {
        let mut stand = Stand::new(Stream::new(TwoParts).idle_timeout(IDLE));
        assert_eq!(stand.input(1, b"a"), (Next::Flush, b"one ".to_vec()));
        assert!(!stand.stream.is_idle(&stand.conn), "a drain would cut the reply");
        assert_eq!(stand.input(60, b""), (Next::Read, b"two\n".to_vec()));
        assert!(stand.stream.is_idle(&stand.conn));
        assert_eq!(stand.stream.deadline(&stand.conn).since(Time::ZERO), Duration::from_secs(65));
    }

    /// A handler that closes at a deadline between two parts has not written the rest of its reply.
    #[test]
    fn a_reply_in_parts_that_a_deadline_ends_is_cut() {
        let mut stand = Stand::new(Stream::new(TwoParts).idle_timeout(IDLE));
        assert_eq!(stand.input(1, b"a").0, Next::Flush);
        assert_eq!(stand.timeout(60).0, Next::CloseLinger);
        assert!(stand.stream.has_begun_reply(&stand.conn));

        let mut stand = Stand::new(Stream::new(TwoParts).idle_timeout(IDLE));
        assert_eq!((stand.input(1, b"a").0, stand.input(2, b"").0), (Next::Flush, Next::Read));
        assert_eq!(stand.timeout(60).0, Next::CloseLinger);
        assert!(!stand.stream.has_begun_reply(&stand.conn), "both parts are written");
    }

    /// The table of a worker has its address space from the start, and states are not boxed.
    #[test]
    fn a_connection_allocates_nothing_to_be_accepted() {
        let mut stand = Stand::new(Stream::new(TwoParts));
        let StreamConn { id, .. } = stand.conn;
        let memory: &mut dyn Any = stand.local.stream(ListenerIndex(0)).unwrap();
        let memory = memory.downcast_mut::<Memory<TwoParts>>().unwrap();
        let count = allocation_counter::measure(|| {
            let slot = memory.slot(id.unwrap());
            slot.conn = Some(());
            assert!(memory.end(id.unwrap()).is_some());
        });
        assert_eq!(count.count_total, 0);
    }
}
