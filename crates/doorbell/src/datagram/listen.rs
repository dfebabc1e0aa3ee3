//! Settings of a datagram listener, and its sockets: one per worker.

use core::fmt;
use core::net::SocketAddr;
use core::num::NonZeroU16;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use doorbell_http::limit::{CLIENT_V6_LEN, Quota};
use doorbell_ring::sockopt::set_recv_pktinfo;
use rustix::net::connect_unspec;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use super::handler::DatagramHandler;
use super::service::{PAYLOAD_MAX, Service, Settings};
use crate::driver::DatagramSocket;
use crate::net::{
    Balance, Bound, BufLens, Failure, Identity, ListenError, LocalAddr, Unusable, copies, patient,
};

/// Settings of a datagram listener. The documentation of each method names the default.
#[derive(Debug)]
pub struct DatagramListen {
    addr: Addr,
    settings: Settings,
    has_name: bool,
    buf_lens: BufLens,
    v6_only: bool,
    sockets: Vec<OwnedFd>,
}

#[derive(Debug)]
enum Addr {
    Inherited(OwnedFd),
    Udp(SocketAddr),
}

impl DatagramListen {
    const fn at(addr: Addr, settings: Settings) -> Self {
        let buf_lens = BufLens { recv: None, send: None };
        Self { addr, settings, has_name: false, buf_lens, v6_only: false, sockets: Vec::new() }
    }

    /// Receives at a UDP address; with port 0 the kernel chooses a port. An IPv6 wildcard also
    /// receives from IPv4 clients.
    pub fn udp(addr: SocketAddr) -> Self {
        Self::at(Addr::Udp(addr), settings(&addr.to_string()))
    }

    /// Receives from a bound UDP socket, from a service manager or another process. All workers
    /// share the socket. The start fails if the socket is not a UDP socket.
    pub fn inherited(fd: OwnedFd) -> Self {
        Self::at(Addr::Inherited(fd), settings("inherited"))
    }

