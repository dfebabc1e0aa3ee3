//! Hand-over of connections that the ring lane does not serve: receiver and limit.
//!
//! Does not know about: drivers, protocols, how a worker removes a connection from its table; what
//! the receiver does with it.
//!
//! A protocol decides to hand a connection over
//! ([`Responder::hand_over`](doorbell_http::Responder::hand_over),
//! [`RawNext::HandOver`](crate::RawNext)). The worker sends pending output, detaches the connection
//! from the driver and gives the descriptor and all bytes that were read but not processed to the
//! [`Taker`], together with all other connections of the turn. Each connection holds a [`Permit`]
//! until its new owner drops it, which limits the number of connections handed over.
//!
//! Options of a connection are reset to what a server of the new owner would expect:
//!
//! | option | in the ring lane | handed over |
//! |---|---|---|
//! | `TCP_USER_TIMEOUT` | 15 s: a peer that does not acknowledge, or keeps its window closed, is dropped | off: the new owner decides how long a client may pause |
//! | `SO_SNDBUF` | [`Listen::send_buf_len`](crate::Listen::send_buf_len) | autotuned by the kernel from that value on; unchanged before Linux 5.14 |
//! | `TCP_NODELAY` | [`Listen::nodelay`](crate::Listen::nodelay), on by default | unchanged: each write is sent at once, without waiting for an acknowledgement |
//! | blocking | non-blocking | unchanged, and close-on-exec |
//!
//! Options of a listener that was itself inherited are not changed.

mod gate;

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::os::fd::OwnedFd;
use std::sync::Arc;

pub(crate) use gate::Gate;
pub use gate::Permit;

use doorbell_http::Peer;
use rustix::net::{AddressFamily, sockopt};

use crate::id::ListenerIndex;

/// A connection that is handed over.
#[derive(Debug)]
pub struct HandedConn {
    /// The connection: non-blocking, close-on-exec.
    pub fd: OwnedFd,
    /// Bytes that were read but not processed, oldest first. They precede everything read from
    /// `fd`.
    pub bytes: Vec<u8>,
    /// The listener that accepted it.
    pub listener: ListenerIndex,
    /// The client's address, if it was looked up: the source in a trusted PROXY protocol header,
    /// otherwise the peer.
    pub client: Option<IpAddr>,
    /// Time left for the client's current TLS handshake or request. The new owner should not grant
    /// more. Time spent waiting for a place is not deducted.
    pub time_left: Duration,
    /// Its place in the limit. Keep it as long as the connection.
    pub permit: Permit,
}

impl HandedConn {
    /// The client's address, or the peer's address if it was not looked up. Up to two system calls.
    pub fn peer(&self) -> Peer {
        let addr = self.client.or_else(|| self.peer_addr().map(|peer| peer.ip().to_canonical()));
        match addr {
            Some(addr) => Peer::Addr(addr),
            // A missing address is not enough: a connection that was reset has none either.
            None if sockopt::socket_domain(&self.fd) == Ok(AddressFamily::UNIX) => Peer::Unix,
            None => Peer::Unknown,
        }
    }

    /// The peer's address: a system call. `None` for Unix sockets and after a reset.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        SocketAddr::try_from(rustix::net::getpeername(&self.fd).ok().flatten()?).ok()
    }
}

/// Receives connections from worker threads.
///
/// Called at most once per turn, so a call is a good occasion to wake a task.
pub trait Taker: Send + Sync {
    /// Takes the connections. Those left in `conns` are closed, also after a panic, which counts as
    /// a panic of a handler. Must not block.
    fn take(&self, conns: &mut Vec<HandedConn>);
}

/// What happens to a connection that should be handed over while the limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It is refused like any overload: a 503 with `Retry-After` in HTTP, GOAWAY in HTTP/2, an
    /// alert in TLS. Probes on the same listener are served.
    Refuse,
    /// It waits in its slot. While more than `conns` connections of a worker wait, their listeners
    /// do not accept: further clients, including probes on the same listener, wait in the backlog.
    /// After `timeout` it is refused.
    Wait {
        /// Waiting connections per worker up to which its listeners accept.
        conns: u32,
        /// Maximum waiting time.
        timeout: Duration,
    },
}

/// Receiver of connections that the ring lane does not serve.
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
    /// Hands over to `taker`, with default settings.
    pub fn new(taker: impl Taker + 'static) -> Self {
        Self {
            taker: Arc::new(taker),
            gate: Arc::new(Gate::new(16_384)),
            when_full: WhenFull::Refuse,
            answer_before_body: false,
        }
    }

    /// Maximum number of connections that are handed over and not dropped by their new owners.
    /// Default 16,384. The server lowers it to what `RLIMIT_NOFILE` allows.
    #[must_use]
    pub fn conns_max(self, conns: u32) -> Self {
        self.gate.set_max(conns);
        self
    }

    /// Shares the count of a predecessor
    /// ([`ServerBuilder::succeed`](crate::ServerBuilder::succeed)): while both run, connections of
    /// either count towards the caps of both. Call it before [`places`](Self::places).
    #[must_use]
    pub fn beside(mut self, before: &Places) -> Self {
        self.gate = Arc::new(before.gate.beside(self.gate.max()));
        self
    }

    /// What happens at the limit. Default [`WhenFull::Refuse`].
    #[must_use]
    pub const fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Sets [`answer_before_body`](doorbell_http::Limits::answer_before_body) for every HTTP
    /// listener without TLS: handlers, also behind closures and layers, can then hand over requests
    /// with bodies by [`Responder::hand_over`](crate::Responder::hand_over).
    #[must_use]
    pub const fn answer_before_body(mut self) -> Self {
        self.answer_before_body = true;
        self
    }

    /// Calls `wake` when a place is free and a connection waits for it. A server does this for its
    /// workers; call it if you drive a [`Worker`](crate::worker::Worker) yourself.
    pub fn on_room(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.gate.on_room(Box::new(wake));
    }

    /// The count and the limit, to observe and to close.
    pub fn places(&self) -> Places {
        Places { gate: Arc::clone(&self.gate) }
    }
}

/// Count and limit of connections that are handed over.
#[derive(Clone, Debug)]
pub struct Places {
    gate: Arc<Gate>,
}

impl Places {
    /// Connections handed over and still open, including those of servers that share the
    /// [count](HandOver::beside).
    pub fn out(&self) -> u32 {
        self.gate.out()
    }

    /// Maximum number of connections that are handed over.
    pub fn max(&self) -> u32 {
        self.gate.max()
    }

    /// Refuses all further hand-overs, permanently.
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
