//! Less common options of TCP sockets, which accepted connections inherit, and the permissions of the
//! file of a Unix socket.

use core::time::Duration;
use std::io;
use std::os::fd::AsFd as _;

use socket2::{Domain, SockRef, TcpKeepalive};

use super::unix::SocketFile;
use super::{Listen, ListenError};

/// Number of keepalive probes without an acknowledgement after which a connection ends. The probes
/// are a third of the idle time apart, so a lost peer is detected after twice the idle time.
const KEEPALIVE_PROBES: u32 = 3;

/// Longest keepalive time that the kernel accepts, in seconds (`MAX_TCP_KEEPIDLE`).
const KEEPALIVE_SECS_MAX: u64 = 32_767;

/// Time without an acknowledgement after which the kernel drops a connection (tcp(7),
/// `TCP_USER_TIMEOUT`).
const USER_TIMEOUT: Duration = Duration::from_secs(15);

/// Returns the user timeout of connections with this idle time before keepalive probes. The timeout
/// replaces the number of probes (tcp(7)), so it must not expire before the last probe.
pub(super) fn user_timeout(keepalive: Option<Duration>) -> Duration {
    keepalive.map_or(USER_TIMEOUT, |idle| USER_TIMEOUT.max(2 * idle))
}

/// Options that are at the defaults of the kernel unless they are set explicitly.
#[derive(Clone, Debug)]
pub(super) struct Options {
    keepalive: Option<Duration>,
    fast_open: u32,
    dscp: u8,
    pub(super) mode: Option<u32>,
}

impl Options {
    /// The defaults of the kernel.
    pub(super) const NONE: Self = Self { keepalive: None, fast_open: 0, dscp: 0, mode: None };

    /// Sets the options on a listening socket. Defaults are set too, because a predecessor may have
    /// set other values.
    pub(super) fn apply(&self, socket: &SockRef<'_>) -> io::Result<()> {
        // The user timeout detects a lost peer while sent bytes are unacknowledged; the deadline of
        // a connection detects an idle peer. SO_KEEPALIVE would add a timer to each connection, so
        // it is off by default.
        socket.set_tcp_user_timeout(Some(user_timeout(self.keepalive)))?;
        match self.keepalive {
            Some(idle) => {
                let interval = (idle / KEEPALIVE_PROBES).max(Duration::from_secs(1));
                let keepalive = TcpKeepalive::new().with_time(idle).with_interval(interval);
                socket.set_tcp_keepalive(&keepalive.with_retries(KEEPALIVE_PROBES))?;
            }
            None => socket.set_keepalive(false)?,
        }
        let fast_open = doorbell_ring::sockopt::set_tcp_fastopen(socket.as_fd(), self.fast_open);
        needed(self.fast_open != 0, fast_open.map_err(io::Error::from))?;
        // The two lowest bits are those of ECN, which the kernel sets.
        let traffic_class = u32::from(self.dscp) << 2;
        needed(self.dscp != 0, socket.set_tos_v4(traffic_class))?;
        if socket.domain()? == Domain::IPV6 {
            needed(self.dscp != 0, socket.set_tclass_v6(traffic_class))?;
        }
        Ok(())
    }
}

/// Ignores an error for an option with its default value: a kernel that lacks the option behaves
/// like the default.
fn needed(is_set: bool, result: io::Result<()>) -> io::Result<()> {
    if is_set { result } else { Ok(()) }
}

impl Listen {
    /// Sets `SO_RCVBUF`, the number of bytes that the kernel buffers before the worker reads them.
    /// Default `None`: the kernel tunes the size.
    #[must_use]
    pub const fn recv_buf_len(mut self, bytes: Option<usize>) -> Self {
        self.buf_lens.recv = bytes;
        self
    }

    /// Sends keepalive probes to a peer after this time without a segment (`SO_KEEPALIVE`, in whole
    /// seconds, 1 s to 9 h); further probes are a third of this time apart. A connection ends if
    /// the peer acknowledges neither probes nor bytes for twice this time, or for 15 s if that is
    /// longer. Default `None`: an idle connection ends at the deadline of its protocol.
    ///
    /// Useful for stream protocols whose connections may be idle for longer than a NAT or a
    /// firewall keeps their state.
    #[must_use]
    pub const fn keepalive(mut self, idle: Option<Duration>) -> Self {
        self.options.keepalive = match idle {
            Some(idle) if idle.as_secs() == 0 => Some(Duration::from_secs(1)),
            Some(idle) if idle.as_secs() > KEEPALIVE_SECS_MAX => {
                Some(Duration::from_secs(KEEPALIVE_SECS_MAX))
            }
            Some(idle) => Some(Duration::from_secs(idle.as_secs())),
            None => None,
        };
        self
    }

