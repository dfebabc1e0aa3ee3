//! Random runs of a datagram listener: a network that loses, duplicates and reorders, receives and
//! sends that fail, and a drain or stop at any time.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::num::NonZeroU16;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use doorbell::control::{Command, WorkerShared};
use doorbell::datagram::{DatagramListen, DatagramReply, DatagramRequest};
use doorbell::driver::Waker;
use doorbell::http::limit::Quota;
use doorbell::id::DatagramIndex;
use doorbell::worker::{Flow, ServerShared, Worker};
use doorbell::{DatagramSnapshot, Limits};
use doorbell_testkit::sim::{DatagramFaults, DatagramPlan, Rng, Sim, SimConfig, SimDatagram};

const SEEDS: u64 = 256;
const SIZE_MAX: usize = 40;
const SOCKET: DatagramIndex = DatagramIndex(0);
const NAME: &str = "simulated";

/// Replies with the request and the addresses that the handler saw, unless the first byte requests
/// silence (`s`), a panic (`p`) or a reply that is too long (`l`).
fn handle(request: &DatagramRequest<'_>, reply: &mut DatagramReply<'_>) {
    assert_eq!(request.listener(), NAME);
    match request.payload().first() {
        Some(b's') => {}
        Some(b'p') => panic!("a defect of the handler"),
        Some(b'l') => (0..=reply.len_max()).for_each(|_| reply.send("x")),
        _ => {
            reply.send(request.payload());
            reply.send(format!(" {} {}", request.peer(), request.local().expect("simulated")));
        }
    }
}

/// The number of datagrams for each way in which they may end, from the worker's counters.
fn counted(stats: &DatagramSnapshot) -> u64 {
    let DatagramSnapshot {
        replied, send_failed, silent, truncated, limited, guarded, panicked, invalid, ..
    } = *stats;
    replied + send_failed + silent + truncated + limited + guarded + panicked + invalid
}

fn random_datagram(rng: &mut Rng) -> SimDatagram {
    let kind = *rng.pick(b"eeeeeesplt");
    let len = if kind == b't' { SIZE_MAX + 1 + rng.index(100) } else { 1 + rng.index(SIZE_MAX) };
    let mut payload = vec![b'.'; len];
    payload[0] = kind;
    let peer = SocketAddr::from(([10, 0, 0, *rng.pick(&[1, 2, 3])], *rng.pick(&[4_000, 5_000])));
    SimDatagram { payload, peer, local: IpAddr::V4(Ipv4Addr::new(192, 0, 2, *rng.pick(&[1, 2]))) }
}

/// Runs a seed and returns its counters and faults.
fn play(seed: u64) -> (DatagramSnapshot, DatagramFaults) {
    let mut rng = Rng::new(seed);
    let datagram_plan = DatagramPlan::random(&mut rng);
    let is_limited = rng.hits(300_000);
    let limit = is_limited.then(|| (Quota::per_second(20).expect("a valid quota"), 100));
    let factor = NonZeroU16::new(8).expect("not zero");
    let listen = DatagramListen::udp(([192, 0, 2, 1], 53).into());
    let listen = listen.name(NAME).size_max(SIZE_MAX).amplification(factor).limit(limit);
    let server = ServerShared::new(Vec::new(), Limits::default(), 1).receiving(&listen, handle);
    let sim = Sim::new(SimConfig {
        listeners: 0,
        datagram_sizes: vec![SIZE_MAX],
        datagram_plan,
        ..SimConfig::quiet(seed, server.slots_max())
    });
    let (waker, source) = Waker::pair().expect("an eventfd");
    let shared = Arc::new(WorkerShared::new(waker));
    let driver = sim.driver().with_wake(source);
    let mut worker = Worker::new(driver, sim.clock(), Arc::new(server), Arc::clone(&shared));

    let count = rng.range(1..400);
    let mut sent = HashMap::<_, u64>::new();
    for _ in 0..count {
        let datagram = random_datagram(&mut rng);
        sim.world_mut().send_datagram(SOCKET, &datagram);
        *sent.entry((datagram.peer, datagram.local, datagram.payload)).or_default() += 1;
        let pause = Duration::from_micros(rng.range(0..2_000));
        sim.world_mut().alarm_after(pause);
        assert_eq!(worker.turn(), Ok(Flow::Continue), "seed {seed}");
        worker.check_invariants();
    }
    let stops = rng.hits(300_000);
    if !stops && rng.hits(500_000) {
        // Every datagram that is still on its way arrives before the drain.
        let until = sim.world().now() + 1_000_000_000;
        while sim.world().now() < until {
            sim.world_mut().alarm_after(Duration::from_millis(10));
            worker.turn().expect("the driver works");
        }
    }
    shared.send(if stops { Command::Stop } else { Command::Drain { timeout: Duration::from_secs(60) } });
    for turn in 0.. {
        assert!(turn < 10_000, "seed {seed}: the worker ends");
        if worker.turn() == Ok(Flow::Finished) {
            break;
        }
    }
    drop(worker);
    let stats = shared.datagrams().remove(0);
    let world = sim.world();
    let context = format!("seed {seed}: {stats:?}, {:?}", world.datagram_faults());
    assert_eq!(stats.received, counted(&stats), "each datagram ends in one way; {context}");
    assert_eq!(world.datagrams_arrived(), stats.received + stats.dropped, "none is lost; {context}");
    assert!(stops || stats.dropped == 0, "a drain drops nothing; {context}");
    assert_eq!(stats.limited > 0, is_limited && stats.limited > 0, "{context}");
    assert_eq!(stats.recv_errors, world.datagram_faults().recv_failed, "{context}");
    assert_eq!(stats.send_failed, world.datagram_faults().send_failed, "{context}");
    for SimDatagram { payload, peer, local } in world.datagram_replies() {
        let asked = payload.split(|byte| *byte == b' ').next().expect("a split has a part");
        let key = (*peer, *local, asked.to_vec());
        assert!(
            sent.contains_key(&key),
            "a reply to the sender, from the destination of its datagram; {context}"
        );
        assert_eq!(*payload, [asked, format!(" {peer} {local}").as_bytes()].concat(), "{context}");
    }
    (stats, world.datagram_faults())
}

#[test]
fn every_datagram_is_answered_or_counted_in_every_seed() {
    let (mut stats, mut faults) = (DatagramSnapshot::default(), DatagramFaults::default());
    std::panic::set_hook(Box::new(|panic| {
        if panic.payload_as_str() != Some("a defect of the handler") {
            eprintln!("{panic}");
        }
    }));
    for seed in 0..SEEDS {
        let (of_seed, faults_of_seed) = play(seed);
        stats.merge(&of_seed);
        faults.lost += faults_of_seed.lost;
        faults.duplicated += faults_of_seed.duplicated;
        faults.reordered += faults_of_seed.reordered;
    }
    let DatagramSnapshot {
        replied, send_failed, silent, truncated, limited, guarded, panicked, dropped, ..
    } = stats;
    let seen = [replied, send_failed, silent, truncated, limited, guarded, panicked, dropped];
    assert!(seen.iter().all(|count| *count > 0), "each outcome occurs in at least one seed: {stats:?}");
    assert!(faults.lost > 0 && faults.duplicated > 0 && faults.reordered > 0, "{faults:?}");
}

/// The same seed gives the same run.
#[test]
fn a_run_with_datagrams_repeats() {
    assert_eq!(play(7), play(7));
}
