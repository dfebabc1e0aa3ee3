//! Probes while the state changes a thousand times a second: each is told one state, whole, and none waits for a change.
//!
//! Does not know about: how replies are made. What a probe is told is always judged; how long it took only loosely, because machines that run
//! tests are busy. `DOORBELL_FULL=1`, for a machine that does nothing else, holds the slowest in a hundred to 1.2 times of those without
//! changes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use doorbell_testkit::peers::wait_until;

use crate::support::{Doorbell, LIMIT, on_both_engines};

on_both_engines! {
    no_probe_is_told_half_a_state
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

/// What is pushed, and all that a probe may be told then: status, length and content belong together.
const PUSHED: [&str; 3] = ["pass", "fail?note=refused", "warn?note=slow%20and%20long%20to%20tell"];
const TOLD: [(u16, &str); 3] = [
    (200, "up\napp: up\n"),
    (503, "down\napp: down (refused)\n"),
    (200, "degraded\napp: degraded (slow and long to tell)\n"),
];
const WARNED: (u16, &str) = (302, "readyz is degraded: app degraded (slow and long to tell)");

/// The promise.
const CHANGES_A_SECOND: u32 = 1_000;

/// One connection, kept.
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

    /// The status and the content, by its length.
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

/// How long each probe took, sorted, and how many times the answer was another one than before.
type Probed = (Vec<Duration>, usize);

/// Probes for a while.
fn probe(addr: SocketAddr, agent: &str, time: Duration) -> Probed {
    let mut client = Client::new(addr, agent);
    let end = Instant::now() + time;
    let (mut took, mut last, mut changes) = (Vec::new(), 0, 0);
    while Instant::now() < end {
        let from = Instant::now();
        let (status, content) = client.ask("GET /readyz");
        took.push(from.elapsed());
        let whole = TOLD.into_iter().chain([WARNED]).position(|told| told == (status, &*content));
        let Some(at) = whole else { panic!("{agent}: {status} {content:?}") };
        assert!(at == 3 || agent != "kube-probe/1.34" || at < 2, "a kubelet is warned: {status} {content:?}");
        assert!(at != 3 || agent == "kube-probe/1.34", "only a kubelet is warned: {status} {content:?}");
        changes += usize::from(std::mem::replace(&mut last, at) != at);
        // As fast as probers are that are many; without a pause there would be no time for changes.
        std::thread::sleep(Duration::from_micros(200));
    }
    took.sort_unstable();
    (took, changes)
}

/// Pushes until it is told to end; how many changes a second that were.
fn change(addr: SocketAddr, pushes: &[&str], goes_on: &AtomicBool) -> f64 {
    let mut client = Client::new(addr, "app");
    let start = Instant::now();
    let mut done = 0;
    while goes_on.load(Ordering::Relaxed) {
        let due = start + Duration::from_secs(1) * done / CHANGES_A_SECOND;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let pushed = pushes[done as usize % pushes.len()];
        let (status, content) = client.ask(&format!("POST /push/app/{pushed}"));
        assert_eq!(status, 204, "{content}");
        done += 1;
    }
    f64::from(done) / start.elapsed().as_secs_f64()
}

fn percentile(took: &[Duration], percent: usize) -> Duration {
    took[(took.len() - 1) * percent / 100]
}

/// Somebody and a kubelet probe, while the application pushes these in turn.
fn phase(addr: SocketAddr, time: Duration, pushes: &[&str]) -> (f64, Probed, Probed) {
    let goes_on = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| change(addr, pushes, &goes_on));
        let kubelet = scope.spawn(|| probe(addr, "kube-probe/1.34", time));
        let probed = probe(addr, "curl/8", time);
        let warned = kubelet.join().unwrap();
        goes_on.store(false, Ordering::Relaxed);
        (changing.join().unwrap(), probed, warned)
    })
}

fn no_probe_is_told_half_a_state(engine: &str) {
    let full = std::env::var_os("DOORBELL_FULL").is_some();
    let time = Duration::from_millis(if full { 5_000 } else { 1_200 });
    let doorbell = Doorbell::start_with(engine, CONFIG);
    let addr = doorbell.addr;
    let mut client = Client::new(addr, "app");
    client.ask("POST /push/app/pass");
    // The first state is none of those that come and go.
    wait_until(LIMIT, || client.ask("GET /readyz").0 == 200).unwrap();
    // The same clients in both, so that the changes are all that differs.
    let (_, (quiet, _), _) = phase(addr, time, &PUSHED[..1]);
    let (pace, (busy, changes), warned) = phase(addr, time, &PUSHED);
    assert!(changes > 20 && warned.1 > 20, "it changes while it is asked: {changes} and {}", warned.1);
    let [before, during] = [&quiet, &busy].map(|took| percentile(took, 99));
    let said = format!(
        "{engine}: {pace:.0} changes a second, {} probes without and {} with them, p99 {before:?} and {during:?}",
        quiet.len(),
        busy.len()
    );
    let _ = writeln!(std::io::stderr(), "{said}");
    if full {
        assert!(pace >= 0.98 * f64::from(CHANGES_A_SECOND), "{said}");
        assert!(during <= before.mul_f64(1.2).max(before + Duration::from_micros(20)), "{said}");
    } else {
        assert!(percentile(&busy, 50) < Duration::from_millis(50), "{said}");
    }
}
