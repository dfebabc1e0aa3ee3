//! Tests of TLS on real sockets and both drivers: curl and a blocking client, ends without resets,
//! floods, deadlines, certificate changes under load, drains.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doorbell::tls::{Acceptor, TlsConfig, TlsLimits};
use doorbell::{CloseReason, Engine, Http1, Server, Status};
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::memory::{LARGE_LEN, VERSIONS, answer, client, client_config, config};
use crate::pki::{Wish, ca, localhost};
use crate::promise::{addr, anywhere, builder, on_both_engines, sized, skipped};

on_both_engines! {
    curl_gets_a_reply
    a_blocking_client_gets_a_reply_and_a_clean_end
    a_close_notify_after_ours_causes_no_reset
    plain_http_gets_its_400_without_a_reset
    half_open_handshakes_are_gone_at_their_deadline
    a_quarter_of_the_slots_may_be_in_handshakes
    the_quarter_is_of_all_listeners_together
    the_quarter_is_of_a_server_and_its_successor_together
    a_hello_in_two_segments_gets_its_alert
    good_clients_get_through_a_flood_of_garbage
    swaps_under_load_fail_no_client
    a_drain_closes_idle_sessions_cleanly
    a_drain_waits_for_a_first_request_behind_its_handshake
    an_invalid_reply_inside_a_session_is_counted
}

const WAIT: Duration = Duration::from_secs(20);

fn serve(engine: Engine, acceptor: &Acceptor) -> Server {
    builder(engine)
        .listen(anywhere(), Http1::new(doorbell::service_fn(answer)).tls(acceptor.clone()))
        .start()
        .unwrap()
}

