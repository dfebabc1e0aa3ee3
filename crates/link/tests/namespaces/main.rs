//! Tests delivery, loss and measurements over TCP and TLS between two network namespaces, with
//! forced disconnects. `DOORBELL_FULL=1` forces 100 of them and asserts the round-trip time.
//!
//! Does not know about: how packets are delayed and reordered; see `network`.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "the network and the links run in real time")]
#![expect(clippy::print_stderr, reason = "figures are shown with the output of their test")]

#[path = "../common/mod.rs"]
mod common;
mod network;

use common::Random;
use common::authority::Authority;
use doorbell_link::net::{Acceptor, Dial, LinkClock, LinkHandle, Notice};
use doorbell_link::{Event, Link, LinkOptions, LinkReport, Receipt, State, Subject};
use doorbell_testkit::figures;
use doorbell_testkit::skip::{Need, skipped};
use network::{ADDRS, Network, await_some};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Delay to the accepting side, and back.
const DELAYS: [Duration; 2] = [Duration::from_millis(28), Duration::from_millis(12)];

/// Errors of the clocks of both sides, in seconds.
const SKEWS: [i64; 2] = [5, -5];

/// Rounding of times to microseconds.
const ROUNDING: Duration = Duration::from_micros(5);

const RESULTS_MAX: usize = 8;

/// Set in the process that runs in a namespace of its own.
const INSIDE: &str = "DOORBELL_OWN_NETNS";
const NO_NAMESPACE: i32 = 99;

#[derive(Default)]
struct Seen {
    transitions: Vec<String>,
    results: u64,
    receipts: Vec<Receipt>,
    ended: BTreeMap<String, u64>,
}

/// One side, and what it received.
struct Side {
    clock: LinkClock,
    handle: LinkHandle,
    seen: Arc<Mutex<Seen>>,
    /// Transitions and results that this side queued.
    queued: (Vec<String>, u64),
}

impl Side {
    fn new(incarnation: u64, skew: i64) -> Self {
        // Without keepalives a connection becomes silent, and all frames arrive.
        let hour = Duration::from_secs(3_600);
        let options = LinkOptions {
            keepalive: hour,
            dead_after: 2 * hour,
            results_max: RESULTS_MAX,
            ..LinkOptions::default()
        };
        let time_of_day = Duration::from_secs(1_800_000_000_u64.checked_add_signed(skew).unwrap());
        let clock = LinkClock::start(time_of_day);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let events = Arc::clone(&seen);
        let handle = LinkHandle::new(Link::new(options, incarnation), clock, move |_, notice| {
            let mut seen = events.lock().unwrap();
            match notice {
                Notice::Event(Event::Transition(one)) => {
                    seen.transitions.push(format!("{} {} {}", one.subject.name, one.state, one.reason));
                }
                Notice::Event(Event::Result(..)) => seen.results += 1,
                Notice::Event(Event::Receipt(receipt)) => seen.receipts.push(receipt),
                Notice::Event(Event::Opened { .. }) => {}
                Notice::Ended(why) => *seen.ended.entry(why).or_default() += 1,
            }
        });
        Self { clock, handle, seen, queued: (Vec::new(), 0) }
    }

    fn queue(&mut self, random: &mut Random, transitions: u64, results: u64) {
        for _ in 0..transitions {
            let name = format!("check-{}", random.below(5));
            let state = if random.below(2) == 0 { State::Down } else { State::Up };
            let reason = self.queued.0.len().to_string();
            self.queued.0.push(format!("{name} {state} {reason}"));
            self.handle.with(|now, link| link.transition(now, Subject::check(&name), state, &reason));
        }
        for _ in 0..results {
            let reason = "x".repeat(usize::try_from(random.below(400)).unwrap());
            self.handle.with(|now, link| link.result(now, Subject::check("sized"), State::Up, &reason, None));
        }
        self.queued.1 += results;
    }

    /// The clock of the peer minus this one, in microseconds. An interruption between two readings
    /// only increases the difference.
    fn offset_to(&self, peer: &Self) -> i64 {
        let read = |side: &Self| i64::try_from(side.clock.now().as_micros()).unwrap();
        let differences = (0..1_000).map(|_| -(read(self) - read(peer)));
        differences.min().unwrap()
    }
}

/// Both sides, in two namespaces: the first connects, the second accepts.
struct World {
    sides: [Side; 2],
    random: Random,
    network: Network,
    dial: Dial,
    dialing: JoinHandle<()>,
    runtime: Runtime,
}

