//! Probes while the state changes a thousand times a second: each probe gets one consistent state,
//! and no probe waits for a change.
//!
//! Quiet periods and periods with changes alternate, with the same clients on the same connections.
//! Only the ratio of neighbouring periods counts, so that other load affects both in the same way.
//! `DOORBELL_FULL=1` with the shipped build limits the p99 with changes to 1.2 times the p99
//! without changes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doorbell_testkit::peers::wait_until;

use crate::support::{Doorbell, LIMIT, at_most, is_full, on_both_engines, print_line};

on_both_engines! {
    no_probe_gets_a_mixed_state
}

const CONFIG: &str = r#"
version = 1

[runtime]
workers = 2

[lifecycle]
drain_delay = "0s"

[listener.probes]
bind = "127.0.0.1:0"
keep_alive = { max_requests = 1000000 }

[check.app]
type = "ttl"
ttl = "1h"
rise = 1
fall = 1

[health.readyz]
require = ["app"]
degraded_via = "kube-warning"

[route.readyz]
path = "/readyz"
health = "readyz"
details = "always"

[route.push]
path = "/push/{check}/{result}"
push = true
"#;

/// Results that the application pushes.
const PUSHED: [&str; 3] = ["pass", "fail?note=refused", "warn?note=slow%20and%20long%20to%20tell"];
const REPLIES: [(u16, &str); 3] = [
    (200, "up\napp: up\n"),
    (503, "down\napp: down (refused)\n"),
    (200, "degraded\napp: degraded (slow and long to tell)\n"),
];
const WARNED: (u16, &str) = (302, "readyz is degraded: app degraded (slow and long to tell)");

/// The promised rate of changes.
const CHANGES_A_SECOND: u32 = 1_000;
const RATIO_MAX: f64 = 1.2;

/// First part of each period, in which probes are not measured.
const SETTLES: Duration = Duration::from_millis(20);

/// A client with one kept connection.
struct Client {
    stream: BufReader<TcpStream>,
    head: String,
}

impl Client {
    fn new(addr: SocketAddr, agent: &str) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream: BufReader::new(stream),
            head: format!("HTTP/1.1\r\nHost: a\r\nUser-Agent: {agent}\r\n\r\n"),
        }
    }

    /// Sends a request and returns status and body; Content-Length gives the length of the body.
    fn ask(&mut self, what: &str) -> (u16, String) {
        let request = format!("{what} {}", self.head);
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let status =
            line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{line:?}"));
        let mut len = 0;
        loop {
            line.clear();
            self.stream.read_line(&mut line).unwrap();
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                len = value.trim().parse().unwrap();
            }
        }
        let mut content = vec![0; len];
        self.stream.read_exact(&mut content).unwrap();
        (status, String::from_utf8(content).unwrap())
    }
}

/// The number of the current period. After the last period all threads end.
struct Turns {
    now: AtomicUsize,
    count: usize,
}

impl Turns {
    fn now(&self) -> Option<usize> {
        Some(self.now.load(Ordering::Relaxed)).filter(|now| *now < self.count)
    }

    /// Whether a period has changes. The order quiet, changing, changing, quiet compensates for
    /// drift.
    const fn has_changes(turn: usize) -> bool {
        matches!(turn % 4, 1 | 2)
    }
}

/// Latencies of probes in one period, and the number of replies that differ from the one before.
#[derive(Clone, Debug, Default)]
struct Probed {
    took: Vec<Duration>,
    changes: usize,
}

/// Probes until the last period ends, and returns the result of each period.
fn probe(addr: SocketAddr, agent: &str, turns: &Turns) -> Vec<Probed> {
    let mut client = Client::new(addr, agent);
    let mut probed = vec![Probed::default(); turns.count];
    let (mut last, mut turn_before, mut since) = (0, 0, Instant::now());
    while let Some(turn) = turns.now() {
        let from = Instant::now();
        if turn != turn_before {
            (turn_before, since) = (turn, from);
        }
        let (status, content) = client.ask("GET /readyz");
        let took = from.elapsed();
        let whole = REPLIES.into_iter().chain([WARNED]).position(|reply| reply == (status, &*content));
        let Some(at) = whole else { panic!("{agent}: {status} {content:?}") };
        assert!(at == 3 || agent != "kube-probe/1.34" || at < 2, "a kubelet is warned: {status} {content:?}");
        assert!(at != 3 || agent == "kube-probe/1.34", "only a kubelet is warned: {status} {content:?}");
        let is_new = std::mem::replace(&mut last, at) != at;
        if from.duration_since(since) >= SETTLES {
            probed[turn].took.push(took);
            probed[turn].changes += usize::from(is_new);
        }
        // The rate of many probers. Without a pause, changes would get no CPU time.
        thread::sleep(Duration::from_micros(200));
    }
    probed
}

