//! The cost of echoing a datagram: a worker with each driver, against a loop of `recvmmsg(2)` and
//! `sendmmsg(2)` that sets the source address of each reply; the cost of the limit and of the guard.
//!
//! The figures are the server's time, kernel included, in nanoseconds. Sending the requests and
//! taking the replies is not timed. `doorbell-rig datagrams` runs this program where an instruction
//! takes one nanosecond. Decision 0061 has figures.
//!
//! Does not know about: several workers, connections.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement reads real time, prints it and may panic"
)]

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use doorbell::Limits;
use doorbell::control::WorkerShared;
use doorbell::datagram::{DatagramListen, DatagramReply, DatagramRequest};
use doorbell::driver::epoll::Epoll;
use doorbell::driver::uring::{Uring, UringOptions};
use doorbell::driver::{DatagramSocket, Driver, DriverSockets, Waker};
use doorbell::http::limit::Quota;
use doorbell::time::OsClock;
use doorbell::worker::{ServerShared, Worker};
use doorbell_ring::datagram::{Outgoing, RecvBatch, SendBatch};
use doorbell_ring::sockopt::set_recv_pktinfo;
use doorbell_testkit::skip;

const SIZE_MAX: usize = 1_500;
const BATCH_MAX: usize = 64;
const PAYLOAD: [u8; 64] = [b'x'; 64];
/// Datagrams of a sample.
const DATAGRAMS: u64 = 6_400;
/// Samples of each figure, taken in turn with those of the other figures. A figure is the median.
const SAMPLES: usize = 7;

/// A client and the socket of a server.
struct Pair {
    client: UdpSocket,
    requests: SendBatch,
    replies: RecvBatch,
    server: SocketAddr,
}

impl Pair {
    fn new() -> (Self, UdpSocket) {
        let open = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (client, socket) = (open(), open());
        socket.set_nonblocking(true).unwrap();
        set_recv_pktinfo(socket.as_fd(), false).unwrap();
        let server = socket.local_addr().unwrap();
        let replies = RecvBatch::new(BATCH_MAX, SIZE_MAX).unwrap();
        (Self { client, requests: SendBatch::new(BATCH_MAX), replies, server }, socket)
    }

    fn send(&mut self, count: usize) {
        let request = Outgoing { payload: &PAYLOAD, to: self.server, from: None };
        let sent = self.requests.send(self.client.as_fd(), false, std::iter::repeat_n(request, count));
        assert_eq!(sent.sent, count);
    }

    fn replies(&mut self) -> usize {
        self.replies.recv(self.client.as_fd()).unwrap_or(0)
    }

    /// The time of `serve` for `rounds` batches of `count` datagrams with `replies` replies.
    fn time(&mut self, rounds: u64, count: usize, replies: usize, mut serve: impl FnMut()) -> Duration {
        let mut sum = Duration::ZERO;
        for _ in 0..rounds {
            self.send(count);
            let began = Instant::now();
            serve();
            sum += began.elapsed();
            assert_eq!(self.replies(), replies);
        }
        sum
    }
}

/// The loop to compare with.
fn plain(socket: &UdpSocket, batch: &mut RecvBatch, sends: &mut SendBatch) {
    let len = batch.recv(socket.as_fd()).unwrap();
    let replies = (0..len).filter_map(|index| {
        let datagram = batch.get(index)?;
        Some(Outgoing { payload: datagram.payload, to: datagram.peer, from: datagram.local })
    });
    black_box(sends.send(socket.as_fd(), false, replies));
}

fn echo(request: &DatagramRequest<'_>, reply: &mut DatagramReply<'_>) {
    reply.send(request.payload());
}

/// Replies that are one byte too long.
fn too_long(request: &DatagramRequest<'_>, reply: &mut DatagramReply<'_>) {
    reply.send(request.payload());
    reply.send("x");
}

fn listen() -> DatagramListen {
    DatagramListen::udp((Ipv4Addr::LOCALHOST, 0).into())
}

fn limited() -> DatagramListen {
    listen().limit(Some((Quota::new(1 << 20, 10_000_000, Duration::from_secs(1)).unwrap(), 65_536)))
}

