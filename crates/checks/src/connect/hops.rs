//! Hop limits of ICMP echoes: set for requests, received with replies.

use super::datagrams::{LEN_MAX, Received};
use nix::libc::c_int;
use nix::sys::socket::sockopt::{Ipv4RecvTtl, Ipv6RecvHopLimit};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use rustix::net::sockopt::{set_ip_ttl, set_ipv6_unicast_hops};
use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd as _};

/// Sets the hop limit of requests, and makes the kernel report that of replies.
pub(super) fn prepare(socket: &UdpSocket, is_ipv4: bool, max_hops: Option<u8>) -> io::Result<()> {
    if is_ipv4 {
        setsockopt(&socket, Ipv4RecvTtl, &true)?;
        max_hops.map_or(Ok(()), |hops| set_ip_ttl(socket, hops.into()))?;
    } else {
        setsockopt(&socket, Ipv6RecvHopLimit, &true)?;
        max_hops.map_or(Ok(()), |hops| set_ipv6_unicast_hops(socket, Some(hops)))?;
    }
    Ok(())
}

/// Receives a datagram with its hop limit.
pub(super) fn receive(socket: &impl AsFd) -> io::Result<Received> {
    let mut bytes = vec![0; LEN_MAX];
    let mut control = nix::cmsg_space!(c_int);
    let (fd, into) = (socket.as_fd().as_raw_fd(), &mut [IoSliceMut::new(&mut bytes)]);
    let message = recvmsg::<()>(fd, into, Some(&mut control), MsgFlags::empty())?;
    let hop_limit = message.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::Ipv4Ttl(hops) | ControlMessageOwned::Ipv6HopLimit(hops) => {
            u8::try_from(hops).ok()
        }
        _ => None,
    });
    let len = message.bytes;
    bytes.truncate(len);
    Ok(Received { bytes, hop_limit })
}
