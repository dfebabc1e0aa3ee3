//! Listening sockets: one for each worker, with the options that accepted connections inherit.
//!
//! Does not know about: who accepts, what is spoken.
//!
//! Options are set on the listener because a child socket inherits them (tcp(7)), which saves a system call a connection, and
//! because a direct descriptor of io_uring has no other way to get them.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use super::ProxyProtocol;
use super::unix::{self, SocketFile};
use rustix::net::sockopt;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

/// Where to listen.
#[derive(Debug)]
#[non_exhaustive]
pub enum ListenAddr {
    /// A socket that is listening already: from a service manager, or from the server before this one.
    Inherited(OwnedFd),
    /// A TCP address; port 0 lets the kernel choose. An IPv6 wildcard also takes IPv4 clients.
    Tcp(SocketAddr),
    /// A Unix stream socket. A socket there that no process listens on is replaced; a live one, and a file of another kind, is not.
    Unix(PathBuf),
}

/// A listener as the user wants it. See each method for its default.
#[derive(Debug)]
pub struct Listen {
    pub(crate) addr: ListenAddr,
    backlog: u32,
    defer_accept: Option<Duration>,
    nodelay: bool,
    quickack: bool,
    send_buf_len: Option<usize>,
    v6_only: bool,
    overlap: bool,
    pub(crate) proxy: Option<ProxyProtocol>,
    listening: Vec<OwnedFd>,
    label: Option<Arc<str>>,
}

/// A listener that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{call} on {addr} failed: {error}")]
pub struct ListenError {
    /// What failed: `bind`, `listen`, `socket`, …
    pub call: &'static str,
    /// The address as the user wrote it.
    pub addr: String,
    /// The system's error.
    #[source]
    pub error: io::Error,
}

/// The listening sockets of one listener: one for each worker.
#[derive(Debug)]
pub(crate) struct Bound {
    /// As many as there are workers.
    pub(crate) fds: Vec<OwnedFd>,
    /// True when the sockets are one and the same, or others accept from them too.
    pub(crate) is_shared: bool,
    /// Whoever had them before gave copies to somebody else as well.
    pub(crate) is_lent: bool,
    pub(crate) local: LocalAddr,
    /// Of a Unix socket with a path that was made here.
    pub(crate) file: Option<Arc<SocketFile>>,
    pub(crate) asked: Asked,
}

/// What a listener was asked to be. A successor that asks for the same gets the same sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Whoever passed the socket passes it again.
    Inherited,
    /// As it was written, so that port 0 is the port chosen before.
    Tcp {
        addr: SocketAddr,
        v6_only: bool,
        /// Of a listener at port 0, of which several may ask for the same.
        label: Option<Arc<str>>,
    },
    Unix(PathBuf),
}

/// The address a listener got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalAddr {
    /// With the port the kernel chose.
    Tcp(SocketAddr),
    /// The path, if the socket has one.
    Unix(Option<PathBuf>),
}

impl Listen {
    /// Listens at `addr` with the defaults.
    pub const fn at(addr: ListenAddr) -> Self {
        Self {
            addr,
            backlog: 4096,
            defer_accept: Some(Duration::from_secs(3)),
            nodelay: true,
            quickack: true,
            send_buf_len: Some(256 * 1024),
            v6_only: false,
            overlap: false,
            proxy: None,
            listening: Vec::new(),
            label: None,
        }
    }

    /// Listens on a TCP address. Where it is in use the start tries again for half a second: a ring outlives the process that was killed by
    /// milliseconds, and keeps its sockets that long.
    pub const fn tcp(addr: SocketAddr) -> Self {
        Self::at(ListenAddr::Tcp(addr))
    }

