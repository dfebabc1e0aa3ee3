//! Owns the socket options that other crates lack, as safe functions.
#![expect(unsafe_code, reason = "setsockopt, getsockopt and ioctl")]

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use crate::Errno;

/// Sets `TCP_DEFER_ACCEPT`: the kernel delivers a connection when its first bytes have arrived, or
/// after about `seconds`.
///
/// 0 disables the option.
///
/// # Errors
/// As `setsockopt(2)`; `EOPNOTSUPP` on a Unix socket.
pub fn set_tcp_defer_accept(fd: BorrowedFd<'_>, seconds: u32) -> Result<(), Errno> {
    set(fd, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, i32::try_from(seconds).unwrap_or(i32::MAX))
}

/// Returns `TCP_DEFER_ACCEPT` in seconds, as rounded by the kernel.
///
/// # Errors
/// As `getsockopt(2)`.
pub fn tcp_defer_accept(fd: BorrowedFd<'_>) -> Result<u32, Errno> {
    let mut value = [0; 4];
    get(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, &mut value)?;
    Ok(u32::from_ne_bytes(value))
}

/// Sets `TCP_QUICKACK`.
///
/// If the option is disabled on a listener after `listen`, accepted sockets inherit the setting,
/// and the first request is not acknowledged by a separate ACK.
///
/// # Errors
/// As `setsockopt(2)`.
pub fn set_tcp_quickack(fd: BorrowedFd<'_>, on: bool) -> Result<(), Errno> {
    set(fd, libc::IPPROTO_TCP, libc::TCP_QUICKACK, i32::from(on))
}

/// Sets `TCP_FASTOPEN`: a listener accepts data in the SYN of clients that have connected before,
/// with at most `conns` such connections in progress. 0 disables the option.
///
/// # Errors
/// As `setsockopt(2)`; `EOPNOTSUPP` on a Unix socket.
pub fn set_tcp_fastopen(fd: BorrowedFd<'_>, conns: u32) -> Result<(), Errno> {
    set(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, i32::try_from(conns).unwrap_or(i32::MAX))
}

/// Sets `IP_BIND_ADDRESS_NO_PORT` (Linux 4.2), for IPv4 and IPv6.
///
/// With this option, `bind` to port 0 does not reserve a port: `connect` chooses one, so that the
/// port can be shared between connections to different peers.
///
/// # Errors
/// As `setsockopt(2)`; `ENOPROTOOPT` before Linux 4.2.
pub fn set_ip_bind_address_no_port(fd: BorrowedFd<'_>, on: bool) -> Result<(), Errno> {
    set(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, i32::from(on))
}

/// Sets `IP_LOCAL_PORT_RANGE` (Linux 6.3), for IPv4 and IPv6: the first and the last port that
/// `connect` may choose.
///
/// A bound outside of `net.ipv4.ip_local_port_range` is ignored.
///
/// # Errors
/// As `setsockopt(2)`; `ENOPROTOOPT` before Linux 6.3, `EINVAL` if `first` is larger than `last`.
pub fn set_ip_local_port_range(fd: BorrowedFd<'_>, first: u16, last: u16) -> Result<(), Errno> {
    let value = u32::from(last) << 16 | u32::from(first);
    set(fd, libc::IPPROTO_IP, IP_LOCAL_PORT_RANGE, value.cast_signed())
}

/// Sets `SO_INCOMING_CPU` of a listener: among the sockets of a `SO_REUSEPORT` group, the kernel
/// prefers the one whose processor received the SYN (Linux 6.2; Linux 4.6 to 6.1 ignore the option
/// in a group). `None` removes the preference.
///
/// # Errors
/// As `setsockopt(2)`.
pub fn set_incoming_cpu(fd: BorrowedFd<'_>, cpu: Option<u32>) -> Result<(), Errno> {
    let cpu = cpu.map_or(-1, |cpu| i32::try_from(cpu).unwrap_or(i32::MAX));
    set(fd, libc::SOL_SOCKET, libc::SO_INCOMING_CPU, cpu)
}

/// An instruction of a classic BPF program (`struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct FilterInsn {
    /// Opcode: the instruction class combined with size and mode, or with an operation.
    pub code: u16,
    /// Instructions to skip if a condition is true.
    pub jump_true: u8,
    /// Instructions to skip if a condition is false.
    pub jump_false: u8,
    /// The constant operand (`k`).
    pub constant: u32,
}

const _: () = assert!(size_of::<FilterInsn>() == size_of::<libc::sock_filter>());

