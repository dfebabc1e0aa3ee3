//! From a host and a port to a connection: addresses are remembered for a while and tried in order.
//!
//! Does not know about: what is said on the connection.

use super::egress::{Conn, Connector};
use super::{Complaint, Progress, Stage};
use crate::config::format_duration;
use crate::config::model::{HostPort, Place, Prefer, Resolve};
use doorbell::net::egress::SpeaksFirst;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout};

/// Addresses of a name that are tried; the time is shared among them.
const ADDRS_MAX: usize = 8;

/// Connects to one place.
#[derive(Debug)]
pub(super) struct Dialer {
    at: Place,
    resolve: Resolve,
    timeout: Duration,
    connector: Arc<Connector>,
    first: SpeaksFirst,
    known: Mutex<Option<Known>>,
}

#[derive(Clone, Debug)]
struct Known {
    until: Instant,
    addrs: Vec<SocketAddr>,
}

impl Dialer {
    pub(super) const fn new(
        at: Place,
        resolve: Resolve,
        timeout: Duration,
        connector: Arc<Connector>,
    ) -> Self {
        Self { at, resolve, timeout, connector, first: SpeaksFirst::We, known: Mutex::new(None) }
    }

    /// The same for another place, which is asked for each time.
    pub(super) fn to(&self, at: HostPort) -> Self {
        Self::new(Place::Tcp(at), self.resolve, self.timeout, Arc::clone(&self.connector))
    }

    /// For checks that say nothing: the peer hears of the connection at once.
    pub(super) const fn listens(mut self) -> Self {
        self.first = SpeaksFirst::Peer;
        self
    }

    /// A UDP socket for the first address.
    pub(super) async fn begin_udp(&self, at: &HostPort, progress: &Progress) -> Result<UdpSocket, Complaint> {
        progress.enter(Stage::Resolve);
        let addrs = self.addrs(at).await?;
        let addr = addrs.first().ok_or_else(|| Complaint::error(format!("{} has no address", at.host)))?;
        let begun = self.connector.begin_udp(*addr).and_then(UdpSocket::from_std);
        begun.map_err(|error| complaint_of(*addr, &error))
    }

    /// A connection to the first address that accepts.
    pub(super) async fn connect(&self, progress: &Progress) -> Result<Conn, Complaint> {
        match timeout(self.timeout, self.try_all(progress)).await {
            Ok(connected) => connected,
            Err(_elapsed) => {
                self.forget();
                Err(Complaint::timeout(format!("no connection within {}", format_duration(self.timeout))))
            }
        }
    }

    async fn try_all(&self, progress: &Progress) -> Result<Conn, Complaint> {
        progress.enter(Stage::Resolve);
        let at = match &self.at {
            Place::Tcp(at) => at,
            Place::Unix(path) => {
                progress.enter(Stage::Connect);
                let connected = self.connector.connect_unix(path).await;
                return connected.map_err(|error| {
                    Complaint::failure(format!("{}: {}", path.display(), cause_of(&error)))
                });
            }
        };
        let addrs = self.addrs(at).await?;
        progress.enter(Stage::Connect);
        let (mut last, is_alone) = (None, addrs.len() == 1);
        let each = self.timeout / u32::try_from(addrs.len()).unwrap_or(u32::MAX).max(1);
        for addr in addrs {
            // One that swallows everything must not use up the time of the others.
            let connecting = self.connector.connect(addr, self.first);
            // With one address there is nobody to leave time to, and one timer less.
            let connected = if is_alone { Ok(connecting.await) } else { timeout(each, connecting).await };
            match connected {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = Some(complaint_of(addr, &error)),
                Err(_elapsed) => {
                    let reason = format!("{addr}: no connection within {}", format_duration(each));
                    last = Some(Complaint::timeout(reason));
                }
            }
        }
        self.forget();
        Err(last.unwrap_or_else(|| Complaint::error(format!("{} has no address", at.host))))
    }

    /// Addresses that are known, or found. At most [`ADDRS_MAX`].
    pub(super) async fn addrs(&self, at: &HostPort) -> Result<Vec<SocketAddr>, Complaint> {
        if let Ok(ip) = at.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, at.port)]);
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|known| Instant::now() < known.until) {
            return Ok(known.addrs);
        }
        let found = tokio::net::lookup_host((at.host.as_str(), at.port)).await;
        let found = found.map_err(|error| Complaint::error(format!("{}: {}", at.host, cause_of(&error))))?;
        let addrs = in_order(found.collect(), self.resolve.prefer);
        let known = Known { until: Instant::now() + self.resolve.ttl, addrs: addrs.clone() };
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        Ok(addrs)
    }

    /// What did not lead anywhere is asked for again.
    fn forget(&self) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The preferred family first, the system's order within each, every address once.
fn in_order(found: Vec<SocketAddr>, prefer: Prefer) -> Vec<SocketAddr> {
    let mut addrs: Vec<SocketAddr> = Vec::new();
    for addr in found {
        if !addrs.contains(&addr) && addrs.len() < ADDRS_MAX * 8 {
            addrs.push(addr);
        }
    }
    addrs.sort_by_key(|addr| match prefer {
        Prefer::Any => false,
        Prefer::Ipv4 => addr.is_ipv6(),
        Prefer::Ipv6 => addr.is_ipv4(),
    });
    addrs.truncate(ADDRS_MAX);
    addrs
}

fn complaint_of(addr: SocketAddr, error: &std::io::Error) -> Complaint {
    use std::io::ErrorKind;
    let reason = format!("{addr}: {}", cause_of(error));
    match error.kind() {
        // This side has run out of something, or may not.
        ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable | ErrorKind::PermissionDenied => {
            Complaint::error(reason)
        }
        ErrorKind::TimedOut => Complaint::timeout(reason),
        _ if error.raw_os_error().is_some_and(|code| [24, 23].contains(&code)) => Complaint::error(reason),
        _ => Complaint::failure(reason),
    }
}

/// Without the number that the system gives it.
pub(super) fn cause_of(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_family_comes_first() {
        let addr = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (a, b, c) = (addr("[::1]:1"), addr("127.0.0.1:1"), addr("[::2]:1"));
        let order = |prefer| in_order(vec![a, b, a, c], prefer);
        assert_eq!(order(Prefer::Any), [a, b, c]);
        assert_eq!(order(Prefer::Ipv4), [b, a, c]);
        assert_eq!(order(Prefer::Ipv6), [a, c, b]);
        let many = (1..=200).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
        assert_eq!(in_order(many, Prefer::Any).len(), ADDRS_MAX);
    }

    #[test]
    fn causes_are_short() {
        let refused = std::io::Error::from_raw_os_error(111);
        assert_eq!(cause_of(&refused), "connection refused");
        assert_eq!(
            complaint_of(SocketAddr::from(([127, 0, 0, 1], 9)), &refused).reason,
            "127.0.0.1:9: connection refused"
        );
        assert_eq!(cause_of(&std::io::Error::other("own words")), "own words");
    }
}
