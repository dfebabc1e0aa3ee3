//! Simulated datagram sockets, and a network that loses, duplicates and reorders.
//!
//! Its random numbers are separate, so a simulation without datagrams is the same with and without
//! this file.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::VecDeque;

use doorbell::driver::{Completion, DATAGRAMS_MAX, Datagram, Errno, Replies, SentBatch};
use doorbell::id::DatagramIndex;

use super::events::{Event, Ready};
use super::rng::Rng;
use super::world::World;

/// Datagrams that the queue of a socket holds; further ones are lost.
const QUEUE_MAX: usize = 128;

/// Probabilities of faults, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramPlan {
    /// A datagram is lost on its way.
    pub lost: u32,
    /// A datagram arrives twice.
    pub duplicated: u32,
    /// A datagram is overtaken by later ones.
    pub reordered: u32,
    /// The kernel does not accept a reply.
    pub send_failed: u32,
    /// A receive ends with an error.
    pub recv_failed: u32,
}

impl DatagramPlan {
    /// Each fault is off in half of the plans.
    pub fn random(rng: &mut Rng) -> Self {
        let mut draw = |max: u64| {
            let often = rng.range(0..max);
            if rng.hits(500_000) { u32::try_from(often).unwrap_or(0) } else { 0 }
        };
        Self {
            lost: draw(300_000),
            duplicated: draw(300_000),
            reordered: draw(300_000),
            send_failed: draw(100_000),
            recv_failed: draw(100_000),
        }
    }
}

/// Number of occurrences of each fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in the plan")]
pub struct DatagramFaults {
    pub lost: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub send_failed: u64,
    pub recv_failed: u64,
    /// Datagrams that found the queue of their socket full, or no socket.
    pub refused: u64,
}

/// A datagram that owns its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimDatagram {
    /// Payload.
    pub payload: Vec<u8>,
    /// The address of the client.
    pub peer: SocketAddr,
    /// The address of the server.
    pub local: IpAddr,
}

/// The sockets and everything that happened to their datagrams.
#[derive(Debug)]
pub(super) struct DatagramWorld {
    rng: Rng,
    plan: DatagramPlan,
    sockets: Vec<Socket>,
    faults: DatagramFaults,
    arrived: u64,
    replies: Vec<SimDatagram>,
}

#[derive(Debug)]
struct Socket {
    open: bool,
    arm: Arm,
    queue: VecDeque<SimDatagram>,
    is_scheduled: bool,
    size_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arm {
    Armed,
    Disarming,
    Idle,
}

impl DatagramWorld {
    pub(super) fn new(seed: u64, plan: DatagramPlan, sizes_max: &[usize]) -> Self {
        let socket = |size_max: &usize| Socket {
            open: true,
            arm: Arm::Idle,
            queue: VecDeque::new(),
            is_scheduled: false,
            size_max: *size_max,
        };
        Self {
            rng: Rng::new(!seed),
            plan,
            sockets: sizes_max.iter().map(socket).collect(),
            faults: DatagramFaults::default(),
            arrived: 0,
            replies: Vec::new(),
        }
    }

    /// The times after which copies of a datagram arrive.
    fn travel(&mut self) -> Vec<Duration> {
        let Self { rng, plan, faults, .. } = self;
        let mut copies = 1;
        if rng.hits(plan.lost) {
            faults.lost += 1;
            copies = 0;
        } else if rng.hits(plan.duplicated) {
            faults.duplicated += 1;
            copies = 2;
        }
        let mut time = || {
            let late = rng.hits(plan.reordered);
            faults.reordered += u64::from(late);
            Duration::from_micros(if late { rng.range(1_000..50_000) } else { 100 })
        };
        (0..copies).map(|_| time()).collect()
    }

    fn queue(&mut self, socket: DatagramIndex) -> &mut Socket {
        &mut self.sockets[socket.index()]
    }
}

impl World {
    /// Sends a datagram to a socket, from the address of a client.
    pub fn send_datagram(&mut self, socket: DatagramIndex, datagram: &SimDatagram) {
        for after in self.datagrams.travel() {
            self.schedule(after, Event::DatagramToServer { socket, datagram: datagram.clone() });
        }
    }

    /// The replies that have arrived at clients, in order.
    pub fn datagram_replies(&self) -> &[SimDatagram] {
        &self.datagrams.replies
    }

    /// Number of datagrams that reached the queue of a socket.
    pub const fn datagrams_arrived(&self) -> u64 {
        self.datagrams.arrived
    }

    /// Faults of datagrams so far.
    pub const fn datagram_faults(&self) -> DatagramFaults {
        self.datagrams.faults
    }

    /// Whether a datagram waits in the queue of a socket.
    pub fn datagrams_queued(&self, socket: DatagramIndex) -> bool {
        !self.datagrams.sockets[socket.index()].queue.is_empty()
    }

