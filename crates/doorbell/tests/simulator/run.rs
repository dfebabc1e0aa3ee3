//! Runs one seed: a worker on a simulated driver, many peers, faults, and the verdict.

use core::time::Duration;
use std::sync::Arc;

use doorbell::control::{Command, WorkerShared};
use doorbell::driver::Waker;
use doorbell::hand_over::HandedCount;
use doorbell::offload::Class;
use doorbell::worker::{Flow, ServerShared, Worker};
use doorbell::{HandOver, HttpLimits, Limits, Offload, Snapshot, WhenFull};
use doorbell_testkit::clock::{START_NANOS, VirtualClock};
use doorbell_testkit::sim::{FaultCounts, FaultKind, FaultPlan, PeerIndex, Rng, Sim, SimConfig, SimDriver};

use super::app::App;
use super::cast::{Expectation, GREETER, HANDED, HTTP, Kind, RAW, STREAMED, peer_of, random_peer};
use super::pool::SimPool;
use super::service;
use super::verdict;

/// Number of peers in a burst, equal to the default backlog.
const BURST_LEN: usize = 4_096;

/// Maximum virtual duration of a run: 12 hours.
const VIRTUAL_MAX: Duration = Duration::from_secs(12 * 3_600);

/// Maximum number of turns per virtual second; more means that the worker spins.
const TURNS_A_SECOND_MAX: u32 = 60_000;

/// The command to the worker before its peers are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// No command: the worker serves all peers.
    None,
    /// The worker drains from this time on, with this timeout.
    Drain(u64, Duration),
    /// The worker retires at this time, with this patience.
    Retire(u64, Duration),
    /// The worker stops at this time.
    Stop(u64),
}

/// Results of a run, for the summary.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    pub(super) conns: u64,
    pub(super) requests: u64,
    pub(super) replies_whole: u64,
    pub(super) turns: u64,
    pub(super) strict: u64,
    pub(super) jobs: u64,
    pub(super) faults: FaultCounts,
}

impl Report {
    pub(super) fn add(&mut self, other: &Self) {
        self.conns += other.conns;
        self.requests += other.requests;
        self.replies_whole += other.replies_whole;
        self.turns += other.turns;
        self.strict += other.strict;
        self.jobs += other.jobs;
        self.faults.add(&other.faults);
    }
}

/// A worker in a simulated world, and the expectations of its peers.
pub(super) struct Stage {
    pub(super) sim: Sim,
    /// `None` after the worker has finished or failed.
    pub(super) worker: Option<Worker<SimDriver, VirtualClock>>,
    pub(super) app: App,
    pub(super) places: HandedCount,
    /// True if hand-overs may be refused.
    pub(super) refuses: bool,
    pub(super) shared: Arc<WorkerShared>,
    pub(super) expectations: Vec<(PeerIndex, Expectation)>,
    pub(super) limits: Limits,
    pub(super) http_limits: HttpLimits,
    pub(super) next_id: u64,
    /// The time at which the worker finished a drain or stop.
    pub(super) finished_at: Option<u64>,
    /// True once the driver has failed.
    pub(super) failed: bool,
    /// True if a receive returns at most a few hundred bytes.
    pub(super) small_reads: bool,
    /// The executor of jobs.
    pub(super) pool: SimPool,
    /// True if the queue of jobs is so short that jobs may be refused.
    pub(super) short_queue: bool,
    slots: u32,
    turns: u64,
    second: u64,
    turns_this_second: u32,
}

impl Stage {
    /// Creates a worker with these limits in a world with this configuration. The listeners and
    /// slots of the world are set to those of the worker.
    pub(super) fn new(limits: Limits, http_limits: HttpLimits, config: SimConfig) -> Self {
        Self::handing_over(limits, http_limits, config, u32::MAX, WhenFull::Refuse)
    }

    /// Creates a worker like [`Self::new`], with this limit of hand-overs.
    pub(super) fn handing_over(
        limits: Limits,
        http_limits: HttpLimits,
        config: SimConfig,
        out_max: u32,
        when_full: WhenFull,
    ) -> Self {
        let pool = SimPool::new(config.seed);
        let short_queue = config.seed.is_multiple_of(16);
        let offload = Offload::builder();
        let offload = pool.offload(if short_queue { offload.queue_max(Class::Normal, 1) } else { offload });
        let protocols = vec![
            service::http(http_limits.clone(), offload).into(),
            service::raw().into(),
            service::greeter().into(),
            service::handed().into(),
            service::streamed().into(),
        ];
        let listeners = u16::try_from(protocols.len()).expect("five");
        let app = App::default();
        let to = HandOver::new(app.desk()).conns_max(out_max).when_full(when_full);
        let places = to.places();
        let server = Arc::new(ServerShared::new(protocols, limits.clone(), 1).handing_over(to.clone()));
        let slots = server.slots_max();
        let sim = Sim::new(SimConfig { listeners, slots, ..config.clone() });
        let (waker, source) = Waker::pair().expect("an eventfd");
        let shared = Arc::new(WorkerShared::new(waker));
        let woken = Arc::clone(&shared);
        to.on_room(move || woken.wake());
        let driver = sim.driver().with_wake(source);
        let worker = Some(Worker::new(driver, sim.clock(), server, Arc::clone(&shared)));
        Self {
            sim,
            worker,
            app,
            places,
            refuses: out_max < 1_000,
            shared,
            expectations: Vec::new(),
            limits,
            http_limits,
            next_id: 1_000,
            finished_at: None,
            failed: false,
            small_reads: config.recv_buf_len < 500,
            pool,
            short_queue,
            slots,
            turns: 0,
            second: 0,
            turns_this_second: 0,
        }
    }

