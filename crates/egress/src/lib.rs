//! Outgoing connections: source address, source port, options, and closing without TIME-WAIT.
//!
//! An address has at most 64,512 ports for connections to one peer. When Linux (6.18 and earlier)
//! chooses a port, it searches one half of its range, by parity, before the other half. Once the
//! connections to one peer fill the first half, every further `connect()` searches that half
//! without success. An [`Egress`] chooses ports so that such searches are rare or do not occur; its
//! [`report`](Egress::report) names the strategy and the reason.
//!
//! In a Tokio program, begin the connection with this crate and wait for it with Tokio:
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
//! /// Call this after the response was read or is no longer needed.
//! fn end(stream: TcpStream) -> io::Result<()> {
//!     close(stream.into_std()?);
//!     Ok(())
//! }
//! ```
//!
//! | task | items |
//! |---|---|
//! | configure and open an egress | [`EgressConfig`], [`Egress`] |
//! | begin a connection | [`Egress::begin`], [`Egress::begin_udp`], [`Egress::begin_echo`], [`Egress::dial`] with a custom `connect` |
//! | choose ports | [`PortChoice`], [`Strategy`], [`PortRange`] |
//! | see which strategy is used, and why | [`EgressReport`], [`PortRangeSupport`] |
//! | connect to a Unix socket within a time limit | [`connect_unix`] |
//! | close without TIME-WAIT | [`close`](close()) |
//! | count | [`EgressCounters`] |
//!
//! Decision 0024 (`deploy/book/src/decisions/0024.md`) contains the measurements on which the
//! choice of strategies is based.
#![forbid(unsafe_code)]

mod close;
mod counters;
mod range;
mod selftest;
mod strategy;
#[cfg(test)]
mod tests;
mod unix;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io;
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use doorbell_ring::sockopt;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, ipproto};

pub use close::close;
use counters::Counters;
pub use counters::EgressCounters;
pub use range::PortRange;
use range::Random;
use strategy::Ports;
pub use strategy::{EgressReport, NoPortRange, PortChoice, PortRangeSupport, Strategy};
pub use unix::connect_unix;

/// Settings for outgoing connections. The documentation of each method states its default.
#[derive(Clone, Debug)]
pub struct EgressConfig {
    sources: Vec<IpAddr>,
    ports: PortChoice,
    quickack: bool,
    linger: Option<Duration>,
}

/// Opens outgoing connections. Threads may share it.
#[derive(Debug)]
pub struct Egress {
    /// Source addresses for IPv4 peers, followed by those for IPv6 peers.
    sources: [Vec<IpAddr>; 2],
    next_source: [AtomicUsize; 2],
    report: EgressReport,
    /// Port strategy for UDP.
    udp: Strategy,
    system: PortRange,
    quickack: bool,
    linger: Option<Duration>,
    random: Random,
    counters: Counters,
}

/// Side that sends the first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpeaksFirst {
    /// The peer, as in SMTP or SSH. The handshake is acknowledged immediately, because the peer
    /// sends nothing before it has the acknowledgement.
    Peer,
    /// This side, as in HTTP or TLS: the acknowledgement may be sent with the first bytes.
    We,
}

/// Transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP, with the side that sends first.
    Tcp(SpeaksFirst),
    /// UDP: `connect` only chooses the port and sets the peer.
    Udp,
}