    pub(super) fn is_receiving(&self, socket: DatagramIndex) -> bool {
        self.datagrams.sockets[socket.index()].open
    }

    pub(super) fn arm_datagrams(&mut self, socket: DatagramIndex) {
        let state = self.datagrams.queue(socket);
        assert!(state.open, "a closed socket is armed");
        match state.arm {
            Arm::Armed => {}
            Arm::Disarming => panic!("D-15: a socket is armed before its end was reported"),
            Arm::Idle => state.arm = Arm::Armed,
        }
        self.announce_datagrams(socket);
    }

    pub(super) fn disarm_datagrams(&mut self, socket: DatagramIndex) {
        let state = self.datagrams.queue(socket);
        if state.arm == Arm::Armed {
            state.arm = Arm::Disarming;
            let after = Duration::from_micros(self.datagrams.rng.range(0..200));
            self.schedule(after, Event::DatagramsDisarmed { socket });
        }
    }

    pub(super) fn datagrams_disarmed(&mut self, socket: DatagramIndex, errno: Option<Errno>) {
        self.datagrams.queue(socket).arm = Arm::Idle;
        let ended = Completion::DatagramsEnded { socket, errno };
        self.schedule(Duration::ZERO, Event::Deliver(Ready::Plain(ended)));
    }

    pub(super) fn close_datagrams(&mut self, socket: DatagramIndex) -> u64 {
        let state = self.datagrams.queue(socket);
        assert_eq!(state.arm, Arm::Idle, "D-19: a socket is closed only while it is not armed");
        state.open = false;
        state.queue.drain(..).count() as u64
    }

    pub(super) fn datagram_at_server(&mut self, socket: DatagramIndex, datagram: SimDatagram) {
        let DatagramWorld { sockets, faults, arrived, .. } = &mut self.datagrams;
        let state = &mut sockets[socket.index()];
        if !state.open || state.queue.len() >= QUEUE_MAX {
            faults.refused += 1;
            return;
        }
        *arrived += 1;
        state.queue.push_back(datagram);
        self.announce_datagrams(socket);
    }

    pub(super) fn datagram_at_client(&mut self, datagram: SimDatagram) {
        self.datagrams.replies.push(datagram);
    }

    fn announce_datagrams(&mut self, socket: DatagramIndex) {
        let after = Duration::from_micros(self.datagrams.rng.range(0..50));
        let state = self.datagrams.queue(socket);
        if state.arm == Arm::Armed && !state.queue.is_empty() && !state.is_scheduled {
            state.is_scheduled = true;
            self.schedule(after, Event::Deliver(Ready::Datagrams(socket)));
        }
    }

    /// Takes a batch of random length. `None` if the socket is not armed, its queue is empty, or
    /// the receive fails.
    pub(super) fn take_datagrams(&mut self, socket: DatagramIndex) -> Option<Vec<SimDatagram>> {
        let DatagramWorld { rng, plan, sockets, faults, .. } = &mut self.datagrams;
        let state = &mut sockets[socket.index()];
        state.is_scheduled = false;
        if state.arm == Arm::Idle || state.queue.is_empty() {
            return None;
        }
        if state.arm == Arm::Armed && rng.hits(plan.recv_failed) {
            faults.recv_failed += 1;
            let errno = *rng.pick(&[Errno::CONNREFUSED, Errno::INVAL, Errno::NOMEM]);
            self.datagrams_disarmed(socket, Some(errno));
            return None;
        }
        let len = (1 + rng.index(DATAGRAMS_MAX)).min(state.queue.len());
        let batch = state.queue.drain(..len).collect();
        self.announce_datagrams(socket);
        Some(batch)
    }

    /// A datagram as the driver reports it.
    pub(super) fn reported<'a>(&self, socket: DatagramIndex, datagram: &'a SimDatagram) -> Datagram<'a> {
        let size_max = self.datagrams.sockets[socket.index()].size_max;
        let SimDatagram { payload, peer, local } = datagram;
        let is_truncated = payload.len() > size_max;
        let payload = payload.get(..size_max).unwrap_or(payload);
        Datagram { payload, peer: *peer, local: Some(*local), is_truncated }
    }

    pub(super) fn send_replies(&mut self, replies: &mut Replies) -> SentBatch {
        let mut sum = SentBatch::default();
        for reply in replies.iter() {
            // The kernel refuses port 0.
            if reply.to.port() == 0 || self.datagrams.rng.hits(self.datagrams.plan.send_failed) {
                self.datagrams.faults.send_failed += 1;
                sum.failed += 1;
                continue;
            }
            sum.sent += 1;
            let local = reply.from.expect("D-18: a reply has a source address");
            let datagram = SimDatagram { payload: reply.payload.to_vec(), peer: reply.to, local };
            for after in self.datagrams.travel() {
                self.schedule(after, Event::DatagramToClient { datagram: datagram.clone() });
            }
        }
        replies.clear();
        sum
    }
}
