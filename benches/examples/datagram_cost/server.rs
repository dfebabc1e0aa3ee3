//! A worker with each driver, driven turn by turn in the thread of its clients.

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use doorbell::control::WorkerShared;
use doorbell::driver::epoll::Epoll;
use doorbell::driver::uring::{Uring, UringOptions};
use doorbell::driver::{DatagramSocket, Driver, DriverSockets, WakeSource, Waker};
use doorbell::time::OsClock;
use doorbell::worker::{ServerShared, Worker};
use doorbell_ring::datagram::{Outgoing, RecvBatch, SendBatch};
use doorbell_ring::sockopt::set_recv_pktinfo;

pub(crate) const SIZE_MAX: usize = 1_500;
pub(crate) const BATCH_MAX: usize = 64;
pub(crate) const PAYLOAD: [u8; 64] = [b'x'; 64];

/// A client of datagrams, and the address of its server.
pub(crate) struct Client {
    socket: UdpSocket,
    requests: SendBatch,
    replies: RecvBatch,
    server: SocketAddr,
}

impl Client {
    /// A client, and the socket of its server.
    pub(crate) fn new() -> (Self, UdpSocket) {
        let open = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (client, socket) = (open(), open());
        socket.set_nonblocking(true).unwrap();
        set_recv_pktinfo(socket.as_fd(), false).unwrap();
        let server = socket.local_addr().unwrap();
        let replies = RecvBatch::new(BATCH_MAX, SIZE_MAX).unwrap();
        (Self { socket: client, requests: SendBatch::new(BATCH_MAX), replies, server }, socket)
    }

    /// Sends `count` datagrams, at most [`BATCH_MAX`].
    pub(crate) fn send(&mut self, count: usize) {
        let request = Outgoing { payload: &PAYLOAD, to: self.server, from: None };
        let sent = self.requests.send(self.socket.as_fd(), false, std::iter::repeat_n(request, count));
        assert_eq!(sent.sent, count);
    }

    /// Takes the replies, and returns the number of their bytes.
    pub(crate) fn reply_bytes(&mut self) -> usize {
        let mut bytes = 0;
        while let Ok(len) = self.replies.recv(self.socket.as_fd()) {
            bytes += (0..len).map(|at| self.replies.get(at).unwrap().payload.len()).sum::<usize>();
        }
        bytes
    }
}

/// A worker of any driver.
pub(crate) struct Server {
    /// Runs one turn.
    pub(crate) turn: Box<dyn FnMut()>,
    pub(crate) shared: Arc<WorkerShared>,
}

/// Creates the driver of a worker with this number of slots.
pub(crate) type Open<D> = fn(DriverSockets, u32, WakeSource) -> D;

pub(crate) fn epoll(sockets: DriverSockets, slots: u32, source: WakeSource) -> Epoll {
    Epoll::new(sockets, slots, source).unwrap()
}

pub(crate) fn io_uring(sockets: DriverSockets, slots: u32, source: WakeSource) -> Uring {
    let options = UringOptions::default();
    Uring::new(sockets, slots, source, &options).unwrap_or_else(|(error, _)| panic!("{error}"))
}

pub(crate) fn start<D: Driver + 'static>(
    open: Open<D>,
    listener: Option<TcpListener>,
    socket: UdpSocket,
    server: ServerShared,
) -> Server {
    let (waker, source) = Waker::pair().unwrap();
    let socket = DatagramSocket { fd: socket.into(), is_v6: false, size_max: SIZE_MAX };
    let listeners = listener.into_iter().map(|listener| Some(listener.into())).collect();
    let sockets = DriverSockets { listeners, datagrams: vec![Some(socket)] };
    let shared = Arc::new(WorkerShared::new(waker));
    let driver = open(sockets, server.slots_max(), source);
    let mut worker = Worker::new(driver, OsClock, Arc::new(server), Arc::clone(&shared));
    worker.open();
    let turn = move || {
        black_box(worker.turn().unwrap());
    };
    Server { turn: Box::new(turn), shared }
}
