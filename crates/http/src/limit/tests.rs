//! Limiters compared with exact GCRA in a map, with governor, and with each other; tables of
//! quotas, keys and fields.
//!
//! Does not know about: threads and floods; see `tests/machine/limit_threads.rs` and
//! `tests/machine/limit_attack.rs`.

use super::*;
use crate::{Request, Time};
use governor::clock::FakeRelativeClock;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

const MS: u64 = 1_000_000;
const SEED: [u64; 2] = [1, 2];

fn quota(burst: u32, requests: u32, period: Duration) -> Quota {
    Quota::new(burst, requests, period).unwrap()
}

/// Exact GCRA without ticks. Times are in nanoseconds, multiplied by `requests`.
struct Oracle {
    quota: Quota,
    tats: HashMap<u32, u128>,
}

impl Oracle {
    fn new(quota: Quota) -> Self {
        Self { quota, tats: HashMap::new() }
    }

    /// Returns whether the request is allowed, the remaining requests, and the debt in nanoseconds.
    fn check(&mut self, key: u32, nanos: u64) -> (bool, u32, u128) {
        let requests = u128::from(self.quota.requests());
        let price = self.quota.period().as_nanos();
        let window = price * u128::from(self.quota.burst());
        let now = u128::from(nanos) * requests;
        let tat = self.tats.entry(key).or_default();
        let next = now.max(*tat) + price;
        let allowed = next <= now + window;
        if allowed {
            *tat = next;
        }
        let owed = tat.saturating_sub(now);
        (allowed, u32::try_from((window - owed) / price).unwrap(), owed / requests)
    }
}

/// Compares a decision with the oracle's; durations may differ by two ticks.
fn agree(decision: Decision, oracle: (bool, u32, u128), quota: &Quota) -> Result<(), TestCaseError> {
    let (allowed, left, owed) = oracle;
    prop_assert_eq!(decision.is_allowed(), allowed, "{:?} {:?}", decision, oracle);
    let slack = quota.duration(2).as_nanos() + 1;
    let reset_after = decision.reset_after(quota).as_nanos();
    prop_assert!(reset_after.abs_diff(owed) <= slack, "{decision:?} {oracle:?}");
    prop_assert_eq!(decision.remaining(quota), if allowed { left } else { 0 });
    prop_assert_eq!(decision.retry_after(quota).is_none(), allowed);
    Ok(())
}

/// A quota whose times are in whole milliseconds.
fn quotas() -> impl Strategy<Value = Quota> {
    (1..200u32, 1..500u32, prop_oneof![Just(100u64), Just(1_000), Just(10_000), Just(60_000)])
        .prop_map(|(burst, requests, period)| quota(burst, requests, Duration::from_millis(period)))
}

/// A key, and the milliseconds since the previous request.
fn requests(len: usize) -> impl Strategy<Value = Vec<(u32, u64)>> {
    let gap = prop_oneof![6 => Just(0u64), 3 => 1..50u64, 1 => 50..5_000u64];
    vec((0..6u32, gap), 1..len)
}

