//! Ten instances on a simulated network, with the store as a model of the script. Every allowed
//! request is also counted by an exact limit, which must allow it.
//!
//! Does not know about: real servers; see `tests/limit.rs`.
#![expect(clippy::cast_possible_truncation, reason = "numbers of a simulation are small")]

use super::*;
use doorbell_http::Time;
use doorbell_http::limit::{LIFETIME_MIN, Leases, Limiter, OnError, Quota};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

const STEP_US: u64 = 1_000;
const SECOND_US: u64 = 1_000_000;
/// Time without a reply after which a call has failed.
const TIMEOUT_US: u64 = 200_000;

/// A sequence of random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number from zero to one.
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn is(&mut self, probability: f64) -> bool {
        self.part() < probability
    }

    fn between(&mut self, (low, high): (u64, u64)) -> u64 {
        low + self.next() % (high - low + 1)
    }
}

/// Model of the script of the store.
struct Store {
    price: f64,
    window: f64,
    debt_max: f64,
    full: HashMap<u64, f64>,
}

impl Store {
    fn new(gcra: &Gcra) -> Self {
        let [price, window, debt_max] = gcra.arguments().map(|argument| argument.parse().unwrap());
        Self { price, window, debt_max, full: HashMap::new() }
    }

    fn charge(&mut self, hash: u64, charge: Charge, now_us: u64) -> Granted {
        let now = now_us as f64;
        let full = self.full.get(&hash).copied().unwrap_or(0.0);
        let full = now.max(full.min(now + self.debt_max)) + f64::from(charge.credited) * self.price;
        let free = ((now + self.window - full) / self.price).floor();
        let granted = f64::from(charge.wanted).min(free).max(0.0);
        let full = (full + granted * self.price).ceil();
        self.full.insert(hash, full);
        Granted { tokens: granted as u32, full_in: Duration::from_micros((full - now) as u64) }
    }
}

/// The limit itself, in nanoseconds multiplied by the number of requests in the period.
struct Meter {
    quota: Quota,
    full: HashMap<usize, u128>,
    /// Extra requests at once.
    slack: u32,
}

impl Meter {
    /// Counts an allowed request, which must not exceed the limit.
    fn count(&mut self, key: usize, now_us: u64, context: &str) {
        let price = self.quota.period().as_nanos();
        let now = u128::from(now_us) * 1000 * u128::from(self.quota.requests());
        let full = self.full.entry(key).or_default();
        *full = now.max(*full) + price;
        let max = price * u128::from(self.quota.burst() + self.slack);
        assert!(
            *full - now <= max,
            "above the limit at {now_us} us: {} tokens, {context}",
            (*full - now) / price
        );
    }
}

struct Network {
    delay_us: (u64, u64),
    loses: f64,
    /// Times between which the store does not reply.
    down_us: (u64, u64),
    /// In this time, calls get no reply; otherwise they fail at once.
    is_silent: bool,
}

const GOOD: Network = Network { delay_us: (100, 3_000), loses: 0.0, down_us: (0, 0), is_silent: true };

/// A call on its way.
struct Call {
    asks: Vec<Ask>,
    sent_us: u64,
    /// When it reaches the store; `None`: it is lost, or has been executed.
    arrives_us: Option<u64>,
    /// When its reply arrives; `None`: it is lost, or not written yet.
    reply: Option<(u64, Vec<Granted>)>,
}

struct Instance {
    limiter: Limiter,
    leases: Arc<Leases>,
    leaser: Leaser,
    call: Option<Call>,
    next_round_us: u64,
    origin_us: u64,
    drift: f64,
    allowed: u64,
    refused: u64,
}

struct Fleet {
    gcra: Gcra,
    quota: Quota,
    on_error: OnError,
    network: Network,
    random: Random,
    store: Store,
    meter: Option<Meter>,
    instances: Vec<Instance>,
    now_us: u64,
}

impl Fleet {
    fn new(quota: Quota, credit: u32, on_error: OnError, network: Network, seed: u64, count: usize) -> Self {
        let gcra = Gcra::new(&quota, credit).unwrap();
        let meter = Meter { quota, full: HashMap::new(), slack: 0 };
        let mut fleet = Self {
            gcra,
            quota,
            on_error,
            network,
            random: Random(seed),
            store: Store::new(&gcra),
            meter: Some(meter),
            instances: Vec::new(),
            now_us: 5 * SECOND_US,
        };
        for _ in 0..count {
            let instance = fleet.start();
            fleet.instances.push(instance);
        }
        fleet
    }

    fn start(&mut self) -> Instance {
        let leases = Arc::new(self.gcra.leases(64, self.on_error));
        let leaser = Leaser::new(Arc::clone(&leases), self.gcra, Time::ZERO);
        Instance {
            limiter: Limiter::leased(self.quota, 64, [1, 2], Arc::clone(&leases)),
            leaser,
            leases,
            call: None,
            next_round_us: self.now_us + self.random.between((0, 16_000)),
            origin_us: self.random.between((0, 1 << 40)),
            drift: (self.random.part() - 0.5) * 2e-4,
            allowed: 0,
            refused: 0,
        }
    }