fn new_acceptor() -> Acceptor {
    Acceptor::new(&config()).unwrap()
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn session(to: SocketAddr, config: &Arc<ClientConfig>) -> StreamOwned<ClientConnection, TcpStream> {
    StreamOwned::new(client(config), connect(to))
}

/// Sends one request with `Connection: close` and returns all plaintext up to the close_notify. An
/// end without a close_notify is an error.
fn ask(to: SocketAddr, config: &Arc<ClientConfig>, path: &str) -> std::io::Result<String> {
    let mut session = StreamOwned::new(client(config), TcpStream::connect(to)?);
    session.sock.set_read_timeout(Some(WAIT))?;
    session.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut reply = String::new();
    session.read_to_string(&mut reply)?;
    Ok(reply)
}

fn is_curl_here() -> bool {
    let here = Command::new("curl").arg("--version").output().is_ok_and(|output| output.status.success());
    if !here {
        skipped("curl is not installed; TLS was not tested with it");
    }
    here
}

fn curl_gets_a_reply(engine: Engine) {
    if !is_curl_here() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("doorbell-curl-{engine:?}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let bundle = folder.join("ca.pem");
    std::fs::write(&bundle, ca().pem()).unwrap();
    let server = serve(engine, &new_acceptor());
    let port = addr(&server).port();
    let resolve = format!("localhost:{port}:127.0.0.1");
    let base = format!("https://localhost:{port}");
    let curl = |options: &[&str], urls: &[String]| {
        let output = Command::new("curl")
            .args(["-sS", "--max-time", "20", "--noproxy", "*", "--resolve", &resolve, "--cacert"])
            .arg(&bundle)
            .args(options)
            .args(urls)
            .output()
            .unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        (String::from_utf8(output.stdout).unwrap(), complaint, output.status.code())
    };
    for (options, version) in [(&["--tls-max", "1.2"], "1.2"), (&["--tls-max", "1.3"], "1.3")] {
        let (body, complaint, code) = curl(options, &[format!("{base}/client"), format!("{base}/")]);
        assert_eq!(code, Some(0), "{complaint}");
        let alpn = if body.contains("alpn=http/1.1") { "http/1.1" } else { "-" };
        let expected = format!("name=localhost alpn={alpn} client=- version={version} resumed=falseok\n");
        assert_eq!(body, expected);
    }
    let (body, complaint, code) = curl(&[], &[format!("{base}/large")]);
    assert_eq!((body.len(), code), (LARGE_LEN, Some(0)), "{complaint}");
    let (body, _, _) = curl(&["--http0.9"], &[format!("http://localhost:{port}/")]);
    assert_eq!(body, "This port requires TLS: use https:// here\n");
    std::fs::remove_dir_all(&folder).unwrap();
}

fn a_blocking_client_gets_a_reply_and_a_clean_end(engine: Engine) {
    let acceptor = new_acceptor();
    let server = serve(engine, &acceptor);
    for version in VERSIONS {
        let config = Arc::new(client_config(version, None));
        let mut session = session(addr(&server), &config);
        for _ in 0..10 {
            session.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let mut reply = Vec::new();
            while !reply.ends_with(b"ok\n") {
                let mut some = [0; 500];
                let len = session.read(&mut some).unwrap();
                reply.extend_from_slice(&some[..len]);
            }
        }
        drop(session);
        for (path, len) in [("/", 3), ("/large", LARGE_LEN)] {
            let reply = ask(addr(&server), &config, path).unwrap();
            assert_eq!(reply.split_once("\r\n\r\n").unwrap().1.len(), len, "{version:?}");
        }
    }
    assert_eq!(acceptor.stats().handshakes_live, 0);
    let sum = server.stats();
    assert_eq!(sum.requests, 2 * 12);
    server.stop().unwrap();
}

fn a_close_notify_after_ours_causes_no_reset(engine: Engine) {
    let server = serve(engine, &new_acceptor());
    for version in VERSIONS {
        let config = Arc::new(client_config(version, None));
        let mut session = session(addr(&server), &config);
        session.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut reply = String::new();
        session.read_to_string(&mut reply).unwrap();
        assert!(reply.ends_with("ok\n"));
        // The server's close_notify was read. The client's close_notify follows late, and a reset
        // has time to arrive.
        thread::sleep(Duration::from_millis(20));
        session.conn.send_close_notify();
        session.conn.write_tls(&mut session.sock).unwrap();
        thread::sleep(Duration::from_millis(20));
        let rest = session.sock.read(&mut [0; 100]);
        assert!(matches!(rest, Ok(0)), "{version:?}: {rest:?}");
        session.sock.write_all(b"x").unwrap();
    }
}

fn plain_http_gets_its_400_without_a_reset(engine: Engine) {
    let acceptor = new_acceptor();
    let server = serve(engine, &acceptor);
    let mut stream = connect(addr(&server));
    stream.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n").unwrap();
    stream.write_all(&[b'x'; 20_000]).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(
        reply.starts_with("HTTP/1.1 400 Bad Request\r\n") && reply.ends_with("use https:// here\n"),
        "{reply}"
    );
    assert_eq!(acceptor.stats().plain_http, 1);
}

fn half_open_handshakes_are_gone_at_their_deadline(engine: Engine) {
    let acceptor = new_acceptor();
    let server = serve(engine, &acceptor);
    let began = Instant::now();
    let mut halves: Vec<TcpStream> = (0..20).map(|_| connect(addr(&server))).collect();
    for half in &mut halves {
        half.write_all(&[22, 3, 1, 1, 0, 1]).unwrap();
    }
    // An occasional byte must not extend the deadline: otherwise this connection would stay open
    // until all its 256 bytes are sent.
    let mut dripping = connect(addr(&server));
    dripping.write_all(&[22, 3, 1, 1, 0, 1, 0, 0, 252]).unwrap();
    dripping.set_nonblocking(true).unwrap();
    wait_until(|| {
        let _until_it_is_ended = (&dripping).write_all(&[0]);
        thread::sleep(Duration::from_millis(250));
        (&dripping).read(&mut [0; 10]).is_ok()
    });
    for half in &mut halves {
        let end = half.read(&mut [0; 10]);
        assert!(matches!(end, Ok(0)), "{end:?}");
    }
    assert!(began.elapsed() > Duration::from_millis(4_900), "{:?}", began.elapsed());
    let stats = acceptor.stats();
    assert_eq!((stats.handshakes_timed_out, stats.handshakes_live), (21, 0), "{stats:?}");
    // The clients are still connected, and occupy no slot.
    wait_until(|| server.stats().closed_because(CloseReason::HandshakeTimeout) == 21);
}

fn a_quarter_of_the_slots_may_be_in_handshakes(engine: Engine) {
    let acceptor = new_acceptor();
    let server = builder(engine)
        .conns_max(40)
        .listen(anywhere(), Http1::new(doorbell::service_fn(answer)).tls(acceptor.clone()))
        .start()
        .unwrap();
    let config = Arc::new(client_config(VERSIONS[1], None));
    let mut halves = Vec::new();
    for count in 1..=10 {
        let mut half = connect(addr(&server));
        half.write_all(&[22]).unwrap();
        halves.push(half);
        wait_until(|| acceptor.stats().handshakes_live == count);
    }
    let refused = ask(addr(&server), &config, "/").unwrap_err();
    assert!(refused.to_string().contains("InternalError"), "{refused}");
    let stats = acceptor.stats();
    assert_eq!((stats.handshakes_over_cap, stats.handshakes_live), (1, 10), "{stats:?}");
    drop(halves);
    wait_until(|| acceptor.stats().handshakes_live == 0);
    assert!(ask(addr(&server), &config, "/").is_ok(), "a handshake is possible again");
    assert_eq!(server.stats().closed_because(CloseReason::HandshakeCap), 1);
}

fn the_quarter_is_of_all_listeners_together(engine: Engine) {
    let acceptors = [new_acceptor(), new_acceptor()];
    let tls = |which: usize| Http1::new(doorbell::service_fn(answer)).tls(acceptors[which].clone());
    let builder = builder(engine).conns_max(40);
    let server = builder.listen(anywhere(), tls(0)).listen(anywhere(), tls(1)).start().unwrap();
    let config = Arc::new(client_config(VERSIONS[1], None));
    let live = || acceptors.iter().map(|acceptor| acceptor.stats().handshakes_live).sum::<u64>();
    let to = |which| server.tcp_addr(which).unwrap();
    let mut halves = Vec::new();
    for count in 1..=10 {
        let mut half = connect(to(usize::from(count > 6)));
        half.write_all(&[22]).unwrap();
        halves.push(half);
        wait_until(|| live() == count);
    }
    for which in [0, 1] {
        assert!(ask(to(which), &config, "/").is_err(), "listener {which}: ten of forty are in handshakes");
        assert_eq!(acceptors[which].stats().handshakes_over_cap, 1);
    }
    drop(halves);
    wait_until(|| live() == 0);
    assert!(
        ask(to(0), &config, "/").is_ok() && ask(to(1), &config, "/").is_ok(),
        "handshakes are possible again"
    );
}

/// An alert for a ClientHello in two segments must not be overtaken by a reset. A ClientHello with
/// post-quantum keys is larger than a segment.
fn a_hello_in_two_segments_gets_its_alert(engine: Engine) {
    let limits = TlsLimits { handshakes_max: Some(1), ..TlsLimits::default() };
    let acceptor = Acceptor::with_limits(&config(), limits, None).unwrap();
    let server = serve(engine, &acceptor);
    let mut hello = vec![22, 3, 1, 5, 220, 1, 0, 5, 216, 3, 3];
    hello.resize(5 + 1500, 0xa5);
    let mut too_long = hello.clone();
    too_long[6..9].copy_from_slice(&[0, 64, 1]);
    let refused = |wire: &[u8], alert: u8, is_refused: &dyn Fn() -> bool| {
        let mut stream = connect(addr(&server));
        let (first, rest) = wire.split_at(700);
        stream.write_all(first).unwrap();
        wait_until(is_refused);
        thread::sleep(Duration::from_millis(20));
        stream.write_all(rest).unwrap();
        thread::sleep(Duration::from_millis(20));
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        assert_eq!(reply, [21, 3, 3, 0, 2, 2, alert]);
    };
    refused(&too_long, 50, &|| acceptor.stats().handshakes_failed == 1);
    let mut half = connect(addr(&server));
    half.write_all(&[22]).unwrap();
    wait_until(|| acceptor.stats().handshakes_live == 1);
    refused(&hello, 80, &|| acceptor.stats().handshakes_over_cap == 1);
}

fn wait_until(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < WAIT, "the condition did not become true");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Clients are served during a flood of garbage. The promise is for 10,000 connections per second;
/// this test uses less, for a debug build on a shared machine.
fn good_clients_get_through_a_flood_of_garbage(engine: Engine) {
    let acceptor = new_acceptor();
    let server = serve(engine, &acceptor);
    let to = addr(&server);
    let (rate, time) = (sized(1_000_u32, 10_000), sized(Duration::from_secs(1), Duration::from_secs(5)));
    let over = Arc::new(AtomicBool::new(false));
    let thrown = Arc::new(AtomicU64::new(0));
    let flood = {
        let (over, thrown) = (Arc::clone(&over), Arc::clone(&thrown));
        thread::spawn(move || {
            let mut garbage = vec![22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3];
            garbage.resize(5 + 256, 0xa5);
            let began = Instant::now();
            while !over.load(Ordering::Relaxed) {
                let due = u64::from(rate) * u64::try_from(began.elapsed().as_micros()).unwrap() / 1_000_000;
                if thrown.load(Ordering::Relaxed) >= due {
                    thread::sleep(Duration::from_micros(200));
                    continue;
                }
                let Ok(mut stream) = TcpStream::connect(to) else { continue };
                let _refused = stream.write_all(&garbage);
                thrown.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let config = Arc::new(client_config(VERSIONS[1], None));
    let began = Instant::now();
    let (mut asked, mut answered) = (0_u64, 0_u64);
    while began.elapsed() < time || asked <= 20 {
        asked += 1;
        answered += u64::from(ask(to, &config, "/").is_ok_and(|reply| reply.ends_with("ok\n")));
    }
    over.store(true, Ordering::Relaxed);
    flood.join().unwrap();
    assert!(answered * 100 >= asked * 99, "{answered} of {asked} were answered");
    wait_until(|| acceptor.stats().handshakes_live == 0);
    let stats = acceptor.stats();
    let refused = stats.handshakes_failed + stats.handshakes_abandoned;
    assert!(refused * 10 >= thrown.load(Ordering::Relaxed) * 9, "{stats:?}");
}

fn swaps_under_load_fail_no_client(engine: Engine) {
    let acceptor = new_acceptor();
    let server = serve(engine, &acceptor);
    let to = addr(&server);
    let over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = VERSIONS
        .into_iter()
        .map(|version| {
            let over = Arc::clone(&over);
            thread::spawn(move || {
                let config = Arc::new(client_config(version, None));
                let mut answered = 0_u32;
                while !over.load(Ordering::Relaxed) {
                    let reply = ask(to, &config, "/").unwrap();
                    assert!(reply.ends_with("ok\n"));
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    let other = ca().sign(Wish { names: &["localhost"], serial: 71, ..Wish::default() });
    let both = [TlsConfig::new(localhost().pair()), TlsConfig::new(other.pair())];
    for swap in 0..sized(300, 1_000) {
        assert!(acceptor.replace(&both[(swap + 1) % 2]).unwrap());
        thread::sleep(Duration::from_millis(1));
    }
    over.store(true, Ordering::Relaxed);
    for client in clients {
        assert!(client.join().unwrap() > 5, "requests were sent throughout");
    }
    let stats = acceptor.stats();
    assert_eq!((stats.handshakes_failed, stats.handshakes_abandoned), (0, 0), "{stats:?}");
}

fn a_drain_closes_idle_sessions_cleanly(engine: Engine) {
    let server = serve(engine, &new_acceptor());
    let config = Arc::new(client_config(VERSIONS[1], None));
    let mut session = session(addr(&server), &config);
    session.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    while !reply.ends_with(b"ok\n") {
        let mut some = [0; 500];
        let len = session.read(&mut some).unwrap();
        reply.extend_from_slice(&some[..len]);
    }
    server.handle().drain();
    let end = session.read(&mut [0; 10]);
    assert!(matches!(end, Ok(0)), "a close_notify, then the end of the stream: {end:?}");
}

fn a_drain_waits_for_a_first_request_behind_its_handshake(engine: Engine) {
    for version in VERSIONS {
        let acceptor = new_acceptor();
        let server = serve(engine, &acceptor);
        let config = Arc::new(client_config(version, None));
        let [mut asks, mut silent] = [(); 2].map(|()| {
            let mut session = session(addr(&server), &config);
            session.conn.complete_io(&mut session.sock).unwrap();
            session
        });
        let done = || acceptor.stats().handshakes_tls12 + acceptor.stats().handshakes_tls13;
        wait_until(|| done() == 2);
        let began = Instant::now();
        server.handle().drain();
        thread::sleep(Duration::from_millis(50));
        asks.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut reply = String::new();
        asks.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 200 ") && reply.contains("Connection: close\r\n"), "{reply}");
        // A silent client gets a close_notify after the linger timeout.
        let end = silent.read(&mut [0; 10]);
        assert!(matches!(end, Ok(0)), "a close_notify, then the end of the stream: {end:?}");
        assert!(began.elapsed() > Duration::from_millis(800), "{:?}", began.elapsed());
        drop((asks, silent));
        server.wait().unwrap();
    }
}

/// A server and its successor together have no more handshakes than the cap of the successor
/// allows.
fn the_quarter_is_of_a_server_and_its_successor_together(engine: Engine) {
    let acceptors = [new_acceptor(), new_acceptor(), new_acceptor()];
    let tls = |which: usize| Http1::new(doorbell::service_fn(answer)).tls(acceptors[which].clone());
    let first = builder(engine).conns_max(40).listen(anywhere(), tls(0)).start().unwrap();
    let place = addr(&first);
    // The successor requests the same address with port 0, and gets the predecessor's port.
    let at_place = anywhere;
    let config = Arc::new(client_config(VERSIONS[1], None));
    let live = || acceptors.iter().map(|acceptor| acceptor.stats().handshakes_live).sum::<u64>();
    let half = |count: u64| {
        let mut half = connect(place);
        half.write_all(&[22]).unwrap();
        wait_until(|| live() == count);
        half
    };
    let mut halves: Vec<TcpStream> = (1..=6).map(half).collect();
    // An abandoned successor does not change the cap.
    drop(builder(engine).conns_max(8).listen(at_place(), tls(1)).succeed(&first.handle()).start().unwrap());
    halves.extend((7..=8).map(half));
    let next =
        builder(engine).conns_max(48).listen(at_place(), tls(2)).succeed(&first.handle()).start().unwrap();
    assert!(next.handle().take_over(WAIT));
    halves.extend((9..=12).map(half));
    assert_eq!([0, 2].map(|which| acceptors[which].stats().handshakes_live), [8, 4]);
    assert!(ask(place, &config, "/").is_err(), "twelve of forty-eight are in handshakes");
    assert_eq!(acceptors[2].stats().handshakes_over_cap, 1);
    halves.drain(..2);
    wait_until(|| live() == 10);
    assert!(
        ask(place, &config, "/").is_ok(),
        "permits returned by the predecessor are available to the successor"
    );
    drop(halves);
}

/// An invalid reply in a TLS session is counted, although its plaintext is encrypted and dropped
/// before the turn ends.
fn an_invalid_reply_inside_a_session_is_counted(engine: Engine) {
    let service =
        doorbell::service_fn(|_, reply| reply.status(Status::OK).header("Content-Length", "1").empty());
    let http = Http1::new(service).tls(new_acceptor());
    let server = builder(engine).listen(anywhere(), http).start().unwrap();
    for (at, version) in VERSIONS.iter().enumerate() {
        let config = Arc::new(client_config(version, None));
        let reply = ask(addr(&server), &config, "/").unwrap();
        assert!(reply.starts_with("HTTP/1.1 500 "), "{reply}");
        wait_until(|| server.stats().handler_misuses == at as u64 + 1);
    }
    server.stop().unwrap();
}
