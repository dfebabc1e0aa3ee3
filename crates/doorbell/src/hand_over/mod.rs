//! Hand-over of connections that the ring lane does not serve: the receiver and the limit.
//!
//! A protocol decides to hand a connection over
//! ([`Responder::hand_over`](doorbell_http::Responder::hand_over),
//! [`RawNext::HandOver`](crate::RawNext::HandOver)). The worker sends pending output, detaches the
//! connection from the driver and gives the descriptor and all bytes that were read but not
//! processed to the [`Taker`], together with all other connections that are handed over in the
//! turn. Each connection has a [`Permit`], which its new owner drops together with the connection.
//! Permits limit the number of connections handed over.
//!
//! Options of a connection before and after the hand-over:
//!
//! | option | in the ring lane | handed over |
//! |---|---|---|
//! | `TCP_USER_TIMEOUT` | 15 s, or twice the time of [`Listen::keepalive`](crate::Listen::keepalive) if that is longer: a peer that does not acknowledge, or keeps its window closed, is dropped | off: the new owner decides how long a client may pause |
//! | `SO_SNDBUF`, `SO_RCVBUF` | [`Listen::send_buf_len`](crate::Listen::send_buf_len), [`Listen::recv_buf_len`](crate::Listen::recv_buf_len) | autotuned by the kernel from that value on; unchanged before Linux 5.14 |
//! | `TCP_NODELAY` | [`Listen::nodelay`](crate::Listen::nodelay), on by default | unchanged: if on, each write is sent at once, without waiting for an acknowledgement |
//! | `O_NONBLOCK` | set with epoll, not set with io_uring | set |
//!
//! Options that come from a listener of another program are not changed.

mod gate;

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::os::fd::OwnedFd;
use std::sync::Arc;

pub(crate) use gate::Gate;
pub use gate::Permit;

use doorbell_http::Peer;
use rustix::net::AddressFamily;

use crate::id::ListenerIndex;

/// A connection that is handed over.
#[derive(Debug)]
pub struct HandedConn {
    /// The connection: non-blocking, close-on-exec.
    pub fd: OwnedFd,
    /// Bytes that were read but not processed, oldest first. These bytes precede all bytes read
    /// from `fd`.
    pub bytes: Vec<u8>,
    /// The listener that accepted the connection.
    pub listener: ListenerIndex,
    /// The client's address, if it was looked up: the source in a trusted PROXY protocol header,
    /// otherwise the peer.
    pub client: Option<IpAddr>,
    /// Time left for the client's current TLS handshake or request. The new owner should not allow
    /// the client more time. The wait for a permit is not deducted.
    pub time_left: Duration,
    /// The permit of the connection, which counts towards the limit. Drop it together with the
    /// connection.
    pub permit: Permit,
}

impl HandedConn {
    /// The client's address, or the peer's address if [`client`](Self::client) is `None`. Makes up
    /// to two system calls.
    pub fn peer(&self) -> Peer {
        let addr = self.client.or_else(|| self.peer_addr().map(|peer| peer.ip().to_canonical()));
        match addr {
            Some(addr) => Peer::Addr(addr),
            // A missing address does not identify a Unix socket: a connection that was reset also
            // has no address.
            None if self.is_unix() => Peer::Unix,
            None => Peer::Unknown,
        }
    }

    fn is_unix(&self) -> bool {
        rustix::net::getsockname(&self.fd).is_ok_and(|own| own.address_family() == AddressFamily::UNIX)
    }

    /// The peer's address, read with a system call. `None` for Unix sockets and after a reset.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        SocketAddr::try_from(rustix::net::getpeername(&self.fd).ok().flatten()?).ok()
    }
}

/// A receiver of connections from worker threads.
///
/// A worker calls it at most once per turn, with all connections that are handed over in the turn,
/// so waking a task in each call is cheap enough.
pub trait Taker: Send + Sync {
    /// Takes the connections. Connections that are left in `conns` are closed, also after a panic
    /// of this method. Such a panic counts as a panic of a handler. Must not block.
    fn take(&self, conns: &mut Vec<HandedConn>);
}

