//! Connects to a host and port, or to a Unix socket. The addresses of a name are cached for a time,
//! and are tried in order or checked individually.

use crate::connect::connector::{Conn, Connector};
use crate::connect::datagrams::Datagrams;
use crate::connect::resolver::Name;
use crate::finding::{Issue, cause_of};
use crate::options::{Address, HostPort, Prefer, ProxyHeader, Resolve};
use crate::progress::{Progress, Stage};
use doorbell_config::format_duration;
use doorbell_egress::SpeaksFirst;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, timeout};

/// Maximum number of addresses of a name to try; they share the timeout of the connection.
const ADDRS_MAX: usize = 8;

/// Maximum number of addresses of a name when all are checked.
const ALL_ADDRS_MAX: usize = 64;

/// Why an ICMP echo socket is refused (icmp(7)).
#[cfg(feature = "icmp")]
const NO_ECHO: &str = "ICMP sockets are not permitted: `sysctl -w net.ipv4.ping_group_range=\"0 2147483647\"` permits them to every group";

/// Opens the connections of one check.
#[derive(Debug)]
pub(crate) struct Dialer {
    resolve: Resolve,
    timeout: Duration,
    connector: Arc<Connector>,
    first: SpeaksFirst,
    /// Header to send first on each connection.
    proxy: Option<ProxyHeader>,
    target: DialTarget,
    /// Time of the last failure of the cached addresses. Addresses that were cached before this
    /// time are looked up again.
    doubted: Mutex<Option<Instant>>,
}

#[derive(Debug)]
enum DialTarget {
    Addr(SocketAddr),
    Name(Arc<Name>, u16),
    Path(PathBuf),
}

impl Dialer {
    pub(crate) fn new(at: Address, resolve: Resolve, timeout: Duration, connector: Arc<Connector>) -> Self {
        let target = match at {
            Address::Tcp(at) => match at.host.parse::<IpAddr>() {
                Ok(ip) => DialTarget::Addr(SocketAddr::new(ip, at.port)),
                Err(_) => DialTarget::Name(connector.resolver.name(&at.host), at.port),
            },
            Address::Unix(path) => DialTarget::Path(path),
        };
        let first = SpeaksFirst::We;
        Self { resolve, timeout, connector, first, proxy: None, target, doubted: Mutex::new(None) }
    }

    /// Sets a header to send first on each connection.
    pub(crate) const fn with_proxy_header(mut self, proxy: Option<ProxyHeader>) -> Self {
        self.proxy = proxy;
        self
    }

    /// A dialer for another address with the same options, except the PROXY header and `all`.
    pub(crate) fn to(&self, at: HostPort) -> Self {
        let resolve = Resolve { all: false, ..self.resolve };
        Self::new(Address::Tcp(at), resolve, self.timeout, Arc::clone(&self.connector))
    }

    /// Whether a run checks every address of the name.
    pub(crate) const fn checks_all_addrs(&self) -> bool {
        self.resolve.all && matches!(self.target, DialTarget::Name(..))
    }

    /// Whether a name has to be resolved first.
    pub(crate) const fn has_name(&self) -> bool {
        matches!(self.target, DialTarget::Name(..))
    }

    /// Declares that the peer sends first, unless a PROXY header is sent: the handshake is
    /// acknowledged immediately instead of together with the first data.
    pub(crate) const fn peer_sends_first(mut self) -> Self {
        if self.proxy.is_none() {
            self.first = SpeaksFirst::Peer;
        }
        self
    }

    /// Opens a UDP socket for the first usable address.
    pub(crate) async fn begin_udp(&self, progress: &Progress) -> Result<Datagrams, Issue> {
        let open = |addr| Datagrams::udp(&self.connector, addr).map_err(|error| issue_of(addr, &error));
        self.first_usable(progress, open).await
    }

    /// Opens an ICMP echo socket for the first usable address, which is also returned.
    #[cfg(feature = "icmp")]
    pub(crate) async fn begin_echo(
        &self,
        progress: &Progress,
        max_hops: Option<u8>,
    ) -> Result<(Datagrams, IpAddr), Issue> {
        let open = |addr: SocketAddr| {
            let begun = Datagrams::echo(&self.connector, addr, max_hops);
            begun.map(|socket| (socket, addr.ip())).map_err(|error| match error.kind() {
                std::io::ErrorKind::PermissionDenied => Issue::error(NO_ECHO),
                _ => issue_of(addr.ip(), &error),
            })
        };
        self.first_usable(progress, open).await
    }

