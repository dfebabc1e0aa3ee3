//! Tests with real sockets on loopback: ports, sources, retries, options, closing.

use core::net::Ipv6Addr;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};

use super::*;
use doorbell_testkit::peers::{PATIENCE, wait_until};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

fn open(ports: PortChoice) -> Egress {
    EgressConfig::new().ports(ports).open().unwrap()
}

/// All strategies that this kernel supports.
fn strategies() -> Vec<PortChoice> {
    ["auto", "kernel", "select", "full", "200"]
        .iter()
        .map(|name| name.parse().unwrap())
        .filter(|choice| EgressConfig::new().ports(*choice).open().is_ok())
        .collect()
}

/// An egress that is limited to these ports.
fn narrow(strategy: Strategy, first: u16, last: u16) -> Egress {
    let system = PortRange::new(first, last).unwrap();
    let mut egress = open(PortChoice::Only(Strategy::Kernel));
    egress.report.strategy = strategy;
    egress.system = system;
    egress
}

fn connected(stream: &TcpStream) {
    let mut fds = [PollFd::new(stream, PollFlags::OUT)];
    assert_eq!(poll(&mut fds, Some(&rustix::time::Timespec { tv_sec: 5, tv_nsec: 0 })), Ok(1));
    assert!(stream.take_error().unwrap().is_none());
}

fn errno(error: &io::Error) -> Option<Errno> {
    Errno::from_io_error(error)
}

/// Returns the states of the sockets with local port `from` and remote port `to`, from
/// `/proc/net/tcp`. Matching both ports excludes sockets that earlier connections of other programs
/// left behind.
fn states_of(from: u16, to: u16) -> Vec<u8> {
    let text = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = text.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let (from, to) = (format!(":{from:04X}"), format!(":{to:04X}"));
    let found = rows.filter(|row| row[1].ends_with(&from) && row[2].ends_with(&to));
    let states = found.map(|row| ([row[1], row[2]].concat(), u8::from_str_radix(row[3], 16).unwrap()));
    // If the table changes while it is read, it may list a socket more than once.
    states.collect::<std::collections::BTreeMap<_, _>>().into_values().collect()
}

#[test]
fn every_strategy_connects_from_a_port_of_the_system() {
    for choice in strategies() {
        let (listener, target) = listener();
        let egress = open(choice);
        for _ in 0..20 {
            let mut stream = egress.begin(target, SpeaksFirst::We).unwrap();
            connected(&stream);
            stream.write_all(b"ping").unwrap();
            let (mut peer, from) = listener.accept().unwrap();
            let mut bytes = [0; 4];
            peer.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"ping");
            assert!(egress.system_ports().contains(from.port()), "{choice}: {from}");
            drop(peer);
        }
        assert_eq!(egress.counters(), EgressCounters { begun: 20, ..egress.counters() });
        assert_eq!((egress.counters().failed, egress.counters().exhausted), (0, 0), "{choice}");
    }
}

#[test]
fn ipv6_and_udp_work() {
    for choice in strategies() {
        let egress = open(choice);
        if let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
            let stream = egress.begin(listener.local_addr().unwrap(), SpeaksFirst::Peer).unwrap();
            connected(&stream);
            assert!(egress.system_ports().contains(stream.local_addr().unwrap().port()), "{choice}");
        }
        let peer = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = egress.begin_udp(peer.local_addr().unwrap()).unwrap();
        socket.send(b"x").unwrap();
        let (len, from) = peer.recv_from(&mut [0; 8]).unwrap();
        assert_eq!((len, from), (1, socket.local_addr().unwrap()));
        assert!(egress.system_ports().contains(from.port()), "{choice}");
    }
}

