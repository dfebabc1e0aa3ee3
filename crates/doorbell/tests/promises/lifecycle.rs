//! Promises about the lifecycle of a server: a stop is quick and frees the port, restarts overlap
//! unnoticed, no resource leaks.

#![expect(clippy::disallowed_methods, reason = "the duration of a stop is real time")]
#![expect(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "measurements and skips are printed, and test helpers may panic"
)]

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use doorbell::{Descriptors, Engine, Http1, Listen, Request, Server};
use doorbell_testkit::figures::at_most;
use doorbell_testkit::peers::{
    End, Load, Mode, Reply, Shape, Unique, exchange, finish, misbehave, process, wait_until,
};

use crate::promise::{
    addr, alone, among_few, answer, anywhere, builder, on_both_engines, serve, sized, workers,
};

on_both_engines! {
    an_idle_stop_is_quick_and_frees_the_port
    a_stop_with_clients_is_quick
    a_drain_finishes_requests_in_progress
    a_drain_answers_requests_that_have_arrived
    a_drain_waits_for_a_slow_reader_and_no_longer
    overlapping_restarts_lose_no_request
    nothing_leaks
}

const REQUEST: &[u8] = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

fn an_idle_stop_is_quick_and_frees_the_port(engine: Engine) {
    let _turn = alone();
    let mut worst = (Duration::ZERO, Duration::ZERO);
    for _ in 0..20 {
        let server = serve(engine).start().unwrap();
        let server_addr = addr(&server);
        exchange(server_addr, REQUEST).unwrap();
        wait_until(Duration::from_secs(1), || server.stats().conns_live == 0);
        let start = Instant::now();
        server.stop().unwrap();
        let stop = start.elapsed();
        let start = Instant::now();
        let rebind = TcpListener::bind(server_addr);
        let rebound = start.elapsed();
        rebind.unwrap_or_else(|error| panic!("the port is not free after stop returned: {error}"));
        worst = (worst.0.max(stop), worst.1.max(rebound));
    }
    at_most(format_args!("{engine:?}: slowest of 20 idle stops"), worst.0, Duration::from_millis(10));
    at_most(format_args!("{engine:?}: slowest exclusive re-bind"), worst.1, Duration::from_millis(1));
}

fn a_stop_with_clients_is_quick(engine: Engine) {
    let _turn = alone();
    let server = serve(engine).start().unwrap();
    let server_addr = addr(&server);
    let mut idle: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(server_addr).unwrap()).collect();
    for stream in &mut idle[..50] {
        stream.write_all(&Shape::Envoy.request(server_addr, "/livez")).unwrap();
        misbehave::read_replies(stream, 1, false).unwrap();
    }
    idle[60].write_all(b"GET /half").unwrap();
    let start = Instant::now();
    server.stop().unwrap();
    at_most(format_args!("{engine:?}: stop with 100 clients"), start.elapsed(), Duration::from_millis(500));
    assert!(TcpListener::bind(server_addr).is_ok());
}

fn a_drain_finishes_requests_in_progress(engine: Engine) {
    let _turn = among_few();
    // With one worker, the close of the idle connection shows that the worker has begun the drain
    // before the request continues. Several workers would begin independently.
    let server = serve(engine).workers(workers(1)).start().unwrap();
    let server_addr = addr(&server);
    let mut begun = TcpStream::connect(server_addr).unwrap();
    begun.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n").unwrap();
    let mut kept = TcpStream::connect(server_addr).unwrap();
    kept.write_all(&Shape::Envoy.request(server_addr, "/livez")).unwrap();
    misbehave::read_replies(&mut kept, 1, false).unwrap();
    let seen = wait_until(Duration::from_secs(5), || server.stats().conns_live == 2);
    assert!(seen.is_some(), "{:?}", server.stats());
    let drain = thread::spawn(move || server.drain(Duration::from_secs(10)));
    assert_eq!(
        finish(&mut kept, Duration::from_secs(5)).end,
        End::Fin,
        "idle connections are closed, not reset"
    );
    assert!(!drain.is_finished(), "a request is in progress");
    begun.write_all(b"\r\n").unwrap();
    let got = finish(&mut begun, Duration::from_secs(5));
    let reply = Reply::parse(&got.bytes, false).unwrap();
    assert_eq!((reply.status, reply.field("connection"), got.end), (200, Some("close"), End::Fin));
    drain.join().unwrap().unwrap();
    assert!(TcpStream::connect(server_addr).is_err());
}

