//! Connections that we begin: from which address and port, with which options.
//!
//! Does not know about: runtimes; what is said on a connection; when it is over.
//!
//! An address has at most 64,512 ports for its connections to one peer, and Linux 6.18 still searches one half of them (by parity) before
//! the other: with 28,000 connections to one address each further `connect()` walks past all of them. An [`Egress`] chooses ports so that this
//! does not happen, or happens seldom, and tells what it does in its [`report`](Egress::report).
//!
//! From a Tokio program: begin here, wait there.
//!
//! ```
//! use doorbell_egress::{Egress, SpeaksFirst, close};
//! use std::{io, net::SocketAddr};
//! use tokio::net::TcpStream;
//!
//! async fn connect(egress: &Egress, target: SocketAddr) -> io::Result<TcpStream> {
//!     let stream = TcpStream::from_std(egress.begin(target, SpeaksFirst::We)?)?;
//!     stream.writable().await?;
//!     match stream.take_error()? {
//!         Some(error) => Err(error),
//!         None => Ok(stream),
//!     }
//! }
//!
//! /// Once the reply was read, or does not matter any more.
//! fn end(stream: TcpStream) -> io::Result<()> {
//!     close(stream.into_std()?);
//!     Ok(())
//! }
//! ```
//!
//! | module | what it owns |
//! |---|---|
//! | `range` | port numbers: the system's range, and random windows of it |
//! | `strategy` | which of four ways chooses a port, from what was asked for and what the kernel can do |
//! | `selftest` | what the kernel does with a range, seen on loopback |
//! | `close` | the end of a connection: no TIME-WAIT here, and no waiting |
//! | `counters` | connections begun, failed, exhausted, and ports tried again |
//!
//! Decision 0024 (`deploy/book/src/decisions/0024.md`) has the measurements behind the choice.
#![forbid(unsafe_code)]

mod close;
mod counters;
mod range;
mod selftest;
mod strategy;
#[cfg(test)]
mod tests;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io;
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use doorbell_ring::sockopt;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

pub use close::close;
use counters::Counters;
pub use counters::EgressCounters;
pub use range::PortRange;
use range::Random;
use strategy::Ports;
pub use strategy::{EgressReport, NoPortRange, PortChoice, PortRangeSupport, Strategy};

/// What connections should be like. See each method for its default.
#[derive(Clone, Debug)]
pub struct EgressConfig {
    sources: Vec<IpAddr>,
    ports: PortChoice,
    quickack: bool,
    linger: Option<Duration>,
}

/// Begins connections. Threads may share it.
#[derive(Debug)]
pub struct Egress {
    /// By family: sources for IPv4 peers, and for IPv6 ones.
    sources: [Vec<IpAddr>; 2],
    next_source: [AtomicUsize; 2],
    report: EgressReport,
    /// How ports of UDP are chosen.
    udp: Strategy,
    system: PortRange,
    quickack: bool,
    linger: Option<Duration>,
    random: Random,
    counters: Counters,
}

/// Who sends the first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeaksFirst {
    /// The peer, as in SMTP or SSH: the handshake is acknowledged at once, because the peer waits for it.
    Peer,
    /// We, as in HTTP or TLS: the acknowledgement may go with our first bytes.
    We,
}

/// What is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP; we speak first or not.
    Tcp(SpeaksFirst),
    /// UDP: `connect` only chooses the port and fixes the peer.
    Udp,
}