proptest! {
    #[test]
    fn as_exact_gcra(quota in quotas(), requests in requests(300), start in 0..1u64 << 40) {
        let (shared, mut local) = (Limiter::new(quota, 64, SEED), LocalLimiter::new(quota, 64, SEED));
        let mut oracle = Oracle::new(quota);
        let mut now = start / MS * MS;
        for (key, gap) in requests {
            now += gap * MS;
            let decision = shared.check(&key.to_le_bytes(), Time::from_nanos(now));
            agree(decision, oracle.check(key, now), &quota)?;
            prop_assert_eq!(local.check(&key.to_le_bytes(), Time::from_nanos(now)), decision);
        }
        prop_assert_eq!(shared.counts(), local.counts());
        prop_assert_eq!(shared.counts().evicted_live, 0);
    }

    #[test]
    fn as_governor(
        burst in 1..100u32,
        price_us in prop_oneof![Just(10u64), Just(333), Just(1_000), Just(7_000), Just(100_000), Just(2_500_000)],
        requests in requests(300),
    ) {
        let price = Duration::from_micros(price_us);
        let quota = quota(burst, 1, price);
        let limiter = Limiter::new(quota, 64, SEED);
        let clock = FakeRelativeClock::default();
        let theirs = governor::Quota::with_period(price).unwrap().allow_burst(NonZeroU32::new(burst).unwrap());
        let governor = governor::RateLimiter::hashmap_with_clock(theirs, clock.clone());
        // The time starts after the origin of governor's clock, at which no request can be late.
        let mut now = 1_000 * MS;
        for (key, gap) in requests {
            now += gap * MS;
            clock.advance(Duration::from_millis(gap));
            let decision = limiter.check(&key.to_le_bytes(), Time::from_nanos(now));
            prop_assert_eq!(decision.is_allowed(), governor.check_key(&key).is_ok(), "{:?}", decision);
        }
    }

    /// Decisions are exact after pauses of any length, even if the 32 bits of the time wrap around.
    /// Prices are powers of two in nanoseconds, so times convert to ticks without rounding.
    #[test]
    fn wraps_unnoticed(
        burst in 1..20u32,
        price_bits in 8..40u32,
        requests in vec((0..6u32, 0..64u32, any::<u64>()), 1..200),
    ) {
        let quota = quota(burst, 1, Duration::from_nanos(1 << price_bits));
        let (shared, mut local) = (Limiter::new(quota, 4096, SEED), LocalLimiter::new(quota, 4096, SEED));
        let mut oracle = Oracle::new(quota);
        let mut now = 1u64 << 40;
        let tick = u64::from((1u32 << price_bits.min(31)) / quota.price()).max(1);
        for (key, bits, random) in requests {
            // The pauses have every magnitude, up to a hundred times the 32-bit range.
            let gap = (random >> (63 - bits.min(63))) % (tick << 39);
            now = now.saturating_add(gap / tick * tick);
            if now > 1 << 62 {
                break;
            }
            let decision = shared.check(&key.to_le_bytes(), Time::from_nanos(now));
            agree(decision, oracle.check(key, now), &quota)?;
            prop_assert_eq!(local.check(&key.to_le_bytes(), Time::from_nanos(now)), decision);
        }
    }

    /// With an arbitrary clock, no more requests are admitted than the time between the earliest
    /// and the latest value of the clock allows.
    #[test]
    fn any_clock_is_safe(times in vec(0..20_000u64, 1..300)) {
        let quota = quota(5, 10, Duration::from_secs(1));
        let (shared, mut local) = (Limiter::new(quota, 8, SEED), LocalLimiter::new(quota, 8, SEED));
        let (mut admitted, mut admitted_local) = (0, 0);
        for &ms in &times {
            admitted += u64::from(shared.check(b"k", Time::from_nanos(ms * MS)).is_allowed());
            admitted_local += u64::from(local.check(b"k", Time::from_nanos(ms * MS)).is_allowed());
        }
        let (first, last) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        let most = 5 + (last - first) / 100;
        prop_assert!(admitted <= most && admitted_local <= most, "{admitted} {admitted_local} of {most}");
    }

    /// `retry_after` is exact: a request is allowed at that time, and not before.
    #[test]
    fn retry_after_is_exact(quota in quotas(), start in 0..1u64 << 40) {
        let limiter = Limiter::new(quota, 8, SEED);
        let at = |nanos: u64| limiter.check(b"k", Time::from_nanos(nanos));
        let mut allowed = 0;
        let retry_after = loop {
            let decision = at(start);
            match decision.retry_after(&quota) {
                None => {
                    allowed += 1;
                    prop_assert_eq!(decision.remaining(&quota), quota.burst() - allowed);
                }
                Some(retry_after) => break u64::try_from(retry_after.as_nanos()).unwrap(),
            }
        };
        prop_assert_eq!(allowed, quota.burst());
        let tick = u64::try_from(quota.duration(1).as_nanos()).unwrap();
        let early = at(start + retry_after.saturating_sub(2 * tick + 2));
        prop_assert!(!early.is_allowed());
        prop_assert!(at(start + retry_after).is_allowed());
    }

    /// A table that is too small evicts the key nearest to expiry, like a simple model of one set.
    #[test]
    fn evicts_the_one_nearest_to_its_expiry(requests in vec((0..14u32, 0..30u64), 1..300)) {
        let quota = quota(6, 10, Duration::from_secs(1));
        let (shared, mut local) = (Limiter::new(quota, 8, SEED), LocalLimiter::new(quota, 8, SEED));
        let mut oracle = Oracle::new(quota);
        let (mut now, mut evicted) = (1_000 * MS, 0);
        for (key, gap) in requests {
            // TATs are never equal here, because the order of equal ones is unspecified.
            now += gap * MS + 1_003;
            oracle.tats.retain(|_, tat| *tat > u128::from(now) * 10);
            if !oracle.tats.contains_key(&key) && oracle.tats.len() == 8 {
                let least = *oracle.tats.iter().min_by_key(|(_, tat)| **tat).unwrap().0;
                oracle.tats.remove(&least);
                evicted += 1;
            }
            let decision = shared.check(&key.to_le_bytes(), Time::from_nanos(now));
            agree(decision, oracle.check(key, now), &quota)?;
            prop_assert_eq!(local.check(&key.to_le_bytes(), Time::from_nanos(now)), decision);
            prop_assert_eq!((shared.counts().evicted_live, local.counts().evicted_live), (evicted, evicted));
        }
    }
}