/// Treatment of a connection that should be handed over while the limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The connection is refused as under any overload: a 503 with `Retry-After` in HTTP, GOAWAY in
    /// HTTP/2, an alert in TLS. Probes on the same listener are still served.
    Refuse,
    /// The connection waits in its slot. While more than `conns` connections of a worker wait,
    /// the worker does not accept on their listeners: further clients, including probes on the same
    /// listener, wait in the backlog. After `timeout` a waiting connection is refused.
    Wait {
        /// Number of waiting connections up to which a worker accepts on all its listeners.
        conns: u32,
        /// Maximum waiting time.
        timeout: Duration,
    },
}

/// The receiver of connections that the ring lane does not serve, and its limit.
///
/// Passed to [`ServerBuilder::hand_over`](crate::ServerBuilder::hand_over).
#[derive(Clone)]
pub struct HandOver {
    pub(crate) taker: Arc<dyn Taker>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) when_full: WhenFull,
    pub(crate) answer_before_body: bool,
}

impl HandOver {
    /// Creates a hand-over to `taker`, with default settings.
    pub fn new(taker: impl Taker + 'static) -> Self {
        Self {
            taker: Arc::new(taker),
            gate: Arc::new(Gate::new(16_384)),
            when_full: WhenFull::Refuse,
            answer_before_body: false,
        }
    }

    /// Sets the maximum number of connections that are handed over and not yet dropped by their new
    /// owners. Default 16,384. The server lowers it to what `RLIMIT_NOFILE` allows.
    #[must_use]
    pub fn conns_max(self, conns: u32) -> Self {
        self.gate.set_max(conns);
        self
    }

    /// Shares the count of a predecessor
    /// ([`ServerBuilder::succeed`](crate::ServerBuilder::succeed)): while both servers run, the
    /// connections of each count towards the caps of both. Call this method before
    /// [`places`](Self::places).
    #[must_use]
    pub fn share_count(mut self, before: &HandedCount) -> Self {
        self.gate = Arc::new(before.gate.with_same_count(self.gate.max()));
        self
    }

    /// Sets the treatment of connections at the limit. Default [`WhenFull::Refuse`].
    #[must_use]
    pub const fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Sets [`answer_before_body`](doorbell_http::Limits::answer_before_body) for every HTTP
    /// listener without TLS: handlers, including closures and handlers behind layers, can then hand
    /// over requests with bodies by [`Responder::hand_over`](crate::Responder::hand_over).
    #[must_use]
    pub const fn answer_before_body(mut self) -> Self {
        self.answer_before_body = true;
        self
    }

    /// Calls `wake` when a connection waits and the limit has room again. A server registers its
    /// workers automatically; call this only to drive a [`Worker`](crate::worker::Worker) directly.
    pub fn on_room(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.gate.on_room(Box::new(wake));
    }

    /// Returns a handle that shows the count and the limit, and can refuse further hand-overs.
    pub fn places(&self) -> HandedCount {
        HandedCount { gate: Arc::clone(&self.gate) }
    }
}

/// The count and the limit of connections that are handed over.
#[derive(Clone, Debug)]
pub struct HandedCount {
    gate: Arc<Gate>,
}

impl HandedCount {
    /// Number of connections handed over and still open, including those of servers that share the
    /// [count](HandOver::share_count).
    pub fn out(&self) -> u32 {
        self.gate.out()
    }

    /// Maximum number of connections that are handed over.
    pub fn max(&self) -> u32 {
        self.gate.max()
    }

    /// Takes a permit for a connection that the caller hands over itself. `None` at the limit, and
    /// after [`Self::close`].
    pub fn take(&self) -> Option<Permit> {
        self.gate.enter().then(|| self.gate.permit())
    }

    /// Refuses all further hand-overs.
    pub fn close(&self) {
        self.gate.close();
    }
}

impl fmt::Debug for HandOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandOver")
            .field("gate", &self.gate)
            .field("when_full", &self.when_full)
            .finish_non_exhaustive()
    }
}