    /// Listens on a Unix stream socket.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::at(ListenAddr::Unix(path.into()))
    }

    /// Accepts from a socket that is listening already. It is shared by all workers; its options stay as they are. A socket of another kind is refused at start.
    pub const fn inherited(fd: OwnedFd) -> Self {
        Self::at(ListenAddr::Inherited(fd))
    }

    /// Clients that may wait to be accepted, capped by `net.core.somaxconn`. Default 4,096.
    #[must_use]
    pub const fn backlog(mut self, conns: u32) -> Self {
        self.backlog = conns;
        self
    }

    /// Accept a client only when its first bytes are there, or after this time (`TCP_DEFER_ACCEPT`): one wake-up less a
    /// connection. A probe that only connects and closes still succeeds. Default 3 s; `None` turns it off, and so does a protocol
    /// in which the server speaks first.
    #[must_use]
    pub const fn defer_accept(mut self, time: Option<Duration>) -> Self {
        self.defer_accept = time;
        self
    }

    /// `TCP_NODELAY`. Default true.
    #[must_use]
    pub const fn nodelay(mut self, on: bool) -> Self {
        self.nodelay = on;
        self
    }

    /// `TCP_QUICKACK` of the listener. Off, the acknowledgement of a request travels with its reply and not before it: a segment less
    /// a connection, as long as the reply takes less than the 40 ms after which the kernel sends one anyway. Default true, the
    /// kernel's own.
    #[must_use]
    pub const fn quickack(mut self, on: bool) -> Self {
        self.quickack = on;
        self
    }

    /// `SO_SNDBUF`: how much of a reply the kernel holds for a slow reader. Default 256 KiB, which bounds the memory a
    /// connection can bind and lets progress of a slow reader be seen; `None` leaves it to the kernel's autotuning. A connection that is
    /// [handed over](crate::hand_over) is tuned by the kernel again.
    #[must_use]
    pub const fn send_buf_len(mut self, bytes: Option<usize>) -> Self {
        self.send_buf_len = bytes;
        self
    }

    /// `IPV6_V6ONLY`: an IPv6 wildcard takes no IPv4 clients. Default false.
    #[must_use]
    pub const fn v6_only(mut self, on: bool) -> Self {
        self.v6_only = on;
        self
    }

    /// Bind although another server of the same user holds the port with `SO_REUSEPORT`; the kernel then shares clients between
    /// the two, and those in the backlog of the one that closes are reset. Where you can, give both servers the same socket
    /// instead ([`Listen::inherited`]): that loses nobody. Default false: a port in use is an error.
    #[must_use]
    pub const fn overlap(mut self, on: bool) -> Self {
        self.overlap = on;
        self
    }

    /// Of a TCP address: accepts from these sockets, which listen there already, in the place of new ones. For those that a process
    /// before this one had ([`Handle::listening`](crate::Handle::listening)): whoever waits in their backlogs is served. They get this
    /// listener's options. Where there are fewer than workers the kernel lets others in beside them if they have `SO_REUSEPORT`, and
    /// one alone without it is shared by all workers. There must not be more of them than workers: those are closed, with whoever waits there.
    /// A [successor](crate::ServerBuilder::succeed) takes those of the server before and not these.
    #[must_use]
    pub fn listening(mut self, sockets: Vec<OwnedFd>) -> Self {
        self.listening = sockets;
        self
    }

    /// Tells listeners apart that ask for port 0 at the same address: a [successor](crate::ServerBuilder::succeed) gets the port of the
    /// listener with the same label. Those with the same label, or without one, get theirs in order. Elsewhere the address says enough.
    #[must_use]
    pub fn label(mut self, label: &str) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Whether connections begin with a PROXY protocol header that tells the client's address. Default: they do not.
    #[must_use]
    pub fn proxy_protocol(mut self, proxy: ProxyProtocol) -> Self {
        self.proxy = Some(proxy);
        self
    }

    /// Clients that can be waiting at once; of an inherited socket, whose backlog is unknown, the kernel's cap is assumed.
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

    /// What it is asked to be.
    pub(crate) fn asked(&self) -> Asked {
        match &self.addr {
            ListenAddr::Inherited(_) => Asked::Inherited,
            ListenAddr::Tcp(addr) => Asked::Tcp {
                addr: *addr,
                v6_only: self.v6_only && addr.is_ipv6(),
                label: self.label.clone().filter(|_| addr.port() == 0),
            },
            ListenAddr::Unix(path) => Asked::Unix(path.clone()),
        }
    }

    /// True when its peers have no addresses.
    pub(crate) fn is_unix(&self) -> bool {
        match &self.addr {
            ListenAddr::Inherited(fd) => {
                SockRef::from(fd).domain().is_ok_and(|domain| domain == Domain::UNIX)
            }
            ListenAddr::Tcp(_) => false,
            ListenAddr::Unix(_) => true,
        }
    }

    /// An error of this listener.
    pub(crate) fn failed(&self, call: &'static str, error: io::Error) -> ListenError {
        ListenError { call, addr: self.addr.to_string(), error }
    }

    /// One more socket beside those of other workers at the same address.
    pub(crate) fn beside(&self, local: &LocalAddr, speaks_first: bool) -> Result<OwnedFd, ListenError> {
        let LocalAddr::Tcp(addr) = local else {
            return Err(self.failed("dup", io::ErrorKind::NotFound.into()));
        };
        let socket = self.tcp_socket(*addr, 2, speaks_first);
        socket.map(OwnedFd::from).map_err(|(call, error)| self.failed(call, error))
    }

    /// Gives sockets that listen already, as was `asked`, what this listener says of those that they accept.
    pub(crate) fn renew<'a>(
        &self,
        asked: &Asked,
        fds: impl Iterator<Item = &'a OwnedFd>,
        speaks_first: bool,
    ) -> Result<(), ListenError> {
        let failed = |(call, error)| self.failed(call, error);
        for fd in fds {
            match asked {
                Asked::Inherited => {}
                Asked::Tcp { .. } => {
                    let socket = SockRef::from(fd);
                    self.set_options(&socket, speaks_first).map_err(failed)?;
                    self.listen(&socket).map_err(failed)?;
                }
                Asked::Unix(_) => self.listen(&SockRef::from(fd)).map_err(failed)?,
            }
        }
        Ok(())
    }

    /// Makes a socket for each of `workers`. `speaks_first` turns deferred accept off.
    pub(crate) fn bind(mut self, workers: u16, speaks_first: bool) -> Result<Bound, ListenError> {
        let asked = self.asked();
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
                    let (socket, file) = unix::bind(path)?;
                    self.listen(&SockRef::from(&socket))?;
                    Ok((socket, file))
                });
                let (socket, file) = bound.map_err(|(call, e)| failed(call)(e))?;
                let local = LocalAddr::Unix(Some(path.clone()));
                let fds = copies(socket.into(), workers).map_err(failed("dup"))?;
                Ok(Bound { fds, is_shared: true, is_lent: false, local, file, asked })
            }
            ListenAddr::Inherited(_) => {
                let ListenAddr::Inherited(fd) = self.addr else { unreachable!("matched above") };
                let socket = Socket::from(fd);
                check_listens(&socket).map_err(failed("accept"))?;
                let local = local_addr(&socket).map_err(failed("getsockname"))?;
                socket.set_nonblocking(true).map_err(failed("fcntl"))?;
                let fds = copies(socket.into(), workers).map_err(failed("dup"))?;
                Ok(Bound { fds, is_shared: true, is_lent: false, local, file: None, asked })
            }
        }
    }

    fn bind_tcp(&self, mut addr: SocketAddr, workers: u16, speaks_first: bool) -> Result<Bound, Failure> {
        let asked = self.asked();
        let mut fds = Vec::with_capacity(usize::from(workers));
        if workers > 1 && !self.overlap {
            addr = self.reserve(addr)?;
        }
        for _ in 0..workers {
            let socket = self.tcp_socket(addr, workers, speaks_first)?;
            if addr.port() == 0 {
                let chosen = socket.local_addr().map_err(|error| ("getsockname", error))?;
                addr.set_port(chosen.as_socket().map_or(0, |chosen| chosen.port()));
            }
            fds.push(socket.into());
        }
        Ok(Bound { fds, is_shared: false, is_lent: false, local: LocalAddr::Tcp(addr), file: None, asked })
    }

    /// Sockets that listen already, and as many beside them as workers have none.
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
            && !shares_port(socket)?
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
        Ok(Bound { fds, is_shared, is_lent: false, local, file: None, asked: self.asked() })
    }

    /// `SO_REUSEPORT`, which the workers' sockets need, would also let them share the port with a stranger. A socket without
    /// it shows that nobody has it.
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

    /// What accepted connections inherit, as far as it is set before listen(2).
    fn set_options(&self, socket: &SockRef<'_>, speaks_first: bool) -> Result<(), Failure> {
        let option = |error| ("setsockopt", error);
        socket.set_tcp_nodelay(self.nodelay).map_err(option)?;
        if let Some(bytes) = self.send_buf_len {
            socket.set_send_buffer_size(bytes).map_err(option)?;
        }
        // A peer that vanished is noticed: an idle one by its deadline, one that owes an acknowledgement by this. SO_KEEPALIVE would
        // only add a timer to each connection.
        socket.set_tcp_user_timeout(Some(USER_TIMEOUT)).map_err(option)?;
        let secs = match self.defer_accept.filter(|_| !speaks_first) {
            Some(time) => u32::try_from(time.as_secs().max(1)).unwrap_or(u32::MAX),
            None => 0,
        };
        doorbell_ring::sockopt::set_tcp_defer_accept(socket.as_fd(), secs)
            .map_err(|errno| option(errno.into()))
    }

    /// listen(2); on a socket that listens already it only changes the backlog.
    fn listen(&self, socket: &SockRef<'_>) -> Result<(), Failure> {
        socket.listen(i32::try_from(self.backlog).unwrap_or(i32::MAX)).map_err(|error| ("listen", error))?;
        if matches!(self.addr, ListenAddr::Tcp(_)) {
            // After listen(2), which resets it; connections inherit it.
            doorbell_ring::sockopt::set_tcp_quickack(socket.as_fd(), self.quickack)
                .map_err(|errno| ("setsockopt", errno.into()))?;
        }
        Ok(())
    }
}