    pub(super) fn add_random(&mut self, rng: &mut Rng, within: Duration) {
        let made = random_peer(rng, &self.http_limits, self.limits.write_timeout, &mut self.next_id, within);
        self.add(made);
    }

    pub(super) fn add_kind(&mut self, kind: Kind, rng: &mut Rng, within: Duration) -> PeerIndex {
        let made =
            peer_of(kind, rng, &self.http_limits, self.limits.write_timeout, &mut self.next_id, within);
        self.add(made)
    }

    pub(super) fn add(
        &mut self,
        (plan, expectation): (doorbell_testkit::sim::PeerPlan, Expectation),
    ) -> PeerIndex {
        let index = self.sim.world_mut().add_peer(plan);
        self.expectations.push((index, expectation));
        index
    }

    /// Runs one turn and checks all invariants. Returns false if the worker has ended.
    pub(super) fn turn(&mut self) -> bool {
        let Some(worker) = &mut self.worker else { return false };
        self.pool.step(&self.sim);
        let turned = worker.turn();
        self.pool.step(&self.sim);
        self.turns += 1;
        let live = worker.conns_live();
        self.app.serve(&mut self.sim.world_mut());
        assert_eq!(
            self.places.out() as usize,
            self.app.live() + worker.conns_leaving(),
            "every permit has an owner"
        );
        if turned.is_ok() && (live < 200 || self.turns.is_multiple_of(32)) {
            worker.check_invariants();
        }
        self.watch_for_spinning();
        assert_eq!(self.sim.world().violations(), &[] as &[String]);
        match turned {
            Ok(Flow::Continue) => return true,
            Ok(Flow::Finished) => {
                assert_eq!(live, 0, "a finished worker has no connection");
                assert_eq!(self.sim.world().slots_free(), self.slots as usize, "I-3: every slot is free");
                self.finished_at = Some(self.sim.world().now());
            }
            Err(_) => self.failed = true,
        }
        // The process ends: the kernel resets open connections.
        self.worker = None;
        false
    }

    /// Runs turns until all peers are done, the worker has ended, or too much time has passed.
    pub(super) fn run(&mut self) {
        while !self.is_done() {
            let passed = self.sim.world().now() - START_NANOS;
            assert!(u128::from(passed) < VIRTUAL_MAX.as_nanos(), "the run does not end: {}", self.standing());
            if !self.turn() {
                return;
            }
        }
    }

    /// Runs turns for this virtual time.
    pub(super) fn run_for(&mut self, time: Duration) {
        let until = self.sim.world().now() + u64::try_from(time.as_nanos()).expect("short");
        self.sim.world_mut().alarm_after(time);
        while self.sim.world().now() < until && self.turn() {}
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }

    pub(super) const fn turns(&self) -> u64 {
        self.turns
    }

    fn is_done(&self) -> bool {
        let world = self.sim.world();
        world.peers_are_done()
            && self.app.live() == 0
            && world.slots_free() == self.slots as usize
            && [HTTP, RAW, GREETER, HANDED, STREAMED].iter().all(|listener| world.backlog_len(*listener) == 0)
    }

    fn standing(&self) -> String {
        let world = self.sim.world();
        let open: Vec<_> = self
            .expectations
            .iter()
            .filter(|(index, _)| world.log(*index).closed_at.is_none())
            .map(|(index, expectation)| (*index, expectation.kind))
            .take(10)
            .collect();
        format!(
            "{} of {} slots free, open: {open:?}, {:?}",
            world.slots_free(),
            self.slots,
            self.shared.snapshot()
        )
    }

    fn watch_for_spinning(&mut self) {
        let second = self.sim.world().now() / 1_000_000_000;
        if core::mem::replace(&mut self.second, second) != second {
            self.turns_this_second = 0;
        }
        self.turns_this_second += 1;
        assert!(self.turns_this_second < TURNS_A_SECOND_MAX, "the worker spins: {}", self.standing());
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.sim.world().trace().iter().for_each(|line| println!("{line}"));
        }
    }
}

