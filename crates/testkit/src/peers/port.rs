//! Ports for programs that cannot report which port they got.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Lowest port. Lower ports belong to well-known servers, some of which run during tests.
const LOWEST: u16 = 12_000;
/// Minimum number of ports from [`LOWEST`] to those that the kernel assigns, so that two test
/// programs rarely try the same port.
const ROOM_MIN: u16 = 4_000;

/// A free port of loopback, returned only once per process.
///
/// The port is below those that the kernel assigns to clients (ip(7), `ip_local_port_range`).
/// Otherwise a connection of another test could take it before the server binds it. If the kernel
/// assigns nearly all ports, the free port is one of them.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let Some(range) = below_clients() else { return chosen_by_kernel() };
    let room = u32::from(range.end - range.start);
    // Concurrent programs start at different ports.
    let start = std::process::id().wrapping_mul(2_654_435_761);
    for _ in 0..room {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u32::from(range.start) + start.wrapping_add(step) % room;
        let port = u16::try_from(port).expect("below the end of the range");
        if is_free(port) {
            return port;
        }
    }
    chosen_by_kernel()
}

/// A loopback address with a free port; see [`free_port`].
pub fn free_addr() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port()).into()
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
        && UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

fn chosen_by_kernel() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
    listener.local_addr().expect("it is bound").port()
}

fn below_clients() -> Option<Range<u16>> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let lowest = text.split_whitespace().next()?.parse::<u16>().ok()?;
    (lowest >= LOWEST + ROOM_MIN).then_some(LOWEST..lowest)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_port_is_returned_twice() {
        let held: Vec<TcpListener> =
            (0..50).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, free_port())).unwrap()).collect();
        let ports: HashSet<u16> = (0..500).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 500);
        assert!(held.iter().all(|listener| !ports.contains(&listener.local_addr().unwrap().port())));
        if let Some(range) = below_clients() {
            assert!(ports.iter().all(|port| range.contains(port)));
        }
    }
}