impl EgressConfig {
    /// Default settings.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            sources: Vec::new(),
            ports: PortChoice::Auto,
            quickack: false,
            linger: Some(Duration::from_secs(1)),
        }
    }

    /// Source addresses, used in turn within each address family. Each address has its own ports.
    /// Default none: the kernel chooses the address by its routes.
    #[must_use]
    pub fn sources(mut self, sources: Vec<IpAddr>) -> Self {
        self.sources = sources;
        self
    }

    /// Port strategy. Default: the best one that this kernel supports.
    #[must_use]
    pub const fn ports(mut self, ports: PortChoice) -> Self {
        self.ports = ports;
        self
    }

    /// `TCP_QUICKACK` if this side sends first.
    ///
    /// If off, the last segment of the handshake is sent together with the first bytes, which saves
    /// one segment per connection. If this side sends no data, the peer then sees the connection up
    /// to 200 ms late. Default off.
    #[must_use]
    pub const fn quickack(mut self, on: bool) -> Self {
        self.quickack = on;
        self
    }

    /// `SO_LINGER`: maximum time that a close waits until the peer has acknowledged all data. Zero
    /// closes with a reset; `None` never waits. Default 1 s, as in the kubelet's probes
    /// (`pkg/probe`). A time above zero limits the wait but does not avoid TIME-WAIT (decision
    /// 0024). [`close`](close()) avoids TIME-WAIT and never waits.
    #[must_use]
    pub const fn linger(mut self, time: Option<Duration>) -> Self {
        self.linger = time;
        self
    }

    /// Opens an egress. If the choice of a strategy depends on the kernel's capabilities, they are
    /// tested with some loopback connections.
    ///
    /// # Errors
    /// The requested strategy is not supported by this kernel.
    pub fn open(self) -> Result<Egress, NoPortRange> {
        let system = PortRange::of_system().unwrap_or_default();
        let report = self.ports.decide(|| selftest::port_range_support(system))?;
        // For UDP, unlike TCP, the kernel does not try all ports of one parity first, and its
        // search is slow in a window that is nearly full.
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
    /// The port strategy in use, and why.
    #[must_use]
    pub const fn report(&self) -> EgressReport {
        self.report
    }

    /// The system's port range for outgoing connections, as read by [`EgressConfig::open`]; Linux's
    /// default if it could not be read.
    #[must_use]
    pub const fn system_ports(&self) -> PortRange {
        self.system
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> EgressCounters {
        self.counters.read()
    }

    /// Begins a TCP connection and returns its non-blocking socket. The socket is connected once it
    /// is writable and has no pending error.
    ///
    /// # Errors
    /// The errors of `connect(2)`; `EADDRNOTAVAIL` if no port is free, or the source is not an
    /// address of this machine. `ECONNREFUSED` is also returned if the socket connected to itself.
    pub fn begin(&self, target: SocketAddr, first: SpeaksFirst) -> io::Result<TcpStream> {
        self.dial(Transport::Tcp(first), target, connect).map(TcpStream::from)
    }

    /// Creates a non-blocking UDP socket connected to `target`.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn begin_udp(&self, target: SocketAddr) -> io::Result<UdpSocket> {
        self.dial(Transport::Udp, target, connect).map(UdpSocket::from)
    }

    /// Creates a non-blocking ICMP echo socket (`IPPROTO_ICMP` in icmp(7)) connected to the address
    /// of `target`, whose port is ignored. The socket sends and receives ICMP messages; the kernel
    /// sets the identifier and the checksum of requests, and passes on only replies with this
    /// identifier.
    ///
    /// # Errors
    /// `EACCES` if `net.ipv4.ping_group_range` contains no group of this process, and the errors of
    /// `bind(2)` and `connect(2)`.
    pub fn begin_echo(&self, target: SocketAddr) -> io::Result<OwnedFd> {
        let begun = self.echo_socket(target);
        Counters::add(if begun.is_ok() { &self.counters.begun } else { &self.counters.failed }, 1);
        begun
    }

    fn echo_socket(&self, target: SocketAddr) -> io::Result<OwnedFd> {
        let (family, protocol) = match target {
            SocketAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
            SocketAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = net::socket_with(family, SocketType::DGRAM, flags, Some(protocol))?;
        if let Some(source) = self.source_for(target) {
            net::bind(&fd, &SocketAddr::new(source, 0))?;
        }
        net::connect(&fd, &target)?;
        Ok(fd)
    }

    /// Begins a connection as [`begin`](Self::begin) does, with a custom function in place of
    /// `connect(2)`, for example to measure the call or to submit it to a ring. The function gets a
    /// non-blocking socket with all options set. If it fails because no port is free, it is called
    /// again with other ports. "In progress" counts as success.
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
                // A socket bound to a port cannot change it and is replaced. A socket without a
                // port is reused with another range.
                Err(error) if is_taken(&error) => socket = matches!(ports, Ports::Range(_)).then_some(fd),
                Err(error) if !is_in_progress(&error) => return Err(error.into()),
                _ => return Ok(refuse_self_connection(fd, target)?),
            }
        }
        Err(Refused::NoPort)
    }

    /// Creates a socket, sets its options, and binds it to its source address. If the port is
    /// fixed, `choose` binds address and port together instead.
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

    /// Returns the next source address of the family of `target`; the addresses are used in turn.
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

/// The reason why a connection was not begun.
enum Refused {
    NoPort,
    Other(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Other(error)
    }
}

/// Returns an error if a socket is connected to itself.
///
/// If the target is a closed port of this machine in the ephemeral range, a TCP socket that gets
/// the target port as its own port connects to itself (RFC 9293 3.5, figure 7), and the port then
/// seems to be open; the same happens with UDP. With Linux's default range of 28,232 ports, this
/// affects about one attempt in 14,000 (a TCP port in the half that the kernel tries first) to
/// 28,000 (UDP). [`Egress`] checks this automatically.
///
/// # Errors
/// `ECONNREFUSED`, as for a closed port; the connection is closed.
pub fn refuse_self_connection<C: AsFd + Into<OwnedFd>>(conn: C, target: SocketAddr) -> io::Result<C> {
    let own = net::getsockname(&conn).ok().and_then(|own| SocketAddr::try_from(own).ok());
    // A connection to the unspecified address goes to this machine.
    let is_target = |own: SocketAddr| {
        own.port() == target.port() && (own.ip() == target.ip() || target.ip().is_unspecified())
    };
    if own.is_some_and(is_target) {
        close(conn);
        return Err(Errno::CONNREFUSED.into());
    }
    Ok(conn)
}

/// Restricts the ports of a socket.
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
                // With this option the port is in use only for connections to this peer. With UDP
                // the option would share the port with other processes, so it is not set.
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

/// Whether no port was free: `EADDRNOTAVAIL` from TCP, `EAGAIN` from UDP.
fn is_taken(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::ADDRNOTAVAIL | Errno::AGAIN))
}

/// Whether the picked port is already bound.
fn is_in_use(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::ADDRINUSE)
}
