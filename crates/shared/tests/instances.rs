//! Tests many instances that share one check, on a simulated store and network with lost messages.

use doorbell_link::Outcome;
use doorbell_shared::{
    Action, Lease, LeaseRequest, Message, Notification, Publication, ShareCounters, ShareMachine,
    ShareOptions, SharedResult, Stamp, Stored,
};
use doorbell_testkit::figures;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_millis(300);
const MAX_AGE: Duration = Duration::from_secs(3);

/// Longest delay of a request or message in one direction.
const DELAY_MAX_MS: u64 = 10;

/// Longest delay of a message that a network failure delays.
const LATE_MAX_MS: u64 = 3_000;

/// Longest duration of a run.
const RUN_MAX_MS: u64 = 40;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Model of the store and its scripts, with its own clock.
#[derive(Default)]
struct Store {
    lease: Option<(u64, String, Duration)>,
    result: Option<(Stamp, Duration, Vec<u8>)>,
    is_down: bool,
}

impl Store {
    fn lease(&mut self, now: Duration, request: &LeaseRequest) -> Option<Lease> {
        if self.is_down {
            return None;
        }
        let last = self.result.as_ref().map_or(0, |(stamp, ..)| stamp.token);
        let held = self.lease.take().filter(|(_, _, until)| *until > now);
        let (token, holder, until) = match held {
            None => {
                let token = u64::try_from(now.as_micros()).expect("a short simulation").max(last + 1);
                (token, request.holder.clone(), now + request.lasts)
            }
            Some((token, holder, _)) if holder == request.holder => (token, holder, now + request.lasts),
            Some(other) => other,
        };
        let is_own = holder == request.holder;
        self.lease = Some((token, holder, until));
        let latest = self.result.as_ref().filter(|(stamp, ..)| *stamp != request.known);
        let latest = latest.map(|(_, at, value)| Stored { value: value.clone(), age: now - *at });
        Some(Lease { is_own, token, remaining: until - now, latest })
    }

    fn publish(&mut self, now: Duration, result: &Publication) -> Option<bool> {
        if self.is_down {
            return None;
        }
        let is_holder = self.is_holder(now, &result.holder, result.stamp.token);
        let is_new = self.result.as_ref().is_none_or(|(stamp, ..)| *stamp < result.stamp);
        if is_holder && is_new {
            self.result = Some((result.stamp, now, result.value.clone()));
        }
        Some(is_holder && is_new)
    }

    fn is_holder(&self, now: Duration, holder: &str, token: u64) -> bool {
        let lease = self.lease.as_ref().filter(|(.., until)| *until > now);
        lease.is_some_and(|(own, by, _)| *own == token && by == holder)
    }
}

/// Event at an instance or the store.
enum Event {
    AskLease(LeaseRequest),
    AskNotify(Notification),
    Leased(Option<Lease>),
    AskPublish(Publication),
    Published(Stamp, Option<bool>),
    Notified(Vec<u8>),
    Ran,
    Wake,
}

struct Instance {
    machine: ShareMachine,
    /// False if the instance was killed. Its requests in flight still arrive.
    lives: bool,
    /// Time until which the instance does nothing, like a stopped process.
    stopped_until: Duration,
    last_result: Duration,
    /// Results accepted from other instances.
    accepted: HashMap<Stamp, Vec<u8>>,
    wakes_at: Duration,
}

struct World {
    now: Duration,
    events: BTreeMap<(Duration, u64), (usize, Event)>,
    number: u64,
    random: u64,
    store: Store,
    instances: Vec<Instance>,
    loss_percent: u64,
    /// Percentage of messages that a network failure delays, before or after the store.
    late_percent: u64,
    runs: u64,
    /// Times at which a lease got a new holder.
    takeovers: Vec<(Duration, usize)>,
    oldest: Duration,
}

impl World {
    fn new(seed: u64, instances: usize) -> Self {
        let mut world = Self {
            now: Duration::from_secs(1_000),
            events: BTreeMap::new(),
            number: 0,
            random: seed,
            store: Store::default(),
            instances: Vec::new(),
            loss_percent: 1,
            late_percent: 0,
            runs: 0,
            takeovers: Vec::new(),
            oldest: Duration::ZERO,
        };
        (0..instances).for_each(|_| world.add());
        world
    }

