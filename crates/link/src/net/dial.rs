//! Connects to a peer, and again after each end.
//!
//! Does not know about: certificates, frames.

use super::backoff::Backoff;
use super::handle::LinkHandle;
use super::tls::LinkTls;
use rustls::pki_types::ServerName;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// Maximum time of name lookup, connection and TLS handshake together.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that lasted this long is followed by a short pause.
const GOOD_AFTER: Duration = Duration::from_secs(2);

/// Where a link connects to.
#[derive(Clone, Debug)]
pub struct Dial {
    /// Name or address of the peer.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Name for which the peer's certificate must be valid.
    pub certificate_name: String,
    /// Certificates.
    pub tls: LinkTls,
    /// Any number that differs between instances, for random pauses.
    pub seed: u64,
}

impl Dial {
    /// Connects and exchanges frames, again after each end and a pause. Never returns; drop the
    /// future to stop.
    pub async fn run(self, handle: LinkHandle) {
        let mut backoff = Backoff::new(self.seed);
        loop {
            match timeout(HANDSHAKE_TIMEOUT, self.connect()).await {
                Err(_) => handle.tell_end("cannot connect in time".to_owned()),
                Ok(Err(why)) => handle.tell_end(why),
                Ok(Ok(stream)) => {
                    let began = Instant::now();
                    let ended = handle.run(stream).await;
                    handle.tell_end(ended.to_string());
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
            .map_err(|_| format!("{} is not a name of a certificate", self.certificate_name))?;
        let stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(|error| format!("cannot connect: {error}"))?;
        // Without it, a frame waits for the acknowledgement of the last one. A failure only slows.
        let _slow = stream.set_nodelay(true);
        self.tls.connector.connect(name, stream).await.map_err(|error| format!("TLS: {error}"))
    }
}
