//! Listening sockets: one per worker, with the options that accepted connections inherit.
//!
//! Options are set on the listener because accepted sockets inherit them (tcp(7)). That saves a
//! system call per connection, and is the only way to set options of direct descriptors of
//! io_uring.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use super::bind::{Failure, copies, patient};
use super::buf_lens::BufLens;
use super::options::{Options, user_timeout};
use super::unix::{self, SocketFile};
use super::unusable::check_listens;
use super::{Balance, ProxyProtocol};
use doorbell_ring::sockopt::{BufLocks, buf_locks, set_buf_locks};
use rustix::net::sockopt;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

/// Address of a listener.
#[derive(Debug)]
#[non_exhaustive]
pub enum ListenAddr {
    /// A socket that already listens, from a service manager or another process.
    Inherited(OwnedFd),
    /// A TCP address; with port 0 the kernel chooses a port. An IPv6 wildcard also accepts IPv4
    /// clients.
    Tcp(SocketAddr),
    /// A Unix stream socket. A stale socket file is replaced; a socket in use or a file of another
    /// type is an error.
    Unix(PathBuf),
}

/// Settings of a listener. The documentation of each method names the default.
#[derive(Debug)]
pub struct Listen {
    pub(crate) addr: ListenAddr,
    backlog: u32,
    pub(crate) balance: Balance,
    defer_accept: Option<Duration>,
    nodelay: bool,
    quickack: bool,
    pub(super) buf_lens: BufLens,
    pub(super) options: Options,
    v6_only: bool,
    pub(super) overlap: bool,
    pub(crate) proxy: Option<ProxyProtocol>,
    listening: Vec<OwnedFd>,
    label: Option<Arc<str>>,
}

/// A listener could not be created.
#[derive(Debug, thiserror::Error)]
#[error("{call} on {addr} failed: {error}")]
pub struct ListenError {
    /// The call that failed: `bind`, `listen`, `socket`, …
    pub call: &'static str,
    /// The address as configured.
    pub addr: String,
    /// Error of the operating system.
    #[source]
    pub error: io::Error,
}

/// The listening sockets of one listener.
#[derive(Debug)]
pub(crate) struct Bound {
    /// One per worker.
    pub(crate) fds: Vec<OwnedFd>,
    /// True if all workers use the same socket, or other processes also accept from it.
    pub(crate) is_shared: bool,
    /// True if the predecessor also gave duplicates of the sockets to other servers or processes.
    pub(crate) is_lent: bool,
    pub(crate) local: LocalAddr,
    pub(crate) balance: Balance,
    /// The file of a Unix socket that this server or its predecessor created.
    pub(crate) file: Option<Arc<SocketFile>>,
    pub(crate) identity: Identity,
}

impl Bound {
    /// True unless the listener is [inherited](Identity::Inherited).
    pub(crate) fn is_ours(&self) -> bool {
        self.identity != Identity::Inherited
    }

    /// True if the worker that accepts a connection chooses the worker that serves it.
    pub(crate) fn is_balanced(&self) -> bool {
        self.balance.is_chosen_by_workers() && self.fds.len() > 1
    }

    /// The address of datagram sockets.
    pub(crate) const fn udp_addr(&self) -> Option<SocketAddr> {
        match self.local {
            LocalAddr::Udp(addr) => Some(addr),
            LocalAddr::Tcp(_) | LocalAddr::Unix(_) => None,
        }
    }
}

/// Identity of a listener. The successor's listener with the same identity gets the same sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// An inherited socket, which its owner passes to the successor again.
    Inherited,
    /// The configured address. With port 0 the successor gets the port that was chosen for the
    /// predecessor.
    Tcp {
        addr: SocketAddr,
        v6_only: bool,
        /// Label of a listener on port 0, to distinguish several such listeners.
        label: Option<Arc<str>>,
    },
    /// The configured address of a datagram listener; port 0 as for `Tcp`.
    Udp {
        addr: SocketAddr,
        v6_only: bool,
        label: Option<Arc<str>>,
    },
    Unix(PathBuf),
}

