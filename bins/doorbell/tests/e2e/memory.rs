//! Resident memory after the start, with checks, and for each idle keep-alive connection. Also the
//! time until the first reply.
//!
//! The limits are for a release build. A debug build must meet them too, except for its own code
//! and tables, which are larger.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use doorbell_testkit::peers::{connect_from, exchange, misbehave, process, wait_until};

use crate::plain::get;
use crate::support::{
    Doorbell, LIMIT, Process, Scratch, at_most, binary, free_addr, is_release, on_both_engines, print_line,
};
use crate::upstream::{Does, Upstream};

on_both_engines! {
    resident_after_start
    resident_with_a_hundred_checks
    first_answer_with_checks
    idle_connections
}

const START_BYTES_MAX: u64 = 8 << 20;
const CHECKS: usize = 100;
const CHECKED_BYTES_MAX: u64 = 16 << 20;
const FIRST_ANSWER: Duration = Duration::from_millis(25);
const STARTS: usize = 11;
const IDLE_CONN_BYTES_MAX: u64 = 1024;
const CONNS: u32 = 2_000;

/// An instance with two workers and otherwise default settings.
fn with_defaults(engine: &str) -> Doorbell {
    let args = ["serve", "--listen", "127.0.0.1:0", "--driver", engine, "--workers", "2"];
    Doorbell::try_start(&args).unwrap_or_else(|log| panic!("{log}"))
}

/// The resident memory of a process. Pages of the executable count only for the shipped build.
fn resident(process: &Process, when: &str) -> u64 {
    let pid = process.pid();
    let (all, anon) = (process::rss_bytes(&pid).unwrap(), process::rss_anon_bytes(&pid).unwrap());
    eprintln!("{when}: resident {} KiB, {} KiB of it anonymous", all / 1024, anon / 1024);
    if is_release() { all } else { anon }
}

fn resident_after_start(engine: &str) {
    let counted = resident(&with_defaults(engine).process, &format!("{engine}: after start"));
    assert!(counted <= START_BYTES_MAX, "{engine}: {counted} bytes");
}

/// Checks of three kinds; an endpoint shows the details of half of them.
fn a_hundred_checks(bind: &str, upstream: &Upstream) -> String {
    let mut config = format!(
        "version = 1\n[runtime]\nworkers = 2\n[listener.web]\nbind = {bind:?}\n[check_defaults]\ninterval = \"500ms\"\ntimeout = \"400ms\"\n\
         [route.live]\npath = \"/livez\"\nhealth = \"livez\"\n[route.ready]\npath = \"/readyz\"\nhealth = \"readyz\"\ndetails = \"always\"\n"
    );
    for n in 0..CHECKS {
        let kind = match n % 3 {
            0 => format!("type = \"http\"\nurl = {:?}", upstream.url(&format!("/{n}"))),
            1 => format!("type = \"tcp\"\naddress = \"{}\"", upstream.addr),
            _ => "type = \"file\"\npath = \"/dev/null\"".to_owned(),
        };
        write!(config, "[check.c{n}]\n{kind}\n").unwrap();
    }
    let names: Vec<String> = (0..CHECKS).step_by(2).map(|n| format!("c{n}")).collect();
    write!(config, "[health.readyz]\nrequire = {names:?}\n").unwrap();
    config
}

fn resident_with_a_hundred_checks(engine: &str) {
    let upstream = Upstream::start(Does::reply(200, "ok"));
    let doorbell = Doorbell::start_with(engine, &a_hundred_checks("127.0.0.1:0", &upstream));
    // Each check has run several times.
    assert!(wait_until(LIMIT, || upstream.conns() >= 4 * CHECKS).is_some(), "{}", doorbell.process.log());
    assert!(wait_until(LIMIT, || get(doorbell.addr, "/readyz", &[]).status == 200).is_some());
    let counted = resident(&doorbell.process, &format!("{engine}: with {CHECKS} checks"));
    assert!(counted <= CHECKED_BYTES_MAX, "{engine}: {counted} bytes");
}

/// Time from the start of the process to the first reply.
fn first_answer_with_checks(engine: &str) {
    let upstream = Upstream::start(Does::reply(200, "ok"));
    let mut took: Vec<Duration> = (0..STARTS).map(|_| first_answer(engine, &upstream)).collect();
    took.sort_unstable();
    let (best, middle) = (took[0], took[STARTS / 2]);
    print_line(&format!("{engine}: fastest first reply {best:?} after the start, with {CHECKS} checks"));
    at_most(format_args!("{engine}: median first answer with {CHECKS} checks"), middle, FIRST_ANSWER);
}

fn first_answer(engine: &str, upstream: &Upstream) -> Duration {
    let scratch = Scratch::new();
    let addr = free_addr();
    let file = scratch.write("doorbell.toml", &a_hundred_checks(&format!("{addr}"), upstream));
    let start = Instant::now();
    let process = Process::spawn(Command::new(binary()).args(["serve", "-c", &file, "--driver", engine]));
    let request = b"GET /livez HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n";
    while !exchange(addr, request).is_ok_and(|got| got.bytes.starts_with(b"HTTP/1.1 200 ")) {
        assert!(start.elapsed() < LIMIT, "{}", process.log());
        thread::sleep(Duration::from_micros(200));
    }
    start.elapsed()
}

fn idle_connections(engine: &str) {
    let doorbell = with_defaults(engine);
    // Some connections are opened first, so that one-time allocations do not count per connection.
    let warm = open(&doorbell, 64);
    let before = process::rss_anon_bytes(&doorbell.process.pid()).unwrap();
    let conns = open(&doorbell, CONNS);
    let after = process::rss_anon_bytes(&doorbell.process.pid()).unwrap();
    let each = after.saturating_sub(before) / u64::from(CONNS);
    eprintln!("{engine}: {each} bytes for each of {CONNS} idle keep-alive connections");
    assert!(each <= IDLE_CONN_BYTES_MAX, "{engine}: {each} bytes");
    drop((warm, conns));
}

/// Opens connections that are idle after one reply. They use several addresses because of the limit
/// per address.
fn open(doorbell: &Doorbell, count: u32) -> Vec<TcpStream> {
    let conns = (0..count).map(|n| {
        let source = Ipv4Addr::new(127, 0, 1, u8::try_from(n % 8 + 1).expect("at most 8"));
        let mut stream = connect_from(source, doorbell.addr).unwrap();
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost: web\r\n\r\n").unwrap();
        misbehave::read_replies(&mut stream, 1, false).unwrap();
        stream
    });
    conns.collect()
}
