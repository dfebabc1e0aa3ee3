//! [`Handed`] as a listener of `axum::serve`, and the peer as an extractor.

use std::future::{pending, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener, ListenerExt as _, TapIo};
use doorbell::id::ListenerIndex;
use tokio::net::TcpStream;

use crate::handed::{Connection, Handed};
use crate::preread::Preread;

/// The peer of a handed-over connection, as an extractor.
///
/// Use `ConnectInfo<Peer>` in a handler, with `into_make_service_with_connect_info::<Peer>()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The peer's address. Looked up only if `ConnectInfo` is used. `None` for a Unix socket and
    /// for a connection that was reset.
    pub addr: Option<SocketAddr>,
    /// The client's address, if the server looked it up: see [`doorbell::HandedConn::client`].
    pub client: Option<IpAddr>,
    /// The listener that accepted the connection.
    pub listener: ListenerIndex,
}

impl Listener for Handed {
    type Io = Preread<TcpStream>;
    type Addr = Peer;

    /// Never completes after the server has ended. To stop the accept loop, pass
    /// [`crate::Control::shutdown`] to `with_graceful_shutdown`.
    async fn accept(&mut self) -> (Self::Io, Peer) {
        match poll_fn(|cx| self.poll_accept(cx)).await {
            Some(Connection { stream, listener, client, .. }) => {
                (stream, Peer { addr: None, client, listener })
            }
            None => pending().await,
        }
    }

    /// Address of the first listener; an error until the server is ready, and for a Unix socket.
    fn local_addr(&self) -> io::Result<Peer> {
        let addr = self.tcp_addr(0).ok_or(io::ErrorKind::NotConnected)?;
        Ok(Peer { addr: Some(addr), client: None, listener: ListenerIndex(0) })
    }
}

/// [`Handed`] with the peer's socket address instead of [`Peer`]. Created by
/// [`Handed::with_socket_addrs`].
#[derive(Debug)]
pub struct SocketAddrs(Handed);

impl Handed {
    /// Reports the peer's `SocketAddr` instead of [`Peer`], for programs that use
    /// `ConnectInfo<SocketAddr>`, for instance in their middleware:
    /// `axum::serve(incoming.with_socket_addrs(),
    /// app.into_make_service_with_connect_info::<SocketAddr>())`.
    ///
    /// For TCP listeners only: a connection without an address (of a Unix socket, or reset by its
    /// client) is dropped. Needs the feature `axum`.
    pub fn with_socket_addrs(self) -> TapIo<SocketAddrs, fn(&mut Preread<TcpStream>)> {
        SocketAddrs(self).tap_io(|_| {})
    }
}

impl Listener for SocketAddrs {
    type Io = Preread<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, _peer) = Listener::accept(&mut self.0).await;
            if let Ok(addr) = stream.get_ref().peer_addr() {
                return (stream, addr);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.tcp_addr(0).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Connected<IncomingStream<'_, Handed>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Handed>) -> Self {
        Self { addr: stream.io().get_ref().peer_addr().ok(), ..*stream.remote_addr() }
    }
}
