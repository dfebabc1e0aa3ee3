//! One decision of a rate limiter: of a shared limiter on one thread and on two, with more keys
//! than the caches hold, and in a flood of new keys; and of a worker's own limiter.
#![expect(clippy::disallowed_methods, reason = "a bench reads clocks")]

use criterion::{Criterion, criterion_group, criterion_main};
use doorbell_http::limit::{CLIENT_V6_LEN, Decision, Key, KeyBytes, Limiter, LocalLimiter, Quota};
use doorbell_http::parse::Head;
use doorbell_http::{Limits, Request, Time};
use std::hint::black_box;
use std::net::IpAddr;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

const SEED: [u64; 2] = [7, 8];
const NOW: Time = Time::from_nanos(1_000_000_000_000);

/// A quota that is never exceeded by a bench that advances time by a microsecond per decision.
fn generous() -> Quota {
    Quota::new(1000, 1_000_000, Duration::from_secs(1)).expect("a quota")
}

fn alone(c: &mut Criterion) {
    let client: IpAddr = "2001:db8::17".parse().expect("an address");
    let (shared, mut local) =
        (Limiter::new(generous(), 65_536, SEED), LocalLimiter::new(generous(), 65_536, SEED));
    let tick = |now: &mut Time| {
        *now = now.after(Duration::from_micros(1));
        *now
    };
    let mut now = NOW;
    c.bench_function("limit/shared allowed", |b| {
        b.iter(|| shared.check(KeyBytes::ip(black_box(client), CLIENT_V6_LEN).as_bytes(), tick(&mut now)));
    });
    assert_eq!(shared.counts().denied, 0);
    let mut now = NOW;
    c.bench_function("limit/local allowed", |b| {
        b.iter(|| local.check(KeyBytes::ip(black_box(client), CLIENT_V6_LEN).as_bytes(), tick(&mut now)));
    });
    assert_eq!(local.counts().denied, 0);
    let strict = Limiter::new(Quota::new(1, 1, Duration::from_secs(60)).expect("a quota"), 65_536, SEED);
    c.bench_function("limit/shared denied", |b| {
        b.iter(|| strict.check(KeyBytes::ip(black_box(client), CLIENT_V6_LEN).as_bytes(), NOW));
    });
    assert_eq!(strict.counts().allowed, 1);
    let mut new = 0u64;
    c.bench_function("limit/shared flood of new keys", |b| {
        b.iter(|| {
            new += 1;
            strict.check(&new.to_le_bytes(), NOW)
        });
    });
    let large = Limiter::new(generous(), 1 << 22, SEED);
    c.bench_function("limit/shared new keys, 32 MiB", |b| {
        b.iter(|| {
            new += 1;
            large.check(&new.to_le_bytes(), NOW)
        });
    });
}

/// The whole cost for a request: key from the address or a header, decision and fields.
fn request(c: &mut Criterion) {
    let bytes =
        b"GET /readyz HTTP/1.1\r\nHost: a\r\nX-Api-Key: 0123456789abcdef0123456789abcdef\r\n\r\n".as_slice();
    let mut head = Head::new();
    assert_eq!(head.parse(bytes, &Limits::default()), Ok(Some(bytes.len())));
    let request = Request::new(bytes, &head, b"");
    let limiter = Limiter::new(generous(), 65_536, SEED);
    let client: IpAddr = "192.0.2.1".parse().expect("an address");
    for (name, key) in
        [("limit/key ip, fields", Key::Ip), ("limit/key header, fields", Key::Header("x-api-key".into()))]
    {
        let mut now = NOW;
        c.bench_function(name, |b| {
            b.iter(|| {
                now = now.after(Duration::from_micros(1));
                let key =
                    key.named(black_box(&request)).unwrap_or_else(|| key.of_addr(client, CLIENT_V6_LEN));
                limiter.check(key.as_bytes(), now).fields(limiter.quota())
            });
        });
    }
}

/// Time per decision with two threads.
fn two_threads(c: &mut Criterion) {
    let keys: [&[u8]; 2] = [b"one key of sixteen", b"another of sixteen"];
    for (name, [first, second]) in
        [("limit/two threads, one key", [0, 0]), ("limit/two threads, two keys", [0, 1])]
    {
        let limiter = Limiter::new(generous(), 65_536, SEED);
        c.bench_function(name, |b| b.iter_custom(|count| pair(&limiter, count, [keys[first], keys[second]])));
    }
}

fn pair(limiter: &Limiter, count: u64, keys: [&[u8]; 2]) -> Duration {
    let barrier = Barrier::new(2);
    let ask = |key: &[u8]| {
        barrier.wait();
        let start = Instant::now();
        let mut now = NOW;
        let mut last = None;
        for _ in 0..count {
            now = now.after(Duration::from_micros(2));
            last = Some(limiter.check(key, now));
        }
        black_box::<Option<Decision>>(last);
        start.elapsed()
    };
    let [first, second] = keys;
    thread::scope(|scope| {
        let other = scope.spawn(|| ask(second));
        let took = ask(first);
        took.max(other.join().expect("the thread does not panic"))
    })
}

criterion_group!(benches, alone, request, two_threads);
criterion_main!(benches);