    fn chance(&mut self, of: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % of
    }

    fn add(&mut self) {
        let at = self.instances.len();
        let options = ShareOptions {
            name: "db".into(),
            check: "db".into(),
            instance: format!("i{at}"),
            holder: format!("h{at}"),
            interval: INTERVAL,
            timeout: TIMEOUT,
            max_age: MAX_AGE,
            seed: self.chance(u64::MAX),
        };
        self.instances.push(Instance {
            machine: ShareMachine::new(options, self.now),
            lives: true,
            stopped_until: Duration::ZERO,
            last_result: self.now,
            accepted: HashMap::new(),
            wakes_at: Duration::MAX,
        });
        self.after(Duration::ZERO, at, Event::Wake);
    }

    fn after(&mut self, delay: Duration, to: usize, event: Event) {
        self.number += 1;
        self.events.insert((self.now + delay, self.number), (to, event));
    }

    fn delay(&mut self) -> Duration {
        ms(1 + self.chance(DELAY_MAX_MS))
    }

    fn delay_of_message(&mut self) -> Duration {
        if self.chance(100) < self.late_percent { ms(1 + self.chance(LATE_MAX_MS)) } else { self.delay() }
    }

    fn run_until(&mut self, end: Duration) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), (to, event)) = entry.remove_entry();
            self.now = at;
            self.handle(to, event);
        }
        self.now = end;
    }

    fn handle(&mut self, to: usize, event: Event) {
        let (now, delay) = (self.now, self.delay());
        match event {
            Event::AskLease(request) => {
                let before = self.store.lease.as_ref().map(|(token, ..)| *token);
                let lease = self.store.lease(now, &request);
                if lease.as_ref().is_some_and(|lease| lease.is_own && Some(lease.token) != before) {
                    self.takeovers.push((now, to));
                }
                self.after(delay, to, Event::Leased(lease));
                return;
            }
            Event::AskPublish(result) => {
                let accepted = self.store.publish(now, &result);
                self.after(delay, to, Event::Published(result.stamp, accepted));
                if accepted == Some(true) {
                    self.broadcast(&result.value);
                }
                return;
            }
            Event::AskNotify(Notification { holder, token, message, .. }) => {
                if !self.store.is_down && self.store.is_holder(now, &holder, token) {
                    self.broadcast(&message);
                }
                return;
            }
            _ => {}
        }
        let instance = &mut self.instances[to];
        if !instance.lives {
            return;
        }
        if instance.stopped_until > now {
            // It waits in a queue of the stopped process.
            let left = instance.stopped_until - now;
            return self.after(left, to, event);
        }
        let machine = &mut instance.machine;
        match event {
            Event::Leased(lease) => machine.leased(now, lease),
            Event::Published(stamp, accepted) => machine.published(now, stamp, accepted),
            Event::Notified(bytes) => {
                let was_holder = machine.is_holder();
                machine.received(now, &bytes);
                let keeps = machine.is_holder() || !was_holder;
                let lease = self.store.lease.as_ref().filter(|(.., until)| *until > now);
                let is_own = lease.is_some_and(|(_, holder, _)| *holder == format!("h{to}"));
                assert!(keeps || !is_own, "a message ends the lease of {to}");
            }
            Event::Ran => {
                let result = SharedResult::new(Outcome::Success, ms(10), "", INTERVAL);
                // Distinguishes results.
                let result = SharedResult { latency_us: self.number, ..result };
                machine.ran(now, INTERVAL, Some(result));
                self.runs += 1;
                self.found(to);
            }
            Event::Wake => self.instances[to].wakes_at = Duration::MAX,
            Event::AskLease(_) | Event::AskNotify(_) | Event::AskPublish(_) => {
                unreachable!("the store has taken it")
            }
        }
        self.act(to);
    }

    fn act(&mut self, at: usize) {
        while let Some(action) = self.instances[at].machine.poll(self.now) {
            let delay = self.delay();
            match action {
                Action::Lease(request) => self.after(delay, at, Event::AskLease(request)),
                Action::Publish(result) => self.after(delay, at, Event::AskPublish(result)),
                Action::Run => {
                    let lasts = ms(5 + self.chance(RUN_MAX_MS));
                    self.after(lasts, at, Event::Ran);
                }
                Action::Notify(notification) => {
                    let delay = self.delay_of_message();
                    self.after(delay, at, Event::AskNotify(notification));
                }
                Action::Take(message) => {
                    let before = self.instances[at].accepted.insert(message.stamp(), message.encode());
                    assert_eq!(before, None, "two results for {:?}", message.stamp());
                    self.found(at);
                }
            }
        }
        let deadline = self.instances[at].machine.deadline();
        if deadline < self.instances[at].wakes_at {
            self.instances[at].wakes_at = deadline;
            self.after(deadline.saturating_sub(self.now), at, Event::Wake);
        }
    }

    fn found(&mut self, at: usize) {
        self.oldest = self.oldest.max(self.now - self.instances[at].last_result);
        self.instances[at].last_result = self.now;
    }

    fn broadcast(&mut self, bytes: &[u8]) {
        for to in 0..self.instances.len() {
            if self.chance(100) >= self.loss_percent {
                let delay = self.delay_of_message();
                self.after(delay, to, Event::Notified(bytes.to_vec()));
            }
        }
    }

    /// The instance that runs the check; waits until there is one.
    fn holder(&mut self) -> usize {
        loop {
            let instances = self.instances.iter().enumerate();
            let mut holders = instances.filter(|(_, one)| one.lives && one.machine.is_holder());
            let held = self.store.lease.as_ref().map(|(_, holder, _)| holder.clone());
            let holder = holders.find(|(at, _)| Some(format!("h{at}")) == held);
            if let Some((at, _)) = holder {
                return at;
            }
            self.run_until(self.now + ms(1));
        }
    }

    fn total(&self, counter: impl Fn(&ShareMachine) -> u64) -> u64 {
        self.instances.iter().map(|one| counter(&one.machine)).sum()
    }

    /// All instances have accepted the same result for each stamp.
    fn assert_one_result_for_each_stamp(&self) {
        let mut all: HashMap<Stamp, &[u8]> = HashMap::new();
        for (stamp, value) in self.instances.iter().flat_map(|one| &one.accepted) {
            assert_eq!(*all.entry(*stamp).or_insert(value), value.as_slice(), "{stamp:?}");
        }
    }
}