impl EgressConfig {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            sources: Vec::new(),
            ports: PortChoice::Auto,
            quickack: false,
            linger: Some(Duration::from_secs(1)),
        }
    }

    /// Addresses to connect from, each of the peer's family in turn; each has ports of its own. Default none: the kernel chooses by
    /// its routes.
    #[must_use]
    pub fn sources(mut self, sources: Vec<IpAddr>) -> Self {
        self.sources = sources;
        self
    }

    /// How ports are chosen. Default: the best this kernel can do.
    #[must_use]
    pub const fn ports(mut self, ports: PortChoice) -> Self {
        self.ports = ports;
        self
    }

    /// `TCP_QUICKACK` where we speak first. Off, the end of the handshake goes with our first bytes: one segment less a connection; a
    /// peer hears of a connection on which nothing is sent up to 200 ms late. Default off.
    #[must_use]
    pub const fn quickack(mut self, on: bool) -> Self {
        self.quickack = on;
        self
    }

    /// `SO_LINGER`: how long closing may wait until the peer has acknowledged everything; zero closes with a reset, `None` never waits.
    /// Default 1 s, as the kubelet's probes have it (`pkg/probe`). It bounds what a close costs and takes no TIME-WAIT away
    /// (decision 0024): for that there is [`close`](close()), which never waits.
    #[must_use]
    pub const fn linger(mut self, time: Option<Duration>) -> Self {
        self.linger = time;
        self
    }

    /// Tests the kernel if that is needed to choose, which makes some connections over loopback.
    ///
    /// # Errors
    /// A strategy was asked for that this kernel does not have.
    pub fn open(self) -> Result<Egress, NoPortRange> {
        let system = PortRange::of_system().unwrap_or_default();
        let report = self.ports.decide(|| selftest::port_range_support(system))?;
        // UDP's search has no halves, and is slow in a window that is nearly full.
        let udp = match (self.ports, report.strategy) {
            (PortChoice::Auto, Strategy::Select | Strategy::Window(_)) => Strategy::Kernel,
            (_, strategy) => strategy,
        };
        let (v4, v6) = self.sources.into_iter().partition(IpAddr::is_ipv4);
        Ok(Egress {
            sources: [v4, v6],
            next_source: [const { AtomicUsize::new(0) }; 2],
            report,
            udp,
            system,
            quickack: self.quickack,
            linger: self.linger,
            random: Random::new(),
            counters: Counters::default(),
        })
    }
}

impl Default for EgressConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl Egress {
    /// How ports are chosen, and why.
    #[must_use]
    pub const fn report(&self) -> EgressReport {
        self.report
    }

    /// The ports the system has for connections, as they were at start.
    #[must_use]
    pub const fn system_ports(&self) -> PortRange {
        self.system
    }

    /// What became of the connections so far.
    #[must_use]
    pub fn counters(&self) -> EgressCounters {
        self.counters.read()
    }

    /// A non-blocking socket on which connecting has begun. It is connected when it is writable and has no error.
    ///
    /// # Errors
    /// As `connect(2)`; `EADDRNOTAVAIL` when no port is free, or a source is not an address of this machine. `ECONNREFUSED` also if the
    /// socket connected to itself.
    pub fn begin(&self, target: SocketAddr, first: SpeaksFirst) -> io::Result<TcpStream> {
        self.dial(Transport::Tcp(first), target, connect).map(TcpStream::from)
    }

