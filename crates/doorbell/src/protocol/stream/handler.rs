//! The events of a stream protocol from the view of its handler, and the actions of a handler
//! during an event.

use core::fmt;
use core::time::Duration;
use std::io::Write as _;

use doorbell_http::Client;

use super::conn::{Requested, Wait};
use super::mail::{ConnHandle, Link};
use crate::error::CloseReason;
use crate::offload::{JobContext, Offload};
use crate::time::Time;

/// The handler of a stream protocol. The [module](super) documents the order of its events.
///
/// One value serves all connections of a listener, on all workers. Events of one connection never
/// overlap. A handler must return within about 10 µs; [`Context::run`] is for longer work.
pub trait StreamHandler: Send + Sync + 'static {
    /// The state of one connection.
    type Conn: Send + 'static;

    /// The type of the messages that other threads and jobs send to a connection; `()` if there are
    /// none.
    type Message: Send + 'static;

    /// Creates the state of a connection: at its start if [`Self::speaks_first`] is true, otherwise
    /// directly before its first event. The output of this call precedes all other output.
    fn open(&self, cx: &mut Context<'_, Self>) -> Self::Conn;

    /// Handles received bytes, oldest first, and returns how many it consumed.
    ///
    /// It is called again with the rest, if any, until it returns 0. 0 means that `input` is the
    /// beginning of a frame; the next call has the same bytes, and usually more. After
    /// [`Context::hand_over`], [`Context::notify_writable`] and [`Context::run`], the rest is kept
    /// instead; after [`Context::close`] it is discarded.
    fn data(&self, conn: &mut Self::Conn, input: &[u8], cx: &mut Context<'_, Self>) -> usize;

    /// Handles the peer's FIN; `rest` is the input that was not consumed. Default: closes.
    ///
    /// Output can still be sent. Over TLS, the FIN may be forged, because no `close_notify` is
    /// required: do not treat `rest` as complete.
    fn end(&self, conn: &mut Self::Conn, rest: &[u8], cx: &mut Context<'_, Self>) {
        let _ = (conn, rest);
        cx.close();
    }

    /// Called when all output is sent, after [`Context::notify_writable`]. Default: does nothing.
    fn writable(&self, conn: &mut Self::Conn, cx: &mut Context<'_, Self>) {
        let _ = (conn, cx);
    }

    /// Handles a message of [`ConnHandle::push`](super::ConnHandle::push), or the result of a job.
    /// Default: does nothing.
    fn message(&self, conn: &mut Self::Conn, message: Self::Message, cx: &mut Context<'_, Self>) {
        let _ = (conn, message, cx);
    }

    /// Handles the expiry of a deadline. Default: closes.
    ///
    /// If the handler does not close, the connection waits again: for a full timeout, or as set
    /// with [`Context::set_deadline`]. A late job is abandoned.
    fn timeout(&self, conn: &mut Self::Conn, wait: Wait, cx: &mut Context<'_, Self>) {
        let _ = (conn, wait);
        cx.close();
    }

    /// Handles the drain of the server on a connection between frames: may write a last output. The
    /// connection then closes. Default: no output.
    fn drain(&self, conn: &mut Self::Conn, cx: &mut Context<'_, Self>) {
        let _ = (conn, cx);
    }

    /// Called once when a connection with a state has ended, also after a hand-over or a panic.
    /// Default: drops the state.
    fn closed(&self, conn: Self::Conn, reason: CloseReason) {
        let _ = (conn, reason);
    }

    /// True if the server sends first. The listener then does not defer accept, and
    /// [`Self::open`] is called at once. Default false.
    fn speaks_first(&self) -> bool {
        false
    }

    /// True if the handler needs the peer's address in [`Context::client`], which costs a system
    /// call per connection. Default false.
    fn wants_client(&self) -> bool {
        false
    }
}

/// The connection as a handler uses it during one event: output, deadlines and requests to the
/// engine.
pub struct Context<'a, H: StreamHandler + ?Sized> {
    pub(super) out: &'a mut Vec<u8>,
    pub(super) now: Time,
    pub(super) opened: Time,
    pub(super) client: &'a Client<'a>,
    pub(super) draining: bool,
    pub(super) link: &'a mut Link<H::Message>,
    pub(super) requested: Requested,
}

