//! Upstreams that hang in every way: their checks end on time, other checks and probes are not
//! affected, and nothing accumulates.
//!
//! A second instance without checks is probed alternately, as the baseline of this machine.
//! `DOORBELL_FULL=1` with the shipped build uses one byte a second and requires the promised
//! figures.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use doorbell_testkit::peers::{percentile, process, wait_until};
use serde_json::Value;

use crate::control::Controlled;
use crate::plain::get;
use crate::support::{Doorbell, LIMIT, at_most, is_judged, is_release, on_both_engines, print_line};
use crate::upstream::{Does, Upstream};

on_both_engines! {
    hung_upstreams_delay_nothing_else
}

/// Promised maximum delay after the timeout of a check.
const LATE: Duration = Duration::from_millis(20);
/// Number of checks of each shape and kind.
const EACH: usize = 6;
/// Maximum resident memory while all these checks run: 64 KiB of buffer for each flooded check, and
/// the parsers.
const RESIDENT_MAX: u64 = 24 << 20;
const GROWN_MAX: u64 = 2 << 20;

struct Shape {
    name: &'static str,
    upstream: Upstream,
    /// Whether the checks time out. Otherwise they end after their maximum number of bytes.
    times_out: bool,
}

fn shapes(drip: Duration) -> [Shape; 5] {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n";
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunks = b"1\r\nx\r\n".repeat(1_000);
    let shape = |name, does, times_out| Shape { name, upstream: Upstream::start(does), times_out };
    [
        shape("silent", Does::Hang, true),
        shape("head", Does::Trickles(Vec::new(), head.to_vec(), drip), true),
        shape("body", Does::Trickles(head.to_vec(), vec![b'x'; 99], drip), true),
        shape("endless", Does::Trickles(chunked.to_vec(), chunks, drip / 100), true),
        shape("flood", Does::Endless, false),
    ]
}

fn config(shapes: &[Shape], good: &Upstream, timeout: Duration) -> String {
    let mut text = format!(
        "[runtime]\nworkers = 2\n[check_defaults]\ninterval = \"{}ms\"\nfast_interval = \"100ms\"\ntimeout = \"{}ms\"\nrise = 1\nfall = 1\n\
         [route.live]\npath = \"/livez\"\nhealth = \"livez\"\n\
         [check.good]\nseverity = \"degrading\"\ntype = \"http\"\nurl = {:?}\ninterval = \"100ms\"\ntimeout = \"90ms\"\n",
        timeout.as_millis() + 100,
        timeout.as_millis(),
        good.url("/")
    );
    for Shape { name, upstream, .. } in shapes {
        for n in 0..EACH {
            let (url, addr) = (upstream.url("/"), upstream.addr);
            write!(
                text,
                "[check.http_{name}_{n}]\nseverity = \"degrading\"\ntype = \"http\"\nurl = {url:?}\nexpect = {{ body_contains = \"never\" }}\n\
                 [check.tcp_{name}_{n}]\nseverity = \"degrading\"\ntype = \"tcp\"\naddress = \"{addr}\"\nsend = \"hello\\r\\n\\r\\n\"\nexpect = {{ contains = \"never\" }}\n"
            )
            .unwrap();
        }
    }
    text
}

/// Outcome and duration of each recorded run of the checks with this shape.
fn runs_of(checks: &Value, shape: &str) -> Vec<(String, Duration)> {
    let named = |check: &&Value| check["name"].as_str().unwrap().split('_').nth(1) == Some(shape);
    let runs = checks
        .as_array()
        .unwrap()
        .iter()
        .filter(named)
        .flat_map(|check| check["history"].as_array().unwrap());
    let run = |run: &Value| {
        let outcome = run["outcome"].as_str().unwrap().to_owned();
        (outcome, Duration::from_micros(run["latency_us"].as_u64().unwrap()))
    };
    runs.map(run).collect()
}