/// Attaches a program to the `SO_REUSEPORT` group of a socket (`SO_ATTACH_REUSEPORT_CBPF`). The
/// program returns the number of the socket that gets a new connection; the sockets are numbered in
/// the order in which they joined the group. An earlier program of the group is replaced.
///
/// # Errors
/// As `setsockopt(2)`; `EINVAL` if the kernel's checker refuses the program, or if it has more than
/// 4,096 instructions.
pub fn attach_reuseport_filter(fd: BorrowedFd<'_>, program: &[FilterInsn]) -> Result<(), Errno> {
    let len = u16::try_from(program.len()).map_err(|_too_long| Errno(libc::EINVAL))?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut().cast() };
    let (program_ptr, size) = (&raw const program, size_of::<libc::sock_fprog>());
    let size = libc::socklen_t::try_from(size).expect("the size of `sock_fprog` fits");
    let name = libc::SO_ATTACH_REUSEPORT_CBPF;
    // SAFETY: R-7, the kernel copies `program` and the `len` instructions behind it, which have the
    // layout of `sock_filter`, during the call.
    let failed =
        unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, name, program_ptr.cast(), size) };
    if failed == 0 { Ok(()) } else { Err(Errno::last()) }
}

/// Removes the program of a `SO_REUSEPORT` group (Linux 5.3). Has no effect if the group has no
/// program.
///
/// # Errors
/// As `setsockopt(2)`.
pub fn detach_reuseport_filter(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    match set(fd, libc::SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, 0) {
        Err(Errno(libc::ENOENT)) => Ok(()),
        detached => detached,
    }
}

/// `asm-generic/socket.h`; the libc crate lacks this name on some targets.
const SO_DETACH_REUSEPORT_BPF: i32 = 68;

/// The buffers of a socket whose size the kernel does not change (`SO_BUF_LOCK`): setting
/// `SO_RCVBUF` or `SO_SNDBUF` fixes the size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufLocks {
    /// The size of the receive buffer is fixed.
    pub recv: bool,
    /// The size of the send buffer is fixed.
    pub send: bool,
}

/// Returns which buffer sizes are fixed (Linux 5.14).
///
/// # Errors
/// As `getsockopt(2)`; `ENOPROTOOPT` before Linux 5.14.
pub fn buf_locks(fd: BorrowedFd<'_>) -> Result<BufLocks, Errno> {
    let mut value = [0; 4];
    get(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_BUF_LOCK, &mut value)?;
    let locks = i32::from_ne_bytes(value);
    Ok(BufLocks { recv: locks & SOCK_RCVBUF_LOCK != 0, send: locks & SOCK_SNDBUF_LOCK != 0 })
}

/// Fixes buffer sizes, or re-enables the kernel's tuning (Linux 5.14).
///
/// The call itself changes no size; later, the kernel may change a size that is not fixed.
///
/// # Errors
/// As `setsockopt(2)`; `ENOPROTOOPT` before Linux 5.14.
pub fn set_buf_locks(fd: BorrowedFd<'_>, locks: BufLocks) -> Result<(), Errno> {
    let value = i32::from(locks.recv) * SOCK_RCVBUF_LOCK + i32::from(locks.send) * SOCK_SNDBUF_LOCK;
    set(fd, libc::SOL_SOCKET, libc::SO_BUF_LOCK, value)
}

/// `linux/socket.h`; the libc crate has no names for them.
const SOCK_SNDBUF_LOCK: i32 = 1;
const SOCK_RCVBUF_LOCK: i32 = 2;

/// `linux/in.h`; the libc crate has no name for it.
const IP_LOCAL_PORT_RANGE: i32 = 51;

/// A TCP state, as reported by `TCP_INFO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpState {
    /// Closed, or never connected.
    Closed,
    /// The peer has closed; this side has not.
    CloseWait,
    /// Both sides have closed at the same time; the FIN of this side is not yet acknowledged.
    Closing,
    /// Connected.
    Established,
    /// This side has closed; its FIN is not yet acknowledged.
    FinWait1,
    /// This side has closed; its FIN is acknowledged, and the peer has not closed.
    FinWait2,
    /// The peer closed first, then this side; the FIN of this side is not yet acknowledged.
    LastAck,
    /// A listener.
    Listen,
    /// Any other state.
    Other(u8),
    /// Closed, waiting for late segments.
    TimeWait,
}

