//! Connects to a peer, and reconnects when the connection ends.

use super::handle::LinkHandle;
use super::tls::LinkTls;
use crate::Backoff;
use rustls::pki_types::ServerName;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, sleep, timeout};

/// Maximum time of name lookup, connection and TLS handshake together.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time to connect, for all addresses of the peer together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(6);

/// Maximum number of addresses of the peer that are tried.
const ADDRS_MAX: usize = 8;

/// Duration after which a connection resets the pause before a reconnect.
const GOOD_AFTER: Duration = Duration::from_secs(2);

/// Peer to connect to.
#[derive(Clone, Debug)]
pub struct Dial {
    /// Host name or IP address of the peer.
    pub host: String,
    /// Port of the peer.
    pub port: u16,
    /// Name for which the peer's certificate must be valid.
    pub certificate_name: String,
    /// Certificates.
    pub tls: LinkTls,
    /// Any number that differs between instances, for random pauses.
    pub seed: u64,
}

impl Dial {
    /// Connects, exchanges frames, and reconnects after a pause when the connection ends. Never
    /// returns; drop the future to stop.
    pub async fn run(self, handle: LinkHandle) {
        let mut backoff = Backoff::new(self.seed);
        loop {
            match timeout(HANDSHAKE_TIMEOUT, self.connect()).await {
                Err(_) => handle.report_end("connection attempt timed out".to_owned()),
                Ok(Err(why)) => handle.report_end(why),
                Ok(Ok(stream)) => {
                    let began = Instant::now();
                    let ended = handle.run(stream).await;
                    handle.report_end(ended.to_string());
                    if began.elapsed() >= GOOD_AFTER {
                        backoff.reset();
                    }
                }
            }
            sleep(backoff.pause()).await;
        }
    }

    async fn connect(&self) -> Result<tokio_rustls::client::TlsStream<TcpStream>, String> {
        let name = ServerName::try_from(self.certificate_name.clone())
            .map_err(|_| format!("{} is not a valid certificate name", self.certificate_name))?;
        let stream = connect(&self.host, self.port, CONNECT_TIMEOUT).await;
        let stream = stream.map_err(|error| format!("cannot connect: {error}"))?;
        self.tls.connector.connect(name, stream).await.map_err(|error| format!("TLS: {error}"))
    }
}

/// Connects to the first address of a host that accepts, with `TCP_NODELAY`. `within` limits all
/// addresses together, but not the name lookup.
///
/// # Errors
/// The name has no address, or no address accepts in time.
pub async fn connect(host: &str, port: u16, within: Duration) -> io::Result<TcpStream> {
    let addrs: Vec<_> = lookup_host((host, port)).await?.take(ADDRS_MAX).collect();
    let stream = first_of(&addrs, within).await?;
    // Without Nagle's algorithm, a message does not wait for the acknowledgement of the previous
    // one. If the option cannot be set, messages are only slower.
    let _slow = stream.set_nodelay(true);
    Ok(stream)
}

/// Connects to the first address that accepts. The time is divided equally between the addresses,
/// so that an unresponsive one leaves time for the others.
async fn first_of(addrs: &[SocketAddr], within: Duration) -> io::Result<TcpStream> {
    let part = within / u32::try_from(addrs.len().max(1)).unwrap_or(u32::MAX);
    let mut last = io::Error::other("the name has no address");
    for addr in addrs {
        match timeout(part, TcpStream::connect(addr)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::Error::other(format!("no reply from {addr} in time")),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpSocket;

    /// An address whose accept queue is full, so that the kernel does not reply to further
    /// connections.
    async fn silent() -> (SocketAddr, impl Sized) {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let listener = socket.listen(0).expect("a listener");
        let addr = listener.local_addr().expect("its address");
        let mut held = Vec::new();
        while let Ok(conn) = timeout(Duration::from_millis(300), TcpStream::connect(addr)).await {
            held.push(conn);
        }
        (addr, (listener, held))
    }

    #[tokio::test]
    async fn an_address_that_does_not_reply_leaves_time_for_the_next_one() {
        let (silent, _held) = silent().await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let good = listener.local_addr().expect("its address");
        let within = Duration::from_secs(6);
        let stream = timeout(within, first_of(&[silent, good], within)).await.expect("time is left");
        let stream = stream.expect("the second address");
        assert_eq!(stream.peer_addr().expect("its address"), good);
        let error = first_of(&[silent], Duration::from_millis(100)).await.expect_err("a full queue");
        assert!(error.to_string().starts_with("no reply from 127.0.0.1:"), "{error}");
        assert!(first_of(&[], Duration::from_secs(1)).await.is_err());
    }
}
