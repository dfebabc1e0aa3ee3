//! Failing handshakes: thousands of garbage connections next to good clients, and peers that stop
//! in the middle of a handshake.
//!
//! `DOORBELL_FULL=1` sends 10,000 garbage connections a second.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doorbell_testkit::peers::{End, connect_from, finish, misbehave, percentile, process, wait_until};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use crate::http2;
use crate::https::Https;
use crate::pki::localhost;
use crate::support::{Doorbell, LIMIT, Scratch, StopAtEnd, at_most, on_both_engines};

on_both_engines! {
    good_clients_get_through_garbage
    half_open_handshakes_end
    a_handshake_that_is_handed_over_has_one_time
}

/// Threads of garbage clients. Each thread opens one connection at a time.
const ATTACKERS: u8 = 4;
const GOOD_CLIENTS: u8 = 4;
/// Pause between requests of a good client, below the default limit of 50 handshakes a second.
const GOOD_PAUSE: Duration = Duration::from_millis(25);

fn serve(engine: &str, scratch: &Scratch, lines: &str) -> Doorbell {
    let (cert, key) = localhost().write(scratch, "tls");
    Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[runtime]\nworkers = 2\n[tls.web]\ncert = {cert:?}\nkey = {key:?}\n\
             [listener.web]\nbind = \"127.0.0.1:0\"\ntls = \"web\"\n{lines}\n\
             [route.hello]\npath = \"/hello\"\nreply = {{ body = \"hello\\n\" }}\n"
        ),
    )
}

/// A valid ClientHello.
fn hello(server: SocketAddr) -> Vec<u8> {
    hello_with(server, &[])
}

/// A valid ClientHello with these ALPN protocols.
fn hello_with(server: SocketAddr, alpn: &[&[u8]]) -> Vec<u8> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut config = Https::new(server).config();
    Arc::make_mut(&mut config).alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let mut session = ClientConnection::new(config, name).unwrap();
    let mut bytes = Vec::new();
    session.write_tls(&mut bytes).unwrap();
    bytes
}

/// Kinds of garbage: noise, a TLS record of noise, a ClientHello of noise, a damaged ClientHello,
/// and an application data record.
fn garbage(hello: &[u8]) -> [Vec<u8>; 5] {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = |len: usize| -> Vec<u8> {
        let next = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        (0..len).map(next).collect()
    };
    let record = |kind: u8, body: Vec<u8>| -> Vec<u8> {
        [&[kind, 3, 1][..], &u16::try_from(body.len()).unwrap().to_be_bytes(), &body].concat()
    };
    let handshake = [&[1, 0, 1, 0][..], &noise(256)].concat();
    let mut damaged = hello.to_vec();
    (40..damaged.len()).step_by(7).for_each(|at| damaged[at] ^= 0x55);
    [noise(300), record(22, noise(300)), record(22, handshake), damaged, record(23, noise(64))]
}

#[derive(Debug, Default)]
struct Good {
    took: Vec<Duration>,
    lost: Vec<String>,
}

fn good_clients_get_through_garbage(engine: &str) {
    let full = std::env::var_os("DOORBELL_FULL").is_some();
    let (rate, lasts) =
        if full { (10_000, Duration::from_secs(10)) } else { (2_000, Duration::from_secs(2)) };
    let scratch = Scratch::new();
    let doorbell = serve(engine, &scratch, "");
    let attacking = AtomicBool::new(true);
    let garbage = garbage(&hello(doorbell.addr));
    let start = Instant::now();
    let (sent, good) = thread::scope(|scope| {
        let end = StopAtEnd(&attacking);
        let (attacking, garbage, server) = (&attacking, &garbage, doorbell.addr);
        let attackers: Vec<_> = (0..ATTACKERS)
            .map(|n| scope.spawn(move || attack(server, n, rate / u32::from(ATTACKERS), garbage, attacking)))
            .collect();
        let https = Https::new(server);
        let clients: Vec<_> = (0..GOOD_CLIENTS)
            .map(|n| {
                let https = https.at(Ipv4Addr::new(127, 0, 3, n + 1));
                scope.spawn(move || ask_until(&https, attacking))
            })
            .collect();
        thread::sleep(lasts);
        drop(end);
        let sent: u32 = attackers.into_iter().map(|attacker| attacker.join().unwrap()).sum();
        let good = clients.into_iter().map(|client| client.join().unwrap());
        let good = good.reduce(|mut all, one| {
            all.took.extend(one.took);
            all.lost.extend(one.lost);
            all
        });
        (sent, good.unwrap())
    });
    let Good { mut took, lost } = good;
    let reached = f64::from(sent) / start.elapsed().as_secs_f64();
    eprintln!(
        "{engine}: {sent} garbage hellos, {reached:.0} a second; {} good requests, {} lost; p50 {:?}, p99 {:?}",
        took.len(),
        lost.len(),
        percentile(&mut took, 50.0),
        percentile(&mut took, 99.0)
    );
    // Only the long version requires the full rate.
    let reached_min = if full { f64::from(rate) * 0.9 } else { 1.0 };
    assert!(!took.is_empty() && reached >= reached_min, "only {reached:.0} hellos a second");
    assert!(lost.len() * 99 <= took.len(), "{:?}", &lost[..lost.len().min(5)]);
    assert!(!doorbell.process.log().contains("ERROR"), "{}", doorbell.process.log());
}

