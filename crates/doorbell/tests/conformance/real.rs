//! Benches for the kernel's drivers, with loopback sockets as peers.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Instant;

use doorbell::driver::epoll::Epoll;
use doorbell::driver::uring::{Uring, UringOptions};
use doorbell::driver::{AcceptMode, DatagramSocket, Driver, DriverSockets, Waker};
use doorbell::id::{DatagramIndex, ListenerIndex};
use doorbell::{Receiving, Tuning};
use doorbell_ring::Setup;
use doorbell_ring::selftest::capabilities;
use doorbell_ring::sockopt::set_recv_pktinfo;
use doorbell_testkit::skip::{self, Need};
use socket2::{Domain, Socket, Type};

use super::bench::{ASKED, Bench, Peer, SIZES, Seen, Sender, Stand, Taken};

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
    /// The addresses of the datagram sockets.
    asked: [SocketAddr; 2],
    senders: Vec<Clients>,
    started: Instant,
    direct: bool,
}

/// A client of datagrams, and the replies so far.
struct Clients {
    socket: UdpSocket,
    replies: Vec<(Vec<u8>, IpAddr)>,
}

struct Client {
    stream: Option<TcpStream>,
    addr: Option<IpAddr>,
    seen: Seen,
}

pub(super) fn epoll(slots: u32) -> Option<Stand<Loopback<Epoll>>> {
    Some(stand(false, |sockets, waker| Epoll::new(sockets, slots, waker).expect("epoll is always available")))
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
    // A system call of the thread may run a receive, as on Linux before 6.1.
    tuning.defer_taskrun = false;
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
    let (sockets, addrs, asked) = sockets();
    let driver = Uring::new(sockets, slots, source, options).unwrap_or_else(|(error, _)| panic!("{error}"));
    Some(Stand::new(Loopback::new(driver, waker, (addrs, asked), options.direct)))
}

fn stand<D: Driver>(
    direct: bool,
    make: impl FnOnce(DriverSockets, doorbell::driver::WakeSource) -> D,
) -> Stand<Loopback<D>> {
    let (waker, source) = Waker::pair().expect("an eventfd");
    let (sockets, addrs, asked) = sockets();
    Stand::new(Loopback::new(make(sockets, source), waker, (addrs, asked), direct))
}

/// Two listeners and two datagram sockets, and their addresses.
fn sockets() -> (DriverSockets, [SocketAddr; 2], [SocketAddr; 2]) {
    let (listeners, addrs) = listeners();
    let mut sockets = DriverSockets::from(listeners);
    let asked = SIZES.map(|size_max| {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port");
        set_recv_pktinfo(socket.as_fd(), false).expect("an option of IP");
        socket.set_nonblocking(true).expect("a flag of a descriptor");
        let port = socket.local_addr().expect("it is bound").port();
        sockets.datagrams.push(Some(DatagramSocket { fd: socket.into(), is_v6: false, size_max }));
        SocketAddr::new(ASKED, port)
    });
    (sockets, addrs, asked)
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
    fn new(
        driver: D,
        waker: Waker,
        (addrs, asked): ([SocketAddr; 2], [SocketAddr; 2]),
        direct: bool,
    ) -> Self {
        Self {
            driver,
            waker,
            addrs,
            peers: Vec::new(),
            asked,
            senders: Vec::new(),
            started: Instant::now(),
            direct,
        }
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

    fn look(&mut self, peer: Peer) -> &Seen {
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
        &client.seen
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

    fn datagram_client(&mut self) -> Sender {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a loopback port");
        socket.set_nonblocking(true).expect("a flag of a descriptor");
        self.senders.push(Clients { socket, replies: Vec::new() });
        Sender(self.senders.len() - 1)
    }

    fn client_addr(&self, client: Sender) -> SocketAddr {
        self.senders[client.0].socket.local_addr().expect("it is bound")
    }

    fn send_datagram(&mut self, client: Sender, socket: DatagramIndex, bytes: &[u8]) {
        let to = self.asked[socket.index()];
        self.senders[client.0].socket.send_to(bytes, to).expect("loopback has room");
    }

    fn look_datagrams(&mut self, client: Sender) -> Vec<(Vec<u8>, IpAddr)> {
        let Clients { socket, replies } = &mut self.senders[client.0];
        let mut buf = vec![0; 64 * 1024];
        while let Ok((len, from)) = socket.recv_from(&mut buf) {
            replies.push((buf[..len].to_vec(), from.ip()));
        }
        replies.clone()
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