impl<H: StreamHandler + ?Sized> Context<'_, H> {
    /// Appends bytes to the output, which is sent after this event.
    pub fn write(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends formatted text to the output; `write!(cx, …)` calls it.
    pub fn write_fmt(&mut self, text: fmt::Arguments<'_>) {
        let written = self.out.write_fmt(text);
        debug_assert!(written.is_ok(), "writing to memory does not fail");
    }

    /// The unsent output, to append to, for encoders that need a buffer. Over TLS it may begin with
    /// output of earlier events.
    pub const fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Closes the connection after its output is sent. Further input is discarded.
    pub const fn close(&mut self) {
        self.requested.close = true;
    }

    /// Hands the connection over after its output is sent, with all input that is not consumed.
    ///
    /// A connection over TLS, and a server without [`HandOver`](crate::HandOver), close instead
    /// ([`CloseReason::NotTaken`](crate::CloseReason::NotTaken)).
    pub const fn hand_over(&mut self) {
        self.requested.hand_over = true;
    }

    /// Requests a call of [`StreamHandler::writable`] when all output is sent. Until then no more
    /// input and no message is handled, so a handler can write a large reply in parts. Does nothing
    /// while there is no output.
    pub const fn notify_writable(&mut self) {
        self.requested.writable = !self.out.is_empty();
    }

    /// Sets the deadline of the wait that follows this event, instead of the listener's timeout.
    pub const fn set_deadline(&mut self, deadline: Time) {
        self.requested.deadline = Some(deadline);
    }

    /// Sets the deadline of the wait that follows this event to the time of this event plus
    /// `timeout`.
    pub const fn set_timeout(&mut self, timeout: Duration) {
        self.set_deadline(self.now.after(timeout));
    }

    /// The time of this event. Reading it costs nothing.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// The time at which the connection was accepted, or at which its TLS handshake ended.
    pub const fn opened(&self) -> Time {
        self.opened
    }

    /// The client: its address, its TLS session and the listener. The address may be missing unless
    /// [`StreamHandler::wants_client`] is true.
    pub const fn client(&self) -> &Client<'_> {
        self.client
    }

    /// True while the server drains: the connection closes as soon as no frame is incomplete.
    pub const fn is_draining(&self) -> bool {
        self.draining
    }

    /// A handle with which other threads push messages to this connection.
    ///
    /// The first call for a connection allocates.
    pub fn handle(&mut self) -> ConnHandle<H::Message> {
        self.link.handle()
    }

    /// Runs `job` on a thread of the compute lane; its result arrives as
    /// [`StreamHandler::message`].
    ///
    /// Until then no more input is handled. If the job panics, the connection closes; after the
    /// timeout of `offload`, [`StreamHandler::timeout`] is called.
    ///
    /// # Errors
    /// The queue of the job's class is full, or this connection already has a job.
    pub fn run(
        &mut self,
        offload: &Offload,
        job: impl FnOnce(&JobContext<'_>) -> H::Message + Send + 'static,
    ) -> Result<(), Busy> {
        let deadline = self.link.run(offload, self.now, job).ok_or(Busy)?;
        self.requested.deadline = Some(deadline);
        Ok(())
    }
}

/// A job that was not started: the queue of its class is full, or the connection already has a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue of jobs is full, or this connection already waits for a job")]
pub struct Busy;

impl<H: StreamHandler + ?Sized> fmt::Debug for Context<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("now", &self.now)
            .field("client", &self.client)
            .field("requested", &self.requested)
            .finish_non_exhaustive()
    }
}
