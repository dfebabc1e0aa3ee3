//! Attacks on HTTP/2, each from one connection at a time, in plain text and over TLS. Measures the
//! time until each connection ends, the cost, and the effect on good clients.
//!
//! `DOORBELL_FULL=1` repeats each attack for ten seconds.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doorbell_testkit::peers::{Shape, process};

use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, Peer, RST_STREAM, SETTINGS, WINDOW_UPDATE,
    ask, block, frame, get,
};
use crate::http2::config;
use crate::https::Https;
use crate::pki::localhost;
use crate::support::{Doorbell, Scratch, StopAtEnd, at_most};
use crate::tunnel::Tunnel;

/// Runs each attack with both drivers, in plain text and over TLS.
macro_rules! attacks {
    ($($name:ident)*) => {
        mod io_uring { $(#[test] fn $name() { if doorbell_testkit::skip::io_uring() { super::$name(super::By::plain("io_uring")); } })* }
        mod epoll { $(#[test] fn $name() { super::$name(super::By::plain("epoll")); })* }
        mod io_uring_tls { $(#[test] fn $name() { if doorbell_testkit::skip::io_uring() { super::$name(super::By::tls("io_uring")); } })* }
        mod epoll_tls { $(#[test] fn $name() { super::$name(super::By::tls("epoll")); })* }
    };
}

attacks! {
    rapid_reset
    made_you_reset
    continuation_flood
    empty_data
    settings_flood
    ping_flood
    window_update_flood
    hpack_bomb
    zero_window_stall
    small_window_stall
    window_that_closes_later
}

/// Maximum lifetime of an attacking connection.
const ENDED_MAX: Duration = Duration::from_secs(1);
const GROWTH_MAX: u64 = 8 << 20;

/// SETTINGS_INITIAL_WINDOW_SIZE of 0: the server may not send any DATA.
const NO_WINDOW: [u8; 6] = [0, 4, 0, 0, 0, 0];

/// The repeated part of an attack. The argument is the number of the iteration.
type Wave<'a> = &'a dyn Fn(u32) -> Vec<u8>;

/// Driver and transport of the attacked server.
#[derive(Clone, Copy, Debug)]
struct By {
    engine: &'static str,
    is_tls: bool,
}

impl By {
    const fn plain(engine: &'static str) -> Self {
        Self { engine, is_tls: false }
    }

    const fn tls(engine: &'static str) -> Self {
        Self { engine, is_tls: true }
    }

    /// Duration of an attack. It is shorter over TLS, which uses the same code.
    fn seconds(self) -> u64 {
        match (std::env::var_os("DOORBELL_FULL").is_some(), self.is_tls) {
            (true, _) => 10,
            (false, false) => 2,
            (false, true) => 1,
        }
    }

    /// Starts an instance without a handshake limit, because all clients share one address.
    fn start(self) -> Target {
        let scratch = Scratch::new();
        let (listener, tls) = if self.is_tls {
            let (cert, key) = localhost().write(&scratch, "tls");
            ("tls = \"a\"", format!("[tls.a]\ncert = {cert:?}\nkey = {key:?}\nhandshakes_per_ip = \"off\"\n"))
        } else {
            ("", String::new())
        };
        let doorbell = Doorbell::start_with(self.engine, &config(listener, &tls));
        let tunnel = self.is_tls.then(|| Tunnel::to(doorbell.addr));
        Target { doorbell, tunnel, _files: scratch }
    }
}

/// An attacked instance, with a tunnel for frames over TLS.
struct Target {
    doorbell: Doorbell,
    tunnel: Option<Tunnel>,
    _files: Scratch,
}

impl Target {
    /// Address for connections with handwritten frames.
    fn addr(&self) -> SocketAddr {
        self.tunnel.as_ref().map_or(self.doorbell.addr, |tunnel| tunnel.addr)
    }

    /// Good clients of both protocols, with one request for each connection.
    fn be_good(&self, runs: &AtomicBool, good: &AtomicU64, bad: &AtomicU64) {
        let https = self.tunnel.as_ref().map(|_| Https::new(self.doorbell.addr));
        while runs.load(Ordering::Relaxed) {
            let http2 = ask(self.addr(), "/readyz").is_ok_and(|(good, content)| good && content == b"up\n");
            let http1 = match &https {
                Some(https) => https.get("/readyz").is_ok_and(|reply| reply.status == 200),
                None => Shape::Curl
                    .probe(self.doorbell.addr, "/readyz")
                    .is_ok_and(|reply| reply.bytes.starts_with(b"HTTP/1.1 200")),
            };
            for answered in [http2, http1] {
                if answered { good } else { bad }.fetch_add(1, Ordering::Relaxed);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Attacks a default listener with these settings. Each connection must end within [`ENDED_MAX`];
/// then the next connection starts.
fn attack(by: By, why: &str, settings: &[u8], wave: Wave<'_>) {
    let target = by.start();
    let addr = target.addr();
    for _ in 0..20 {
        assert!(ask(addr, "/hello").unwrap().0);
    }
    let pid = target.doorbell.process.pid();
    let before = process::rss_bytes(&pid).unwrap();
    let (good, bad, runs) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(true));
    let (conns, longest, most) = thread::scope(|scope| {
        let _stop = StopAtEnd(&runs);
        scope.spawn(|| target.be_good(&runs, &good, &bad));
        let until = Instant::now() + Duration::from_secs(by.seconds());
        let (mut conns, mut longest, mut most) = (0, Duration::ZERO, before);
        while Instant::now() < until {
            let took = one(addr, settings, wave, &mut || {
                most = most.max(process::rss_bytes(&pid).unwrap());
            });
            longest = longest.max(took);
            conns += 1;
        }
        (conns, longest, most)
    });
    let growth = most.saturating_sub(before);
    let (good, bad) = (good.into_inner(), bad.into_inner());
    let Target { doorbell, tunnel, _files } = target;
    drop(tunnel);
    let totals = doorbell.totals();
    let refused = totals["refused"].as_str().unwrap();
    eprintln!(
        "{by:?}: {conns} connections, the longest for {longest:?}; {} KiB more; {good} good clients answered, {bad} not; {refused}",
        growth / 1024
    );
    at_most(format_args!("{by:?}: lifetime of an attacking connection"), longest, ENDED_MAX);
    assert!(growth <= GROWTH_MAX, "{growth} bytes");
    assert!(good > 0 && bad * 1000 <= good + bad, "{good} good, {bad} bad");
    assert!(why.split('|').any(|why| refused.contains(why)), "{refused}");
}

/// Runs one attacking connection and returns the time until it ended.
fn one(addr: SocketAddr, settings: &[u8], wave: Wave<'_>, look: &mut dyn FnMut()) -> Duration {
    let began = Instant::now();
    let Ok(mut peer) = Peer::connect(addr, settings) else { return Duration::ZERO };
    peer.0.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    // Reads the server's output, so that the attack is the only reason to end the connection.
    let mut reader = Peer(peer.0.try_clone().unwrap());
    let ended = thread::spawn(move || reader.ending(Duration::from_secs(5)));
    for count in 0.. {
        let bytes = wave(count);
        if bytes.is_empty() {
            thread::sleep(Duration::from_millis(20));
        }
        let written = peer.write(&bytes);
        if count % 64 == 0 {
            look();
        }
        let is_over = written.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock);
        if is_over || ended.is_finished() || began.elapsed() > ENDED_MAX * 2 {
            break;
        }
    }
    let took = began.elapsed();
    look();
    drop(peer);
    let _ = ended.join();
    took
}

fn odd(count: u32) -> u32 {
    count * 2 + 1
}

fn rapid_reset(by: By) {
    attack(by, "http2_reset_flood|http2_protocol", &[], &|count| {
        [get(odd(count), "/hello"), frame(RST_STREAM, 0, odd(count), &[0, 0, 0, 8])].concat()
    });
}

/// Causes the server to reset streams, by growing their window beyond its maximum (RFC 9113 6.9.1).
fn made_you_reset(by: By) {
    attack(by, "http2_reset_flood|http2_protocol", &NO_WINDOW, &|count| {
        [get(odd(count), "/hello"), frame(WINDOW_UPDATE, 0, odd(count), &[0x7f, 0xff, 0xff, 0xff]).repeat(2)]
            .concat()
    });
}

fn continuation_flood(by: By) {
    let begun = frame(HEADERS, END_STREAM, 1, &block("GET", "/hello"));
    attack(by, "http2_continuation_flood|http2_protocol", &[], &|count| match count {
        0 => begun.clone(),
        _ => frame(CONTINUATION, 0, 1, &[]),
    });
}

fn empty_data(by: By) {
    let begun = frame(HEADERS, END_HEADERS, 1, &block("POST", "/hello"));
    attack(by, "http2_tiny_data_flood|http2_protocol", &[], &|count| match count {
        0 => begun.clone(),
        _ => frame(DATA, 0, 1, &[]).repeat(10),
    });
}

fn settings_flood(by: By) {
    attack(by, "http2_control_flood", &[], &|_| frame(SETTINGS, 0, 0, &[]).repeat(10));
}

fn ping_flood(by: By) {
    attack(by, "http2_control_flood", &[], &|_| frame(PING, 0, 0, &[7; 8]).repeat(10));
}

fn window_update_flood(by: By) {
    let one_more = frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]);
    attack(by, "http2_window_update_flood", &[], &|_| one_more.repeat(10));
}

/// A field of 4,000 bytes enters the dynamic table once. After that each byte of a header block
/// refers to it.
fn hpack_bomb(by: By) {
    let name_and_value = [&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e][..], &[b'a'; 4000]].concat();
    let put = [block("GET", "/hello"), name_and_value].concat();
    let many = [block("GET", "/hello"), vec![0xbe; 16_000]].concat();
    attack(by, "http2_header_flood|http2_protocol", &[], &|count| {
        let fields = if count == 0 { &put } else { &many };
        frame(HEADERS, END_STREAM | END_HEADERS, odd(count), fields)
    });
}

/// Requests whose replies must not be sent, because the window is zero.
fn zero_window_stall(by: By) {
    attack(by, "http2_windowless", &NO_WINDOW, &a_hundred_and_nothing_more);
}

/// As [`zero_window_stall`], with a window of one byte for each reply.
fn small_window_stall(by: By) {
    let window_of_1 = [0, 4, 0, 0, 0, 1];
    attack(by, "http2_windowless", &window_of_1, &a_hundred_and_nothing_more);
}

/// Reads some replies, then closes the window and sends more requests.
fn window_that_closes_later(by: By) {
    attack(by, "http2_windowless", &[], &|count| match count {
        0..10 => get(odd(count), "/hello"),
        10..13 => Vec::new(),
        13 => frame(SETTINGS, 0, 0, &NO_WINDOW),
        14..100 => get(odd(count), "/hello"),
        _ => Vec::new(),
    });
}

fn a_hundred_and_nothing_more(count: u32) -> Vec<u8> {
    match count {
        0..100 => get(odd(count), "/hello"),
        _ => Vec::new(),
    }
}
