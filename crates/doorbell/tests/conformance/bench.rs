//! A test bench for a driver: the driver, peers controlled by the test, and the completions so far.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::HashMap;
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use doorbell::driver::{
    Completion, DATAGRAMS_MAX, Datagram, Driver, Errno, Expect, Payload, Quick, Received, Replies, SendBuf,
    Sent, SentBatch, Step,
};
use doorbell::id::{ConnId, DatagramIndex, Generation, ListenerIndex, SlotIndex};

/// The first of a bench's two listeners.
pub(super) const LISTENER: ListenerIndex = ListenerIndex(0);

/// A peer of a bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer(pub(super) usize);

/// A client of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sender(pub(super) usize);

/// The address to which clients send datagrams: one of several addresses of the server.
pub(super) const ASKED: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// The maximum sizes of a bench's two datagram sockets.
pub(super) const SIZES: [usize; 2] = [512, 16_384];

/// A copy of a received datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grams {
    pub(super) payload: Vec<u8>,
    pub(super) peer: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) is_truncated: bool,
}

/// A connection that was detached from the driver: a real socket, or the peer of a simulated
/// connection.
#[derive(Debug)]
pub(super) enum Taken {
    Real(TcpStream),
    Simulated(Peer),
}

/// The input that a peer has received so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) bytes: Vec<u8>,
    pub(super) fin: bool,
    pub(super) reset: bool,
}

/// The peers of a driver under test: real sockets or a simulation.
pub(super) trait Bench {
    type Driver: Driver;

    fn driver(&mut self) -> &mut Self::Driver;
    /// Returns a number of bytes that exceeds all buffers between the driver and a peer that does
    /// not read.
    fn big_len(&self) -> usize;
    /// Connects a peer. The peer reads only in `look`.
    fn connect(&mut self, listener: ListenerIndex) -> Peer;
    fn send(&mut self, peer: Peer, bytes: &[u8]);
    fn half_close(&mut self, peer: Peer);
    /// Closes both directions.
    fn leave(&mut self, peer: Peer);
    /// Sends RST.
    fn reset(&mut self, peer: Peer);
    /// Reads available input and returns all input received so far.
    fn look(&mut self, peer: Peer) -> &Seen;
    /// Takes a detached connection, as its next owner would.
    fn take_over(&mut self, fd: OwnedFd) -> Taken;
    /// Reads available input of a taken connection.
    fn taken_recv(&mut self, taken: &mut Taken) -> Vec<u8>;
    fn taken_send(&mut self, taken: &mut Taken, bytes: &[u8]);
    fn taken_close(&mut self, taken: Taken);
    fn peer_addr(&self, peer: Peer) -> Option<IpAddr>;
    /// True if the driver knows peer addresses.
    fn knows_addrs(&self) -> bool;
    /// True if the driver can turn a close into a reset.
    fn can_reset(&self) -> bool;
    /// Creates a client of datagrams.
    fn datagram_client(&mut self) -> Sender;
    fn client_addr(&self, client: Sender) -> SocketAddr;
    /// Sends a datagram to the address [`ASKED`] of a socket.
    fn send_datagram(&mut self, client: Sender, socket: DatagramIndex, bytes: &[u8]);
    /// Returns all replies so far: the payloads and their source addresses.
    fn look_datagrams(&mut self, client: Sender) -> Vec<(Vec<u8>, IpAddr)>;
    /// Wakes the driver: a real driver after a short time and from another thread, a simulated
    /// driver at once.
    fn wake_soon(&self);
    fn wake_now(&self);
    /// Returns the time, on the clock of the driver's waits.
    fn now(&self) -> Duration;
}

/// A completion, with a copy of received bytes.
#[derive(Debug)]
pub(super) enum Came {
    AcceptEnded(ListenerIndex, Option<Errno>),
    Accepted(ListenerIndex, SlotIndex),
    Closed(ConnId),
    Datagrams(DatagramIndex, Vec<Grams>, SentBatch),
    DatagramsEnded(DatagramIndex, Option<Errno>),
    Detached(ConnId, Result<OwnedFd, Errno>),
    Received(ConnId, Got),
    Sent(ConnId, Sent),
}

/// Result of a receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Got {
    Data { bytes: Vec<u8>, drained: bool },
    Eof,
    Failed(Errno),
}

/// A bench and the completions of its driver.
pub(super) struct Stand<B> {
    /// Whether completions are read with `next_quick` where possible.
    pub(super) is_quick: bool,
    /// The receiver of replies to datagrams, instead of their senders.
    pub(super) replies_to: Option<SocketAddr>,
    pub(super) bench: B,
    pub(super) came: Vec<Came>,
    generations: HashMap<SlotIndex, Generation>,
}