/// Half of the holders are killed, half are stopped and continue later.
#[test]
fn two_hundred_instances_survive_fifty_killed_holders() {
    let seeds = if figures::is_long() { 0..20 } else { 0..1 };
    for seed in seeds {
        let mut world = World::new(seed, 200);
        world.run_until(world.now + 3 * INTERVAL);
        let (begin, runs) = (world.now, world.runs);
        let mut slowest = Duration::ZERO;
        for kill in 0..50 {
            let pause = INTERVAL * 4 + ms(world.chance(1_000));
            world.run_until(world.now + pause);
            let (holder, killed_at, known) = (world.holder(), world.now, world.takeovers.len());
            if kill % 2 == 0 {
                world.instances[holder].lives = false;
                world.add();
            } else {
                world.instances[holder].stopped_until = world.now + INTERVAL * 2;
                // The age of its result is meaningless while the instance is stopped.
                world.instances[holder].last_result = world.now + INTERVAL * 2;
            }
            while world.takeovers.len() == known {
                world.run_until(world.now + ms(1));
            }
            let (at, next) = world.takeovers[known];
            assert_ne!(next, holder);
            slowest = slowest.max(at - killed_at);
        }
        world.run_until(world.now + 2 * INTERVAL);
        world.assert_one_result_for_each_stamp();
        let intervals = (world.now - begin).as_secs_f64() / INTERVAL.as_secs_f64();
        let ratio = (world.runs - runs) as f64 / intervals;
        println!(
            "seed {seed}: {intervals:.0} intervals, {ratio:.3} runs an interval, slowest takeover {slowest:?}, \
             oldest result {:?}, {} fenced",
            world.oldest,
            world.total(|machine| machine.counters().fenced),
        );
        assert!(ratio <= 1.05, "{ratio}");
        // Both are times of the simulation.
        assert!(INTERVAL >= slowest, "{slowest:?}");
        assert!(world.oldest <= MAX_AGE, "{:?}", world.oldest);
        assert!(world.total(|machine| machine.counters().taken) > 200 * 100);
    }
}