/// Some fields of `struct tcp_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// The state of the connection.
    pub state: TcpState,
    /// Segments sent and not acknowledged; on a listener, the number of connections in the backlog
    /// now.
    pub unacked: u32,
    /// Segments selectively acknowledged; on a listener, the maximum length of the backlog.
    pub sacked: u32,
    /// Segments received, including SYN and pure ACK segments.
    pub segs_in: u32,
    /// Received segments that contained data.
    pub data_segs_in: u32,
}

/// Returns fields of `TCP_INFO`. A field that the kernel lacks is 0 (`segs_in` exists since Linux
/// 4.2).
///
/// # Errors
/// As `getsockopt(2)`.
pub fn tcp_info(fd: BorrowedFd<'_>) -> Result<TcpInfo, Errno> {
    let mut info = [0; TCP_INFO_LEN];
    get(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    let word = |at: usize| u32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
    Ok(TcpInfo {
        state: TcpState::from(info[0]),
        unacked: word(24),
        sacked: word(28),
        segs_in: word(140),
        data_segs_in: word(152),
    })
}

/// The start of `struct tcp_info` up to `tcpi_data_segs_out`.
const TCP_INFO_LEN: usize = 160;

impl From<u8> for TcpState {
    fn from(number: u8) -> Self {
        match number {
            1 => Self::Established,
            4 => Self::FinWait1,
            5 => Self::FinWait2,
            6 => Self::TimeWait,
            7 => Self::Closed,
            8 => Self::CloseWait,
            9 => Self::LastAck,
            10 => Self::Listen,
            11 => Self::Closing,
            other => Self::Other(other),
        }
    }
}

/// Makes received datagrams carry their destination address (`IP_PKTINFO`, or
/// `IPV6_RECVPKTINFO` on a socket of the family `AF_INET6`).
///
/// # Errors
/// As `setsockopt(2)`.
pub fn set_recv_pktinfo(fd: BorrowedFd<'_>, is_v6: bool) -> Result<(), Errno> {
    if is_v6 {
        set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)
    } else {
        set(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)
    }
}

/// Returns `SIOCOUTQ`: the number of bytes that were written to a TCP connection and not yet
/// acknowledged, or the memory used by data that the peer of a Unix socket has not read.
///
/// # Errors
/// As `ioctl(2)`; `EINVAL` for a listening socket.
pub fn unacknowledged(fd: BorrowedFd<'_>) -> Result<u32, Errno> {
    let mut value: libc::c_int = 0;
    let value_ptr = &raw mut value;
    // SAFETY: R-7, the kernel writes four bytes to `value` during the call.
    let failed = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, value_ptr) };
    if failed == 0 { Ok(value.cast_unsigned()) } else { Err(Errno::last()) }
}

/// Whether a number is the descriptor of a socket that does not listen. For numbers from the kernel
/// that are not yet trusted.
pub(crate) fn is_connected_socket(fd: RawFd) -> bool {
    let mut listening = [1; 4];
    get(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, &mut listening).is_ok()
        && u32::from_ne_bytes(listening) == 0
}

fn set(fd: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> Result<(), Errno> {
    let value_ptr = &raw const value;
    // SAFETY: R-7, the kernel copies four bytes of `value` during the call.
    let failed = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value_ptr.cast(), VALUE_LEN) };
    if failed == 0 { Ok(()) } else { Err(Errno::last()) }
}

const VALUE_LEN: libc::socklen_t = 4;