/// The actual address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalAddr {
    /// A TCP address, with the actual port.
    Tcp(SocketAddr),
    /// A UDP address, with the actual port.
    Udp(SocketAddr),
    /// The path, if the socket has one.
    Unix(Option<PathBuf>),
}

impl Listen {
    /// Creates a listener on `addr` with default settings.
    pub const fn at(addr: ListenAddr) -> Self {
        Self {
            addr,
            backlog: 4096,
            balance: Balance::Kernel,
            defer_accept: Some(Duration::from_secs(3)),
            nodelay: true,
            quickack: true,
            buf_lens: BufLens { recv: None, send: Some(256 * 1024) },
            options: Options::NONE,
            v6_only: false,
            overlap: false,
            proxy: None,
            listening: Vec::new(),
            label: None,
        }
    }

    /// Listens on a TCP address. If the address is in use, the start retries for half a second: the
    /// ring of a killed process exists some milliseconds longer than the process and keeps its
    /// sockets open.
    pub const fn tcp(addr: SocketAddr) -> Self {
        Self::at(ListenAddr::Tcp(addr))
    }

    /// Listens on a Unix stream socket.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::at(ListenAddr::Unix(path.into()))
    }

    /// Accepts from a socket that already listens. All workers share the socket; its options are
    /// not changed. The start fails if the socket does not listen, or is neither a TCP nor a Unix
    /// stream socket.
    ///
    /// Such sockets come from a service manager: for systemd, crates such as `listenfd` take those
    /// of `LISTEN_FDS`. `OwnedFd::from` converts a listener of the standard library.
    pub const fn inherited(fd: OwnedFd) -> Self {
        Self::at(ListenAddr::Inherited(fd))
    }

    /// Sets the length of the backlog, capped by `net.core.somaxconn`. Default 4,096.
    #[must_use]
    pub const fn backlog(mut self, conns: u32) -> Self {
        self.backlog = conns;
        self
    }

    /// Sets how connections are distributed between the workers. Default [`Balance::Kernel`].
    /// [`Balance::Cpu`] and [`Balance::SourceHash`] need a TCP address, because all workers share a
    /// Unix or passed socket. They cannot be combined with [`Self::overlap`].
    ///
    /// A [successor](crate::ServerBuilder::succeed) may have another balance. It keeps the sockets:
    /// one per worker, or the one that all workers of the predecessor shared. With a shared socket,
    /// [`Balance::Cpu`] and [`Balance::SourceHash`] are errors.
    #[must_use]
    pub const fn balance(mut self, balance: Balance) -> Self {
        self.balance = balance;
        self
    }

    /// Accepts a client only when its first bytes have arrived, or after this time
    /// (`TCP_DEFER_ACCEPT`), which saves one wake-up per connection. A probe that only connects and
    /// closes still succeeds. Default 3 s; `None` disables it, and so does a protocol in which the
    /// server sends first.
    #[must_use]
    pub const fn defer_accept(mut self, time: Option<Duration>) -> Self {
        self.defer_accept = time;
        self
    }

    /// Sets `TCP_NODELAY`. Default true.
    #[must_use]
    pub const fn nodelay(mut self, on: bool) -> Self {
        self.nodelay = on;
        self
    }

    /// Sets `TCP_QUICKACK` of the listener.
    ///
    /// If disabled, the reply contains the acknowledgement of the request, which saves one segment
    /// per connection. If the reply takes more than 40 ms, the kernel sends the acknowledgement
    /// separately. Default true, as in the kernel.
    #[must_use]
    pub const fn quickack(mut self, on: bool) -> Self {
        self.quickack = on;
        self
    }

    /// Sets `SO_SNDBUF`, the number of bytes that the kernel buffers for a slow reader. Default 256
    /// KiB, which limits the memory per connection and makes the progress of a slow reader visible.
    /// With `None` the kernel tunes the size, as it does after a connection was [handed
    /// over](crate::hand_over).
    #[must_use]
    pub const fn send_buf_len(mut self, bytes: Option<usize>) -> Self {
        self.buf_lens.send = bytes;
        self
    }

    /// Sets `IPV6_V6ONLY`: an IPv6 wildcard accepts no IPv4 clients. Default false.
    #[must_use]
    pub const fn v6_only(mut self, on: bool) -> Self {
        self.v6_only = on;
        self
    }

    /// Binds even if another server of the same user has bound the port with `SO_REUSEPORT`.
    ///
    /// The kernel then distributes clients to both servers. When one of them closes, the clients in
    /// its backlog are reset. Passing the same socket to both servers ([`Listen::inherited`]) loses
    /// no client and is preferable. Default false: a port in use is an error.
    #[must_use]
    pub const fn overlap(mut self, on: bool) -> Self {
        self.overlap = on;
        self
    }

    /// For a TCP address, accepts from these listening sockets instead of new ones, so that clients
    /// in their backlogs are served. The sockets usually come from the previous process
    /// ([`Handle::listening`](crate::Handle::listening)), and get the options of this listener.
    ///
    /// If there are fewer sockets than workers, further sockets are opened at the same address,
    /// which requires `SO_REUSEPORT`. All workers share a single socket if it lacks `SO_REUSEPORT`,
    /// or for [`Balance::LeastConnections`] and [`Balance::RoundRobin`]. Sockets in excess of the
    /// workers are closed, and their backlogs are lost. A
    /// [successor](crate::ServerBuilder::succeed) takes the sockets of its predecessor instead.
    #[must_use]
    pub fn listening(mut self, sockets: Vec<OwnedFd>) -> Self {
        self.listening = sockets;
        self
    }

    /// Distinguishes listeners on port 0 of the same address: a
    /// [successor](crate::ServerBuilder::succeed) gets the port of the listener with the same
    /// label. Listeners with the same label, or without a label, get the ports in order. Has no
    /// effect on other ports.
    #[must_use]
    pub fn label(mut self, label: &str) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Reads a PROXY protocol header with the client's address at the start of each connection.
    /// Default: no header is read.
    #[must_use]
    pub fn proxy_protocol(mut self, proxy: ProxyProtocol) -> Self {
        self.proxy = Some(proxy);
        self
    }

    /// Maximum number of waiting clients. For an inherited socket, whose backlog is unknown, the
    /// kernel's cap is assumed.
    pub(crate) fn backlog_max(&self) -> u32 {
        let somaxconn = std::fs::read_to_string("/proc/sys/net/core/somaxconn")
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(SOMAXCONN_DEFAULT);
        match self.addr {
            ListenAddr::Inherited(_) => somaxconn,
            ListenAddr::Tcp(_) | ListenAddr::Unix(_) => self.backlog.min(somaxconn),
        }
    }

    /// Identity of the listener.
    pub(crate) fn identity(&self) -> Identity {
        match &self.addr {
            ListenAddr::Inherited(_) => Identity::Inherited,
            ListenAddr::Tcp(addr) => Identity::Tcp {
                addr: *addr,
                v6_only: self.v6_only && addr.is_ipv6(),
                label: self.label.clone().filter(|_| addr.port() == 0),
            },
            ListenAddr::Unix(path) => Identity::Unix(path.clone()),
        }
    }

    /// True if peers have no addresses.
    pub(crate) fn is_unix(&self) -> bool {
        match &self.addr {
            ListenAddr::Inherited(fd) => {
                SockRef::from(fd).domain().is_ok_and(|domain| domain == Domain::UNIX)
            }
            ListenAddr::Tcp(_) => false,
            ListenAddr::Unix(_) => true,
        }
    }

    /// Creates an error of this listener.
    pub(crate) fn failed(&self, call: &'static str, error: io::Error) -> ListenError {
        ListenError { call, addr: self.addr.to_string(), error }
    }

    /// Opens one more socket at the address of other workers' sockets.
    pub(crate) fn bind_another(&self, local: &LocalAddr, speaks_first: bool) -> Result<OwnedFd, ListenError> {
        let LocalAddr::Tcp(addr) = local else {
            return Err(self.failed("dup", io::ErrorKind::NotFound.into()));
        };
        let socket = self.tcp_socket(*addr, 2, speaks_first);
        socket.map(OwnedFd::from).map_err(|(call, error)| self.failed(call, error))
    }

    /// Applies the options of this listener to sockets that already listen.
    pub(crate) fn renew<'a>(
        &self,
        identity: &Identity,
        fds: impl Iterator<Item = &'a OwnedFd>,
        speaks_first: bool,
    ) -> Result<(), ListenError> {
        let failed = |(call, error)| self.failed(call, error);
        for fd in fds {
            match identity {
                Identity::Inherited | Identity::Udp { .. } => {}
                Identity::Tcp { .. } => {
                    let socket = SockRef::from(fd);
                    self.set_options(&socket, speaks_first).map_err(failed)?;
                    self.listen(&socket).map_err(failed)?;
                }
                Identity::Unix(_) => self.listen(&SockRef::from(fd)).map_err(failed)?,
            }
        }
        Ok(())
    }

    /// Creates or duplicates a socket for each worker. `speaks_first` disables deferred accept.
    pub(crate) fn bind(mut self, workers: u16, speaks_first: bool) -> Result<Bound, ListenError> {
        let (identity, balance) = (self.identity(), self.balance);
        let listening = std::mem::take(&mut self.listening);
        let name = self.addr.to_string();
        let failed = |call| {
            let addr = name.clone();
            move |error| ListenError { call, addr, error }
        };
        match &self.addr {
            ListenAddr::Tcp(_) if !listening.is_empty() => {
                self.take_over(listening, workers, speaks_first).map_err(|(call, e)| failed(call)(e))
            }
            ListenAddr::Tcp(addr) => {
                patient(|| self.bind_tcp(*addr, workers, speaks_first)).map_err(|(call, e)| failed(call)(e))
            }
            ListenAddr::Unix(path) => {
                let bound = patient(|| {
                    let (socket, file) = unix::bind(path, self.options.mode)?;
                    self.listen(&SockRef::from(&socket))?;
                    Ok((socket, file))
                });
                let (socket, file) = bound.map_err(|(call, e)| failed(call)(e))?;
                let local = LocalAddr::Unix(Some(path.clone()));
                let fds = copies(socket.into(), workers).map_err(failed("dup"))?;
                Ok(Bound { fds, is_shared: true, is_lent: false, local, balance, file, identity })
            }
            ListenAddr::Inherited(_) => {
                let ListenAddr::Inherited(fd) = self.addr else { unreachable!("matched above") };
                let socket = Socket::from(fd);
                check_listens(&socket).map_err(failed("accept"))?;
                let local = local_addr(&socket).map_err(failed("getsockname"))?;
                socket.set_nonblocking(true).map_err(failed("fcntl"))?;
                let fds = copies(socket.into(), workers).map_err(failed("dup"))?;
                Ok(Bound { fds, is_shared: true, is_lent: false, local, balance, file: None, identity })
            }
        }
    }

    fn bind_tcp(&self, mut addr: SocketAddr, workers: u16, speaks_first: bool) -> Result<Bound, Failure> {
        let identity = self.identity();
        let mut fds = Vec::with_capacity(usize::from(workers));
        if workers > 1 && !self.overlap {
            addr = self.reserve(addr)?;
        }
        let is_shared = workers > 1 && self.balance.is_chosen_by_workers();
        for _ in 0..if is_shared { 1 } else { workers } {
            let socket = self.tcp_socket(addr, workers, speaks_first)?;
            if addr.port() == 0 {
                let chosen = socket.local_addr().map_err(|error| ("getsockname", error))?;
                addr.set_port(chosen.as_socket().map_or(0, |chosen| chosen.port()));
            }
            fds.push(socket.into());
        }
        if is_shared && let Some(fd) = fds.pop() {
            fds = copies(fd, workers).map_err(|error| ("dup", error))?;
        }
        Ok(Bound {
            fds,
            is_shared,
            is_lent: false,
            local: LocalAddr::Tcp(addr),
            balance: self.balance,
            file: None,
            identity,
        })
    }

    /// Uses sockets that already listen, and opens more for workers without one.
    fn take_over(&self, listening: Vec<OwnedFd>, workers: u16, speaks_first: bool) -> Result<Bound, Failure> {
        let mut sockets: Vec<Socket> = listening.into_iter().map(Socket::from).collect();
        sockets.truncate(usize::from(workers));
        let mut local = LocalAddr::Unix(None);
        for socket in &sockets {
            check_listens(socket).map_err(|error| ("accept", error))?;
            local = local_addr(socket).map_err(|error| ("getsockname", error))?;
            socket.set_nonblocking(true).map_err(|error| ("fcntl", error))?;
            self.set_options(&SockRef::from(socket), speaks_first)?;
            self.listen(&SockRef::from(socket))?;
        }
        let LocalAddr::Tcp(addr) = local else {
            return Err(("getsockname", io::ErrorKind::InvalidInput.into()));
        };
        let shares_port = |socket: &Socket| socket.reuse_port().map_err(|error| ("getsockopt", error));
        let mut fds: Vec<OwnedFd> = Vec::with_capacity(usize::from(workers));
        let mut is_shared = false;
        if let [socket] = sockets.as_slice()
            && workers > 1
            && (self.balance.is_chosen_by_workers() || !shares_port(socket)?)
        {
            is_shared = true;
        }
        if is_shared && let Some(socket) = sockets.pop() {
            fds = copies(socket.into(), workers).map_err(|error| ("dup", error))?;
        }
        fds.extend(sockets.into_iter().map(OwnedFd::from));
        while fds.len() < usize::from(workers) {
            fds.push(self.tcp_socket(addr, 2, speaks_first)?.into());
        }
        Ok(Bound {
            fds,
            is_shared,
            is_lent: false,
            local,
            balance: self.balance,
            file: None,
            identity: self.identity(),
        })
    }

    /// Fails if another process has bound the address. The sockets of the workers need
    /// `SO_REUSEPORT`, with which they would silently share the port with an unrelated process of
    /// the same user. So a socket without `SO_REUSEPORT` is bound first.
    fn reserve(&self, mut addr: SocketAddr) -> Result<SocketAddr, Failure> {
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))
            .map_err(|error| ("socket", error))?;
        socket.set_reuse_address(true).map_err(|error| ("setsockopt", error))?;
        if addr.is_ipv6() {
            socket.set_only_v6(self.v6_only).map_err(|error| ("setsockopt", error))?;
        }
        socket.bind(&SockAddr::from(addr)).map_err(|error| ("bind", error))?;
        let bound = socket.local_addr().map_err(|error| ("getsockname", error))?;
        addr.set_port(bound.as_socket().map_or(0, |bound| bound.port()));
        Ok(addr)
    }

    fn tcp_socket(&self, addr: SocketAddr, workers: u16, speaks_first: bool) -> Result<Socket, Failure> {
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM.nonblocking(), Some(Protocol::TCP))
            .map_err(|error| ("socket", error))?;
        let option = |error| ("setsockopt", error);
        socket.set_reuse_address(true).map_err(option)?;
        if workers > 1 || self.overlap {
            socket.set_reuse_port(true).map_err(option)?;
        }
        if addr.is_ipv6() {
            socket.set_only_v6(self.v6_only).map_err(option)?;
        }
        socket.bind(&SockAddr::from(addr)).map_err(|error| ("bind", error))?;
        self.set_options(&SockRef::from(&socket), speaks_first)?;
        self.listen(&SockRef::from(&socket))?;
        Ok(socket)
    }

    /// Sets the options that accepted connections inherit, except those that listen(2) resets.
    fn set_options(&self, socket: &SockRef<'_>, speaks_first: bool) -> Result<(), Failure> {
        let option = |error| ("setsockopt", error);
        socket.set_tcp_nodelay(self.nodelay).map_err(option)?;
        self.buf_lens.apply(socket).map_err(option)?;
        self.options.apply(socket).map_err(option)?;
        let secs = match self.defer_accept.filter(|_| !speaks_first) {
            Some(time) => u32::try_from(time.as_secs().max(1)).unwrap_or(u32::MAX),
            None => 0,
        };
        doorbell_ring::sockopt::set_tcp_defer_accept(socket.as_fd(), secs)
            .map_err(|errno| option(errno.into()))
    }

    /// Calls listen(2). On a socket that already listens, the call only changes the backlog.
    fn listen(&self, socket: &SockRef<'_>) -> Result<(), Failure> {
        socket.listen(i32::try_from(self.backlog).unwrap_or(i32::MAX)).map_err(|error| ("listen", error))?;
        if matches!(self.addr, ListenAddr::Tcp(_)) {
            // Set after listen(2), which resets the option. Connections inherit it.
            doorbell_ring::sockopt::set_tcp_quickack(socket.as_fd(), self.quickack)
                .map_err(|errno| ("setsockopt", errno.into()))?;
        }
        Ok(())
    }
}

