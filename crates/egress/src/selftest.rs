//! Tests the effect of `IP_LOCAL_PORT_RANGE` on this kernel, instead of deriving it from the kernel
//! version.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::io;
use std::os::fd::AsFd;

use doorbell_ring::sockopt;
use socket2::{Domain, SockAddr, Socket, Type};

use super::range::PortRange;
use super::strategy::PortRangeSupport;

/// Number of test connections. With a kernel that searches port by port, all connections get ports
/// of the same parity in one of 32,768 tests. The kernel is then classified as an older one; the
/// strategy for older kernels works on it as well.
const CONNS: u32 = 16;

/// Tests whether a socket supports the option and, if so, which ports the kernel assigns to some
/// loopback connections. The test closes these connections.
pub(super) fn port_range_support(system: PortRange) -> PortRangeSupport {
    let Ok(socket) = Socket::new(Domain::IPV4, Type::STREAM, None) else { return PortRangeSupport::Unseen };
    if set_range(&socket, system).is_err() {
        return PortRangeSupport::Absent;
    }
    match connect_some(system) {
        Ok(ports) => judge(&ports),
        Err(_) => PortRangeSupport::Unseen,
    }
}

fn judge(ports: &[u16]) -> PortRangeSupport {
    let odd = ports.iter().filter(|port| *port % 2 == 1).count();
    if odd == 0 || odd == ports.len() { PortRangeSupport::OneParity } else { PortRangeSupport::EveryPort }
}

/// Opens some connections at the same time and returns their ports.
fn connect_some(range: PortRange) -> io::Result<Vec<u16>> {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    listener.bind(&SockAddr::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))))?;
    // No accept is needed: all connections fit into the backlog.
    listener.listen(i32::try_from(2 * CONNS).expect("a small number"))?;
    let target = listener.local_addr()?;
    let conns: Vec<_> = (0..CONNS).map(|_| connect(range, &target)).collect::<io::Result<_>>()?;
    let ports = conns.iter().map(|conn| Ok(conn.local_addr()?.as_socket().map_or(0, |addr| addr.port())));
    ports.collect()
}

fn connect(range: PortRange, target: &SockAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None)?;
    set_range(&socket, range)?;
    // Closing with a reset avoids TIME-WAIT.
    socket.set_linger(Some(Duration::ZERO))?;
    match socket.connect(target) {
        Err(error) if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {
            Err(error)
        }
        _ => Ok(socket),
    }
}

fn set_range(socket: &Socket, range: PortRange) -> io::Result<()> {
    sockopt::set_ip_local_port_range(socket.as_fd(), range.first(), range.last()).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parity_reveals_the_search() {
        for (ports, want) in [
            (&[2, 4, 8][..], PortRangeSupport::OneParity),
            (&[3, 5], PortRangeSupport::OneParity),
            (&[3, 4], PortRangeSupport::EveryPort),
        ] {
            assert_eq!(judge(ports), want);
        }
    }

    #[test]
    fn this_kernel_behaves_as_its_version_implies() {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut numbers = release.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
        let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let support = port_range_support(PortRange::of_system().unwrap());
        let want = match version {
            (0..=5, _) | (6, 0..=2) => PortRangeSupport::Absent,
            (6, 3..=7) => PortRangeSupport::OneParity,
            _ => PortRangeSupport::EveryPort,
        };
        assert_eq!(support, want, "on Linux {release}");
    }
}
