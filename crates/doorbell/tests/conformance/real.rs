//! Benches for the kernel's drivers, with loopback sockets as peers.
//!
//! Does not know about: the rules.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::Instant;

use doorbell::driver::epoll::Epoll;
use doorbell::driver::uring::{Uring, UringOptions};
use doorbell::driver::{AcceptMode, Driver, Waker};
use doorbell::id::ListenerIndex;
use doorbell::{Receiving, Tuning};
use doorbell_ring::Setup;
use doorbell_ring::selftest::capabilities;
use doorbell_testkit::skip::{self, Need};
use socket2::{Domain, Socket, Type};

use super::bench::{Bench, Peer, Seen, Stand, Taken};

/// Length of the backlog.
const BACKLOG_LEN: i32 = 1024;

/// Number of self-tests that must fail before the failure is attributed to the kernel.
const TRIES_MAX: usize = 20;

/// A driver of the kernel, and its peers.
pub(super) struct Loopback<D> {
    driver: D,
    waker: Waker,
    addrs: [SocketAddr; 2],
    peers: Vec<Client>,
    started: Instant,
    direct: bool,
}

struct Client {
    stream: Option<TcpStream>,
    addr: Option<IpAddr>,
    seen: Seen,
}

pub(super) fn epoll(slots: u32) -> Option<Stand<Loopback<Epoll>>> {
    Some(stand(false, |listeners, waker| {
        Epoll::new(listeners, slots, waker).expect("epoll is always available")
    }))
}

pub(super) fn uring_ordinary(slots: u32) -> Option<Stand<Loopback<Uring>>> {
    uring(slots, &UringOptions::default())
}

pub(super) fn epoll_quick(slots: u32) -> Option<Stand<Loopback<Epoll>>> {
    epoll(slots).map(Stand::quick)
}

pub(super) fn uring_quick(slots: u32) -> Option<Stand<Loopback<Uring>>> {
    uring_ordinary(slots).map(Stand::quick)
}

/// Creates a bench whose listeners are polled and whose waits gather completions.
pub(super) fn uring_polled(slots: u32) -> Option<Stand<Loopback<Uring>>> {
    let mut tuning = Tuning::default();
    tuning.wait_min = Duration::from_micros(200);
    let options = UringOptions { accept_mode: AcceptMode::Readiness, tuning, ..UringOptions::default() };
    uring(slots, &options).map(Stand::quick)
}

/// Creates a bench whose operations all go to the ring, with one connection per accept.
pub(super) fn uring_plain(slots: u32) -> Option<Stand<Loopback<Uring>>> {
    let mut tuning = Tuning::default();
    tuning.direct_calls = false;
    tuning.receive = Receiving::SingleShot;
    tuning.poll_first = false;
    let options = UringOptions { accept_mode: AcceptMode::SingleShot, tuning, ..UringOptions::default() };
    uring(slots, &options)
}

pub(super) fn uring_direct(slots: u32) -> Option<Stand<Loopback<Uring>>> {
    // The self-test runs once per process, because it opens a ring and connections. On a busy
    // machine it occasionally exceeds its time limit, so it is repeated; a missing kernel feature
    // fails every run.
    static LACKING: OnceLock<Option<String>> = OnceLock::new();
    if !skip::io_uring() {
        return None;
    }
    let lacking = LACKING.get_or_init(|| {
        let mut verdicts = (0..TRIES_MAX).map(|_| capabilities(&Setup::default()).direct_descriptors);
        let first = verdicts.next().expect("there are tries");
        (!first.ok && !verdicts.any(|verdict| verdict.ok)).then_some(first.why)
    });
    if let Some(why) = lacking {
        skip::skipped(Need::IoUring, format_args!("io_uring with direct descriptors: {why}"));
        return None;
    }
    uring(slots, &UringOptions { direct: true, ..UringOptions::default() })
}

fn uring(slots: u32, options: &UringOptions) -> Option<Stand<Loopback<Uring>>> {
    if !skip::io_uring() {
        return None;
    }
    let (waker, source) = Waker::pair().expect("an eventfd");
    let (listeners, addrs) = listeners();
    let driver = Uring::new(listeners, slots, source, options).unwrap_or_else(|(error, _)| panic!("{error}"));
    Some(Stand::new(Loopback::new(driver, waker, addrs, options.direct)))
}