/// Pushes until the last period ends. The results differ only in periods with changes. Returns the
/// rate in those periods.
fn push(addr: SocketAddr, turns: &Turns) -> f64 {
    let mut client = Client::new(addr, "app");
    let start = Instant::now();
    let (mut done, mut changes, mut changing, mut before) = (0, 0, Duration::ZERO, start);
    while let Some(turn) = turns.now() {
        let due = start + Duration::from_secs(1) * done / CHANGES_A_SECOND;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let has_changes = Turns::has_changes(turn);
        let pushed = PUSHED[if has_changes { done as usize % PUSHED.len() } else { 0 }];
        let (status, content) = client.ask(&format!("POST /push/app/{pushed}"));
        assert_eq!(status, 204, "{content}");
        done += 1;
        let now = Instant::now();
        if has_changes {
            changes += 1;
            changing += now - before;
        }
        before = now;
    }
    f64::from(changes) / changing.as_secs_f64()
}

/// Runs a client and a kubelet that probe, while the application pushes.
fn take_turns(addr: SocketAddr, count: usize, each: Duration) -> (f64, Vec<Probed>, [usize; 2]) {
    let turns = Turns { now: AtomicUsize::new(0), count };
    thread::scope(|scope| {
        let pushing = scope.spawn(|| push(addr, &turns));
        let probing = ["curl/8", "kube-probe/1.34"].map(|agent| {
            let turns = &turns;
            scope.spawn(move || probe(addr, agent, turns))
        });
        for turn in 1..=count {
            thread::sleep(each);
            turns.now.store(turn, Ordering::Relaxed);
        }
        let probed = probing.map(|probing| probing.join().unwrap());
        let changes = probed.each_ref().map(|turns| turns.iter().map(|turn| turn.changes).sum());
        let both = |turn: usize| {
            let mut took: Vec<Duration> =
                probed.iter().flat_map(|turns| &turns[turn].took).copied().collect();
            took.sort_unstable();
            Probed { took, changes: 0 }
        };
        (pushing.join().unwrap(), (0..count).map(both).collect(), changes)
    })
}

fn percentile(took: &[Duration], percent: usize) -> Duration {
    took[(took.len() - 1) * percent / 100]
}

/// The p99 of neighbouring periods without and with changes, sorted by their ratio.
fn neighbours(turns: &[Probed]) -> Vec<(f64, [Duration; 2])> {
    let pair = |(at, pair): (usize, &[Probed])| {
        let with_changes = usize::from(Turns::has_changes(2 * at + 1));
        let [quiet, busy] = [1 - with_changes, with_changes].map(|at| percentile(&pair[at].took, 99));
        (busy.as_secs_f64() / quiet.as_secs_f64(), [quiet, busy])
    };
    let mut pairs: Vec<_> = turns.chunks_exact(2).enumerate().map(pair).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    pairs
}

fn no_probe_gets_a_mixed_state(engine: &str) {
    let (pairs, each) = if is_full() { (11, 800) } else { (3, 250) };
    let doorbell = Doorbell::start_with(engine, CONFIG);
    let addr = doorbell.addr;
    let mut client = Client::new(addr, "app");
    client.ask("POST /push/app/pass");
    // Until the push takes effect, replies show the initial state, which no turn expects.
    wait_until(LIMIT, || client.ask("GET /readyz").0 == 200).unwrap();
    let (pace, turns, changes) = take_turns(addr, 2 * pairs, Duration::from_millis(each));
    let by_ratio = neighbours(&turns);
    let (ratio, [quiet, busy]) = by_ratio[pairs / 2];
    let (least, most) = (by_ratio[0].0, by_ratio[pairs - 1].0);
    let probes: usize = turns.iter().map(|turn| turn.took.len()).sum();
    let said = format!(
        "{engine}: {pace:.0} changes a second, {probes} probes, p99 {quiet:?} without and {busy:?} with them: {ratio:.2} times, of {pairs} \
         pairs {least:.2} to {most:.2}"
    );
    print_line(&said);
    assert!(changes.iter().all(|&changes| changes > 0), "probes must see changes: {changes:?}, {said}");
    at_most(
        "changes a second that were missing",
        f64::from(CHANGES_A_SECOND) - pace,
        0.02 * f64::from(CHANGES_A_SECOND),
    );
    at_most(format_args!("{engine}: p99 with changes, times that without"), ratio, RATIO_MAX);
}