/// How long an address may still be in use. The kernel takes down the ring of a killed process after the process has ended, and its sockets
/// with it: 8 ms later, 40 ms with 5,000 connections on a busy machine (Linux 6.18; with epoll it is 0). Who restarts it at once is not
/// to be told that somebody else has the address.
const IN_USE_MAX: Duration = Duration::from_millis(500);

/// Binds again while the address is in use, for [`IN_USE_MAX`] at most.
#[expect(
    clippy::disallowed_methods,
    reason = "it is the thread that starts a server, and no ring runs on it"
)]
fn patient<T>(mut bind: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    const PAUSE: Duration = Duration::from_millis(20);
    for _ in 0..IN_USE_MAX.as_millis() / PAUSE.as_millis() {
        match bind() {
            Err((_, error)) if error.kind() == io::ErrorKind::AddrInUse => std::thread::sleep(PAUSE),
            bound => return bound,
        }
    }
    bind()
}

/// After this long without an acknowledgement the kernel gives a connection up (tcp(7), `TCP_USER_TIMEOUT`).
const USER_TIMEOUT: Duration = Duration::from_secs(15);

/// What connections inherited of a listener that was made here and their new owner has no use for: [`USER_TIMEOUT`], which also ends a
/// connection whose peer opens no window for so long (tcp(7)), and the fixed send buffer. Options of somebody else's listener stay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inherited {
    is_ours: bool,
    is_buf_fixed: bool,
}