/// Messages that a network failure delays by up to three intervals do not end the lease of a later
/// holder.
#[test]
fn late_messages_of_a_former_holder_change_nothing() {
    let seeds = if figures::is_long() { 0..20 } else { 0..1 };
    for seed in seeds {
        let mut world = World::new(seed, 20);
        world.late_percent = 20;
        for _ in 0..50 {
            let pause = INTERVAL * 4 + ms(world.chance(1_000));
            world.run_until(world.now + pause);
            let holder = world.holder();
            world.instances[holder].lives = false;
            world.add();
        }
        world.run_until(world.now + 2 * INTERVAL);
        world.assert_one_result_for_each_stamp();
        let own = world.total(|machine| machine.counters().own_runs);
        println!(
            "seed {seed}: {} runs, {own} of them for one instance, oldest {:?}",
            world.runs, world.oldest
        );
        assert!(world.oldest <= MAX_AGE, "{:?}", world.oldest);
    }
}

/// Without a store, each instance runs the check for itself, and shares it again afterwards.
#[test]
fn each_instance_checks_for_itself_while_there_is_no_store() {
    let mut world = World::new(9, 20);
    world.store.is_down = true;
    world.run_until(world.now + 10 * INTERVAL);
    let alone = world.runs;
    assert!((20 * 8..=20 * 10).contains(&alone), "{alone}");
    world.store.is_down = false;
    world.run_until(world.now + 2 * INTERVAL);
    let runs = world.runs;
    world.run_until(world.now + 10 * INTERVAL);
    assert!((9..=11).contains(&(world.runs - runs)), "{}", world.runs - runs);
    world.store = Store { is_down: true, ..Store::default() };
    world.run_until(world.now + 10 * INTERVAL);
    assert!(world.oldest <= MAX_AGE, "{:?}", world.oldest);
    world.assert_one_result_for_each_stamp();
}

/// Polls alone keep all instances fresh.
#[test]
fn results_arrive_without_messages() {
    let mut world = World::new(4, 20);
    world.loss_percent = 100;
    world.run_until(world.now + 20 * INTERVAL);
    assert!(world.oldest <= MAX_AGE, "{:?}", world.oldest);
    let own = world.total(|machine| machine.counters().own_runs);
    assert_eq!(own, 0, "runs besides those of the holder");
    assert!((19..=22).contains(&world.runs), "{}", world.runs);
}

/// A holder whose runs hang keeps the lease. The others then run the check for themselves.
#[test]
fn a_silent_holder_does_not_make_others_stale() {
    let mut world = World::new(5, 10);
    world.run_until(world.now + 3 * INTERVAL);
    let holder = world.holder();
    // The run is in progress until it counts as lost.
    world.events.retain(|_, (to, event)| *to != holder || !matches!(event, Event::Ran));
    for _ in 0..1_000 {
        world.run_until(world.now + ms(10));
        world.events.retain(|_, (to, event)| *to != holder || !matches!(event, Event::Ran));
    }
    let others = world.instances.iter().enumerate().filter(|(at, _)| *at != holder);
    let oldest = others.map(|(_, one)| world.now - one.last_result).max();
    assert!(oldest <= Some(MAX_AGE), "{oldest:?}");
    assert!(world.total(|machine| machine.counters().own_runs) >= 9 * 2);
}

fn options() -> ShareOptions {
    ShareOptions {
        name: "db".into(),
        check: "db".into(),
        instance: "a".into(),
        holder: "a-1".into(),
        interval: INTERVAL,
        timeout: TIMEOUT,
        max_age: MAX_AGE,
        seed: 1,
    }
}

