//! Connections to targets: counted by result, and by default closed without TIME-WAIT.

use crate::connect::resolver::Resolver;
use crate::options::EgressOptions;
use doorbell_egress::{Egress, EgressConfig, EgressReport, SpeaksFirst};
use rustix::io::Errno;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Opens the connections of all checks, and holds the resolver that the checks share.
#[derive(Debug)]
pub struct Connector {
    egress: Egress,
    counters: ConnectCounters,
    pub(crate) resolver: Resolver,
}

/// Number of TCP connection attempts of all checks, by result.
#[derive(Debug, Default)]
pub struct ConnectCounters([AtomicU64; ConnectResult::ALL.len()]);

/// Result of a connection attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectResult {
    Connected,
    /// No port, descriptor or buffer was free, or a configured source is not an address of this
    /// machine.
    Exhausted,
    Failed,
    Refused,
    Reset,
    /// No response within the timeout.
    TimedOut,
    Unreachable,
}

/// An outgoing connection, which is closed when dropped. If the peer has not closed first, the
/// connection is reset, so that no local port stays in TIME-WAIT for a minute.
/// [`Self::close_with_fin`] prevents the reset.
#[derive(Debug)]
pub(crate) struct Conn {
    stream: Stream,
    closes_with_fin: bool,
    /// Whether a read has returned the end of the peer's data.
    is_ended: bool,
}

#[derive(Debug)]
enum Stream {
    Closed,
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Connector {
    /// Creates a connector that uses these source addresses and ports.
    ///
    /// # Errors
    /// This kernel does not support the configured port strategy.
    pub fn open(options: &EgressOptions) -> Result<Self, String> {
        let config = EgressConfig::new().sources(options.sources.clone()).ports(options.ports);
        // A lingering close would delay every other check of this thread.
        let egress = config.linger(None).open().map_err(|error| format!("check_defaults.egress: {error}"))?;
        Ok(Self { egress, counters: ConnectCounters::default(), resolver: Resolver::default() })
    }

    #[cfg(test)]
    pub(crate) fn with_resolver(self, resolver: Resolver) -> Self {
        Self { resolver, ..self }
    }

    /// The method by which local ports are chosen, and the reason for this method.
    #[must_use]
    pub const fn report(&self) -> EgressReport {
        self.egress.report()
    }

    /// TCP connection attempts by result.
    #[must_use]
    pub const fn counters(&self) -> &ConnectCounters {
        &self.counters
    }

    /// Attempts that were repeated with other candidate ports, because no candidate was free.
    #[must_use]
    pub fn port_window_retries(&self) -> u64 {
        self.egress.counters().port_retries
    }

    pub(crate) async fn connect(&self, addr: SocketAddr, first: SpeaksFirst) -> io::Result<Conn> {
        // Counted on drop, because the future may be dropped at any time.
        let mut attempt = Attempt { counters: &self.counters, result: ConnectResult::TimedOut };
        let connected = self.begin(addr, first).await;
        attempt.result = match &connected {
            Ok(_) => ConnectResult::Connected,
            Err(error) => ConnectResult::of(error),
        };
        connected
    }

    async fn begin(&self, addr: SocketAddr, first: SpeaksFirst) -> io::Result<Conn> {
        let stream = TcpStream::from_std(self.egress.begin(addr, first)?)?;
        let conn = Conn { stream: Stream::Tcp(stream), closes_with_fin: false, is_ended: false };
        if let Stream::Tcp(stream) = &conn.stream {
            stream.writable().await?;
            if let Some(error) = stream.take_error()? {
                return Err(error);
            }
        }
        Ok(conn)
    }

    pub(crate) async fn connect_unix(&self, path: &Path) -> io::Result<Conn> {
        let stream = UnixStream::connect(path).await?;
        Ok(Conn { stream: Stream::Unix(stream), closes_with_fin: true, is_ended: false })
    }

    /// Opens an ICMP echo socket for this peer.
    #[cfg(feature = "icmp")]
    pub(crate) fn begin_echo(&self, addr: SocketAddr) -> io::Result<UdpSocket> {
        self.egress.begin_echo(addr).map(UdpSocket::from)
    }

    /// Opens a UDP socket for this peer.
    pub(crate) fn begin_udp(&self, addr: SocketAddr) -> io::Result<UdpSocket> {
        self.egress.begin_udp(addr)
    }
}

/// Counts the result when dropped.
struct Attempt<'a> {
    counters: &'a ConnectCounters,
    result: ConnectResult,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.counters.0[self.result as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl ConnectCounters {
    /// The counters with their names.
    #[must_use]
    pub fn fields(&self) -> [(&'static str, u64); ConnectResult::ALL.len()] {
        ConnectResult::ALL.map(|result| (result.as_str(), self.0[result as usize].load(Ordering::Relaxed)))
    }
}

impl ConnectResult {
    pub(crate) const ALL: [Self; 7] = [
        Self::Connected,
        Self::Exhausted,
        Self::Failed,
        Self::Refused,
        Self::Reset,
        Self::TimedOut,
        Self::Unreachable,
    ];

    /// The name in metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Exhausted => "exhausted",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::TimedOut => "timed_out",
            Self::Unreachable => "unreachable",
        }
    }

    fn of(error: &io::Error) -> Self {
        match Errno::from_io_error(error) {
            Some(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL | Errno::MFILE | Errno::NFILE | Errno::NOBUFS) => {
                Self::Exhausted
            }
            Some(Errno::CONNREFUSED) => Self::Refused,
            Some(Errno::CONNRESET) => Self::Reset,
            Some(Errno::HOSTUNREACH | Errno::NETUNREACH) => Self::Unreachable,
            Some(Errno::TIMEDOUT) => Self::TimedOut,
            _ => Self::Failed,
        }
    }
}

impl Conn {
    /// The local address and the address of the peer; `None` for a Unix socket.
    pub(crate) fn addrs(&self) -> Option<(SocketAddr, SocketAddr)> {
        match &self.stream {
            Stream::Tcp(stream) => stream.local_addr().ok().zip(stream.peer_addr().ok()),
            Stream::Closed | Stream::Unix(_) => None,
        }
    }

    /// Makes the connection close with FIN instead of a reset, which would look like a fault to the
    /// peer, for example on a connection without any data. The local port then stays in TIME-WAIT
    /// for a minute.
    pub(crate) const fn close_with_fin(&mut self) {
        self.closes_with_fin = true;
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        if let Stream::Tcp(stream) = std::mem::replace(&mut self.stream, Stream::Closed)
            && !self.closes_with_fin
            // Only the side that closes first keeps the port in TIME-WAIT. After the peer's FIN, an
            // ordinary close suffices and saves a system call.
            && !self.is_ended
            && let Ok(stream) = stream.into_std()
        {
            doorbell_egress::close(stream);
        }
    }
}

impl AsyncRead for Conn {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buf.filled().len();
        let polled = match &mut self.stream {
            Stream::Closed => Poll::Ready(Ok(())),
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        };
        if matches!(polled, Poll::Ready(Ok(()))) {
            self.is_ended |= buf.filled().len() == filled && buf.remaining() > 0;
        }
        polled
    }
}

impl AsyncWrite for Conn {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing, because neither a TCP nor a Unix socket buffers data in user space.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Does nothing, so that the peer closes first: the side that closes first keeps its port in
    /// TIME-WAIT.
    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