/// Runs a seed and judges it.
pub(super) fn play(seed: u64, traced: bool) -> (Report, Sim) {
    let mut rng = Rng::new(seed);
    let limits = random_limits(&mut rng);
    let http_limits = random_http_limits(&mut rng);
    let plan = if rng.hits(60_000) { FaultPlan::none() } else { FaultPlan::random(&mut rng) };
    let config = SimConfig {
        seed: rng.next(),
        plan: plan.clone(),
        at_once_millionths: *rng.pick(&[0, 0, 300_000, 1_000_000]),
        recv_buf_len: *rng.pick(&[64, 333, 2_048, 4_096, 16_384]),
        accept_batch_max: *rng.pick(&[1, 16, 300, 4_096]),
        traced,
        ..SimConfig::quiet(0, 0)
    };
    let out_max = *rng.pick(&[u32::MAX, u32::MAX, u32::MAX, 1, 3]);
    let wait = WhenFull::Wait { conns: *rng.pick(&[0, 2, 1_000]), timeout: Duration::from_secs(30) };
    let when_full = *rng.pick(&[WhenFull::Refuse, wait]);
    let mut stage = Stage::handing_over(limits, http_limits, config, out_max, when_full);
    let within = Duration::from_secs(rng.range(1..30));
    for _ in 0..rng.range(5..60) {
        stage.add_random(&mut rng, within);
    }
    // A burst is expensive, so it is rare. Whether there is a burst depends on the seed alone, so
    // that a change of the peers does not remove every burst.
    let burst = seed % 64 == 7 && plan.millionths(FaultKind::BurstOfClients) > 0;
    if burst {
        stage.sim.world_mut().count_fault(FaultKind::BurstOfClients);
        for _ in 0..BURST_LEN {
            stage.add_kind(Kind::Probe, &mut rng, Duration::from_nanos(1));
        }
    }
    let ending = random_ending(&mut rng);
    conduct(&mut stage, ending);
    (verdict::judge(&stage, ending), stage.sim.clone())
}

/// Runs turns until all peers and the worker have ended, and ends the worker as `ending` requires.
fn conduct(stage: &mut Stage, ending: Ending) {
    let (at, command) = match ending {
        Ending::None => (None, Command::Stop),
        Ending::Drain(at, timeout) => (Some(at), Command::Drain { timeout }),
        Ending::Retire(at, patience) => {
            (Some(at), Command::Retire { patience, timeout: Duration::from_secs(10) })
        }
        Ending::Stop(at) => (Some(at), Command::Stop),
    };
    if let Some(at) = at {
        stage.sim.world_mut().alarm_after(Duration::from_nanos(at.saturating_sub(START_NANOS)));
        while stage.sim.world().now() < at && !stage.is_done() {
            if !stage.turn() {
                return;
            }
        }
    }
    if ending == Ending::None {
        stage.run();
    }
    stage.shared.send(command);
    let asked_at = stage.sim.world().now();
    while stage.turn() {
        let passed = stage.sim.world().now() - asked_at;
        assert!(u128::from(passed) < VIRTUAL_MAX.as_nanos(), "{ending:?} does not end: {}", stage.standing());
    }
    assert!(stage.finished_at.is_some() || stage.failed, "a worker either finishes or fails");
}

fn random_limits(rng: &mut Rng) -> Limits {
    Limits {
        conns_max: *rng.pick(&[1, 2, 4, 16, 64, 1_000]),
        conns_per_ip_max: *rng.pick(&[0, 0, 0, 0, 0, 0, 0, 1_000, 3]),
        input_bytes_max: *rng.pick(&[64 * 1024 * 1024, 64 * 1024 * 1024, 64 * 1024 * 1024, 20_000]),
        ..Limits::default()
    }
}

fn random_http_limits(rng: &mut Rng) -> HttpLimits {
    HttpLimits {
        header_timeout: Duration::from_millis(*rng.pick(&[10_000, 10_000, 7_777])),
        idle_timeout: Duration::from_millis(*rng.pick(&[30_000, 12_345])),
        output_bytes_max: *rng.pick(&[64 * 1024, 64 * 1024, 1_000]),
        ..HttpLimits::default()
    }
}

fn random_ending(rng: &mut Rng) -> Ending {
    let at = START_NANOS + rng.range(0..40_000_000_000);
    match rng.weighted(&[76, 10, 8, 6]) {
        0 => Ending::None,
        1 => Ending::Drain(at, Duration::from_secs(rng.range(1..60))),
        2 => Ending::Retire(at, Duration::from_secs(rng.range(1..600))),
        _ => Ending::Stop(at),
    }
}