fn result(token: u64, round: u64) -> Message {
    let result = Some(SharedResult::new(Outcome::Failure, ms(3), "refused", INTERVAL));
    Message { token, round, from: "b".into(), result }
}

fn other(token: u64) -> Lease {
    Lease { is_own: false, token, remaining: ms(500), latest: None }
}

/// Checks which results are accepted after results with these stamps.
#[test]
fn results_are_accepted_in_order_and_once() {
    for (received, expected) in [
        (vec![(5, 1)], vec![(5, 1)]),
        (vec![(5, 1), (5, 1)], vec![(5, 1)]),
        (vec![(5, 2), (5, 1), (5, 3)], vec![(5, 2), (5, 3)]),
        (vec![(5, 9), (6, 1), (5, 10)], vec![(5, 9), (6, 1)]),
        (vec![(6, 1), (5, 1), (6, 2)], vec![(6, 1), (6, 2)]),
    ] {
        let mut machine = ShareMachine::new(options(), Duration::ZERO);
        let mut taken = Vec::new();
        for (second, (token, round)) in (1..).zip(&received) {
            machine.received(ms(second), &result(*token, *round).encode());
            while let Some(action) = machine.poll(ms(second)) {
                if let Action::Take(message) = action {
                    taken.push((message.token, message.round));
                }
            }
        }
        assert_eq!(taken, expected, "{received:?}");
        let counters = machine.counters();
        assert_eq!(
            (counters.taken, counters.fenced),
            (taken.len() as u64, (received.len() - taken.len()) as u64)
        );
    }
}

/// The first run of a new holder must not be wasted by a message of the former holder that was
/// delayed.
#[test]
fn a_late_message_of_the_former_holder_does_not_end_the_lease() {
    let mut machine = ShareMachine::new(options(), Duration::ZERO);
    assert!(matches!(machine.poll(Duration::ZERO), Some(Action::Lease(_))));
    let latest = Some(Stored { value: result(10, 3).encode(), age: INTERVAL });
    machine.leased(ms(1), Some(Lease { is_own: true, token: 11, remaining: ms(600), latest }));
    while machine.poll(ms(1)).is_some() {}
    for late in [Message { result: None, ..result(10, 3) }, result(10, 4)] {
        machine.received(ms(2), &late.encode());
        assert!(machine.is_holder(), "{late:?}");
    }
    machine.ran(ms(3), INTERVAL, result(11, 1).result);
    assert!(matches!(machine.poll(ms(3)), Some(Action::Publish(_))));
    machine.received(ms(4), &result(12, 1).encode());
    assert!(!machine.is_holder(), "a later holder");
}

#[test]
fn a_store_without_its_data_and_an_older_clock_is_followed() {
    let mut machine = ShareMachine::new(options(), Duration::ZERO);
    let is_taken = |machine: &mut ShareMachine, now| {
        std::iter::from_fn(|| machine.poll(now)).any(|action| matches!(action, Action::Take(_)))
    };
    assert!(matches!(machine.poll(Duration::ZERO), Some(Action::Lease(_))));
    machine.leased(ms(1), Some(other(900)));
    machine.received(ms(2), &result(900, 7).encode());
    assert!(is_taken(&mut machine, ms(2)));
    machine.received(ms(3), &result(100, 1).encode());
    assert!(!is_taken(&mut machine, ms(3)), "a token that was not confirmed");
    let asked = (4..).map(ms).find(|now| matches!(machine.poll(*now), Some(Action::Lease(_)))).unwrap();
    machine.leased(asked + ms(1), Some(other(100)));
    machine.received(asked + ms(2), &result(100, 2).encode());
    assert!(is_taken(&mut machine, asked + ms(2)));
}