/// ICMP sockets need a permission that depends on the network namespace. The tests of
/// `doorbell-checks` run in a namespace of their own, with the permission.
#[test]
fn an_echo_needs_permission() {
    let egress = open(PortChoice::Auto);
    let begun = egress.begin_echo(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let (begins, fails) = (egress.counters().begun, egress.counters().failed);
    match begun {
        Ok(_socket) => assert_eq!((begins, fails), (1, 0)),
        Err(error) => assert_eq!((error.kind(), begins, fails), (io::ErrorKind::PermissionDenied, 0, 1)),
    }
}

#[test]
fn a_connection_to_itself_is_refused() {
    let egress = open(PortChoice::Only(Strategy::Kernel));
    let mut met = 0;
    for own in [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)] {
        // IPv6 may be missing on this machine.
        let Ok(listener) = TcpListener::bind((own, 0)) else { continue };
        let own = listener.local_addr().unwrap();
        drop(listener);
        let any = SocketAddr::new(if own.is_ipv4() { V4_ANY } else { V6_ANY }, own.port());
        for (target, first) in [(own, SpeaksFirst::We), (own, SpeaksFirst::Peer), (any, SpeaksFirst::We)] {
            for transport in [Transport::Tcp(first), Transport::Udp] {
                let from_its_port = |fd: BorrowedFd<'_>, target: SocketAddr| {
                    // Binding to the target's own address makes the socket connect to itself, which
                    // otherwise happens rarely.
                    net::sockopt::set_socket_reuseaddr(fd, true)?;
                    net::bind(fd, &own)?;
                    connect(fd, target)
                };
                let error =
                    egress.dial(transport, target, from_its_port).expect_err("no process listens there");
                assert_eq!(errno(&error), Some(Errno::CONNREFUSED), "{transport:?} {target}");
                met += 1;
            }
        }
    }
    assert!(met >= 6);
    assert_eq!((egress.counters().begun, egress.counters().failed), (0, met));
}

#[test]
fn sources_are_used_in_turn_and_reserve_no_port() {
    for choice in strategies() {
        let (_listener, target) = listener();
        let sources = [[127, 0, 0, 2], [127, 0, 0, 3]].map(IpAddr::from);
        let six = IpAddr::V6(Ipv6Addr::LOCALHOST);
        let config = EgressConfig::new().sources([sources[0], six, sources[1]].to_vec()).ports(choice);
        let egress = config.open().unwrap();
        let conns: Vec<_> = (0..6).map(|_| egress.begin(target, SpeaksFirst::We).unwrap()).collect();
        let from: Vec<_> = conns.iter().map(|conn| conn.local_addr().unwrap().ip()).collect();
        assert_eq!(from, sources.repeat(3), "{choice}");
    }
}

#[test]
fn a_full_window_is_replaced_by_another_and_counted() {
    if PortChoice::Auto.decide(|| selftest::port_range_support(PortRange::DEFAULT)).unwrap().strategy
        == Strategy::Select
    {
        return;
    }
    let system = PortRange::of_system().unwrap();
    let (first, last) = (system.last() - 31, system.last());
    let (_listener, target) = listener();
    let sources = || EgressConfig::new().sources(vec![IpAddr::from([127, 9, 9, 9])]);
    let window = Strategy::Window(core::num::NonZeroU16::new(2).unwrap());
    for strategy in [window, Strategy::Select, Strategy::FullRange] {
        let mut egress = narrow(strategy, first, last);
        egress.sources = sources().open().unwrap().sources;
        let mut conns = Vec::new();
        let error = loop {
            match egress.begin(target, SpeaksFirst::We) {
                Ok(conn) => conns.push(conn),
                Err(error) => break error,
            }
            // The last attempt of `Select` is the kernel's search in the system's range. This
            // attempt would succeed, so the test stops before it.
            if conns.len() == 32 {
                break Errno::ADDRNOTAVAIL.into();
            }
        };
        assert_eq!(errno(&error), Some(Errno::ADDRNOTAVAIL));
        // Another program's listener may use some of the ports.
        assert!((29..=32).contains(&conns.len()), "{strategy}: only {} ports were found", conns.len());
        let counters = egress.counters();
        assert_eq!((counters.begun, counters.failed), (conns.len() as u64, 0));
        assert_eq!(counters.port_retries > 0, strategy != Strategy::FullRange, "{strategy}: {counters:?}");
        if strategy != Strategy::Select {
            let error = egress.begin(target, SpeaksFirst::We).unwrap_err();
            assert_eq!(errno(&error), Some(Errno::ADDRNOTAVAIL), "a full range is reported");
            assert!(egress.counters().exhausted > 0);
        }
        for conn in conns {
            close(conn);
        }
    }
}

#[test]
fn a_source_that_is_not_ours_is_an_error_and_no_retry() {
    for choice in strategies() {
        let (_listener, target) = listener();
        let config = EgressConfig::new().sources(vec![IpAddr::from([192, 0, 2, 1])]).ports(choice);
        let egress = config.open().unwrap();
        let error = egress.begin(target, SpeaksFirst::We).unwrap_err();
        assert_eq!(errno(&error), Some(Errno::ADDRNOTAVAIL), "{choice}");
        let counters = EgressCounters { failed: 1, ..EgressCounters::default() };
        assert_eq!(egress.counters(), counters, "{choice}");
    }
}