    /// Accepts data in the SYN of clients that have connected before (`TCP_FASTOPEN`), with at most
    /// this number of such connections before their handshake ends. Default 0: none. The kernel
    /// also needs the flag 0x2 (server) in `net.ipv4.tcp_fastopen`.
    ///
    /// The kernel may deliver the data of a SYN twice, so use it only for idempotent requests.
    #[must_use]
    pub const fn fast_open(mut self, conns: u32) -> Self {
        self.options.fast_open = conns;
        self
    }

    /// Sets the class of traffic (DSCP, RFC 2474) of all packets, 0 to 63. Default 0. Higher bits
    /// are ignored.
    #[must_use]
    pub const fn dscp(mut self, class: u8) -> Self {
        self.options.dscp = class & 0x3f;
        self
    }

    /// Sets the permissions of the file of a Unix socket, such as `0o660`. Default: those of a new
    /// file by the file mode creation mask (`umask(2)`).
    #[must_use]
    pub const fn mode(mut self, mode: Option<u32>) -> Self {
        self.options.mode = mode;
        self
    }

    /// Sets the permissions of a file that exists already.
    pub(crate) fn set_mode_of(&self, file: &SocketFile) -> Result<(), ListenError> {
        let set = self.options.mode.map_or(Ok(()), |mode| file.set_mode(mode));
        set.map_err(|error| self.failed("chmod", error))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};

    use socket2::{Socket, Type};

    use super::super::listen::Inherited;
    use super::*;

    /// A listening socket with these options, and a connection that it has accepted.
    fn accepted(addr: SocketAddr, listen: &Listen) -> Socket {
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None).unwrap();
        socket.bind(&addr.into()).unwrap();
        listen.buf_lens.apply(&SockRef::from(&socket)).unwrap();
        listen.options.apply(&SockRef::from(&socket)).unwrap();
        socket.listen(8).unwrap();
        let _client = TcpStream::connect(socket.local_addr().unwrap().as_socket().unwrap()).unwrap();
        socket.accept().unwrap().0
    }

    #[test]
    fn connections_inherit_the_options_of_their_listener() {
        for addr in [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), (Ipv6Addr::LOCALHOST, 0).into()] {
            let idle = Duration::from_secs(60);
            let listen = Listen::tcp(addr).recv_buf_len(Some(40_000)).keepalive(Some(idle)).dscp(46);
            let conn = accepted(addr, &listen.fast_open(16));
            // The kernel doubles the size (socket(7)).
            assert_eq!(conn.recv_buffer_size().unwrap(), 80_000);
            let times = (conn.tcp_keepalive_time().unwrap(), conn.tcp_keepalive_interval().unwrap());
            assert_eq!((conn.keepalive().unwrap(), times), (true, (idle, idle / 3)));
            assert_eq!(conn.tos_v4().unwrap(), 46 << 2);
            if addr.is_ipv6() {
                assert_eq!(conn.tclass_v6().unwrap(), 46 << 2);
            }
            assert_eq!(conn.tcp_user_timeout().unwrap(), Some(2 * idle), "not before the last probe");
            Inherited::of(&conn).undo(&conn);
            assert_eq!(conn.tcp_user_timeout().unwrap(), None, "reset for a hand-over");
            let plain = accepted(addr, &Listen::tcp(addr));
            assert_eq!((plain.keepalive().unwrap(), plain.tos_v4().unwrap()), (false, 0));
        }
    }

    #[test]
    fn a_keepalive_time_is_within_the_limits_of_the_kernel() {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        for (asked, expected) in [(0, 1), (999, 1), (1_500, 1), (40_000_000, 32_767)] {
            let listen = Listen::tcp(addr).keepalive(Some(Duration::from_millis(asked)));
            let conn = accepted(addr, &listen);
            assert_eq!(conn.tcp_keepalive_time().unwrap(), Duration::from_secs(expected), "{asked} ms");
        }
    }
}