impl<B: Bench> Stand<B> {
    pub(super) fn new(bench: B) -> Self {
        Self { bench, is_quick: false, replies_to: None, came: Vec::new(), generations: HashMap::new() }
    }

    /// Reads completions with `next_quick` first.
    pub(super) fn quick(mut self) -> Self {
        self.is_quick = true;
        self
    }

    /// Waits at most 10 ms and takes every completion.
    pub(super) fn turn(&mut self) {
        self.turn_for(Duration::from_millis(10));
    }

    pub(super) fn turn_for(&mut self, timeout: Duration) {
        self.bench.driver().wait(Some(timeout)).expect("the driver works");
        self.take_all();
    }

    /// Takes all completions, as a worker does: quick ones first.
    pub(super) fn take_all(&mut self) {
        loop {
            while let Some(quick) = self.is_quick.then(|| self.bench.driver().next_quick()).flatten() {
                match quick {
                    Quick::Accepted(listener, slot) => self.came.push(Came::Accepted(listener, slot)),
                    Quick::Ready(conn) => {
                        if let Step::Done(received) = self.bench.driver().recv(conn, Expect::Now) {
                            let got = self.copy_out(received);
                            self.came.push(Came::Received(conn, got));
                        }
                    }
                }
            }
            let Some(completion) = self.bench.driver().next() else { return };
            let came = match completion {
                Completion::AcceptEnded { listener, errno } => Came::AcceptEnded(listener, errno),
                Completion::Accepted { listener, slot } => Came::Accepted(listener, slot),
                Completion::Closed { conn } => Came::Closed(conn),
                Completion::Datagrams { socket, len } => self.take_datagrams(socket, len),
                Completion::DatagramsEnded { socket, errno } => Came::DatagramsEnded(socket, errno),
                Completion::Detached { conn, result } => Came::Detached(conn, result),
                Completion::Received { conn, received } => Came::Received(conn, self.copy_out(received)),
                Completion::Sent { conn, sent } => Came::Sent(conn, sent),
            };
            self.came.push(came);
        }
    }

    /// Runs turns for 100 ms, long enough for every operation on loopback to complete.
    pub(super) fn settle(&mut self) {
        let until = self.bench.now() + Duration::from_millis(100);
        while self.bench.now() < until {
            self.turn();
        }
    }

    /// Takes the first completion that `wanted` accepts, within 5 s.
    pub(super) fn take<T>(&mut self, what: &str, wanted: impl Fn(&Came) -> Option<T>) -> (T, Came) {
        let until = self.bench.now() + Duration::from_secs(5);
        loop {
            if let Some((index, found)) =
                self.came.iter().enumerate().find_map(|(index, came)| Some((index, wanted(came)?)))
            {
                return (found, self.came.remove(index));
            }
            assert!(self.bench.now() < until, "{what} did not arrive; completions so far: {:?}", self.came);
            self.turn();
        }
    }

    /// Runs turns until the peer has received the wanted input, within 5 s.
    pub(super) fn look_until(&mut self, peer: Peer, wanted: impl Fn(&Seen) -> bool) -> Seen {
        let until = self.bench.now() + Duration::from_secs(5);
        loop {
            let seen = self.bench.look(peer);
            if wanted(seen) {
                return seen.clone();
            }
            let short = Seen { bytes: seen.bytes.iter().copied().take(64).collect(), ..*seen };
            assert!(self.bench.now() < until, "the peer received only this (first bytes): {short:?}");
            self.turn();
        }
    }

    pub(super) fn accepted(&mut self) -> ConnId {
        let (slot, _) = self.take("an accepted connection", |came| match came {
            Came::Accepted(_, slot) => Some(*slot),
            _ => None,
        });
        self.name(slot)
    }

    /// Returns the identity of the next use of a slot, as the worker's table does.
    pub(super) fn name(&mut self, slot: SlotIndex) -> ConnId {
        let generation = *self.generations.entry(slot).and_modify(|g| *g = g.next()).or_default();
        ConnId { slot, generation }
    }

    /// Connects a peer and accepts its connection. Accept stays armed.
    pub(super) fn pair(&mut self) -> (Peer, ConnId) {
        self.bench.driver().arm_accept(LISTENER);
        let peer = self.bench.connect(LISTENER);
        let conn = self.accepted();
        (peer, conn)
    }

    pub(super) fn recv(&mut self, conn: ConnId, expect: Expect) -> Option<Got> {
        match self.bench.driver().recv(conn, expect) {
            Step::Done(received) => Some(self.copy_out(received)),
            Step::Pending => None,
        }
    }

    /// Receives once and waits for the result.
    pub(super) fn recv_wait(&mut self, conn: ConnId, expect: Expect) -> Got {
        match self.recv(conn, expect) {
            Some(got) => got,
            None => self.received(conn),
        }
    }

