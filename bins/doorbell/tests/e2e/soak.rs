//! Every kind of client at once, with reloads and changed certificates: no request is lost, and
//! nothing accumulates.
//!
//! `DOORBELL_SOAK_SECS` sets the duration; the default is a few seconds.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doorbell_testkit::peers::{Shape, misbehave, process, wait_until};
use rustix::process::Signal;

use crate::https::Https;
use crate::pki::ca;
use crate::plain::{request, try_get};
use crate::support::{Doorbell, LIMIT, Scratch, StopAtEnd, on_both_engines, print_line};

on_both_engines! {
    nothing_is_lost_and_nothing_accumulates
}

/// Maximum growth by allocators and caches. A leak of a hundred bytes per connection exceeds it
/// within an hour.
const GROWTH_MAX: u64 = 4 << 20;

fn soak_time() -> Duration {
    let asked = std::env::var("DOORBELL_SOAK_SECS").ok();
    Duration::from_secs(
        asked.map_or(4, |secs| secs.parse().expect("DOORBELL_SOAK_SECS is a number of seconds")),
    )
}

fn config(cert: &str, key: &str, round: u64) -> String {
    format!(
        "version = 1\n[runtime]\nworkers = 2\n[lifecycle]\ndrain_delay = \"0s\"\nreload = \"SIGHUP\"\n\
         [tls.web]\ncert = {cert:?}\nkey = {key:?}\nhandshakes_per_ip = \"off\"\n\
         [connections]\nper_ip_max = 10000\n[listener.plain]\nbind = \"127.0.0.1:0\"\n\
         [listener.tls]\nbind = \"127.0.0.1:0\"\ntls = \"web\"\n\
         [route.live]\nlistener = [\"plain\", \"tls\"]\npath = \"/livez\"\nhealth = \"livez\"\n\
         [route.round]\nlistener = \"plain\"\npath = \"/round\"\nreply = {{ body = \"{round}\" }}\n"
    )
}

/// Counters of client requests.
#[derive(Debug, Default)]
struct Done {
    served: AtomicU64,
    left: AtomicU64,
}

/// Calls `one` until the end. It returns whether the request was served, or `None` if the client
/// did not wait for the reply.
fn again(runs: &AtomicBool, done: &Done, one: impl Fn() -> Option<Result<(), String>>) {
    while runs.load(Ordering::Relaxed) {
        match one() {
            Some(served) => {
                served.unwrap_or_else(|what| panic!("{what}"));
                done.served.fetch_add(1, Ordering::Relaxed);
            }
            None => {
                done.left.fetch_add(1, Ordering::Relaxed);
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn served(reply: Result<doorbell_testkit::peers::Reply, String>) -> Option<Result<(), String>> {
    Some(reply.and_then(|reply| (reply.status == 200).then_some(()).ok_or(reply.head)))
}

fn probed(server: SocketAddr) -> Option<Result<(), String>> {
    let got = Shape::Kubelet.probe(server, "/livez").map_err(|error| error.to_string());
    Some(got.and_then(|got| {
        got.bytes.starts_with(b"HTTP/1.1 200 ").then_some(()).ok_or_else(|| format!("{got:?}"))
    }))
}

fn left(server: SocketAddr, by_reset: bool) -> Option<Result<(), String>> {
    // The client disconnects without waiting for the reply.
    let _gone = misbehave::send_and_leave(server, &request("/livez", &[]), by_reset);
    None
}

fn nothing_is_lost_and_nothing_accumulates(engine: &str) {
    let scratch = Scratch::new();
    let (cert, key) = ca().server(&["localhost"]).write(&scratch, "tls");
    let file = scratch.write("doorbell.toml", &config(&cert, &key, 0));
    let doorbell = Doorbell::try_start(&["serve", "-c", &file, "--driver", engine])
        .unwrap_or_else(|log| panic!("{log}"));
    let (plain, https) = (doorbell.addr_of(0), Https::new(doorbell.addr_of(1)));
    let pid = doorbell.process.pid();
    let (runs, done) = (AtomicBool::new(true), Done::default());
    let fds_before = doorbell.fds_at_rest();
    let mut round = 0;
    let (mut rss_settled, mut rss_last) = (0, 0);
    thread::scope(|scope| {
        let _stop = StopAtEnd(&runs);
        let (runs, done, https) = (&runs, &done, &https);
        scope.spawn(move || again(runs, done, || served(try_get(plain, "/livez", &[]))));
        scope.spawn(move || again(runs, done, || probed(plain)));
        scope.spawn(move || {
            again(runs, done, || served(https.get("/livez").map_err(|error| error.to_string())))
        });
        scope.spawn(move || again(runs, done, || left(plain, true)));
        scope.spawn(move || again(runs, done, || left(plain, false)));
        let start = Instant::now();
        while start.elapsed() < soak_time() || round < 4 {
            round += 1;
            ca().server(&["localhost"]).replace(&scratch, "tls");
            scratch.write("doorbell.toml", &config(&cert, &key, round));
            doorbell.process.signal(Signal::HUP);
            let is_new = || {
                try_get(plain, "/round", &[]).is_ok_and(|reply| reply.body == round.to_string().as_bytes())
            };
            assert!(wait_until(LIMIT, is_new).is_some(), "reload {round}: {}", doorbell.process.log());
            rss_last = process::rss_bytes(&pid).unwrap();
            if round == 4 {
                rss_settled = rss_last;
            }
            thread::sleep(Duration::from_millis(500));
        }
    });
    let (served, left) = (done.served.into_inner(), done.left.into_inner());
    let growth = rss_last.saturating_sub(rss_settled);
    print_line(&format!(
        "{engine}: {served} served, {left} left, {round} reloads, {} KiB more since the fourth",
        growth >> 10
    ));
    assert!(served > 0 && left > 0);
    assert!(growth <= GROWTH_MAX, "{growth} bytes");
    let at_rest = wait_until(LIMIT, || process::fds(&pid).unwrap() <= fds_before);
    assert!(at_rest.is_some(), "{fds_before} descriptors became {}", process::fds(&pid).unwrap());
}