fn stand<D: Driver>(
    direct: bool,
    make: impl FnOnce(Vec<OwnedFd>, doorbell::driver::WakeSource) -> D,
) -> Stand<Loopback<D>> {
    let (waker, source) = Waker::pair().expect("an eventfd");
    let (listeners, addrs) = listeners();
    Stand::new(Loopback::new(make(listeners, source), waker, addrs, direct))
}

fn listeners() -> (Vec<OwnedFd>, [SocketAddr; 2]) {
    let both = [(); 2].map(|()| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a loopback port");
        socket.listen(BACKLOG_LEN).expect("it is bound");
        socket.set_nonblocking(true).expect("a flag of a descriptor");
        TcpListener::from(socket)
    });
    let addrs = both.each_ref().map(|listener| listener.local_addr().expect("it is bound"));
    (both.map(OwnedFd::from).into(), addrs)
}

impl<D> Loopback<D> {
    fn new(driver: D, waker: Waker, addrs: [SocketAddr; 2], direct: bool) -> Self {
        Self { driver, waker, addrs, peers: Vec::new(), started: Instant::now(), direct }
    }

    fn stream(&mut self, peer: Peer) -> &mut TcpStream {
        self.peers[peer.0].stream.as_mut().expect("a peer that was not reset")
    }
}

impl<D: Driver> Bench for Loopback<D> {
    type Driver = D;

    fn driver(&mut self) -> &mut D {
        &mut self.driver
    }

    fn big_len(&self) -> usize {
        16 * 1024 * 1024
    }

    fn connect(&mut self, listener: ListenerIndex) -> Peer {
        let stream = TcpStream::connect(self.addrs[listener.index()]).expect("the listener accepts");
        stream.set_nonblocking(true).expect("a flag of a descriptor");
        stream.set_nodelay(true).expect("an option of TCP");
        let addr = stream.local_addr().ok().map(|addr| addr.ip());
        self.peers.push(Client { stream: Some(stream), addr, seen: Seen::default() });
        Peer(self.peers.len() - 1)
    }

    fn send(&mut self, peer: Peer, bytes: &[u8]) {
        self.stream(peer).write_all(bytes).expect("test data fits into the socket");
    }

    fn half_close(&mut self, peer: Peer) {
        self.stream(peer).shutdown(Shutdown::Write).expect("the connection is open");
    }

    fn leave(&mut self, peer: Peer) {
        self.peers[peer.0].stream = None;
    }

    fn reset(&mut self, peer: Peer) {
        let stream = self.peers[peer.0].stream.take().expect("a peer that was not reset");
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("an option of sockets");
    }

    fn look(&mut self, peer: Peer) -> Seen {
        let client = &mut self.peers[peer.0];
        let mut buf = vec![0; 256 * 1024];
        while let Some(stream) = &mut client.stream {
            match stream.read(&mut buf) {
                Ok(0) => {
                    client.seen.fin = true;
                    break;
                }
                Ok(len) => client.seen.bytes.extend_from_slice(&buf[..len]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    client.seen.reset = true;
                    break;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                    break;
                }
            }
        }
        client.seen.clone()
    }

    fn take_over(&mut self, fd: OwnedFd) -> Taken {
        let flags = rustix::fs::fcntl_getfl(&fd).expect("it is open");
        assert!(flags.contains(rustix::fs::OFlags::NONBLOCK), "D-11: the descriptor is non-blocking");
        let flags = rustix::io::fcntl_getfd(&fd).expect("it is open");
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "D-11: no child inherits the descriptor");
        Taken::Real(TcpStream::from(fd))
    }

    fn taken_recv(&mut self, taken: &mut Taken) -> Vec<u8> {
        let Taken::Real(stream) = taken else { unreachable!("a real connection") };
        let mut buf = vec![0; 64 * 1024];
        match stream.read(&mut buf) {
            Ok(len) => buf[..len].to_vec(),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                Vec::new()
            }
        }
    }

    fn taken_send(&mut self, taken: &mut Taken, bytes: &[u8]) {
        let Taken::Real(stream) = taken else { unreachable!("a real connection") };
        stream.write_all(bytes).expect("test data fits into the socket");
    }

    fn taken_close(&mut self, taken: Taken) {
        drop(taken);
    }

    fn peer_addr(&self, peer: Peer) -> Option<IpAddr> {
        self.peers[peer.0].addr
    }

    fn knows_addrs(&self) -> bool {
        !self.direct
    }

    fn can_reset(&self) -> bool {
        !self.direct
    }

    fn wake_soon(&self) {
        let waker = self.waker.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            waker.wake();
        });
    }

    fn wake_now(&self) {
        self.waker.wake();
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}