impl World {
    fn new(socat: &Path) -> Self {
        let network = Network::new(socat, DELAYS);
        let authority = Authority::new("namespaces");
        let sides = [(1, SKEWS[0]), (2, SKEWS[1])].map(|(incarnation, skew)| Side::new(incarnation, skew));
        let runtime = Runtime::new().unwrap();
        let listener = network.listen();
        let port = listener.local_addr().unwrap().port();
        listener.set_nonblocking(true).unwrap();
        let acceptor = Acceptor {
            tls: authority.tls("central.test"),
            peers: vec![("eu.test".to_owned(), sides[1].handle.clone())].into(),
            refused: Arc::new(|_, _| {}),
        };
        runtime.spawn(async { acceptor.run(TcpListener::from_std(listener).unwrap()).await });
        let (host, certificate_name) = (ADDRS[1].to_string(), "central.test".to_owned());
        let dial = Dial { host, port, certificate_name, tls: authority.tls("eu.test"), seed: 1 };
        let dialing = runtime.spawn(dial.clone().run(sides[0].handle.clone()));
        let world = Self { sides, random: Random(7), network, dial, dialing, runtime };
        world.await_conns([0, 0]);
        world
    }

    fn reports(&self) -> [LinkReport; 2] {
        [0, 1].map(|side| self.sides[side].handle.report())
    }

    fn conns(&self) -> [u64; 2] {
        self.reports().map(|report| report.counters.connections)
    }

    /// Waits until both sides have an open connection after this number of them.
    fn await_conns(&self, before: [u64; 2]) {
        await_some(|| {
            let conns = self.conns();
            let is_open = self.sides.iter().all(|side| side.handle.is_open());
            (is_open && conns[0] > before[0] && conns[1] > before[1]).then_some(())
        });
    }

    fn pause(&mut self, ms_max: u64) {
        sleep(Duration::from_millis(self.random.below(ms_max)));
    }

    fn queue(&mut self, transitions_max: u64, results_max: u64) {
        for side in [0, 1] {
            let [transitions, results] = [transitions_max, results_max].map(|max| self.random.below(max + 1));
            self.sides[side].queue(&mut self.random, transitions, results);
        }
    }

    /// Ends the connection while frames are in flight, and waits for the next one.
    fn reconnect(&mut self, round: u64) {
        let before = self.conns();
        // One of three: the kernel resets the connection of the accepting side.
        if !round.is_multiple_of(3) || !self.network.reset_conns() {
            // The network fails in every other case, so the peer sees no end of the connection.
            let is_cut = round % 3 == 1;
            self.network.settings.is_cut.store(is_cut, Ordering::Relaxed);
            self.pause(20);
            self.dialing.abort();
            await_some(|| self.dialing.is_finished().then_some(()));
            self.queue(4, 2 * RESULTS_MAX as u64);
            self.pause(20);
            self.network.settings.is_cut.store(false, Ordering::Relaxed);
            self.dialing = self.runtime.spawn(self.dial.clone().run(self.sides[0].handle.clone()));
        }
        self.await_conns(before);
    }

    /// Waits until both sides know that all frames have arrived or were lost.
    fn settle(&self) {
        let is_settled = || {
            let [one, other] = self.reports().map(|report| report.counters);
            self.sides.iter().all(|side| side.handle.is_flushed())
                && one.sent == other.received + one.lost
                && other.sent == one.received + other.lost
        };
        await_some(|| is_settled().then_some(()));
        // Longer than frames are in flight, so that the numbers were not equal by chance.
        sleep(Duration::from_millis(500));
        await_some(|| is_settled().then_some(()));
    }

    fn is_delivered(&self) {
        let reports = self.reports();
        for (side, report) in reports.iter().enumerate() {
            let (own, peer) = (report.counters, reports[1 - side].counters);
            let (transitions, results) = &self.sides[side].queued;
            let arrived = self.sides[1 - side].seen.lock().unwrap();
            assert_eq!(&arrived.transitions, transitions, "side {side}: transitions");
            assert_eq!(peer.transitions_received, transitions.len() as u64);
            assert_eq!(own.sent, peer.received + own.lost, "side {side}: frames");
            let missing = results - arrived.results;
            let lost = missing - own.results_dropped;
            assert!(lost <= own.lost, "side {side}: {missing} missing, {own:?}");
            eprintln!("side {side}: {own:?}, ended: {:?}", self.sides[side].seen.lock().unwrap().ended);
        }
        let all = reports.map(|report| report.counters);
        assert!(all.iter().any(|one| one.lost > 0), "no frame was in flight");
        assert!(all.iter().any(|one| one.results_dropped > 0), "no queue was full");
    }