impl Inherited {
    /// What this connection has, and every other one of its listener.
    pub(crate) fn of(conn: impl AsFd) -> Self {
        let conn = conn.as_fd();
        // The timeout says that the listener was made here, also by the process before this one.
        let timeout = sockopt::tcp_user_timeout(conn);
        let is_ours = timeout.is_ok_and(|millis| u128::from(millis) == USER_TIMEOUT.as_millis());
        let is_buf_fixed = doorbell_ring::sockopt::is_send_buf_len_locked(conn);
        Self { is_ours, is_buf_fixed: is_buf_fixed.is_ok_and(|fixed| fixed && is_ours) }
    }

    /// Undoes it. A connection that cannot be changed is gone, and will tell its owner.
    pub(crate) fn undo(self, conn: impl AsFd) {
        let conn = conn.as_fd();
        if self.is_ours {
            let _gone = sockopt::set_tcp_user_timeout(conn, 0);
        }
        if self.is_buf_fixed {
            let _gone = doorbell_ring::sockopt::unlock_buf_lens(conn);
        }
    }
}

/// `net.core.somaxconn` since Linux 5.4.
const SOMAXCONN_DEFAULT: u32 = 4096;

type Failure = (&'static str, io::Error);

/// What a listener is to be made of cannot be used: no error of the system.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unusable(pub(super) &'static str);

impl Unusable {
    pub(crate) fn is_cause_of(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

/// A socket that was passed has to be one that connections come from: any other is only noticed by the clients that wait.
fn check_listens(socket: &Socket) -> io::Result<()> {
    let domain = socket.domain()?;
    let why = match () {
        () if ![Domain::IPV4, Domain::IPV6, Domain::UNIX].contains(&domain) => {
            "it is neither a TCP nor a Unix socket: pass a listening one"
        }
        () if socket.r#type()? != Type::STREAM => {
            "it is not a stream socket: pass a listening TCP or Unix socket"
        }
        () if !socket.is_listener()? => "the socket does not listen: pass it after listen(2)",
        () => return Ok(()),
    };
    Err(io::Error::other(Unusable(why)))
}

fn copies(fd: OwnedFd, workers: u16) -> io::Result<Vec<OwnedFd>> {
    let mut fds = Vec::with_capacity(usize::from(workers));
    for _ in 1..workers {
        fds.push(fd.try_clone()?);
    }
    fds.push(fd);
    Ok(fds)
}

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
            Self::Unix(Some(path)) => write!(f, "unix:{}", path.display()),
            Self::Unix(None) => f.write_str("unix:(unnamed)"),
        }
    }
}