    /// Sets the name that the handler sees ([`DatagramRequest::listener`]). Default: the address.
    /// A [successor](crate::ServerBuilder::succeed) gets the port of the listener on port 0 with
    /// the same name.
    ///
    /// [`DatagramRequest::listener`]: super::DatagramRequest::listener
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.settings.name = name.into();
        self.has_name = true;
        self
    }

    /// Sets the maximum size of a datagram in bytes; longer ones are dropped and counted. Default
    /// 1,500, at most 65,507. Every worker reserves memory for 64 datagrams of the largest size of
    /// its listeners, and with io_uring for 256 more. Each of the two reservations is limited to
    /// about 1 MiB, so it holds fewer datagrams if these are long.
    #[must_use]
    pub fn size_max(mut self, bytes: usize) -> Self {
        self.settings.size_max = bytes.min(PAYLOAD_MAX);
        self
    }

    /// Permits replies of up to `factor` times the length of their request. Longer replies are
    /// dropped and counted. Default 1.
    ///
    /// A factor above 1 lets an attacker multiply traffic to the forged address of a victim.
    #[must_use]
    pub const fn amplification(mut self, factor: NonZeroU16) -> Self {
        self.settings.amplification = factor;
        self
    }

    /// Limits the datagrams per client address over all workers, with the quota and the maximum
    /// number of addresses to remember. Datagrams above the limit are dropped and counted. Default
    /// `None`: no limit.
    ///
    /// A forged address uses up the limit of its owner.
    #[must_use]
    pub const fn limit(mut self, limit: Option<(Quota, usize)>) -> Self {
        self.settings.limit = limit;
        self
    }

    /// Sets the prefix length of an IPv6 address that counts as one client. Default 64.
    #[must_use]
    pub const fn client_v6_len(mut self, bits: u8) -> Self {
        self.settings.client_v6_len = bits;
        self
    }

    /// Sets `SO_RCVBUF`, the number of bytes that the kernel queues per socket; further datagrams
    /// are lost. The kernel caps it at `net.core.rmem_max`. Default `None`: the default of the
    /// kernel.
    #[must_use]
    pub const fn recv_buf_len(mut self, bytes: Option<usize>) -> Self {
        self.buf_lens.recv = bytes;
        self
    }

    /// Sets `IPV6_V6ONLY`: an IPv6 wildcard receives from no IPv4 clients. Default false.
    #[must_use]
    pub const fn v6_only(mut self, on: bool) -> Self {
        self.v6_only = on;
        self
    }

    /// For a UDP address, receives from these bound sockets instead of new ones. They usually come
    /// from the previous process ([`Handle::receiving`](crate::Handle::receiving)), and get the
    /// options of this listener. Missing sockets are opened; sockets in excess of the workers are
    /// closed. A single socket without `SO_REUSEPORT` is shared by all workers.
    #[must_use]
    pub fn receiving(mut self, sockets: Vec<OwnedFd>) -> Self {
        self.sockets = sockets;
        self
    }

    /// The service of this listener.
    pub(crate) fn service(&self, handler: Arc<dyn DatagramHandler>) -> Service {
        Service::new(self.settings.clone(), handler)
    }

    /// A socket for a driver.
    pub(crate) fn for_driver(&self, fd: OwnedFd) -> DatagramSocket {
        let is_v6 = SockRef::from(&fd).domain().is_ok_and(|domain| domain == Domain::IPV6);
        DatagramSocket { fd, is_v6, size_max: self.settings.size_max }
    }

    /// Identity of the listener.
    pub(crate) fn identity(&self) -> Identity {
        match &self.addr {
            Addr::Inherited(_) => Identity::Inherited,
            Addr::Udp(addr) => Identity::Udp {
                addr: *addr,
                v6_only: self.v6_only && addr.is_ipv6(),
                label: Some(Arc::clone(&self.settings.name)).filter(|_| self.has_name && addr.port() == 0),
            },
        }
    }

    /// Creates an error of this listener.
    pub(crate) fn failed(&self, call: &'static str, error: io::Error) -> ListenError {
        ListenError { call, addr: self.addr.to_string(), error }
    }

    /// Creates or duplicates a socket for each worker.
    pub(crate) fn bind(&mut self, workers: u16) -> Result<Bound, ListenError> {
        let given = core::mem::take(&mut self.sockets);
        let bound = match &self.addr {
            Addr::Udp(_) if !given.is_empty() => self.take_over(given, workers),
            Addr::Udp(addr) => patient(|| self.bind_udp(*addr, workers)),
            Addr::Inherited(fd) => {
                let fd = fd.try_clone().map_err(|error| ("dup", error));
                fd.and_then(|fd| self.take_over(vec![fd], workers))
            }
        };
        bound.map_err(|(call, error)| self.failed(call, error))
    }

    /// Opens one more socket at the address of other workers' sockets.
    pub(crate) fn bind_another(&self, local: &LocalAddr) -> Result<OwnedFd, ListenError> {
        let LocalAddr::Udp(addr) = local else {
            return Err(self.failed("dup", io::ErrorKind::NotFound.into()));
        };
        let socket = self.socket(*addr, true);
        socket.map(OwnedFd::from).map_err(|(call, error)| self.failed(call, error))
    }

    /// Applies the options of this listener to sockets that are already open, and makes them
    /// receive from every client.
    pub(crate) fn renew<'a>(&self, fds: impl Iterator<Item = &'a OwnedFd>) -> Result<(), ListenError> {
        for fd in fds {
            self.set_options(&SockRef::from(fd)).map_err(|(call, error)| self.failed(call, error))?;
            refuse(fd, false).map_err(|error| self.failed("connect", error))?;
        }
        Ok(())
    }

    fn bind_udp(&self, mut addr: SocketAddr, workers: u16) -> Result<Bound, Failure> {
        if workers > 1 || addr.port() == 0 {
            addr = self.reserve(addr)?;
        }
        let open = |_| self.socket(addr, workers > 1).map(OwnedFd::from);
        let fds = (0..workers).map(open).collect::<Result<_, _>>()?;
        Ok(self.bound(fds, addr, false))
    }

    /// Uses bound sockets, and opens more for workers without one. All workers share an inherited
    /// socket.
    fn take_over(&self, mut fds: Vec<OwnedFd>, workers: u16) -> Result<Bound, Failure> {
        fds.truncate(usize::from(workers));
        let mut local = None;
        for fd in &fds {
            let socket = SockRef::from(fd);
            check_receives(&socket).map_err(|error| ("recvmsg", error))?;
            local = socket.local_addr().map_err(|error| ("getsockname", error))?.as_socket();
            socket.set_nonblocking(true).map_err(|error| ("fcntl", error))?;
            self.set_options(&socket)?;
            refuse(fd, false).map_err(|error| ("connect", error))?;
        }
        let addr = local.ok_or_else(|| ("getsockname", io::ErrorKind::InvalidInput.into()))?;
        let shares_port = SockRef::from(&fds[0]).reuse_port().map_err(|error| ("getsockopt", error))?;
        if matches!(self.addr, Addr::Inherited(_)) || (!shares_port && workers > 1) {
            let fd = fds.swap_remove(0);
            let fds = copies(fd, workers).map_err(|error| ("dup", error))?;
            return Ok(self.bound(fds, addr, true));
        }
        while fds.len() < usize::from(workers) {
            fds.push(self.socket(addr, true)?.into());
        }
        Ok(self.bound(fds, addr, false))
    }

    fn bound(&self, fds: Vec<OwnedFd>, addr: SocketAddr, is_shared: bool) -> Bound {
        Bound {
            fds,
            is_shared,
            is_lent: false,
            local: LocalAddr::Udp(addr),
            balance: Balance::Kernel,
            file: None,
            identity: self.identity(),
        }
    }

    /// Fails if another process has bound the address, and chooses a port for port 0. A socket with
    /// `SO_REUSEPORT` would silently share the port with an unrelated process of the same user.
    fn reserve(&self, mut addr: SocketAddr) -> Result<SocketAddr, Failure> {
        let bound = self.socket(addr, false)?.local_addr().map_err(|error| ("getsockname", error))?;
        addr.set_port(bound.as_socket().map_or(0, |bound| bound.port()));
        Ok(addr)
    }

    fn socket(&self, addr: SocketAddr, shares_port: bool) -> Result<Socket, Failure> {
        let socket = Socket::new(Domain::for_address(addr), Type::DGRAM.nonblocking(), Some(Protocol::UDP))
            .map_err(|error| ("socket", error))?;
        socket.set_reuse_port(shares_port).map_err(|error| ("setsockopt", error))?;
        if addr.is_ipv6() {
            socket.set_only_v6(self.v6_only).map_err(|error| ("setsockopt", error))?;
        }
        self.set_options(&SockRef::from(&socket))?;
        socket.bind(&SockAddr::from(addr)).map_err(|error| ("bind", error))?;
        Ok(socket)
    }

    fn set_options(&self, socket: &SockRef<'_>) -> Result<(), Failure> {
        let option = |error| ("setsockopt", error);
        let sized = match &self.addr {
            Addr::Udp(_) => self.buf_lens.apply(socket),
            // The owner's buffer size is kept unless [`DatagramListen::recv_buf_len`] sets one.
            Addr::Inherited(_) => {
                self.buf_lens.recv.map_or(Ok(()), |bytes| socket.set_recv_buffer_size(bytes))
            }
        };
        sized.map_err(option)?;
        let is_v6 = socket.domain().map_err(|error| ("getsockopt", error))? == Domain::IPV6;
        set_recv_pktinfo(socket.as_fd(), is_v6).map_err(|errno| option(errno.into()))
    }
}