    /// Runs for a time; `demand` returns the requests per second of an instance for a key.
    fn run(&mut self, duration_us: u64, keys: usize, demand: impl Fn(usize, usize) -> f64) {
        let end_us = self.now_us + duration_us;
        while self.now_us < end_us {
            self.now_us += STEP_US;
            for at in 0..self.instances.len() {
                self.exchange(at);
                for key in 0..keys {
                    let expected = demand(at, key) * STEP_US as f64 / SECOND_US as f64;
                    let count = expected as u64 + u64::from(self.random.is(expected.fract()));
                    (0..count).for_each(|_| self.request(at, key));
                }
            }
        }
    }

    fn request(&mut self, at: usize, key: usize) {
        let instance = &mut self.instances[at];
        let now = instance.now(self.now_us);
        let decision = instance.limiter.check(&key.to_le_bytes(), now);
        if !decision.is_allowed() {
            instance.refused += 1;
            let wait = decision.retry_after(&self.quota).unwrap();
            assert!(wait > Duration::ZERO && wait <= self.quota.period(), "{wait:?}");
            return;
        }
        instance.allowed += 1;
        if let Some(meter) = &mut self.meter {
            meter.count(key, self.now_us, &format!("instance {at}, {:?}", instance.leases.counts()));
        }
    }

    fn exchange(&mut self, at: usize) {
        let Self { instances, network, random, store, now_us, .. } = self;
        let (instance, now_us) = (&mut instances[at], *now_us);
        let is_down = (network.down_us.0..network.down_us.1).contains(&now_us);
        if let Some(call) = &mut instance.call {
            if call.arrives_us.is_some_and(|arrives_us| arrives_us <= now_us) {
                call.arrives_us = None;
                if is_down && !network.is_silent {
                    call.sent_us = 0;
                } else if !is_down {
                    let replies = call.asks.iter().map(|ask| store.charge(ask.hash, ask.charge, now_us));
                    let replies = replies.collect();
                    let is_lost = random.is(network.loses);
                    call.reply = (!is_lost).then(|| (now_us + random.between(network.delay_us), replies));
                }
            }
            match call.reply.take_if(|(arrives_us, _)| *arrives_us <= now_us) {
                Some((_, replies)) => {
                    instance.leaser.granted(&call.asks, &replies);
                    instance.leaser.finished();
                    instance.call = None;
                }
                None if now_us - call.sent_us > TIMEOUT_US => {
                    instance.leaser.failed();
                    instance.call = None;
                }
                None => {}
            }
        } else if instance.next_round_us <= now_us {
            let now = instance.now(now_us);
            let asks = instance.leaser.begin(now);
            instance.next_round_us = now_us + 16_000 + random.between((0, 2_000));
            let arrives_us = (!random.is(network.loses)).then(|| now_us + random.between(network.delay_us));
            instance.call = Some(Call { asks, sent_us: now_us, arrives_us, reply: None });
        }
    }

    fn allowed(&self) -> u64 {
        self.instances.iter().map(|instance| instance.allowed).sum()
    }
}

impl Instance {
    fn now(&self, now_us: u64) -> Time {
        Time::from_nanos(((now_us as f64 * (1.0 + self.drift)) as u64 + self.origin_us) * 1000)
    }
}

fn per_minute(burst: u32) -> Quota {
    Quota::new(burst, 60_000, Duration::from_secs(60)).unwrap()
}

/// Three times the limit, 90 % of it on one of ten instances.
fn skewed(at: usize, _key: usize) -> f64 {
    if at == 0 { 2700.0 } else { 300.0 / 9.0 }
}

#[test]
fn ten_instances_use_one_limit_completely() {
    for (burst, seconds) in [(60_000, 60), (2_000, 20)] {
        let mut fleet = Fleet::new(per_minute(burst), credit_default(burst), OnError::Local, GOOD, 7, 10);
        fleet.run(seconds * SECOND_US, 1, skewed);
        let (allowed, limit) = (fleet.allowed(), u64::from(burst) + 1000 * seconds);
        assert!(allowed * 100 >= limit * 97, "{allowed} of {limit} with a burst of {burst}");
        // The instances with little demand get most of it.
        for instance in &fleet.instances[1..] {
            assert!(instance.allowed > 4 * instance.refused, "{} {}", instance.allowed, instance.refused);
        }
    }
}

#[test]
fn a_browser_may_open_its_connections_at_once() {
    let quota = Quota::new(60, 10, Duration::from_secs(1)).unwrap();
    let mut fleet = Fleet::new(quota, credit_default(60), OnError::Local, GOOD, 5, 2);
    (0..6).for_each(|_| fleet.request(0, 0));
    assert_eq!((fleet.allowed(), fleet.instances[0].refused), (6, 0));
}