type Open<D> = fn(DriverSockets, doorbell::driver::WakeSource) -> D;

fn epoll(sockets: DriverSockets, source: doorbell::driver::WakeSource) -> Epoll {
    Epoll::new(sockets, 1, source).unwrap()
}

fn io_uring(sockets: DriverSockets, source: doorbell::driver::WakeSource) -> Uring {
    Uring::new(sockets, 1, source, &UringOptions::default()).unwrap_or_else(|(error, _)| panic!("{error}"))
}

fn worker<D: Driver>(
    open: Open<D>,
    socket: UdpSocket,
    server: ServerShared,
) -> (Worker<D, OsClock>, Arc<WorkerShared>) {
    let (waker, source) = Waker::pair().unwrap();
    let socket = DatagramSocket { fd: socket.into(), is_v6: false, size_max: SIZE_MAX };
    let sockets = DriverSockets { listeners: Vec::new(), datagrams: vec![Some(socket)] };
    let shared = Arc::new(WorkerShared::new(waker));
    let mut worker = Worker::new(open(sockets, source), OsClock, Arc::new(server), Arc::clone(&shared));
    worker.open();
    (worker, shared)
}

/// A server: its name, and a function that echoes batches of a number of datagrams and returns the
/// time for a number of rounds.
struct Server {
    name: String,
    time: Box<dyn FnMut(u64, usize) -> Duration>,
}

fn plain_loop() -> Server {
    let (mut pair, socket) = Pair::new();
    let (mut batch, mut sends) = (RecvBatch::new(BATCH_MAX, SIZE_MAX).unwrap(), SendBatch::new(BATCH_MAX));
    let time =
        move |rounds, count| pair.time(rounds, count, count, || plain(&socket, &mut batch, &mut sends));
    Server { name: "loop".to_owned(), time: Box::new(time) }
}

fn of_driver<D: Driver + 'static>(name: &str, open: Open<D>) -> Vec<Server> {
    let shared = || ServerShared::new(Vec::new(), Limits::default(), 1);
    let rows = [
        ("", shared().receiving(&listen(), echo), true),
        (", limit", shared().receiving(&limited(), echo), true),
        (", refused by the guard", shared().receiving(&listen(), too_long), false),
    ];
    let server = |(row, server, replies)| {
        let (mut pair, socket) = Pair::new();
        let (mut worker, shared) = worker(open, socket, server);
        let mut received = 0;
        let time = move |rounds, count| {
            pair.time(rounds, count, if replies { count } else { 0 }, || {
                received += count as u64;
                while shared.datagrams()[0].received < received {
                    black_box(worker.turn().unwrap());
                }
            })
        };
        Server { name: format!("{name}{row}"), time: Box::new(time) }
    };
    rows.into_iter().map(server).collect()
}

/// Nanoseconds of each server for a datagram in batches of `count`.
fn measure(servers: &mut [Server], count: usize) -> Vec<f64> {
    let mut samples = vec![Vec::new(); servers.len()];
    for _ in 0..=SAMPLES {
        for (server, samples) in servers.iter_mut().zip(&mut samples) {
            let time = (server.time)(DATAGRAMS / count as u64, count);
            samples.push(time.as_secs_f64() * 1e9 / DATAGRAMS as f64);
        }
    }
    let median = |mut samples: Vec<f64>| {
        // The first sample warms up.
        samples.remove(0);
        samples.sort_by(f64::total_cmp);
        samples[SAMPLES / 2]
    };
    samples.into_iter().map(median).collect()
}

fn main() {
    let mut servers = vec![plain_loop()];
    servers.extend(of_driver("epoll", epoll));
    if skip::io_uring() {
        servers.extend(of_driver("io_uring", io_uring));
    }
    let figures = [1, BATCH_MAX].map(|count| measure(&mut servers, count));
    println!("{:34}{:>10}{:>8}{:>10}{:>8}", "a datagram", "alone", "", "of 64", "");
    for (index, server) in servers.iter().enumerate() {
        print!("{:34}", server.name);
        for figures in &figures {
            print!("{:>10.0}{:>8.3}", figures[index], figures[index] / figures[0]);
        }
        println!();
    }
}