/// A long interval does not delay the first result of an instance that starts without a store.
#[test]
fn without_a_store_the_first_run_is_soon() {
    let minute = Duration::from_secs(60);
    let options = ShareOptions { interval: minute, max_age: 3 * minute, ..options() };
    let mut machine = ShareMachine::new(options, Duration::ZERO);
    let (mut now, mut asked) = (Duration::ZERO, 0);
    loop {
        match machine.poll(now) {
            Some(Action::Run) => break,
            Some(Action::Lease(_)) => {
                asked += 1;
                machine.leased(now, None);
            }
            Some(other) => panic!("{other:?}"),
            None => now = machine.deadline(),
        }
    }
    assert!(now <= Duration::from_secs(1), "{now:?}");
    assert!(asked > 2, "a store that connects late is found: {asked}");
}

/// A machine that follows another one, as after a reload, does not apply its last result again: a
/// failure would count twice.
#[test]
fn a_result_is_applied_once_by_successive_machines() {
    let lease = |is_own| {
        let latest = Some(Stored { value: result(5, 1).encode(), age: ms(10) });
        Lease { is_own, token: 5, remaining: ms(500), latest }
    };
    let is_taken = |machine: &mut ShareMachine, now| {
        std::iter::from_fn(|| machine.poll(now)).any(|action| matches!(action, Action::Take(_)))
    };
    for is_own in [false, true] {
        let mut first = ShareMachine::new(options(), Duration::ZERO);
        assert!(matches!(first.poll(Duration::ZERO), Some(Action::Lease(_))));
        first.leased(ms(1), Some(lease(is_own)));
        assert!(is_taken(&mut first, ms(1)));
        let mut second = ShareMachine::after(options(), first.newest(), first.counters(), Duration::ZERO);
        assert!(matches!(second.poll(Duration::ZERO), Some(Action::Lease(_))));
        second.leased(ms(1), Some(lease(is_own)));
        assert!(!is_taken(&mut second, ms(1)));
        second.received(ms(2), &result(6, 1).encode());
        assert!(is_taken(&mut second, ms(2)), "a newer one");
        let ShareCounters { taken, leases, .. } = second.counters();
        assert_eq!((taken, leases), (2, 2 * u64::from(is_own)), "the counters continue");
    }
}

/// Invalid messages and other versions are counted and change nothing.
#[test]
fn nonsense_is_ignored() {
    let mut machine = ShareMachine::new(options(), Duration::ZERO);
    let mut newer = result(5, 1).encode();
    newer[0] = 99;
    let deadline = machine.deadline();
    for bytes in [&b""[..], b"nonsense", &newer] {
        machine.received(ms(1), bytes);
    }
    assert_eq!((machine.counters().ignored, machine.deadline()), (3, deadline));
    assert!(matches!(machine.poll(ms(1)), Some(Action::Lease(_))));
    let latest = Some(Stored { value: newer, age: Duration::ZERO });
    machine.leased(ms(2), Some(Lease { latest, ..other(5) }));
    assert_eq!(machine.counters().ignored, 4);
    assert_eq!(machine.poll(ms(2)), None);
}

/// Another instance can send any number: a wrong time must not end the thread of this instance.
#[test]
fn numbers_in_messages_are_limited() {
    let mut machine = ShareMachine::new(options(), Duration::ZERO);
    assert!(matches!(machine.poll(Duration::ZERO), Some(Action::Lease(_))));
    let mut huge = result(u64::MAX, u64::MAX);
    huge.result.iter_mut().for_each(|result| (result.latency_us, result.next_ms) = (u64::MAX, u64::MAX));
    machine.received(ms(1), &huge.encode());
    let Some(Action::Take(taken)) = machine.poll(ms(1)) else { panic!("a result") };
    assert_eq!(taken.result.map(|result| Duration::from_micros(result.latency_us)), Some(MAX_AGE));
    // This instance gets the lease with the token of the message.
    let lease = Lease { is_own: true, token: u64::MAX, remaining: ms(500), latest: None };
    machine.leased(ms(2), Some(lease));
    machine.ran(ms(3), INTERVAL, result(u64::MAX, 1).result);
    let all: Vec<Action> = std::iter::from_fn(|| machine.poll(ms(3))).collect();
    assert!(all.iter().any(|action| matches!(action, Action::Publish(_))), "{all:?}");
}