fn settings(name: &str) -> Settings {
    Settings {
        name: name.into(),
        size_max: 1_500,
        amplification: NonZeroU16::MIN,
        limit: None,
        client_v6_len: CLIENT_V6_LEN,
    }
}

/// Checks that a passed socket is a UDP socket.
fn check_receives(socket: &SockRef<'_>) -> io::Result<()> {
    let is_ip = [Domain::IPV4, Domain::IPV6].contains(&socket.domain()?);
    if is_ip && socket.r#type()? == Type::DGRAM {
        return Ok(());
    }
    Err(Unusable::not_udp())
}

/// With `true` the kernel refuses datagrams for this socket, with an ICMP message "port
/// unreachable" if no other socket is bound to the port; `false` undoes that.
///
/// A connected socket receives from its peer only, and the peer is the socket itself. So the port
/// stays reserved, and datagrams in the queue are still handled.
pub(crate) fn refuse(fd: &OwnedFd, on: bool) -> io::Result<()> {
    let socket = SockRef::from(fd);
    if !on {
        return match socket.peer_addr() {
            Ok(_) => Ok(connect_unspec(fd)?),
            Err(_) => Ok(()),
        };
    }
    let own = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::InvalidInput)?;
    let ip = match own {
        SocketAddr::V4(addr) if addr.ip().is_unspecified() => core::net::Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(addr) if addr.ip().is_unspecified() => core::net::Ipv6Addr::LOCALHOST.into(),
        addr => addr.ip(),
    };
    socket.connect(&SockAddr::from(SocketAddr::new(ip, own.port())))
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inherited(fd) => write!(f, "inherited descriptor {}", std::os::fd::AsRawFd::as_raw_fd(fd)),
            Self::Udp(addr) => write!(f, "udp:{addr}"),
        }
    }
}