    fn measures_the_truth(&self) {
        for (side, own) in self.sides.iter().enumerate() {
            let offset = own.offset_to(&self.sides[1 - side]);
            let (estimate, error) = own.handle.report().clock_offset.unwrap();
            let error = error + ROUNDING;
            assert!(
                u128::from(estimate.abs_diff(offset)) <= error.as_micros(),
                "{estimate} ± {error:?}, {offset}"
            );
            let receipts = &own.seen.lock().unwrap().receipts;
            assert!(receipts.len() > 20, "side {side}: {} receipts", receipts.len());
            for receipt in receipts {
                let truth = receipt.arrived.as_micros().checked_add_signed(-offset).unwrap();
                let truth = Duration::from_micros(truth - receipt.sent.as_micros());
                let [low, high] = receipt.one_way;
                let is_inside = low <= truth + ROUNDING && truth <= high + ROUNDING;
                assert!(is_inside, "side {side}: {low:?} <= {truth:?} <= {high:?}");
                assert!(truth + ROUNDING >= DELAYS[side], "side {side}: {truth:?} is below the delay");
            }
        }
    }

    /// Without reordering, a link measures the round trip of the network: that of an echo.
    fn round_trips(&mut self, count: u64) {
        self.network.settings.reorders.store(false, Ordering::Relaxed);
        self.sides.iter().for_each(|side| side.seen.lock().unwrap().receipts.clear());
        for _ in 0..count {
            self.sides.iter_mut().for_each(|side| side.queue(&mut self.random, 0, 1));
            self.pause(200);
        }
        self.settle();
        let echo = median(self.echoes());
        assert!(echo >= DELAYS[0] + DELAYS[1], "{echo:?}");
        for (side, own) in self.sides.iter().enumerate() {
            let receipts = &own.seen.lock().unwrap().receipts;
            let times: Vec<_> = receipts.iter().map(|one| one.round_trip + ROUNDING).collect();
            assert!(times.iter().all(|time| *time >= DELAYS[0] + DELAYS[1]), "side {side}: {times:?}");
            eprintln!("side {side}: {} round trips, those of an echo take {echo:?}", times.len());
            let difference = median(times).abs_diff(echo);
            let what = format!("side {side}: the median round trip, compared with an echo");
            figures::at_most(what, difference, Duration::from_millis(1));
        }
    }

    /// Round trips of one byte.
    fn echoes(&self) -> Vec<Duration> {
        let listener = self.network.listen();
        let addr = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            let mut byte = [0];
            while stream.read_exact(&mut byte).is_ok() {
                stream.write_all(&byte).unwrap();
            }
        });
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut echo = || {
            let start = Instant::now();
            stream.write_all(&[7]).unwrap();
            stream.read_exact(&mut [0]).unwrap();
            start.elapsed()
        };
        (0..20).map(|_| echo()).collect()
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Runs this test again in a network namespace of its own.
#[test]
fn a_link_survives_forced_reconnects_of_a_slow_network() {
    let Some(socat) = program("socat") else {
        return skipped(Need::Clients, "socat is not installed");
    };
    if std::env::var_os(INSIDE).is_some() {
        return reconnects(&socat);
    }
    let script = format!(
        "ip link set lo up && test -w /dev/net/tun || exit {NO_NAMESPACE}
         exec \"$0\" --exact --nocapture a_link_survives_forced_reconnects_of_a_slow_network"
    );
    let mut inside = Command::new("unshare");
    inside.args(["--user", "--map-root-user", "--net", "sh", "-c", &script]);
    match inside.arg(std::env::current_exe().unwrap()).env(INSIDE, "1").output() {
        Ok(output) if output.status.code() == Some(101) => {
            panic!("{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(output) if output.status.success() => eprint!("{}", String::from_utf8_lossy(&output.stderr)),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            skipped(Need::Clients, format_args!("a network namespace with a TUN device: {why}"));
        }
        Err(error) => skipped(Need::Clients, format_args!("unshare: {error}")),
    }
}

fn reconnects(socat: &Path) {
    let rounds = if figures::is_long() { 100 } else { 9 };
    let mut world = World::new(socat);
    world.network.settings.reorders.store(true, Ordering::Relaxed);
    for round in 0..rounds {
        for _ in 0..3 {
            world.queue(8, RESULTS_MAX as u64);
            world.pause(60);
        }
        world.reconnect(round);
    }
    assert!(world.conns().iter().all(|conns| *conns > rounds), "{:?}", world.conns());
    world.settle();
    world.is_delivered();
    world.measures_the_truth();
    let overtaking = world.network.settings.overtaking.load(Ordering::Relaxed);
    eprintln!("{:?} connections, {overtaking} packets overtook another one", world.conns());
    assert!(overtaking > 0, "no packet was reordered");
    world.round_trips(if figures::is_long() { 40 } else { 5 });
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file())
}