    /// A non-blocking UDP socket for this peer.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn begin_udp(&self, target: SocketAddr) -> io::Result<UdpSocket> {
        self.dial(Transport::Udp, target, connect).map(UdpSocket::from)
    }

    /// As [`begin`](Self::begin), with a call of your own in the place of `connect(2)`: one that is timed, or made by a ring. It gets a
    /// non-blocking socket with its options, and is called again with another choice of ports when it answers that none is free.
    /// "In progress" is success.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn dial<C>(&self, transport: Transport, target: SocketAddr, mut connect: C) -> io::Result<OwnedFd>
    where
        C: FnMut(BorrowedFd<'_>, SocketAddr) -> io::Result<()>,
    {
        let mut retries = 0;
        let result = self.attempts(transport, target, &mut connect, &mut retries);
        let counter = match &result {
            Ok(_) => &self.counters.begun,
            Err(Refused::NoPort) => &self.counters.exhausted,
            Err(Refused::Other(_)) => &self.counters.failed,
        };
        Counters::add(counter, 1);
        if retries > 0 {
            Counters::add(&self.counters.port_retries, retries);
        }
        result.map_err(|refused| match refused {
            Refused::NoPort => Errno::ADDRNOTAVAIL.into(),
            Refused::Other(error) => error,
        })
    }

    fn attempts(
        &self,
        transport: Transport,
        target: SocketAddr,
        connect: &mut dyn FnMut(BorrowedFd<'_>, SocketAddr) -> io::Result<()>,
        retries: &mut u64,
    ) -> Result<OwnedFd, Refused> {
        let source = self.source_for(target);
        let mut socket = None;
        let mut number = 0;
        let strategy = if transport == Transport::Udp { self.udp } else { self.report.strategy };
        while let Some(ports) = strategy.attempt(number, self.system, || self.random.next()) {
            *retries += u64::from(number > 0);
            number += 1;
            let fd = match socket.take() {
                Some(fd) => fd,
                None => self.socket(transport, target, source, ports)?,
            };
            match choose(&fd, transport, target, source, ports) {
                Err(error) if is_in_use(&error) => continue,
                chosen => chosen?,
            }
            match connect(fd.as_fd(), target) {
                // A socket that was bound to a port keeps it; another range can be given to one that was not.
                Err(error) if is_taken(&error) => socket = matches!(ports, Ports::Range(_)).then_some(fd),
                Err(error) if !is_in_progress(&error) => return Err(error.into()),
                _ => return Ok(unless_itself(fd, target)?),
            }
        }
        Err(Refused::NoPort)
    }

    /// With its options, and bound to its source, if that is given and not bound together with a port.
    fn socket(
        &self,
        transport: Transport,
        target: SocketAddr,
        source: Option<IpAddr>,
        ports: Ports,
    ) -> io::Result<OwnedFd> {
        let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let kind = match transport {
            Transport::Tcp(_) => SocketType::STREAM,
            Transport::Udp => SocketType::DGRAM,
        };
        let fd = net::socket_with(family, kind, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
        if transport == Transport::Tcp(SpeaksFirst::We) && !self.quickack {
            sockopt::set_tcp_quickack(fd.as_fd(), false)?;
        }
        if transport != Transport::Udp && self.linger.is_some() {
            net::sockopt::set_socket_linger(&fd, self.linger)?;
        }
        if let Some(source) = source.filter(|_| !matches!(ports, Ports::One(_))) {
            sockopt::set_ip_bind_address_no_port(fd.as_fd(), true)?;
            net::bind(&fd, &SocketAddr::new(source, 0))?;
        }
        Ok(fd)
    }

    /// Each source of the target's family in turn.
    fn source_for(&self, target: SocketAddr) -> Option<IpAddr> {
        let family = usize::from(target.is_ipv6());
        let sources = &self.sources[family];
        if sources.is_empty() {
            return None;
        }
        let turn = self.next_source[family].fetch_add(1, Ordering::Relaxed);
        Some(sources[turn % sources.len()])
    }
}

/// Why a connection was not begun.
enum Refused {
    NoPort,
    Other(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Other(error)
    }
}

/// Refuses a connection that the socket made to itself.
///
/// A TCP socket whose ephemeral port equals the target port connects to itself (RFC 9293 3.5, figure 7), and so does UDP. For a target on
/// this machine with a closed port in the ephemeral range, that happens once in some thousand attempts, and looks like a server.
/// [`Egress`] calls this itself.
///
/// # Errors
/// `ECONNREFUSED`, as of a closed port; the connection is gone then.
pub fn unless_itself<C: AsFd + Into<OwnedFd>>(conn: C, target: SocketAddr) -> io::Result<C> {
    let own = net::getsockname(&conn).ok().and_then(|own| SocketAddr::try_from(own).ok());
    // To connect to no address means this machine.
    let is_target = |own: SocketAddr| {
        own.port() == target.port() && (own.ip() == target.ip() || target.ip().is_unspecified())
    };
    if own.is_some_and(is_target) {
        close(conn);
        return Err(Errno::CONNREFUSED.into());
    }
    Ok(conn)
}

/// Says which ports may be chosen.
fn choose(
    fd: &OwnedFd,
    transport: Transport,
    target: SocketAddr,
    source: Option<IpAddr>,
    ports: Ports,
) -> io::Result<()> {
    match ports {
        Ports::Any => Ok(()),
        Ports::One(port) => {
            if transport != Transport::Udp {
                // The port is only taken for this peer. With UDP the option would share the port with a stranger.
                net::sockopt::set_socket_reuseaddr(fd, true)?;
            }
            let any = if target.is_ipv4() { V4_ANY } else { V6_ANY };
            Ok(net::bind(fd, &SocketAddr::new(source.unwrap_or(any), port))?)
        }
        Ports::Range(range) => Ok(sockopt::set_ip_local_port_range(fd.as_fd(), range.first(), range.last())?),
    }
}

const V4_ANY: IpAddr = IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED);
const V6_ANY: IpAddr = IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED);

fn connect(fd: BorrowedFd<'_>, target: SocketAddr) -> io::Result<()> {
    Ok(net::connect(fd, &target)?)
}

fn is_in_progress(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::INPROGRESS)
}

/// No port is free: `EADDRNOTAVAIL` from a connect of TCP, `EAGAIN` from one of UDP.
fn is_taken(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::ADDRNOTAVAIL | Errno::AGAIN))
}

/// A port that was picked is bound by somebody else.
fn is_in_use(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::ADDRINUSE)
}
