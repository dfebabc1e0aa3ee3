//! Connections that were handed over, as streams of the runtime.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use doorbell::HandedConn;
use doorbell::id::ListenerIndex;
use futures_core::Stream;
use tokio::net::TcpStream;

use crate::control::{Running, StopOnDrop};
use crate::health::Health;
use crate::preread::Preread;
use crate::queue::{HandedQueue, Unread};

/// A connection that was handed over.
#[derive(Debug)]
pub struct Connection {
    /// The connection. Reads first return the bytes that the server has already read. A connection
    /// of a Unix socket is a `TcpStream`, too: it can be read and written but has no addresses.
    pub stream: Preread<TcpStream>,
    /// The listener that accepted the connection, in the order of the server's listeners.
    pub listener: ListenerIndex,
    /// The client's address, if the server looked it up: see [`doorbell::HandedConn::client`].
    pub client: Option<IpAddr>,
    /// Time left for the client's TLS handshake or request: see
    /// [`doorbell::HandedConn::time_left`].
    pub time_left: Duration,
}

/// Receives the connections that the server hands over.
///
/// There is one per server. After it is dropped, the server refuses further hand-overs, and its
/// [`Health`] fails unless a drain has begun.
///
/// Poll it inside the runtime that drives the connections; outside of a runtime, it panics.
///
/// # Requests on connections that were handed over
///
/// A connection that was handed over stays with the program. So the program receives all later
/// requests on that connection, including probes: a load balancer may use the same connections for
/// probes and traffic. The program also receives all requests over HTTP/2.
/// `Health::routes` (feature `axum`), `Health::layer` (`tower`) and `Health::service` (`hyper`)
/// serve the probes among these requests, with the same replies. The limits of such probes:
///
/// - While the runtime is stuck, such a probe gets no reply and fails by its own timeout.
/// - On an HTTP/1.1 connection such a probe waits for a slow request before it.
/// - After an upgrade, and in a service without these routes or layer, probes are not served.
///
/// # Services in front of the hand-over
///
/// A service is called before the body of the request is read. So every service, including closures
/// and services behind a guard, can hand over requests with bodies. If a service replies without
/// reading the body, the connection is closed. [`Probes`](crate::Probes),
/// [`HandOverAll`](crate::HandOverAll) and [`Front`](crate::Front) also hand over other protocols,
/// and methods that the parser does not know. Closures and guards cannot do this, because they need
/// a parsed request: the client gets an error reply. A request cannot be handed over after the
/// service has begun to read its body, or while it waits for a job.
///
/// # TLS
///
/// A TLS session cannot be moved. So a connection is selected by its ClientHello, before any reply.
/// The function passed to `doorbell::protocol::Tls::hand_over_if` (feature `tls` of doorbell) gets
/// the server name and the protocols of the ClientHello. If it returns true, `Handed` delivers the
/// connection, including the bytes of the ClientHello. The program performs the handshake, with its
/// own certificate:
///
/// ```no_run
/// # #[cfg(feature = "axum")]
/// # async fn run(pair: doorbell::tls::CertPair, acceptor: tokio_rustls::TlsAcceptor, app: axum::Router) -> Result<(), Box<dyn std::error::Error>> {
/// use doorbell::tls::{Acceptor, TlsConfig};
/// use doorbell::{Http1, Listen, Server};
/// use doorbell_tokio::{Embed, Health, Probes};
/// use hyper::server::conn::http1;
/// use hyper_util::{rt::TokioIo, service::TowerToHyperService};
///
/// let health = Health::builder().build()?;
/// let probes = Http1::new(Probes::new(&health))
///     .tls(Acceptor::new(&TlsConfig::new(pair))?)
///     .hand_over_if(|hello| hello.server_name == Some("app.example"));
/// let server = Server::builder().listen(Listen::tcp(([127, 0, 0, 1], 8443).into()), probes);
/// let (_control, mut handed) = Embed::new(server).health(&health).start();
/// while let Some(connection) = handed.accept().await {
///     let (acceptor, app) = (acceptor.clone(), app.clone());
///     tokio::spawn(async move {
///         // A slow handshake must not delay the next connection.
///         let accepted = tokio::time::timeout(connection.time_left, acceptor.accept(connection.stream));
///         let Ok(Ok(stream)) = accepted.await else { return };
///         let service = TowerToHyperService::new(app);
///         let _ended = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
///     });
/// }
/// # Ok(())
/// # }
/// ```
///
/// A request inside a TLS session of the ring threads cannot be handed over. If it is not a probe,
/// it gets a 503 with `Retry-After`, and the connection is closed and counted as
/// [`CloseReason::NotTaken`](doorbell::CloseReason::NotTaken). If such requests are expected, serve
/// them on the ring threads ([`Front`](crate::Front)).
#[derive(Debug)]
pub struct Handed {
    queue: HandedQueue,
    failed: Arc<AtomicU64>,
    running: Running,
    /// The server runs while this receiver or a control exists.
    _stop_on_drop: Arc<StopOnDrop>,
}