#[test]
fn without_the_store_the_local_limit_applies_within_a_lease() {
    for is_silent in [true, false] {
        let mut fleet = Fleet::new(per_minute(2_000), 1, OnError::Local, GOOD, 3, 10);
        fleet.run(5 * SECOND_US, 1, skewed);
        fleet.network.down_us = (fleet.now_us, u64::MAX);
        fleet.network.is_silent = is_silent;
        fleet.meter = None;
        fleet.run(LIFETIME_MIN.as_micros() as u64, 1, skewed);
        let before: Vec<_> =
            fleet.instances.iter().map(|instance| (instance.allowed, instance.refused)).collect();
        fleet.run(10 * SECOND_US, 1, skewed);
        for (at, (instance, (allowed, refused))) in fleet.instances.iter().zip(before).enumerate() {
            let (allowed, refused) = (instance.allowed - allowed, instance.refused - refused);
            let counts = instance.leases.counts();
            if at == 0 {
                // The rate, and what was left of the burst of this instance.
                assert!((10_000..12_000).contains(&allowed) && refused > 0, "{allowed} {refused}");
            } else {
                assert!(allowed > 250 && refused == 0, "{allowed} {refused} {counts:?}");
            }
            assert!(counts.without_store >= allowed, "{counts:?}");
        }
        // The store is back, and has lost its data.
        fleet.network.down_us = (0, 0);
        fleet.store.full.clear();
        fleet.run(SECOND_US, 1, skewed);
        let without: Vec<_> = fleet.instances.iter().map(|it| it.leases.counts().without_store).collect();
        let before = fleet.allowed();
        fleet.run(10 * SECOND_US, 1, skewed);
        let after: Vec<_> = fleet.instances.iter().map(|it| it.leases.counts().without_store).collect();
        assert_eq!(without, after);
        assert!(
            (9_700..13_000).contains(&(fleet.allowed() - before)),
            "one limit: {}",
            fleet.allowed() - before
        );
    }
}

/// A client that causes large leases, pauses until the store has regained tokens, and then uses both.
#[test]
fn tokens_that_are_used_late_count() {
    let quota = Quota::per_second(1000).unwrap();
    for seed in 0..20 {
        let mut fleet = Fleet::new(quota, 1, OnError::Refuse, GOOD, seed, 2);
        for pause_ms in [90, 110, 130, 2000, 100, 1200, 120] {
            fleet.run(10_000, 1, |_, _| 100_000.0);
            fleet.run(pause_ms * 1000, 1, |_, _| 0.0);
        }
        assert!(fleet.allowed() > 1500, "{}", fleet.allowed());
    }
}

/// A client with few requests gets its whole limit, although tokens are unused elsewhere and
/// grants take time.
#[test]
fn a_client_below_the_rate_is_rarely_refused() {
    for (burst, requests, period_s) in [(60, 60, 60), (20, 20, 1), (20, 20, 60), (100, 1000, 3600)] {
        let quota = Quota::new(burst, requests, Duration::from_secs(period_s)).unwrap();
        let rate = f64::from(requests) / period_s as f64;
        for part in [0.1, 0.3, 0.8] {
            let mut fleet = Fleet::new(quota, 1, OnError::Local, GOOD, 11, 2);
            let duration_us = (300.0 / rate * SECOND_US as f64) as u64;
            fleet.run(duration_us, 1, |at, _| if at == 0 { rate * part } else { 0.0 });
            let Instance { allowed, refused, .. } = fleet.instances[0];
            assert!(refused * 15 <= allowed, "{quota}, {part} of it: {allowed} {refused}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Delays, lost requests and replies, a store that pauses, and instances that restart.
    #[test]
    fn never_above(
        seed: u64,
        burst in prop_oneof![1..40u32, 40..4_000u32],
        rate in 1..200u32,
        credit in 1..5u32,
        delay_us in prop_oneof![Just(500u64), Just(20_000), Just(90_000)],
        loses in prop_oneof![Just(0.0), Just(0.02), Just(0.3)],
        load in prop_oneof![Just(0.2), Just(1.0), Just(4.0)],
        down_at in 0..10_000_000u64,
    ) {
        let quota = Quota::new(burst, rate, Duration::from_secs(1)).unwrap();
        prop_assume!(Gcra::new(&quota, credit).is_ok());
        let down_us = (5 * SECOND_US + down_at, 6 * SECOND_US + down_at);
        let network = Network { delay_us: (50, delay_us), loses, down_us, is_silent: true };
        let mut fleet = Fleet::new(quota, credit, OnError::Refuse, network, seed, 5);
        // Each instance and each restart can cost a credit that is charged late or never.
        let credits = (5 + 4) * credit;
        let reserved = (16 * credit).min(burst / 8);
        fleet.meter.as_mut().unwrap().slack = credits.saturating_sub(reserved);
        for restarted in 0..4 {
            fleet.run(2 * SECOND_US, 2, |at, key| f64::from(rate) * load / (at * at + key + 1) as f64);
            fleet.instances[restarted] = fleet.start();
        }
        fleet.run(2 * SECOND_US, 2, |_, _| f64::from(rate) * load);
    }
}