/// Options of a connection that are reset before the connection is handed over: the user timeout,
/// which also ends a connection whose peer keeps its window closed for that time (tcp(7)), and the
/// fixed buffer sizes. The options are not reset if another program created the listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inherited {
    is_ours: bool,
    is_buf_fixed: bool,
}

impl Inherited {
    /// Reads the options of a connection, which are the same for all connections of its listener.
    pub(crate) fn of(conn: impl AsFd) -> Self {
        let conn = conn.as_fd();
        // A user timeout with doorbell's value shows that doorbell created the listener, in this
        // process or in its predecessor.
        let keepalive = sockopt::socket_keepalive(conn).is_ok_and(|on| on);
        let idle = keepalive.then(|| sockopt::tcp_keepidle(conn).unwrap_or_default());
        let ours = user_timeout(idle).as_millis();
        let is_ours = sockopt::tcp_user_timeout(conn).is_ok_and(|millis| u128::from(millis) == ours);
        let is_buf_fixed = buf_locks(conn).is_ok_and(|locks| locks != BufLocks::default());
        Self { is_ours, is_buf_fixed: is_buf_fixed && is_ours }
    }

    /// Resets the options. A failure means that the connection is gone, which its owner will
    /// notice.
    pub(crate) fn undo(self, conn: impl AsFd) {
        let conn = conn.as_fd();
        if self.is_ours {
            let _gone = sockopt::set_tcp_user_timeout(conn, 0);
        }
        if self.is_buf_fixed {
            let _gone = set_buf_locks(conn, BufLocks::default());
        }
    }
}

/// Default of `net.core.somaxconn` since Linux 5.4.
const SOMAXCONN_DEFAULT: u32 = 4096;

fn local_addr(socket: &Socket) -> io::Result<LocalAddr> {
    let addr = socket.local_addr()?;
    Ok(match addr.as_socket() {
        Some(addr) => LocalAddr::Tcp(addr),
        None => LocalAddr::Unix(addr.as_pathname().map(Into::into)),
    })
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inherited(fd) => write!(f, "inherited descriptor {}", std::os::fd::AsRawFd::as_raw_fd(fd)),
            Self::Tcp(addr) => addr.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl fmt::Display for LocalAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => addr.fmt(f),
            Self::Udp(addr) => write!(f, "udp:{addr}"),
            Self::Unix(Some(path)) => write!(f, "unix:{}", path.display()),
            Self::Unix(None) => f.write_str("unix:(unnamed)"),
        }
    }
}