/// Sends garbage at up to this rate and returns the number of connections. Some clients read the
/// alert, some close, some reset.
fn attack(server: SocketAddr, number: u8, rate: u32, garbage: &[Vec<u8>], attacking: &AtomicBool) -> u32 {
    let (start, mut sent) = (Instant::now(), 0_u32);
    while attacking.load(Ordering::Relaxed) {
        let due = Duration::from_secs_f64(f64::from(sent) / f64::from(rate));
        thread::sleep(due.saturating_sub(start.elapsed()));
        let source = Ipv4Addr::new(127, 0, 8 + number, u8::try_from(sent % 200).unwrap() + 1);
        let Ok(mut stream) = connect_from(source, server) else { continue };
        let _ = stream.write_all(&garbage[sent as usize % garbage.len()]);
        match sent % 4 {
            0 => {
                let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
                let _ = stream.read(&mut [0; 64]);
            }
            1 => drop(misbehave::reset(&stream)),
            _ => {}
        }
        sent += 1;
    }
    sent
}

fn ask_until(https: &Https, attacking: &AtomicBool) -> Good {
    let mut good = Good::default();
    while attacking.load(Ordering::Relaxed) {
        let start = Instant::now();
        match https.get("/hello") {
            Ok(reply) if reply.status == 200 => good.took.push(start.elapsed()),
            other => good.lost.push(format!("{other:?}")),
        }
        thread::sleep(GOOD_PAUSE);
    }
    good
}

/// Default limit for the time of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Additional time on a busy machine.
const SLACK: Duration = Duration::from_secs(1);

/// After 5 s the server ends the handshake, sends a FIN, and frees the permit and the slot.
fn half_open_handshakes_end(engine: &str) {
    let scratch = Scratch::new();
    // Deferred accept is off, so that a silent client counts from the start.
    let doorbell = serve(engine, &scratch, "tcp = { defer_accept = false }");
    let pid = doorbell.process.pid();
    let fds = || process::fds(&pid).unwrap();
    let hello = hello(doorbell.addr);
    let in_use = doorbell.fds_at_rest();
    let parts = [&[][..], &hello[..1], &hello[..hello.len() / 2], &hello[..]];
    let start = Instant::now();
    let mut streams: Vec<(usize, TcpStream)> = (0..80)
        .map(|n| {
            let (source, kind) = (Ipv4Addr::new(127, 0, 4, n % 8 + 1), usize::from(n) % parts.len());
            let mut stream = connect_from(source, doorbell.addr).unwrap();
            stream.write_all(parts[kind]).unwrap();
            (kind, stream)
        })
        .collect();
    let opened = start.elapsed();
    let taken = wait_until(HANDSHAKE / 2, || fds() >= in_use + streams.len());
    assert!(taken.is_some(), "{} descriptors in use, {in_use} before", fds());
    let (mut first, mut last) = (Duration::MAX, Duration::ZERO);
    for (kind, stream) in &mut streams {
        let got = finish(stream, Duration::from_secs(15));
        assert_ne!(got.end, End::Silence, "still open after {} bytes", parts[*kind].len());
        (first, last) = (first.min(start.elapsed()), last.max(start.elapsed()));
    }
    let freed = wait_until(LIMIT, || fds() <= in_use).map(|_| start.elapsed());
    eprintln!(
        "{engine}: 80 half-open handshakes, opened within {opened:?}, ended after {first:?} to {last:?}, slots free after {freed:?}"
    );
    assert!(first + SLACK / 2 >= HANDSHAKE, "a handshake ended before its timeout: {first:?}");
    let soon = opened + HANDSHAKE + SLACK;
    at_most(format_args!("{engine}: time until the last half-open handshake ended"), last, soon);
    at_most(format_args!("{engine}: time until all slots were free"), freed.expect("slots are freed"), soon);
    drop(streams);
    assert_eq!(Https::new(doorbell.addr).get("/hello").unwrap().status, 200);
}

/// The client sends its ClientHello slowly, and the HTTP/2 runtime continues the handshake. The
/// time before the hand-over counts toward the limit.
fn a_handshake_that_is_handed_over_has_one_time(engine: &str) {
    const WHOLE: Duration = Duration::from_secs(3);
    let scratch = Scratch::new();
    let (cert, key) = localhost().write(&scratch, "tls");
    let tls = format!("[tls.a]\ncert = {cert:?}\nkey = {key:?}\nhandshake_timeout = \"3s\"\n");
    let listener = "tls = \"a\"\ntcp = { defer_accept = false }";
    let doorbell = Doorbell::start_with(engine, &http2::config(listener, &tls));
    let hello = hello_with(doorbell.addr, &[b"h2"]);
    let (first, rest) = hello.split_at(hello.len() / 2);
    let start = Instant::now();
    let mut stream = TcpStream::connect(doorbell.addr).unwrap();
    stream.write_all(first).unwrap();
    thread::sleep(WHOLE * 2 / 3);
    stream.write_all(rest).unwrap();
    // The server sends its part of the handshake; the client does not answer.
    let got = finish(&mut stream, LIMIT);
    let took = start.elapsed();
    assert!(!got.bytes.is_empty() && got.end != End::Silence, "{got:?}");
    assert!(took + SLACK / 2 >= WHOLE, "{took:?}");
    // If the time limit started again with the second part, the handshake would end two thirds of
    // the limit later.
    at_most(format_args!("{engine}: a handshake in two halves"), took, WHOLE + SLACK);
    assert!(doorbell.totals()["refused"].as_str().unwrap().contains("http2_handshakes_refused=1"));
}