#[test]
fn every_table_size_uses_all_its_sets() {
    for keys_max in [1, 8, 9, 1000, 4096] {
        let limiter = Limiter::new(quota(1, 1, Duration::from_secs(60)), keys_max, SEED);
        let room = limiter.keys_max();
        assert!(room >= keys_max && room < keys_max + 8);
        for key in 0..20 * room {
            limiter.check(&key.to_le_bytes(), Time::ZERO);
        }
        assert_eq!(limiter.keys_live(Time::ZERO), room, "{keys_max}");
        assert_eq!(limiter.keys_live(Time::from_nanos(60_000 * MS)), 0);
        let Counts { allowed, denied, evicted_live } = limiter.counts();
        assert_eq!((allowed, denied, evicted_live), (20 * room as u64, 0, 19 * room as u64));
    }
    assert_eq!(Limiter::new(quota(1, 1, Duration::from_secs(1)), 0, SEED).keys_max(), 8);
}

#[test]
fn a_pause_forgets_everything_and_nothing_else_does() {
    let quota = quota(10, 10, Duration::from_secs(1));
    let limiter = Limiter::new(quota, 1000, SEED);
    let mut now = 5 * MS;
    let circle = quota.duration(1 << 31) * 2;
    for round in 0..50u32 {
        for key in 0..500u32 {
            let decision = limiter.check(&key.to_le_bytes(), Time::from_nanos(now));
            let result = (decision.is_allowed(), decision.remaining(&quota));
            assert_eq!(result, (true, 9), "{round} {key} {decision:?}");
        }
        // Advance by almost the full 32-bit range, after which an old TAT would be in the future
        // again.
        now += u64::try_from(circle.as_nanos()).unwrap() - u64::from(round) * MS;
    }
}

#[test]
fn the_sweep_reaches_every_word() {
    let quota = quota(10, 10, Duration::from_secs(1));
    let limiter = Limiter::new(quota, 8000, SEED);
    let mut now = 5 * MS;
    for key in 0..2000u32 {
        limiter.check(&key.to_le_bytes(), Time::from_nanos(now));
    }
    // One key has requests all the time. The others expire and must be cleared before the ticks
    // wrap around.
    let step = u64::try_from(quota.duration(1 << 27).as_nanos()).unwrap();
    for _ in 0..48 {
        now += step;
        limiter.check(b"one", Time::from_nanos(now));
        let live = limiter.keys_live(Time::from_nanos(now));
        assert_eq!(live, 1);
    }
}

#[test]
fn quotas_that_cannot_be() {
    let second = Duration::from_secs(1);
    for (burst, requests, period, error) in [
        (0, 1, second, QuotaError::ZeroBurst),
        (1, 0, second, QuotaError::ZeroRequests),
        (1, 1, Duration::ZERO, QuotaError::ZeroPeriod),
        (BURST_MAX + 1, 1, second, QuotaError::BurstTooLarge),
        (1, 10_000_001, second, QuotaError::RateTooLarge),
        (1, u32::MAX, second, QuotaError::RateTooLarge),
        (1, 1, REFILL_MAX + Duration::from_nanos(1), QuotaError::RefillTooLong),
        (2, 1, REFILL_MAX, QuotaError::RefillTooLong),
        (1, 1, Duration::MAX, QuotaError::RefillTooLong),
    ] {
        assert_eq!(Quota::new(burst, requests, period), Err(error));
    }
    assert_eq!(QuotaError::BurstTooLarge.to_string(), "a burst of more than 1048576");
    assert_eq!(QuotaError::RateTooLarge.to_string(), "more than one request in 100ns");
    assert_eq!(quota(5, 10, second).to_string(), "10 per 1s, burst 5");
}