    /// Whether the address is a Unix socket.
    #[cfg(feature = "udp")]
    pub(crate) const fn is_unix(&self) -> bool {
        matches!(self.target, DialTarget::Path(_))
    }

    /// Opens a datagram socket for the Unix socket, or for the first usable address.
    #[cfg(feature = "udp")]
    pub(crate) async fn begin_datagrams(&self, progress: &Progress) -> Result<Datagrams, Issue> {
        if let DialTarget::Path(path) = &self.target {
            progress.enter(Stage::Connect);
            return Datagrams::unix(path).map_err(|error| issue_of_path(path, &error));
        }
        self.begin_udp(progress).await
    }

    /// Opens a socket for the first address for which this succeeds. It fails at once for an address
    /// without a route, or of a family that this machine does not use. A peer that refuses or does
    /// not reply is found out only by sending, and is the result of the run, as with ping.
    async fn first_usable<T>(
        &self,
        progress: &Progress,
        open: impl Fn(SocketAddr) -> Result<T, Issue>,
    ) -> Result<T, Issue> {
        let mut opened = Err(Issue::error("no address to connect to"));
        for addr in self.addrs(progress).await? {
            progress.see(|seen| seen.address = Some(addr.ip()));
            opened = open(addr);
            if opened.is_ok() {
                break;
            }
        }
        opened
    }

    /// Opens a connection to the first address that accepts, and sends the PROXY header.
    pub(crate) async fn connect(&self, progress: &Progress) -> Result<Conn, Issue> {
        match timeout(self.timeout, self.open(progress)).await {
            Ok(connected) => connected,
            Err(_elapsed) => {
                self.forget();
                Err(Issue::timeout(progress.overdue(self.timeout)))
            }
        }
    }

    async fn open(&self, progress: &Progress) -> Result<Conn, Issue> {
        let mut conn = self.try_all(progress).await?;
        if let Some(proxy) = self.proxy {
            let sent = conn.write_all(&proxy.bytes(conn.addrs())).await;
            sent.map_err(|error| Issue::failure(cause_of(&error)))?;
        }
        Ok(conn)
    }

    async fn try_all(&self, progress: &Progress) -> Result<Conn, Issue> {
        if let DialTarget::Path(path) = &self.target {
            progress.enter(Stage::Connect);
            let connected = self.connector.connect_unix(path).await;
            return connected.map_err(|error| issue_of_path(path, &error));
        }
        let addrs = self.addrs(progress).await?;
        progress.enter(Stage::Connect);
        let (mut last, is_alone) = (None, addrs.len() == 1);
        let each = self.timeout / u32::try_from(addrs.len()).unwrap_or(u32::MAX).max(1);
        for addr in addrs {
            // An address that drops packets must not use up the time of the other addresses.
            let connecting = self.connector.connect(addr, self.first);
            // A single address needs no time limit of its own, which saves a timer.
            let connected = if is_alone { Ok(connecting.await) } else { timeout(each, connecting).await };
            match connected {
                Ok(Ok(stream)) => {
                    progress.see(|seen| seen.address = Some(addr.ip()));
                    return Ok(stream);
                }
                Ok(Err(error)) => last = Some(issue_of(addr, &error)),
                Err(_elapsed) => {
                    let reason = format!("{addr}: no connection within {}", format_duration(each));
                    last = Some(Issue::timeout(reason));
                }
            }
        }
        self.forget();
        Err(last.unwrap_or_else(|| Issue::error("no address to connect to")))
    }

    /// The addresses to try, resolved if necessary; empty only for a Unix socket. Each part of a
    /// run that checks all addresses gets only its own address.
    pub(crate) async fn addrs(&self, progress: &Progress) -> Result<Vec<SocketAddr>, Issue> {
        progress.enter(Stage::Resolve);
        let (name, port) = match &self.target {
            DialTarget::Addr(addr) => return Ok(vec![*addr]),
            DialTarget::Name(name, port) => (name, *port),
            DialTarget::Path(_) => return Ok(Vec::new()),
        };
        if let Some(addr) = progress.only().filter(|_| self.resolve.all) {
            return Ok(vec![addr]);
        }
        let doubted = *self.doubted.lock().unwrap_or_else(PoisonError::into_inner);
        let will_do =
            |at: Instant| at.elapsed() < self.resolve.ttl && doubted.is_none_or(|doubted| at > doubted);
        // After a quarter of the timeout without an answer, cached addresses are used, so that
        // enough time remains to connect.
        let found = name.addrs(will_do, self.timeout / 4).await?;
        let found = found.iter().map(|&(mut addr)| {
            addr.set_port(port);
            addr
        });
        let addrs = in_order(found, self.resolve);
        match addrs.len() {
            0 => Err(Issue::error(format!("{} has no {}address", name.host(), of_family(self.resolve)))),
            all if self.resolve.all && all > ALL_ADDRS_MAX => {
                Err(Issue::error(format!("{} has more than {ALL_ADDRS_MAX} addresses", name.host())))
            }
            _ => Ok(addrs),
        }
    }