/// Probes both servers alternately for this time.
fn probe_both(servers: [SocketAddr; 2], time: Duration) -> [Vec<Duration>; 2] {
    let mut took = [Vec::new(), Vec::new()];
    let start = Instant::now();
    while start.elapsed() < time {
        // The first probe after a pause is slower, so the servers take turns.
        let first = took[0].len() % 2;
        for at in [first, 1 - first] {
            let from = Instant::now();
            assert_eq!(get(servers[at], "/livez", &[]).status, 200);
            took[at].push(from.elapsed());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    took
}

fn hung_upstreams_delay_nothing_else(engine: &str) {
    // One byte a second with a slightly longer timeout, or the same several times faster.
    let (drip, timeout, rounds) = match is_judged() {
        true => (Duration::from_secs(1), Duration::from_millis(1_200), 10),
        false => (Duration::from_millis(250), Duration::from_millis(300), 6),
    };
    let good = Upstream::start(Does::reply(200, ""));
    let shapes = shapes(drip);
    let control = Controlled::start(engine, &config(&shapes, &good, timeout));
    let alone = Doorbell::start_with(
        engine,
        "version = 1\n[runtime]\nworkers = 2\n[listener.web]\nbind = \"127.0.0.1:0\"\n[route.live]\npath = \"/livez\"\nhealth = \"livez\"\n",
    );
    let pid = control.doorbell.process.pid();
    let checks =
        || -> Value { serde_json::from_str(&control.say(&["checks", "--history", "-o", "json"])).unwrap() };
    // Each check has run twice, so every buffer has been used.
    let has_run = || shapes.iter().all(|shape| runs_of(&checks(), shape.name).len() >= 2 * 2 * EACH);
    assert!(wait_until(LIMIT, has_run).is_some(), "{}", checks());
    let (before, asked) = (process::rss_anon_bytes(&pid).unwrap(), good.conns());
    let start = Instant::now();
    let [mut beside, mut quiet] = probe_both([control.doorbell.addr, alone.addr], timeout * (rounds + 2));
    let (asked, waited) = (good.conns() - asked, start.elapsed());
    let grown = process::rss_anon_bytes(&pid).unwrap().saturating_sub(before);
    let resident = process::rss_bytes(&pid).unwrap();
    let last = checks();
    for shape in &shapes {
        ends_on_time(engine, shape, timeout, runs_of(&last, shape.name));
    }
    let [p50, p99] =
        [50.0, 99.0].map(|percent| [percentile(&mut beside, percent), percentile(&mut quiet, percent)]);
    let said = format!(
        "{engine}: {} probes during {} waiting checks: p50 {:?} and p99 {:?}, without them {:?} and {:?}; resident {} KiB, {} KiB of it new",
        beside.len(),
        2 * EACH * shapes.len(),
        p50[0],
        p99[0],
        p50[1],
        p99[1],
        resident >> 10,
        grown >> 10
    );
    print_line(&said);
    // The check runs ten times a second.
    assert!(asked > 0, "the working server must still be checked");
    at_most(
        format_args!("{engine}: mean interval of the working check, in milliseconds"),
        waited.as_millis() / asked as u128,
        200,
    );
    assert!(grown <= GROWN_MAX && (resident <= RESIDENT_MAX || !is_release()), "{said}");
    for (percent, [beside, quiet], times) in [(50, p50, 1.25), (99, p99, 1.5)] {
        let limit = quiet.mul_f64(times) + Duration::from_micros(100);
        at_most(format_args!("{engine}: p{percent} during hanging checks"), beside, limit);
    }
}

/// Asserts that at least 99 % of the runs end on time.
fn ends_on_time(engine: &str, shape: &Shape, timeout: Duration, runs: Vec<(String, Duration)>) {
    let mut took: Vec<Duration> = runs.iter().map(|(_, took)| *took).collect();
    let p99 = percentile(&mut took, 99.0);
    let said = format!("{engine}: {} runs against {}, from {:?} on, p99", runs.len(), shape.name, took[0]);
    at_most(&said, p99, timeout + LATE);
    if shape.times_out {
        assert!(
            runs.iter().all(|(outcome, _)| outcome == "timeout") && took[0] >= timeout,
            "{said}: {runs:?}"
        );
    } else {
        assert!(
            runs.iter().filter(|(outcome, _)| outcome == "failure").count() * 2 > runs.len(),
            "{said}: {runs:?}"
        );
    }
}