/// Clients send their next request while a handler blocks the worker, and then the drain begins. A
/// wait with io_uring reports only a part of the requests.
fn a_drain_answers_requests_that_have_arrived(engine: Engine) {
    let _turn = among_few();
    for descriptors in [Descriptors::Auto, Descriptors::Direct] {
        let (release, released) = channel::<()>();
        let (blocks, blocked) = channel::<()>();
        let both = Mutex::new((blocks, released));
        let service = doorbell::service_fn(move |request: &Request<'_>, reply| {
            if request.path() == "/block" {
                let (blocks, released) = &*both.lock().unwrap();
                blocks.send(()).unwrap();
                released.recv().unwrap();
            }
            answer(request, reply)
        });
        let server = builder(engine)
            .workers(workers(1))
            .descriptors(descriptors)
            .listen(anywhere(), Http1::new(service))
            .start()
            .unwrap();
        let request = Shape::Envoy.request(addr(&server), "/livez");
        let mut clients: Vec<_> = (0..400).map(|_| TcpStream::connect(addr(&server)).unwrap()).collect();
        for client in &mut clients {
            client.write_all(&request).unwrap();
            misbehave::read_replies(client, 1, false).unwrap();
        }
        let mut blocker = TcpStream::connect(addr(&server)).unwrap();
        blocker.write_all(&Shape::Envoy.request(addr(&server), "/block")).unwrap();
        blocked.recv().unwrap();
        for client in &mut clients {
            client.write_all(&request).unwrap();
        }
        server.handle().drain();
        release.send(()).unwrap();
        let ends: Vec<_> = clients
            .iter_mut()
            .map(|client| finish(client, Duration::from_secs(20)))
            .filter(|got| Reply::parse(&got.bytes, false).is_none_or(|reply| reply.status != 200))
            .collect();
        assert!(ends.is_empty(), "{descriptors:?}: {} without a reply: {:?}", ends.len(), ends.first());
        drop(blocker);
        server.wait().unwrap();
    }
}

fn a_drain_waits_for_a_slow_reader_and_no_longer(engine: Engine) {
    const PATIENCE: Duration = Duration::from_secs(20);
    let server = serve(engine).drain_timeout(PATIENCE * 3).start().unwrap();
    let unique = Unique { id: 1, len: 4 << 20 };
    let mut stream = TcpStream::connect(addr(&server)).unwrap();
    let request = format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", unique.path());
    stream.write_all(request.as_bytes()).unwrap();
    thread::sleep(PATIENCE / 80);
    server.handle().drain();
    thread::sleep(PATIENCE / 80);
    let got = finish(&mut stream, PATIENCE);
    let reply = Reply::parse(&got.bytes, false).expect("a whole reply");
    assert_eq!((reply.body.len(), got.end), (unique.len, End::Fin));
    server.wait().unwrap();
}

/// Restarts in which each new server gets a duplicate of the listening socket before the old server
/// drains.
fn overlapping_restarts_lose_no_request(engine: Engine) {
    let _turn = among_few();
    let restarts = 10;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server_addr = listener.local_addr().unwrap();
    let start = || -> Server {
        let copy = listener.try_clone().unwrap();
        builder(engine)
            .listen(Listen::inherited(copy.into()), Http1::new(doorbell::service_fn(answer)))
            .start()
            .unwrap()
    };
    let restarting = AtomicBool::new(true);
    let first = start();
    let (counts, last): (Vec<(usize, Vec<String>)>, Server) = thread::scope(|scope| {
        let mut server = first;
        let clients: Vec<_> =
            (0..4).map(|_| scope.spawn(|| ask_until(server_addr, restarts * 100, &restarting))).collect();
        for _ in 0..restarts {
            let next = start();
            server.drain(Duration::from_secs(10)).unwrap();
            server = next;
            thread::sleep(Duration::from_millis(20));
        }
        restarting.store(false, Ordering::Relaxed);
        (clients.into_iter().map(|client| client.join().unwrap()).collect(), server)
    });
    let asked: usize = counts.iter().map(|(asked, _)| asked).sum();
    let lost: Vec<&String> = counts.iter().flat_map(|(_, lost)| lost).collect();
    eprintln!("{engine:?}: {restarts} overlapping restarts, {asked} requests, {} lost", lost.len());
    assert!(asked >= restarts * 400 && lost.is_empty(), "{} of {asked}: {:?}", lost.len(), lost.first());
    last.stop().unwrap();
}

