//! A listener's protocol without the type of its handler.

use core::fmt;
use std::sync::Arc;

use doorbell_http::Next;

use super::super::local::{Notify, StreamMemory};
use super::super::{Io, Local, Protocol};
use super::conn::StreamConn;
use super::handler::StreamHandler;
use super::protocol::Stream;
use crate::error::CloseReason;
use crate::id::{ConnId, ListenerIndex};
use crate::time::Time;

/// The protocol of some [`StreamHandler`].
#[derive(Clone)]
pub struct AnyStream(Arc<dyn Protocol<Conn = StreamConn> + Send + Sync>);

impl Protocol for AnyStream {
    type Conn = StreamConn;

    fn speaks_first(&self) -> bool {
        self.0.speaks_first()
    }

    fn wants_client(&self) -> bool {
        self.0.wants_client()
    }

    fn memory(&self, slots_max: u32, notify: &Notify) -> Option<Box<dyn StreamMemory>> {
        self.0.memory(slots_max, notify)
    }

    fn open(&self, now: Time) -> StreamConn {
        self.0.open(now)
    }

    fn identify(&self, conn: &mut StreamConn, id: ConnId) {
        self.0.identify(conn, id);
    }

    fn greet(&self, conn: &mut StreamConn, io: Io<'_>) -> Next {
        self.0.greet(conn, io)
    }

    fn handle_input(&self, conn: &mut StreamConn, fresh: &[u8], io: Io<'_>) -> Next {
        self.0.handle_input(conn, fresh, io)
    }

    fn handle_sent(&self, conn: &mut StreamConn, now: Time) {
        self.0.handle_sent(conn, now);
    }

    fn handle_message(&self, conn: &mut StreamConn, io: Io<'_>) -> Next {
        self.0.handle_message(conn, io)
    }

    fn handle_eof(&self, conn: &mut StreamConn, io: Io<'_>) -> Next {
        self.0.handle_eof(conn, io)
    }

    fn handle_timeout(&self, conn: &mut StreamConn, io: Io<'_>) -> Next {
        self.0.handle_timeout(conn, io)
    }

    fn handle_panic(&self, conn: &mut StreamConn, io: Io<'_>) -> Next {
        self.0.handle_panic(conn, io)
    }

    fn handle_overload(&self, conn: &mut StreamConn, reason: CloseReason, io: Io<'_>) -> Next {
        self.0.handle_overload(conn, reason, io)
    }

    fn handle_drain(&self, conn: &mut StreamConn, io: Io<'_>) -> Next {
        self.0.handle_drain(conn, io)
    }

    fn handle_closed(
        &self,
        conn: &StreamConn,
        listener: ListenerIndex,
        local: &mut Local,
        reason: CloseReason,
    ) {
        self.0.handle_closed(conn, listener, local, reason);
    }

    fn deadline(&self, conn: &StreamConn) -> Time {
        self.0.deadline(conn)
    }

    fn requests(&self, conn: &StreamConn) -> u32 {
        self.0.requests(conn)
    }

    fn has_served(&self, conn: &StreamConn) -> bool {
        self.0.has_served(conn)
    }

    fn is_idle(&self, conn: &StreamConn) -> bool {
        self.0.is_idle(conn)
    }

    fn has_begun_reply(&self, conn: &StreamConn) -> bool {
        self.0.has_begun_reply(conn)
    }

    fn close_reason(&self, conn: &StreamConn) -> CloseReason {
        self.0.close_reason(conn)
    }
}

#[cfg(feature = "tls")]
impl<H: StreamHandler> Stream<H> {
    /// Wraps this protocol in TLS.
    pub fn tls(self, acceptor: crate::tls::Acceptor) -> super::super::Tls<AnyStream> {
        super::super::Tls::new(self.into(), acceptor)
    }
}

impl<H: StreamHandler> From<Stream<H>> for AnyStream {
    fn from(stream: Stream<H>) -> Self {
        Self(Arc::new(stream))
    }
}

impl fmt::Debug for AnyStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyStream")
    }
}