#[test]
fn a_custom_connect_is_repeated_only_if_no_port_was_free() {
    let (_listener, target) = listener();
    for (strategy, calls) in [("kernel", 1), ("full", 1), ("select", 33), ("500", 17)] {
        let Ok(egress) = EgressConfig::new().ports(strategy.parse().unwrap()).open() else { continue };
        let mut called = 0;
        let result = egress.dial(Transport::Tcp(SpeaksFirst::We), target, |_, addr| {
            assert_eq!(addr, target);
            called += 1;
            Err(Errno::ADDRNOTAVAIL.into())
        });
        assert_eq!(errno(&result.unwrap_err()), Some(Errno::ADDRNOTAVAIL));
        // A random port that is in use, or was in use until a minute ago, is skipped without a call
        // of `connect`.
        let passed_over_max = if strategy == "select" { calls - 1 } else { 0 };
        assert!(called <= calls && called + passed_over_max >= calls, "{strategy}: {called}");
        let counters = egress.counters();
        assert_eq!((counters.exhausted, counters.port_retries), (1, calls - 1), "{strategy}");

        let mut called = 0;
        let result = egress.dial(Transport::Tcp(SpeaksFirst::We), target, |_, _| {
            called += 1;
            Err(Errno::NETUNREACH.into())
        });
        assert_eq!((errno(&result.unwrap_err()), called), (Some(Errno::NETUNREACH), 1));
        assert_eq!(egress.counters().failed, 1);
    }
}

#[test]
fn options_are_those_of_a_probe() {
    use rustix::net::sockopt::socket_linger;
    let (_listener, target) = listener();
    let stream = EgressConfig::new().open().unwrap().begin(target, SpeaksFirst::We).unwrap();
    assert_eq!(socket_linger(&stream), Ok(Some(Duration::from_secs(1))), "the kubelet's");
    let flags = rustix::fs::fcntl_getfl(&stream).unwrap();
    assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
    for (time, want) in [(None, None), (Some(Duration::ZERO), Some(Duration::ZERO))] {
        let egress = EgressConfig::new().linger(time).open().unwrap();
        assert_eq!(socket_linger(egress.begin(target, SpeaksFirst::We).unwrap()), Ok(want));
    }
}

#[test]
fn the_last_handshake_segment_travels_with_the_first_bytes() {
    for (first, quickack, segments) in
        [(SpeaksFirst::We, false, 2), (SpeaksFirst::We, true, 3), (SpeaksFirst::Peer, false, 3)]
    {
        let (listener, target) = listener();
        let egress = EgressConfig::new().quickack(quickack).open().unwrap();
        let mut stream = egress.begin(target, first).unwrap();
        connected(&stream);
        stream.write_all(b"x").unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        peer.read_exact(&mut [0]).unwrap();
        let info = sockopt::tcp_info(peer.as_fd()).unwrap();
        // Received segments: the SYN, possibly a separate acknowledgement, and the byte.
        assert_eq!(info.segs_in, segments, "{first:?} {quickack}");
        close(stream);
    }
}

#[test]
fn a_close_leaves_no_time_wait_whichever_side_closes_first() {
    for peer_first in [false, true] {
        let (listener, target) = listener();
        let stream = open(PortChoice::Auto).begin(target, SpeaksFirst::We).unwrap();
        connected(&stream);
        (&stream).write_all(b"x").unwrap();
        let (mut peer, ours) = listener.accept().unwrap();
        peer.read_exact(&mut [0]).unwrap();
        assert_eq!(states_of(ours.port(), target.port()), [1], "the open connection is listed");
        if peer_first {
            peer.shutdown(std::net::Shutdown::Both).unwrap();
            let mut fds = [PollFd::new(&stream, PollFlags::IN)];
            poll(&mut fds, Some(&rustix::time::Timespec { tv_sec: 5, tv_nsec: 0 })).unwrap();
            assert_eq!((&stream).read(&mut [0]).unwrap(), 0);
        }
        close(stream);
        let read = peer.read(&mut [0]);
        match peer_first {
            true => assert_eq!(read.unwrap(), 0, "an ordinary close"),
            false => assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset),
        }
        drop(peer);
        // The kernel may need a moment to remove the socket. A socket in TIME_WAIT would
        // stay for a minute.
        let is_gone = wait_until(PATIENCE, || states_of(ours.port(), target.port()).is_empty());
        assert!(is_gone.is_some(), "peer first: {peer_first}: {:?}", states_of(ours.port(), target.port()));
    }
}
