//! Preparation of a socket for its close: connected clients can be accepted at once, and new
//! connections and datagrams are dropped silently.

use std::io;
use std::os::fd::BorrowedFd;

use doorbell_ring::sockopt;
use socket2::{SockFilter, SockRef};

/// Disables deferred accept. Returns the old value for [`defer_again`], or `None` if accept was not
/// deferred.
pub(crate) fn accept_at_once(socket: BorrowedFd<'_>) -> Option<u32> {
    let deferred_s = sockopt::tcp_defer_accept(socket).ok().filter(|deferred_s| *deferred_s > 0)?;
    sockopt::set_tcp_defer_accept(socket, 0).is_ok().then_some(deferred_s)
}

/// Undoes [`accept_at_once`].
pub(crate) fn defer_again(socket: BorrowedFd<'_>, deferred_s: u32) {
    // A failure has little effect: each connection costs one more wake-up.
    let _costlier = sockopt::set_tcp_defer_accept(socket, deferred_s);
}

/// Makes the kernel drop segments that open a connection, as if they were lost: the client
/// retransmits after a second and then reaches another socket that listens. Handshakes in progress
/// continue, and so do connections, which inherit the filter. The kernel cannot refuse new clients
/// immediately without also resetting the clients in the backlog.
///
/// # Errors
/// See `setsockopt(2)`, `SO_ATTACH_FILTER`.
pub(crate) fn turn_away(socket: BorrowedFd<'_>) -> io::Result<()> {
    SockRef::from(&socket).attach_filter(&NO_SYN)
}

/// Makes the kernel drop datagrams that arrive from now on. Datagrams in the queue stay there.
///
/// # Errors
/// See [`turn_away`].
pub(crate) fn turn_datagrams_away(socket: BorrowedFd<'_>) -> io::Result<()> {
    SockRef::from(&socket).attach_filter(&[SockFilter::new(RETURN, 0, 0, 0)])
}

/// The filter program. Its input starts at the TCP header of a segment (`tcp_filter` of the
/// kernel). In the notation of bpf_asm:
/// `ldb [13]; and #0x12; jneq #0x02, pass; ret #0; pass: ret #-1`
const NO_SYN: [SockFilter; 5] = [
    SockFilter::new(LOAD_BYTE_AT, 0, 0, FLAGS_AT),
    SockFilter::new(AND, 0, 0, SYN | ACK),
    SockFilter::new(JUMP_IF_EQUAL, 0, 1, SYN),
    SockFilter::new(RETURN, 0, 0, 0),
    SockFilter::new(RETURN, 0, 0, u32::MAX),
];

/// `BPF_LD | BPF_B | BPF_ABS`
const LOAD_BYTE_AT: u16 = 0x30;
/// `BPF_ALU | BPF_AND | BPF_K`
const AND: u16 = 0x54;
/// `BPF_JMP | BPF_JEQ | BPF_K`
const JUMP_IF_EQUAL: u16 = 0x15;
/// `BPF_RET | BPF_K`
const RETURN: u16 = 0x06;

/// Offset of the flags in a TCP header (RFC 9293 3.1).
const FLAGS_AT: u32 = 13;
const SYN: u32 = 0x02;
const ACK: u32 = 0x10;
