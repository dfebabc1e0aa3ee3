//! Accepts connections of peers and assigns them to links by the peer's certificate.

use super::dial::HANDSHAKE_TIMEOUT;
use super::handle::LinkHandle;
use super::tls::{LinkTls, is_for};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{sleep, timeout};

/// Maximum number of concurrent handshakes of an [`Acceptor`]; further connections wait in the backlog. After the
/// handshake, there is at most one connection per link.
pub const HANDSHAKES_MAX: usize = 64;

/// Maximum number of concurrent handshakes from one IPv4 address or one IPv6 /64; further
/// connections are closed. The limit prevents clients that send nothing from blocking all peers.
const HANDSHAKES_OF_ADDR_MAX: usize = 16;

/// Pause after a failed accept, for example without free file descriptors.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Called for each refused connection, with the address of the peer and the reason.
pub type Refused = Arc<dyn Fn(SocketAddr, &str) + Send + Sync>;

/// Accepts the connections of peers.
#[derive(Clone)]
pub struct Acceptor {
    /// Certificates.
    pub tls: LinkTls,
    /// The name in the certificate of each peer, and its link. The first match counts.
    pub peers: Arc<[(String, LinkHandle)]>,
    /// Called for each refused connection.
    pub refused: Refused,
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acceptor").field("peers", &self.peers).finish_non_exhaustive()
    }
}

impl Acceptor {
    /// Accepts connections. Never returns; drop the future to close all connections.
    pub async fn run(self, listener: TcpListener) {
        let (mut handshakes, mut conns) = (JoinSet::new(), JoinSet::new());
        let mut sources: HashMap<Id, IpAddr> = HashMap::new();
        loop {
            tokio::select! {
                accepted = listener.accept(), if handshakes.len() < HANDSHAKES_MAX => {
                    let Ok((stream, addr)) = accepted else {
                        sleep(RETRY_AFTER).await;
                        continue;
                    };
                    let source = source_of(addr);
                    if sources.values().filter(|other| **other == source).count() >= HANDSHAKES_OF_ADDR_MAX {
                        (self.refused)(addr, "too many handshakes from this address");
                        continue;
                    }
                    sources.insert(handshakes.spawn(self.clone().identify(stream, addr)).id(), source);
                }
                Some(done) = handshakes.join_next_with_id() => {
                    sources.remove(&done.as_ref().map_or_else(JoinError::id, |(id, _)| *id));
                    if let Ok((_, Some((handle, stream)))) = done {
                        conns.spawn(async move {
                            let ended = LinkHandle::run(&handle, stream).await;
                            handle.report_end(ended.to_string());
                        });
                    }
                }
                Some(_ended) = conns.join_next() => {}
            }
        }
    }

    /// Performs the handshake and finds the link; `None` if the connection is refused.
    async fn identify(
        self,
        stream: TcpStream,
        addr: SocketAddr,
    ) -> Option<(LinkHandle, tokio_rustls::server::TlsStream<TcpStream>)> {
        let refuse = |why: &str| {
            (self.refused)(addr, why);
            None
        };
        let _slow = stream.set_nodelay(true);
        let stream = match timeout(HANDSHAKE_TIMEOUT, self.tls.acceptor.accept(stream)).await {
            Err(_) => return refuse("TLS handshake timed out"),
            Ok(Err(error)) => return refuse(&format!("TLS: {error}")),
            Ok(Ok(stream)) => stream,
        };
        let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let Some(certificate) = certificate else { return refuse("no certificate") };
        match self.peers.iter().find(|(name, _)| is_for(certificate, name)) {
            Some((_, handle)) => Some((handle.clone(), stream)),
            None => refuse("the certificate is not that of a configured link"),
        }
    }
}

/// Returns the IPv4 address, or the IPv6 /64, of a client.
fn source_of(addr: SocketAddr) -> IpAddr {
    match addr.ip().to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) >> 64 << 64).into(),
        ip @ IpAddr::V4(_) => ip,
    }
}
