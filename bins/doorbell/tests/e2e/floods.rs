//! Attacks on HTTP/2, each from one connection at a time: how soon it is ended, what it takes, and what good clients notice.
//!
//! Does not know about: which rule ends which attack. `DOORBELL_FULL=1` goes on with each for ten seconds.

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
use crate::support::{Doorbell, StopAtEnd, on_both_engines};

on_both_engines! {
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

/// How long a connection may go on with an attack, and what the process may grow by.
const ENDED_MAX: Duration = Duration::from_secs(1);
const GROWTH_MAX: u64 = 8 << 20;

/// SETTINGS_INITIAL_WINDOW_SIZE of 0: nothing may be sent.
const NO_WINDOW: [u8; 6] = [0, 4, 0, 0, 0, 0];

/// The part of an attack that comes again and again, by how often it came before.
type Wave<'a> = &'a dyn Fn(u32) -> Vec<u8>;

/// An attack with these settings on a listener as it is by default. Each connection is to end within `ended_max`; then comes the next.
fn attack(engine: &str, why: &str, settings: &[u8], ended_max: Duration, wave: Wave<'_>) {
    attack_listener(engine, "", why, settings, ended_max, wave);
}

fn attack_listener(
    engine: &str,
    listener: &str,
    why: &str,
    settings: &[u8],
    ended_max: Duration,
    wave: Wave<'_>,
) {
    let seconds = if std::env::var_os("DOORBELL_FULL").is_some() { 10 } else { 2 };
    let doorbell = Doorbell::start_with(engine, &config(listener, ""));
    for _ in 0..20 {
        assert!(ask(doorbell.addr, "/hello").unwrap().0);
    }
    let pid = doorbell.process.pid();
    let before = process::rss_bytes(&pid).unwrap();
    let (good, bad, runs) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(true));
    let addr = doorbell.addr;
    let (conns, longest, most) = thread::scope(|scope| {
        let _stop = StopAtEnd(&runs);
        scope.spawn(|| be_good(addr, &runs, &good, &bad));
        let until = Instant::now() + Duration::from_secs(seconds);
        let (mut conns, mut longest, mut most) = (0, Duration::ZERO, before);
        while Instant::now() < until {
            let took = one(addr, settings, ended_max, wave, &mut || {
                most = most.max(process::rss_bytes(&pid).unwrap());
            });
            longest = longest.max(took);
            conns += 1;
        }
        (conns, longest, most)
    });
    let growth = most.saturating_sub(before);
    let (good, bad) = (good.into_inner(), bad.into_inner());
    let totals = doorbell.totals();
    let refused = totals["refused"].as_str().unwrap();
    eprintln!(
        "{engine}: {conns} connections, the longest for {longest:?}; {} KiB more; {good} good clients answered, {bad} not; {refused}",
        growth / 1024
    );
    assert!(longest <= ended_max, "{longest:?}");
    assert!(growth <= GROWTH_MAX, "{growth} bytes");
    assert!(good > 20 && bad * 1000 <= good + bad, "{good} good, {bad} bad");
    assert!(why.split('|').any(|why| refused.contains(why)), "{refused}");
}

/// Clients of both protocols, one request a connection.
fn be_good(addr: SocketAddr, runs: &AtomicBool, good: &AtomicU64, bad: &AtomicU64) {
    while runs.load(Ordering::Relaxed) {
        let http2 = ask(addr, "/readyz").is_ok_and(|(good, content)| good && content == b"up\n");
        let http1 =
            Shape::Curl.probe(addr, "/readyz").is_ok_and(|reply| reply.bytes.starts_with(b"HTTP/1.1 200"));
        for answered in [http2, http1] {
            if answered { good } else { bad }.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// One connection of an attack, until it is ended: how long it took.
fn one(
    addr: SocketAddr,
    settings: &[u8],
    ended_max: Duration,
    wave: Wave<'_>,
    look: &mut dyn FnMut(),
) -> Duration {
    let began = Instant::now();
    let Ok(mut peer) = Peer::connect(addr, settings) else { return Duration::ZERO };
    peer.0.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    // What the server says is read, so that it has no other reason to end the connection.
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
        if is_over || ended.is_finished() || began.elapsed() > ended_max * 2 {
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

fn rapid_reset(engine: &str) {
    attack(engine, "http2_reset_flood|http2_protocol", &[], ENDED_MAX, &|count| {
        [get(odd(count), "/hello"), frame(RST_STREAM, 0, odd(count), &[0, 0, 0, 8])].concat()
    });
}

/// The server is made to reset streams whose window grows beyond all bounds (RFC 9113 6.9.1).
fn made_you_reset(engine: &str) {
    attack(engine, "http2_reset_flood|http2_protocol", &NO_WINDOW, ENDED_MAX, &|count| {
        [get(odd(count), "/hello"), frame(WINDOW_UPDATE, 0, odd(count), &[0x7f, 0xff, 0xff, 0xff]).repeat(2)]
            .concat()
    });
}

fn continuation_flood(engine: &str) {
    let begun = frame(HEADERS, END_STREAM, 1, &block("GET", "/hello"));
    attack(engine, "http2_continuation_flood|http2_protocol", &[], ENDED_MAX, &|count| match count {
        0 => begun.clone(),
        _ => frame(CONTINUATION, 0, 1, &[]),
    });
}

fn empty_data(engine: &str) {
    let begun = frame(HEADERS, END_HEADERS, 1, &block("POST", "/hello"));
    attack(engine, "http2_tiny_data_flood|http2_protocol", &[], ENDED_MAX, &|count| match count {
        0 => begun.clone(),
        _ => frame(DATA, 0, 1, &[]).repeat(10),
    });
}

fn settings_flood(engine: &str) {
    attack(engine, "http2_control_flood", &[], ENDED_MAX, &|_| frame(SETTINGS, 0, 0, &[]).repeat(10));
}

fn ping_flood(engine: &str) {
    attack(engine, "http2_control_flood", &[], ENDED_MAX, &|_| frame(PING, 0, 0, &[7; 8]).repeat(10));
}

fn window_update_flood(engine: &str) {
    let one_more = frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]);
    attack(engine, "http2_window_update_flood", &[], ENDED_MAX, &|_| one_more.repeat(10));
}

/// A field of 4,000 bytes is put into the table once; then each byte of a block stands for it.
fn hpack_bomb(engine: &str) {
    let name_and_value = [&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e][..], &[b'a'; 4000]].concat();
    let put = [block("GET", "/hello"), name_and_value].concat();
    let many = [block("GET", "/hello"), vec![0xbe; 16_000]].concat();
    attack(engine, "http2_header_flood|http2_protocol", &[], ENDED_MAX, &|count| {
        let fields = if count == 0 { &put } else { &many };
        frame(HEADERS, END_STREAM | END_HEADERS, odd(count), fields)
    });
}

/// Requests whose replies may not be sent at all.
fn zero_window_stall(engine: &str) {
    attack(engine, "http2_windowless", &NO_WINDOW, ENDED_MAX, &a_hundred_and_nothing_more);
}

/// The same with a window that lets out a byte of each reply.
fn small_window_stall(engine: &str) {
    let window_of_1 = [0, 4, 0, 0, 0, 1];
    attack(engine, "http2_windowless", &window_of_1, ENDED_MAX, &a_hundred_and_nothing_more);
}

/// Replies are taken first; then the window is closed and more are asked for.
fn window_that_closes_later(engine: &str) {
    attack(engine, "http2_windowless", &[], ENDED_MAX, &|count| match count {
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