#[test]
fn the_extremes_of_quotas_work() {
    for (burst, requests, period) in [
        (1, 1, REFILL_MAX),
        (BURST_MAX, 1, REFILL_MAX / BURST_MAX),
        (BURST_MAX, u32::MAX, Duration::from_secs(430)),
        (1, u32::MAX, Duration::MAX / (1 << 30)),
        (1, 10_000_000, Duration::from_secs(1)),
        (BURST_MAX, 10_000_000, Duration::from_secs(1)),
        (1, 1, PRICE_MIN),
        (3, 7, Duration::from_nanos(12_345)),
    ] {
        let quota = quota(burst, requests, period);
        assert_eq!((quota.burst(), quota.requests(), quota.period()), (burst, requests, period));
        assert!(quota.window() <= 1 << 24 && quota.price() >= 16, "{quota}");
        assert_eq!(quota.tokens(quota.window()), burst);
        let limiter = Limiter::new(quota, 8, SEED);
        let mut now = Time::from_nanos(u64::MAX / 4);
        let allowed = (0..=burst).take_while(|_| limiter.check(b"k", now).is_allowed()).count();
        assert_eq!(allowed, burst as usize, "{quota}");
        for _ in 0..100 {
            let retry_after = limiter.check(b"k", now).retry_after(&quota).unwrap();
            assert!(!retry_after.is_zero() && retry_after <= REFILL_MAX + Duration::from_secs(1), "{quota}");
            now = now.after(retry_after);
            assert!(limiter.check(b"k", now).is_allowed(), "{quota}");
        }
        assert!(!limiter.check(b"k", Time::from_nanos(0)).is_allowed(), "{quota}: a clock far behind");
        limiter.check(b"other", Time::MAX);
    }
}

#[test]
fn keys_of_requests() {
    let mut head = crate::parse::Head::new();
    let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: k1\r\nX-API-KEY: k2\r\nAuthorization: bEARER  t.o.k\r\n\r\n";
    head.parse(bytes, &crate::Limits::default()).unwrap().unwrap();
    let request = Request::new(bytes, &head, b"");
    let v4: IpAddr = "192.0.2.77".parse().unwrap();
    let key = |key: Key, client: &str| {
        let of_addr = || key.of_addr(client.parse().unwrap(), 64);
        key.named(&request).unwrap_or_else(of_addr).as_bytes().escape_ascii().to_string()
    };
    let prefix = |v4_len, v6_len| Key::Prefix { v4_len, v6_len };
    assert_eq!(KeyBytes::ip(v4, 64).as_bytes(), [192, 0, 2, 77, 0]);
    assert_eq!(key(Key::Header("x-api-key".into()), "::1"), "k1");
    assert_eq!(key(Key::Header("x-none".into()), "65.66.67.68"), "ABCD\\x00", "the fallback");
    assert_eq!(key(Key::Token, "::1"), "t.o.k");
    assert_eq!(key(Key::Ip, "65.66.67.68"), "ABCD\\x00", "no field contains a zero byte");
    assert_eq!(key(Key::Ip, "::ffff:65.66.67.68"), "ABCD\\x00", "the same client");
    let v6_bytes = |v6_len| KeyBytes::ip("4142::1".parse().unwrap(), v6_len).as_bytes().to_vec();
    assert_eq!(v6_bytes(128), b"AB\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0");
    assert_eq!(v6_bytes(CLIENT_V6_LEN), b"AB\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    for (v4_len, client) in [(32, "65.66.67.68"), (24, "65.66.67.99"), (0, "1.2.3.4"), (99, "65.66.67.68")] {
        let expected = match v4_len {
            0 => "\\x00\\x00\\x00\\x00\\x00",
            24 => "ABC\\x00\\x00",
            _ => "ABCD\\x00",
        };
        assert_eq!(key(prefix(v4_len, 64), client), expected, "/{v4_len}");
    }
    let v6 = |len, client: &str| KeyBytes::prefix(client.parse().unwrap(), 32, len).as_bytes().to_vec();
    assert_eq!(v6(64, "2001:db8::1"), v6(64, "2001:db8::ffff:1"));
    assert_ne!(v6(65, "2001:db8::8000:0:0:1"), v6(65, "2001:db8::1"));
    assert_ne!(v6(64, "2001:db8:0:1::"), v6(64, "2001:db8::"));
    assert_eq!(v6(0, "2001:db8::1"), v6(0, "::1"));
    assert_eq!(v6(255, "2001:db8::1"), v6(128, "2001:db8::1"));
    for value in ["Basic dTpw", "Bearer", "Bearer  ", "Bearert", "", "\u{e9}"] {
        let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: {value}\r\n\r\n");
        let mut head = crate::parse::Head::new();
        head.parse(bytes.as_bytes(), &crate::Limits::default()).unwrap().unwrap();
        let request = Request::new(bytes.as_bytes(), &head, b"");
        assert!(Key::Token.named(&request).is_none(), "{value}");
    }
    let nowhere = KeyBytes::ip(IpAddr::from([0, 0, 0, 0]), 64);
    assert_ne!(KeyBytes::UNIX.as_bytes(), nowhere.as_bytes(), "a PROXY header may contain this address");
}