    /// Marks the cached addresses as failed, so that the name is looked up again.
    pub(crate) fn forget(&self) {
        *self.doubted.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

const fn of_family(resolve: Resolve) -> &'static str {
    match resolve.prefer {
        Prefer::Ipv4 if !resolve.fallback => "IPv4 ",
        Prefer::Ipv6 if !resolve.fallback => "IPv6 ",
        _ => "",
    }
}

/// Puts addresses of the preferred family first; drops the other family unless it is a fallback.
/// Keeps the resolver's order within each family, removes duplicates, and limits the number of
/// addresses.
fn in_order(found: impl Iterator<Item = SocketAddr>, resolve: Resolve) -> Vec<SocketAddr> {
    let is_other = |addr: &SocketAddr| match resolve.prefer {
        Prefer::Any => false,
        Prefer::Ipv4 => addr.is_ipv6(),
        Prefer::Ipv6 => addr.is_ipv4(),
    };
    let mut addrs: Vec<SocketAddr> = Vec::new();
    for addr in found.filter(|addr| resolve.fallback || !is_other(addr)) {
        // One more than allowed, so that the caller can detect an excess.
        if !addrs.contains(&addr) && addrs.len() <= ALL_ADDRS_MAX {
            addrs.push(addr);
        }
    }
    addrs.sort_by_key(is_other);
    if !resolve.all {
        addrs.truncate(ADDRS_MAX);
    }
    addrs
}

fn issue_of_path(path: &Path, error: &std::io::Error) -> Issue {
    Issue::failure(format!("{}: {}", path.display(), cause_of(error)))
}

fn issue_of(peer: impl Display, error: &std::io::Error) -> Issue {
    use std::io::ErrorKind;
    let reason = format!("{peer}: {}", cause_of(error));
    match error.kind() {
        // A local resource is exhausted, or a permission is missing.
        ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable | ErrorKind::PermissionDenied => {
            Issue::error(reason)
        }
        ErrorKind::TimedOut => Issue::timeout(reason),
        _ if error.raw_os_error().is_some_and(|code| [24, 23].contains(&code)) => Issue::error(reason),
        _ => Issue::failure(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_family_comes_first() {
        let addr = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (a, b, c) = (addr("[::1]:1"), addr("127.0.0.1:1"), addr("[::2]:1"));
        let order = |resolve| in_order([a, b, a, c].into_iter(), resolve);
        let prefer = |prefer| Resolve { prefer, ..Resolve::default() };
        assert_eq!(order(prefer(Prefer::Any)), [a, b, c]);
        assert_eq!(order(prefer(Prefer::Ipv4)), [b, a, c]);
        assert_eq!(order(prefer(Prefer::Ipv6)), [a, c, b]);
        assert_eq!(order(Resolve { fallback: false, ..prefer(Prefer::Ipv4) }), [b]);
        assert_eq!(order(Resolve { fallback: false, ..prefer(Prefer::Ipv6) }), [a, c]);
        let many = || (1..=200).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        assert_eq!(in_order(many(), Resolve::default()).len(), ADDRS_MAX);
        let all = Resolve { all: true, ..Resolve::default() };
        assert_eq!(in_order(many(), all).len(), ALL_ADDRS_MAX + 1);
    }

    #[test]
    fn causes_are_short() {
        let refused = std::io::Error::from_raw_os_error(111);
        assert_eq!(cause_of(&refused), "connection refused");
        assert_eq!(
            issue_of(SocketAddr::from(([127, 0, 0, 1], 9)), &refused).reason,
            "127.0.0.1:9: connection refused"
        );
        assert_eq!(cause_of(&std::io::Error::other("own words")), "own words");
    }
}
