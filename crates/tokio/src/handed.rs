//! The connections that come out of the ring threads, as streams of the runtime.
//!
//! Does not know about: why they were handed over.

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

use crate::control::{Keeper, Running};
use crate::desk::Desk;
use crate::preread::Preread;

/// A connection that was handed over.
#[derive(Debug)]
pub struct Connection {
    /// The connection, with the bytes that were read of it first. A client of a Unix socket comes as one, too: it reads and writes, and
    /// has no addresses.
    pub stream: Preread<TcpStream>,
    /// Where it was accepted, in the order of the server's listeners.
    pub listener: ListenerIndex,
    /// Who the client is, where the server asked: see [`doorbell::HandedConn::client`].
    pub client: Option<IpAddr>,
    /// What is left of the time that its client has for what it began: see [`doorbell::HandedConn::time_left`].
    pub time_left: Duration,
}

/// The receiving side: a listener that gives connections which were accepted elsewhere. There is one. When it is dropped, further
/// connections are refused, and the server's [`Health`](crate::Health) fails unless it drains.
///
/// Take from it inside the runtime that is to drive the connections.
#[derive(Debug)]
pub struct Handed {
    desk: Desk,
    failed: Arc<AtomicU64>,
    running: Running,
    /// The server runs while this or a control is left.
    _keeper: Arc<Keeper>,
}

/// The next connection; `None` when the server has ended and there will be no more. See [`Handed::accept`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct Accept<'a>(&'a mut Handed);

impl Handed {
    pub(crate) const fn new(
        desk: Desk,
        failed: Arc<AtomicU64>,
        running: Running,
        keeper: Arc<Keeper>,
    ) -> Self {
        Self { desk, failed, running, _keeper: keeper }
    }

    /// The next connection. Dropping the future loses none.
    pub const fn accept(&mut self) -> Accept<'_> {
        Accept(self)
    }

    /// As [`crate::Control::tcp_addr`].
    pub fn tcp_addr(&self, listener: usize) -> Option<SocketAddr> {
        self.running.tcp_addr(listener)
    }

    /// As [`Self::accept`].
    pub fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Option<Connection>> {
        loop {
            let Some(handed) = ready!(self.desk.poll_take(cx)) else { return Poll::Ready(None) };
            match register(handed) {
                Ok(connection) => return Poll::Ready(Some(connection)),
                // The runtime could not watch it, mostly for want of memory: the client sees a close.
                Err(_) => self.failed.fetch_add(1, Ordering::Relaxed),
            };
        }
    }
}

fn register(handed: HandedConn) -> io::Result<Connection> {
    let HandedConn { fd, bytes, listener, client, time_left, permit } = handed;
    let stream = TcpStream::from_std(std::net::TcpStream::from(fd))?;
    Ok(Connection { stream: Preread::new(stream, bytes, permit), listener, client, time_left })
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
        self.desk.leave();
    }
}