fn ask_until(server: SocketAddr, least: usize, restarting: &AtomicBool) -> (usize, Vec<String>) {
    let (mut asked, mut lost) = (0, Vec::new());
    while asked < least || restarting.load(Ordering::Relaxed) {
        asked += 1;
        match exchange(server, REQUEST) {
            Ok(got) if got.end == End::Fin && got.bytes.starts_with(b"HTTP/1.1 200") => {}
            other => lost.push(format!("{other:?}")),
        }
    }
    (asked, lost)
}

/// After many connections, some of them aborted in each phase, the process has as many descriptors
/// and uses as much memory as after the first rounds.
///
/// The clients run in the same process. The first rounds have twice as many requests in flight as
/// the others, so that clients and the allocator need no more memory later, and any growth is
/// caused by the server.
fn nothing_leaks(engine: Engine) {
    let _turn = alone();
    let server = serve(engine).start().unwrap();
    let (rounds_before, rounds) = (2, sized(5, 250));
    let aborted = sized(100, 40);
    (0..rounds_before).for_each(|n| round(&server, aborted, 2 * WIDTH, n));
    settle(&server);
    let fds = process::fds("self").unwrap();
    // A leak grows in each round. On a busy machine more connections may be open at once, which
    // increases the memory in one round only.
    let mut grown = Vec::new();
    for time in 0..3 {
        let rss = process::rss_anon_bytes("self").unwrap();
        let first = rounds_before + time * rounds;
        (first..first + rounds).for_each(|n| round(&server, aborted, WIDTH, n));
        settle(&server);
        // Descriptors of an earlier test may have been counted at the start; a leak would be
        // thousands of descriptors.
        let no_more = wait_until(Duration::from_secs(5), || process::fds("self").unwrap() <= fds);
        assert!(no_more.is_some(), "{fds} descriptors became {}", process::fds("self").unwrap());
        grown.push(process::rss_anon_bytes("self").unwrap().saturating_sub(rss));
        let conns = server.stats().conns_accepted;
        eprintln!(
            "{engine:?}: after {conns} connections: no additional descriptor, memory grew by {grown:?}"
        );
        if grown.last().is_some_and(|grown| *grown <= 1 << 20) {
            return server.stop().unwrap();
        }
    }
    panic!("memory grew in each round: {grown:?} bytes");
}

/// Number of requests in flight in the measured rounds.
const WIDTH: u32 = 64;

/// Waits until every connection is closed, including those that the kernel deferred because they
/// never sent a byte (I-8).
fn settle(server: &Server) {
    let settled = wait_until(Duration::from_secs(10), || {
        let stats = server.stats();
        stats.conns_live == 0 && stats.conns_accepted == stats.closed_total()
    });
    assert!(settled.is_some(), "some connections did not close: {:?}", server.stats());
}

/// Runs 4,000 whole connections, and aborts `aborted` connections at each of five points of their
/// lives.
fn round(server: &Server, aborted: usize, in_flight: u32, n: u64) {
    let server = addr(server);
    let load = Load {
        server,
        sources: Vec::new(),
        requests: 4_000,
        in_flight,
        mode: Mode::Close,
        first_id: n << 32,
        patience: Duration::from_secs(60),
    };
    let report = load.run().unwrap();
    assert!(report.is_clean(), "{} {} {}", report.foreign_bytes, report.resets, report.unanswered);
    let phases: [&[u8]; 5] = [
        b"",
        b"GET /live",
        REQUEST,
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nhalf",
        b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n",
    ];
    for phase in phases {
        for n in 0..aborted {
            misbehave::send_and_leave(server, phase, n % 2 == 0).unwrap();
        }
    }
}
