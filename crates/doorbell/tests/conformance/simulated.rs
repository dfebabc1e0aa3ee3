//! Benches for the simulated driver with simulated peers, with operations that complete at once or
//! later.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::os::fd::OwnedFd;

use doorbell::driver::Waker;
use doorbell::id::{DatagramIndex, ListenerIndex};
use doorbell_testkit::clock::START_NANOS;
use doorbell_testkit::sim::{
    PeerIndex, PeerPlan, PeerStep, Reading, Sim, SimConfig, SimDatagram, SimDriver, World,
};

use super::bench::{ASKED, Bench, Peer, SIZES, Seen, Sender, Stand, Taken};

/// A simulated world whose peers are controlled by the test.
pub(super) struct Simulated {
    sim: Sim,
    driver: SimDriver,
    waker: Waker,
    /// By peer.
    seen: Vec<Seen>,
    senders: usize,
}

pub(super) fn at_once(slots: u32) -> Option<Stand<Simulated>> {
    Some(stand(SimConfig { at_once_millionths: 1_000_000, ..config(slots) }))
}

pub(super) fn later(slots: u32) -> Option<Stand<Simulated>> {
    Some(stand(config(slots)))
}

fn config(slots: u32) -> SimConfig {
    SimConfig {
        listeners: 2,
        accept_batch_max: 1,
        datagram_sizes: SIZES.to_vec(),
        ..SimConfig::quiet(1, slots)
    }
}

fn stand(config: SimConfig) -> Stand<Simulated> {
    let (waker, source) = Waker::pair().expect("an eventfd");
    let sim = Sim::new(config);
    let driver = sim.driver().with_wake(source);
    Stand::new(Simulated { sim, driver, waker, seen: Vec::new(), senders: 0 })
}

impl Simulated {
    fn push(&self, peer: Peer, step: PeerStep) {
        self.sim.world_mut().push_step(PeerIndex(peer.0), step);
    }
}

impl Bench for Simulated {
    type Driver = SimDriver;

    fn driver(&mut self) -> &mut SimDriver {
        &mut self.driver
    }

    fn big_len(&self) -> usize {
        1024 * 1024
    }

    fn connect(&mut self, listener: ListenerIndex) -> Peer {
        let index = self.sim.world_mut().add_peer(PeerPlan {
            listener,
            addr: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            connect_after: Duration::ZERO,
            script: Vec::new(),
            reading: Reading::Never,
            window_len: 64 * 1024,
            ignores_fin: true,
        });
        Peer(index.0)
    }

    fn send(&mut self, peer: Peer, bytes: &[u8]) {
        self.push(peer, PeerStep::Send(bytes.to_vec()));
    }

    fn half_close(&mut self, peer: Peer) {
        self.push(peer, PeerStep::HalfClose);
    }

    fn leave(&mut self, peer: Peer) {
        self.push(peer, PeerStep::Leave);
    }

    fn reset(&mut self, peer: Peer) {
        self.push(peer, PeerStep::Reset);
    }

    fn look(&mut self, peer: Peer) -> &Seen {
        let index = PeerIndex(peer.0);
        let mut world = self.sim.world_mut();
        world.read_now(index);
        let log = world.log(index);
        if self.seen.len() <= peer.0 {
            self.seen.resize_with(peer.0 + 1, Seen::default);
        }
        let seen = &mut self.seen[peer.0];
        seen.bytes.extend_from_slice(&log.received[seen.bytes.len()..]);
        (seen.fin, seen.reset) = (log.fin_at.is_some(), log.reset.is_some());
        seen
    }

    fn take_over(&mut self, fd: OwnedFd) -> Taken {
        Taken::Simulated(Peer(World::handed_peer(fd).0))
    }

    fn taken_recv(&mut self, taken: &mut Taken) -> Vec<u8> {
        self.sim.world_mut().handed_recv(index(taken)).0
    }

    fn taken_send(&mut self, taken: &mut Taken, bytes: &[u8]) {
        self.sim.world_mut().handed_send(index(taken), bytes);
    }

    fn taken_close(&mut self, taken: Taken) {
        self.sim.world_mut().handed_close(index(&taken));
    }

    fn peer_addr(&self, _peer: Peer) -> Option<IpAddr> {
        Some(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    fn knows_addrs(&self) -> bool {
        true
    }

    fn can_reset(&self) -> bool {
        true
    }

    fn datagram_client(&mut self) -> Sender {
        self.senders += 1;
        Sender(self.senders - 1)
    }

    fn client_addr(&self, client: Sender) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 40_000 + u16::try_from(client.0).expect("few clients")).into()
    }

    fn send_datagram(&mut self, client: Sender, socket: DatagramIndex, bytes: &[u8]) {
        let peer = self.client_addr(client);
        let datagram = SimDatagram { payload: bytes.to_vec(), peer, local: ASKED };
        self.sim.world_mut().send_datagram(socket, &datagram);
    }

    fn look_datagrams(&mut self, client: Sender) -> Vec<(Vec<u8>, IpAddr)> {
        let peer = self.client_addr(client);
        let world = self.sim.world();
        let replies = world.datagram_replies().iter().filter(|reply| reply.peer == peer);
        replies.map(|reply| (reply.payload.clone(), reply.local)).collect()
    }

    fn wake_soon(&self) {
        self.waker.wake();
    }

    fn wake_now(&self) {
        self.waker.wake();
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.sim.world().now() - START_NANOS)
    }
}

fn index(taken: &Taken) -> PeerIndex {
    let Taken::Simulated(peer) = taken else { unreachable!("a simulated connection") };
    PeerIndex(peer.0)
}
