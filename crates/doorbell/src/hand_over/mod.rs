//! Connections that are not for the ring lane: what is given away, to whom, and how many may be out.
//!
//! Does not know about: drivers, protocols, how a worker takes a connection out of its table; what the taker does with one.
//!
//! A protocol says that a connection is somebody else's ([`Responder::hand_over`](doorbell_http::Responder::hand_over),
//! [`RawNext::HandOver`](crate::RawNext)). Its worker sends what is to be sent, takes it out of the driver and gives the descriptor and
//! every byte that was read and not answered to the [`Taker`], all connections of a turn at once. Each holds a [`Permit`] until its new
//! owner drops that, so that the number out is bounded whoever is slow.
//!
//! A connection leaves with the options that a server of its new owner would see:
//!
//! | option | in the ring lane | handed over |
//! |---|---|---|
//! | `TCP_USER_TIMEOUT` | 15 s: a peer that does not acknowledge, or opens no window, is gone | off: a client may pause for as long as its new owner lets it |
//! | `SO_SNDBUF` | [`Listen::send_buf_len`](crate::Listen::send_buf_len) | the kernel tunes it, beginning there; before Linux 5.14 it stays |
//! | `TCP_NODELAY` | [`Listen::nodelay`](crate::Listen::nodelay), on by default | stays: who writes each reply of a pipeline by itself sends a segment for each, and nobody waits for an acknowledgement |
//! | blocking | non-blocking | stays, and close-on-exec |
//!
//! What a listener had that was inherited from somebody else stays as it is.

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

/// A connection as it leaves the ring lane.
#[derive(Debug)]
pub struct HandedConn {
    /// The connection: non-blocking, close-on-exec.
    pub fd: OwnedFd,
    /// What was read of it and not answered, oldest first: it comes before anything that `fd` still gives.
    pub bytes: Vec<u8>,
    /// Where it was accepted.
    pub listener: ListenerIndex,
    /// Who the client is, where that was asked for: the source in a PROXY protocol header that was believed, else the peer.
    pub client: Option<IpAddr>,
    /// What is left of the time that its client has for what it began, a TLS handshake or a request: whoever goes on with that grants it
    /// no more. The time in which nobody had room for it does not count.
    pub time_left: Duration,
    /// Its place among those that are out. Keep it as long as the connection.
    pub permit: Permit,
}

impl HandedConn {
    /// The client, or where it was not asked for the other end of the connection: up to two system calls.
    pub fn peer(&self) -> Peer {
        let addr = self.client.or_else(|| self.peer_addr().map(|peer| peer.ip().to_canonical()));
        match addr {
            Some(addr) => Peer::Addr(addr),
            // Not from the missing address: a connection that was reset has none either.
            None if sockopt::socket_domain(&self.fd) == Ok(AddressFamily::UNIX) => Peer::Unix,
            None => Peer::Unknown,
        }
    }

    /// The other end of the connection: a system call. `None` for Unix sockets and after a reset.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        SocketAddr::try_from(rustix::net::getpeername(&self.fd).ok().flatten()?).ok()
    }
}

/// Gets connections from worker threads. Called once a turn that has any, so this is the place to wake somebody.
pub trait Taker: Send + Sync {
    /// Takes the connections; what is left in `conns` is closed, also after a panic, which counts as one of a handler. Must not block.
    fn take(&self, conns: &mut Vec<HandedConn>);
}

/// What happens to a client whose connection is to be handed over while as many are out as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It is refused as by any overload: a 503 with `Retry-After` in HTTP, GOAWAY in HTTP/2, an alert in TLS. Probes of the same listener go on.
    Refuse,
    /// It waits where it is, in its slot. While more than `conns` of a worker wait, their listeners do not accept: further clients,
    /// probes of the same listener among them, wait in the backlog. After `timeout` it is refused.
    Wait {
        /// Connections of a worker that may wait while its listeners accept.
        conns: u32,
        /// The longest wait.
        timeout: Duration,
    },
}

/// Where connections go that are not for the ring lane. Given to [`ServerBuilder::hand_over`](crate::ServerBuilder::hand_over).
#[derive(Clone)]
pub struct HandOver {
    pub(crate) taker: Arc<dyn Taker>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) when_full: WhenFull,
    pub(crate) answer_before_body: bool,
}

impl HandOver {
    /// To `taker`, with the defaults.
    pub fn new(taker: impl Taker + 'static) -> Self {
        Self {
            taker: Arc::new(taker),
            gate: Arc::new(Gate::new(16_384)),
            when_full: WhenFull::Refuse,
            answer_before_body: false,
        }
    }

    /// Connections that may be out at once: handed over, and not yet dropped by whoever has them. Default 16,384. A server lowers it to
    /// what `RLIMIT_NOFILE` allows.
    #[must_use]
    pub fn conns_max(self, conns: u32) -> Self {
        self.gate.set_max(conns);
        self
    }

    /// Counts who is out together with this one of a server before ([`ServerBuilder::succeed`](crate::ServerBuilder::succeed)): while both
    /// live, a connection of either is one towards the caps of both. To be called before anybody has the [places](Self::places).
    #[must_use]
    pub fn beside(mut self, before: &Places) -> Self {
        self.gate = Arc::new(before.gate.beside(self.gate.max()));
        self
    }

    /// What a client gets beyond that. Default [`WhenFull::Refuse`].
    #[must_use]
    pub const fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Sets [`answer_before_body`](doorbell_http::Limits::answer_before_body) for every HTTP listener of the server without TLS: handlers,
    /// also behind closures and layers, hand over requests with bodies by [`Responder::hand_over`](crate::Responder::hand_over).
    #[must_use]
    pub const fn answer_before_body(mut self) -> Self {
        self.answer_before_body = true;
        self
    }

    /// Calls `wake` when there is room again and somebody waits for it. A server does this for its workers; for those who drive a
    /// [`Worker`](crate::worker::Worker) themselves.
    pub fn on_room(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.gate.on_room(Box::new(wake));
    }

    /// The numbers, to look at and to close.
    pub fn places(&self) -> Places {
        Places { gate: Arc::clone(&self.gate) }
    }
}

/// How many connections are out, seen from outside.
#[derive(Clone, Debug)]
pub struct Places {
    gate: Arc<Gate>,
}

impl Places {
    /// Connections out now, also those of servers that count [together](HandOver::beside) with this one.
    pub fn out(&self) -> u32 {
        self.gate.out()
    }

    /// Connections that may be out at once.
    pub fn max(&self) -> u32 {
        self.gate.max()
    }

    /// No more are taken: whoever comes is refused. There is no way back.
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
