//! A datagram socket of a check, connected to one peer: UDP, ICMP echo, or a Unix socket.

use crate::connect::connector::Connector;
#[cfg(feature = "icmp")]
use crate::connect::hops;
use crate::finding::{Issue, cause_of};
use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, recv};
#[cfg(feature = "udp")]
use rustix::net::{SocketAddrUnix, bind};
use std::io;
use std::net::SocketAddr;
#[cfg(feature = "udp")]
use std::path::Path;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// Maximum length of a datagram.
pub(super) const LEN_MAX: usize = 64 << 10;

/// A received datagram.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) bytes: Vec<u8>,
    /// Remaining number of hops, which only echo sockets report.
    #[cfg(feature = "icmp")]
    pub(crate) hop_limit: Option<u8>,
}

/// A connected socket: the kernel drops datagrams of other senders, and reports ICMP errors.
#[derive(Debug)]
pub(crate) struct Datagrams {
    /// A socket of any family, also `AF_UNIX`: once connected, it sends and receives like UDP.
    socket: UdpSocket,
    /// Name of the peer in reasons.
    peer: String,
    receive: fn(&UdpSocket) -> io::Result<Received>,
}

impl Datagrams {
    pub(crate) fn udp(connector: &Connector, peer: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::from_std(connector.begin_udp(peer)?)?;
        Ok(Self { socket, peer: peer.to_string(), receive })
    }

    /// Opens an echo socket whose requests take at most `max_hops` hops.
    #[cfg(feature = "icmp")]
    pub(crate) fn echo(connector: &Connector, peer: SocketAddr, max_hops: Option<u8>) -> io::Result<Self> {
        let socket = connector.begin_echo(peer)?;
        hops::prepare(&socket, peer.is_ipv4(), max_hops)?;
        let socket = UdpSocket::from_std(socket)?;
        Ok(Self { socket, peer: peer.ip().to_string(), receive: hops::receive })
    }

    /// Opens a datagram socket that is connected to the Unix socket `peer`. The kernel chooses an
    /// abstract address for the new socket, so that the peer can reply.
    #[cfg(feature = "udp")]
    pub(crate) fn unix(peer: &Path) -> io::Result<Self> {
        let socket = std::os::unix::net::UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        bind(&socket, &SocketAddrUnix::new_unnamed())?;
        socket.connect(peer)?;
        let socket = UdpSocket::from_std(std::os::fd::OwnedFd::from(socket).into())?;
        Ok(Self { socket, peer: peer.display().to_string(), receive })
    }

    /// Sends `bytes` up to `sends` times, `every` apart, until `read` returns a value or an error.
    pub(crate) async fn ask<T>(
        &self,
        bytes: &[u8],
        (sends, every): (u32, Duration),
        mut read: impl FnMut(Received) -> Result<Option<T>, Issue>,
    ) -> Result<T, Issue> {
        for _resend in 1..sends {
            self.send(bytes).await?;
            if let Ok(reply) = timeout(every, self.reply(&mut read)).await {
                return reply;
            }
        }
        self.send(bytes).await?;
        self.reply(&mut read).await
    }

    pub(crate) async fn send(&self, bytes: &[u8]) -> Result<(), Issue> {
        self.socket.send(bytes).await.map(drop).map_err(|error| self.broken(&error))
    }

    async fn reply<T>(
        &self,
        read: &mut impl FnMut(Received) -> Result<Option<T>, Issue>,
    ) -> Result<T, Issue> {
        loop {
            if let Some(reply) = read(self.receive().await?)? {
                return Ok(reply);
            }
        }
    }

    /// Receives the next datagram. An ICMP error sets only the error readiness of the socket, for
    /// which the receive methods of Tokio do not wait.
    async fn receive(&self) -> Result<Received, Issue> {
        let receive = || (self.receive)(&self.socket);
        let received = self.socket.async_io(Interest::READABLE | Interest::ERROR, receive).await;
        received.map_err(|error| self.broken(&error))
    }

    fn broken(&self, error: &io::Error) -> Issue {
        Issue::failure(format!("{}: {}", self.peer, cause_of(error)))
    }
}

/// Receives a datagram. Called when the socket is readable, so that a waiting run holds no buffer.
fn receive(socket: &UdpSocket) -> io::Result<Received> {
    let mut bytes = Vec::with_capacity(LEN_MAX);
    recv(socket, spare_capacity(&mut bytes), RecvFlags::empty())?;
    Ok(Received {
        bytes,
        #[cfg(feature = "icmp")]
        hop_limit: None,
    })
}