/// An address results in the same key in every notation.
#[test]
fn an_address_has_one_key() {
    let once = quota(1, 1, Duration::from_secs(1));
    let now = Time::from_nanos(1_000_000_000);
    for addr in ["192.0.2.1", "255.255.255.255", "0.0.0.0", "::ffff:192.0.2.7", "2001:db8::17", "::", "::1"] {
        let addr: IpAddr = addr.parse().unwrap();
        for v6_len in [48, 64, 128] {
            let limiter = Limiter::new(once, 1024, [1, 2]);
            assert!(limiter.check_ip(addr, v6_len, now).is_allowed(), "{addr}");
            assert!(!limiter.check(KeyBytes::ip(addr, v6_len).as_bytes(), now).is_allowed(), "{addr}");
            assert!(!limiter.check_ip(addr.to_canonical(), v6_len, now).is_allowed(), "{addr}");
            let net = client_net(addr, v6_len);
            assert!(!limiter.check_ip(net, v6_len, now).is_allowed(), "{addr} {net}");
        }
    }
}

/// The network of a client is the IPv4 address, or the significant bits of the IPv6 address.
#[test]
fn a_client_is_its_network() {
    for (one, other, v6_len, is_same) in [
        ("2001:db8::1", "2001:db8::ffff:1", CLIENT_V6_LEN, true),
        ("2001:db8::1", "2001:db8:0:1::1", CLIENT_V6_LEN, false),
        ("2001:db8::1", "2001:db8:0:1::1", 48, true),
        ("2001:db8::1", "2001:db8::2", 128, false),
        ("192.0.2.1", "192.0.2.2", 0, false),
        ("::ffff:192.0.2.1", "192.0.2.1", 0, true),
    ] {
        let (one, other): (IpAddr, IpAddr) = (one.parse().unwrap(), other.parse().unwrap());
        assert_eq!(client_net(one, v6_len) == client_net(other, v6_len), is_same, "{one} {other} {v6_len}");
        let limiter = Limiter::new(quota(1, 1, Duration::from_secs(1)), 1024, [1, 2]);
        let now = Time::from_nanos(1_000_000_000);
        assert!(limiter.check_ip(one, v6_len, now).is_allowed());
        assert_eq!(!limiter.check_ip(other, v6_len, now).is_allowed(), is_same, "{one} {other} {v6_len}");
    }
}

#[test]
fn fields() {
    // With this quota, the price of one request corresponds to one second.
    let small = quota(10, 1, Duration::from_secs(1));
    let allowed = Decision::of(small.price() / 1000, &small);
    assert!(allowed.is_allowed());
    assert_eq!(
        allowed.fields(&small).lines(),
        b"RateLimit-Limit: 10\r\nRateLimit-Remaining: 8\r\nRateLimit-Reset: 2\r\n"
    );
    let denied = Decision::of(small.window() - small.price() + 1, &small);
    assert_eq!(
        denied.fields(&small).iter().collect::<Vec<_>>(),
        [
            ("RateLimit-Limit", "10"),
            ("RateLimit-Remaining", "0"),
            ("RateLimit-Reset", "10"),
            ("Retry-After", "1")
        ]
    );
    assert_eq!(Decision::of(0, &small).fields(&small).iter().nth(1), Some(("RateLimit-Remaining", "9")));
    assert_eq!(Decision::blind(&small).retry_after(&small), Some(Duration::from_secs(1)));
    // All fields have the maximum number of digits.
    let huge = quota(BURST_MAX, 1, REFILL_MAX / BURST_MAX);
    let most = Decision::of(u32::MAX, &huge).fields(&huge);
    assert_eq!(
        most.lines(),
        b"RateLimit-Limit: 1048576\r\nRateLimit-Remaining: 0\r\nRateLimit-Reset: 4294967295\r\nRetry-After: 4294967295\r\n"
    );
    assert_eq!(most.iter().count(), 4);
}
