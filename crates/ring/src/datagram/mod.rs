//! Owns datagrams: what a received one contains, and batches of them in one system call.

mod addr;
mod recv;
mod send;

use std::net::{IpAddr, SocketAddr};

pub use recv::RecvBatch;
pub use send::{Outgoing, SendBatch, SentBatch};

/// A received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The payload, cut to the length of its buffer if [`Self::is_truncated`] is true.
    pub payload: &'a [u8],
    /// The address of the sender: IPv4 for an IPv4 sender, also on a dual-stack socket.
    pub peer: SocketAddr,
    /// The address to which the datagram was sent; `None` if the kernel did not report it.
    pub local: Option<IpAddr>,
    /// Whether the datagram was longer than its buffer.
    pub is_truncated: bool,
}

/// Bytes for the address of a sender: `struct sockaddr_in6`, the longest address of IP.
const NAME_LEN: usize = size_of::<libc::sockaddr_in6>();

/// Bytes for control data: one destination address, and room for an option that an inherited socket
/// may have in addition.
const CONTROL_LEN: usize = 64;

/// Bytes before the payload in a buffer of a multishot receive: `struct io_uring_recvmsg_out`, the
/// address and the control data.
pub(crate) const HEAD_LEN: u8 = short(4 * size_of::<u32>() + NAME_LEN + CONTROL_LEN);

/// A message header without addresses, with the lengths that [`parse`] expects.
pub(crate) fn ring_header() -> libc::msghdr {
    let mut header = zeroed_header();
    header.msg_namelen = short(NAME_LEN).into();
    header.msg_controllen = short(CONTROL_LEN).into();
    header
}

/// Reads a buffer that a multishot receive with [`ring_header`] has filled: four numbers, then
/// fields of fixed length for the address and the control data, then the payload. `None` if the
/// contents are impossible.
pub(crate) fn parse(buffer: &[u8]) -> Option<Datagram<'_>> {
    let (numbers, rest) = buffer.split_first_chunk::<16>()?;
    let (name, rest) = rest.split_first_chunk::<NAME_LEN>()?;
    let (control, payload) = rest.split_first_chunk::<CONTROL_LEN>()?;
    let (numbers, _) = numbers.as_chunks();
    let [_, control_len, _, flags] = *numbers.first_chunk()?;
    let control_len = (u32::from_ne_bytes(control_len) as usize).min(CONTROL_LEN);
    Some(Datagram {
        payload,
        peer: addr::peer(name)?,
        local: addr::local(control.get(..control_len)?),
        is_truncated: i32::from_ne_bytes(flags) & libc::MSG_TRUNC != 0,
    })
}

/// Converts the length of an address or of control data to `u8`, which converts to the type of
/// `msg_controllen` of every C library.
const fn short(len: usize) -> u8 {
    assert!(len <= u8::MAX as usize, "addresses and control data are short");
    #[expect(clippy::cast_possible_truncation, reason = "checked above")]
    {
        len as u8
    }
}

/// Converts the flags of a call to `u16`, which converts to the type of flags of every C library: it
/// is unsigned in musl.
const fn call_flags(flags: libc::c_int) -> u16 {
    assert!(0 <= flags && flags <= u16::MAX as libc::c_int, "flags of 16 bits");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    {
        flags as u16
    }
}

#[expect(unsafe_code, reason = "some C libraries have private padding in the structure")]
fn zeroed_header() -> libc::msghdr {
    // SAFETY: R-7, a structure of integers and addresses; zero is a value of each.
    unsafe { std::mem::zeroed() }
}