/// Future of the next connection; `None` after the end of the server. See [`Handed::accept`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct Accept<'a>(&'a mut Handed);

impl Handed {
    pub(crate) const fn new(
        queue: HandedQueue,
        failed: Arc<AtomicU64>,
        running: Running,
        stop_on_drop: Arc<StopOnDrop>,
    ) -> Self {
        Self { queue, failed, running, _stop_on_drop: stop_on_drop }
    }

    /// The next connection; `None` after the end of the server. Cancel safe: a cancelled call loses
    /// no connection.
    pub const fn accept(&mut self) -> Accept<'_> {
        Accept(self)
    }

    /// Address of the TCP listener with this index; see [`crate::Control::tcp_addr`].
    pub fn tcp_addr(&self, listener: usize) -> Option<SocketAddr> {
        self.running.tcp_addr(listener)
    }

    /// Polls for the next connection; see [`Self::accept`].
    pub fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Option<Connection>> {
        loop {
            let Some((handed, unread)) = ready!(self.queue.poll_take(cx)) else { return Poll::Ready(None) };
            self.running.health.iter().for_each(Health::accepted);
            match register(handed, unread) {
                Ok(connection) => return Poll::Ready(Some(connection)),
                // The runtime could not register the connection, usually for lack of memory. The
                // connection is closed.
                Err(_) => self.failed.fetch_add(1, Ordering::Relaxed),
            };
        }
    }
}

fn register(handed: HandedConn, unread: Unread) -> io::Result<Connection> {
    let HandedConn { fd, bytes, listener, client, time_left, permit } = handed;
    let stream = TcpStream::from_std(std::net::TcpStream::from(fd))?;
    Ok(Connection { stream: Preread::of_queue(stream, bytes, permit, unread), listener, client, time_left })
}

impl Future for Accept<'_> {
    type Output = Option<Connection>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_accept(cx)
    }
}

impl Stream for Handed {
    type Item = Connection;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Connection>> {
        self.poll_accept(cx)
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        self.queue.leave();
        self.running.health.iter().for_each(Health::run_internal_checks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::portable;
    use crate::probes::HandOverAll;
    use std::pin::pin;
    use std::task::Waker;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn a_shutdown_waits_until_the_first_request_was_read() {
        let addr = SocketAddr::from(([127, 0, 0, 1], 0));
        let (control, mut handed) = portable::start(addr, HandOverAll, None).await.unwrap();
        let mut client = TcpStream::connect(control.tcp_addr(0).unwrap()).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let mut connection = handed.accept().await.unwrap();
        control.stop().await.unwrap();
        let mut shutdown = pin!(control.shutdown());
        let mut poll = || shutdown.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(poll(), Poll::Pending);
        assert_eq!(connection.stream.read(&mut [0; 64]).await.unwrap(), 27);
        assert_eq!(poll(), Poll::Ready(()));
    }
}