    /// Waits for the completion of a pending receive.
    pub(super) fn received(&mut self, conn: ConnId) -> Got {
        let (got, _) = self.take("a receive", |came| match came {
            Came::Received(of, got) if *of == conn => Some(got.clone()),
            _ => None,
        });
        got
    }

    /// Receives until `len` bytes have arrived.
    pub(super) fn recv_exact(&mut self, conn: ConnId, len: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < len {
            match self.recv_wait(conn, Expect::Later) {
                Got::Data { bytes, .. } => all.extend(bytes),
                other => panic!("{other:?} after {} of {len} bytes", all.len()),
            }
        }
        all
    }

    pub(super) fn send(&mut self, conn: ConnId, buf: SendBuf, more: bool) -> Option<Sent> {
        match self.bench.driver().send(conn, buf, more) {
            Step::Done(sent) => Some(sent),
            Step::Pending => None,
        }
    }

    pub(super) fn send_wait(&mut self, conn: ConnId, buf: SendBuf, more: bool) -> Sent {
        match self.send(conn, buf, more) {
            Some(sent) => sent,
            None => self.sent(conn),
        }
    }

    pub(super) fn sent(&mut self, conn: ConnId) -> Sent {
        let (_, came) = self.take("a send", |came| match came {
            Came::Sent(of, _) if *of == conn => Some(()),
            _ => None,
        });
        let Came::Sent(_, sent) = came else { unreachable!("it was just matched") };
        sent
    }

    /// Sends all bytes, with as many sends as needed.
    pub(super) fn send_all(&mut self, conn: ConnId, bytes: &[u8], more: bool) {
        let mut buf = SendBuf::new(Payload::Owned(bytes.to_vec()));
        while !buf.remaining().is_empty() {
            let Sent { result, buf: back } = self.send_wait(conn, buf, more);
            buf = back;
            buf.from += result.expect("the peer is connected");
        }
    }

    pub(super) fn close(&mut self, conn: ConnId) {
        if let Step::Pending = self.bench.driver().close(conn) {
            self.take("the end of a close", |came| match came {
                Came::Closed(of) if *of == conn => Some(()),
                _ => None,
            });
        }
    }

    /// Cancels pending operations, waits for their completions and closes.
    pub(super) fn abandon(&mut self, conn: ConnId) {
        self.bench.driver().cancel(conn);
        self.received(conn);
        self.close(conn);
    }

    pub(super) fn accept_ended(&mut self, listener: ListenerIndex) -> Option<Errno> {
        let (errno, _) = self.take("the end of accept", |came| match came {
            Came::AcceptEnded(of, errno) if *of == listener => Some(*errno),
            _ => None,
        });
        errno
    }

    /// Asserts that no unwanted completion arrives until everything in progress has settled.
    pub(super) fn nothing(&mut self, what: &str, unwanted: impl Fn(&Came) -> bool) {
        self.settle();
        let found: Vec<_> = self.came.iter().filter(|came| unwanted(came)).collect();
        assert!(found.is_empty(), "{what}: {found:?}");
    }

    /// Copies a batch and sends the payloads back.
    fn take_datagrams(&mut self, socket: DatagramIndex, len: u16) -> Came {
        let driver = self.bench.driver();
        let mut replies = Replies::default();
        let mut sum = SentBatch::default();
        let mut send = |driver: &mut B::Driver, replies: &mut Replies| {
            let sent = driver.send_datagrams(socket, replies);
            assert!(replies.is_empty(), "D-18: replies are removed");
            sum.sent += sent.sent;
            sum.failed += sent.failed;
        };
        let mut grams = Vec::new();
        for index in 0..usize::from(len) {
            let Datagram { payload, peer, local, is_truncated } =
                driver.datagram(index).expect("D-14: each datagram of a batch is readable");
            let payload = payload.to_vec();
            if !replies.fits(payload.len()) {
                send(driver, &mut replies);
            }
            replies.room(payload.len()).copy_from_slice(&payload);
            replies.push(self.replies_to.unwrap_or(peer), local, payload.len());
            grams.push(Grams { payload, peer, local, is_truncated });
        }
        send(driver, &mut replies);
        driver.end_datagrams();
        assert!((1..=DATAGRAMS_MAX).contains(&grams.len()), "D-16: the length of a batch");
        Came::Datagrams(socket, grams, sum)
    }

    fn copy_out(&mut self, received: Received) -> Got {
        match received {
            Received::Data { chunk, drained } => {
                let bytes = self.bench.driver().received(&chunk).to_vec();
                assert_eq!(bytes.len(), chunk.len(), "the bytes of a chunk have its length");
                assert!(!bytes.is_empty(), "an empty read would be the end of the stream");
                self.bench.driver().recycle(chunk);
                Got::Data { bytes, drained }
            }
            Received::Eof => Got::Eof,
            Received::Failed(errno) => Got::Failed(errno),
        }
    }
}