fn get<const LEN: usize>(fd: RawFd, level: i32, name: i32, value: &mut [u8; LEN]) -> Result<(), Errno> {
    let mut len = libc::socklen_t::try_from(LEN).expect("an option is short");
    let value_ptr = value.as_mut_ptr().cast();
    let len_ptr = &raw mut len;
    // SAFETY: R-7, the kernel writes at most `len` bytes to `value` and a number to `len` during
    // the call.
    let failed = unsafe { libc::getsockopt(fd, level, name, value_ptr, len_ptr) };
    if failed == 0 { Ok(()) } else { Err(Errno::last()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn pair() -> (TcpListener, TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        (listener, client, server)
    }

    #[test]
    fn deferring_is_set_and_read_and_switched_off() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert_eq!(tcp_defer_accept(listener.as_fd()), Ok(0));
        set_tcp_defer_accept(listener.as_fd(), 5).unwrap();
        assert!(tcp_defer_accept(listener.as_fd()).unwrap() >= 5, "the kernel rounds the time up");
        listener.set_nonblocking(true).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(listener.accept().is_err(), "a connection without bytes is not accepted");
        client.write_all(b"x").unwrap();
        listener.set_nonblocking(false).unwrap();
        listener.accept().unwrap();
        set_tcp_defer_accept(listener.as_fd(), 0).unwrap();
        assert_eq!(tcp_defer_accept(listener.as_fd()), Ok(0));
    }

    #[test]
    fn info_shows_states_backlog_and_segments() {
        let (listener, mut client, server) = pair();
        let _waiting = [client.peer_addr().unwrap(); 2].map(|addr| TcpStream::connect(addr).unwrap());
        let backlog = tcp_info(listener.as_fd()).unwrap();
        assert_eq!((backlog.state, backlog.unacked), (TcpState::Listen, 2));
        assert!(backlog.sacked >= 2, "{backlog:?}");
        client.write_all(b"x").unwrap();
        let info = tcp_info(server.as_fd()).unwrap();
        assert_eq!((info.state, info.data_segs_in), (TcpState::Established, 1));
        assert!(info.segs_in >= 2, "{info:?}");
        drop(client);
        assert_eq!(tcp_info(server.as_fd()).unwrap().state, TcpState::CloseWait);
    }

    #[test]
    fn what_a_peer_does_not_read_stays_unacknowledged() {
        use std::io::Read;
        let (listener, mut client, mut server) = pair();
        assert_eq!(unacknowledged(server.as_fd()), Ok(0));
        assert_eq!(unacknowledged(listener.as_fd()), Err(Errno(libc::EINVAL)));
        server.set_nonblocking(true).unwrap();
        let chunk = [0; 65_536];
        while server.write(&chunk).is_ok() {}
        let full = unacknowledged(server.as_fd()).unwrap();
        assert!(full > 0);
        let mut read = vec![0; chunk.len()];
        while unacknowledged(server.as_fd()).unwrap() >= full {
            client.read_exact(&mut read).unwrap();
        }
    }

    #[test]
    fn quickack_is_taken_by_tcp_and_refused_elsewhere() {
        let (listener, ..) = pair();
        for on in [false, true] {
            set_tcp_quickack(listener.as_fd(), on).unwrap();
        }
        let path = format!("{}/doorbell-sockopt-{}", std::env::temp_dir().display(), std::process::id());
        let unix = UnixListener::bind(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(set_tcp_quickack(unix.as_fd(), false).is_err());
        assert!(set_tcp_defer_accept(unix.as_fd(), 1).is_err());
        assert!(tcp_info(unix.as_fd()).is_err());
    }

    #[test]
    fn a_buffer_that_was_fixed_is_the_kernels_again() {
        let (_listener, client, _server) = pair();
        let locks = || buf_locks(client.as_fd());
        let none = BufLocks::default();
        let Ok(before) = locks() else {
            let refused = set_buf_locks(client.as_fd(), none);
            assert_eq!(refused, Err(Errno(libc::ENOPROTOOPT)), "before Linux 5.14");
            return;
        };
        assert_eq!(before, none);
        set(client.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, 40_000).unwrap();
        assert_eq!(locks(), Ok(BufLocks { send: true, recv: false }));
        set(client.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, 40_000).unwrap();
        assert_eq!(locks(), Ok(BufLocks { send: true, recv: true }));
        for expected in [BufLocks { send: false, recv: true }, none] {
            set_buf_locks(client.as_fd(), expected).unwrap();
            assert_eq!(locks(), Ok(expected));
        }
    }

    #[test]
    fn ports_for_connect_are_narrowed_where_the_kernel_can() {
        let (listener, client, _server) = pair();
        assert_eq!(set_ip_bind_address_no_port(listener.as_fd(), true), Ok(()));
        match set_ip_local_port_range(client.as_fd(), 40_000, 65_535) {
            Ok(()) => assert_eq!(
                set_ip_local_port_range(client.as_fd(), 40_001, 40_000),
                Err(Errno(libc::EINVAL)),
                "the range is refused, so the first port is in the lower half"
            ),
            Err(errno) => assert_eq!(errno, Errno(libc::ENOPROTOOPT), "before Linux 6.3"),
        }
    }

    #[test]
    fn only_a_connected_socket_is_one() {
        let (listener, client, _server) = pair();
        let (pipe, _writer) = std::io::pipe().unwrap();
        assert!(is_connected_socket(client.as_raw_fd()));
        assert!(!is_connected_socket(listener.as_raw_fd()));
        assert!(!is_connected_socket(pipe.as_raw_fd()));
        assert!(!is_connected_socket(-1) && !is_connected_socket(i32::MAX));
    }
}
