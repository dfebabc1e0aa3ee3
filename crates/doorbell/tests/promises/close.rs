//! Promises about closing listeners under load: every client with a connection gets a reply, and
//! all other clients are refused.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "clients use real time, measurements are printed, and test helpers may panic"
)]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use doorbell::{Descriptors, Engine, Http1, Listen, Server};
use doorbell_testkit::peers::{End, exchange, finish, wait_until};

use crate::promise::{addr, alone, among_few, answer, anywhere, builder, on_both_engines, serve, sized};

on_both_engines! {
    a_close_under_load_resets_no_client
    a_close_of_direct_descriptors_resets_no_client
    a_removed_listener_resets_no_client
    a_removed_socket_file_resets_no_client
    silent_clients_are_accepted_before_the_end
    a_silent_client_of_the_last_moment_does_not_delay_the_end
    sockets_with_copies_stay_open
}

const CLOSE: &[u8] = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const DRAIN: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(5);
const CLIENTS: usize = 16;

/// Sends requests until one is refused. Returns the requests that were lost before the refusal.
fn ask_until_refused(place: SocketAddr, asked: &AtomicUsize) -> Vec<String> {
    let mut lost = Vec::new();
    loop {
        match exchange(place, CLOSE) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return lost,
            Ok(got) if got.end == End::Fin && got.bytes.starts_with(b"HTTP/1.1 200") => {
                asked.fetch_add(1, Ordering::Relaxed);
            }
            other => lost.push(format!("{other:?}")),
        }
    }
}

/// Calls `end`, which closes the listener at `place`, while clients connect one after another.
fn close_under_load(place: SocketAddr, end: impl FnOnce()) -> (usize, Vec<String>) {
    let asked = AtomicUsize::new(0);
    let lost = thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|_| scope.spawn(|| ask_until_refused(place, &asked))).collect();
        assert!(wait_until(PATIENCE, || asked.load(Ordering::Relaxed) >= 10 * CLIENTS).is_some());
        end();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    (asked.into_inner(), lost)
}

/// Repeatedly closes a server started by `make`.
fn closes(engine: Engine, what: &str, make: impl Fn() -> Server, end: impl Fn(Server)) {
    let (mut asked, mut lost) = (0, Vec::new());
    let rounds = sized(2, 200);
    for _ in 0..rounds {
        let server = make();
        let place = addr(&server);
        let (asked_now, lost_now) = close_under_load(place, || end(server));
        asked += asked_now;
        lost.extend(lost_now);
    }
    eprintln!("{engine:?}: {rounds} {what}, {asked} requests, {} lost", lost.len());
    assert!(lost.is_empty(), "{} of {asked}: {:?}", lost.len(), lost.first());
}

fn a_close_under_load_resets_no_client(engine: Engine) {
    let _turn = among_few();
    closes(engine, "closes", || serve(engine).start().unwrap(), |server| server.drain(DRAIN).unwrap());
}

fn a_close_of_direct_descriptors_resets_no_client(engine: Engine) {
    let _turn = among_few();
    let make = || serve(engine).descriptors(Descriptors::Direct).start().unwrap();
    closes(engine, "closes with direct descriptors", make, |server| server.drain(DRAIN).unwrap());
}

/// A successor with another listener takes over, which closes the listener of the predecessor.
fn a_removed_listener_resets_no_client(engine: Engine) {
    let _turn = among_few();
    let other = || {
        // The successor listens at another address.
        let place = SocketAddr::from(([127, 0, 0, 2], 0));
        builder(engine).listen(Listen::tcp(place), Http1::new(doorbell::service_fn(answer)))
    };
    let end = |server: Server| {
        let next = other().succeed(&server.handle()).start().unwrap();
        assert!(next.handle().take_over(PATIENCE));
        server.wait().unwrap();
        drop(next);
    };
    closes(engine, "listeners that the successor does not have", || serve(engine).start().unwrap(), end);
}

/// Sends requests until the socket file has no server.
fn ask_file_until_gone(path: &Path, asked: &AtomicUsize) -> Vec<String> {
    let mut lost = Vec::new();
    loop {
        let mut stream = match UnixStream::connect(path) {
            Ok(stream) => stream,
            Err(error) if [ErrorKind::NotFound, ErrorKind::ConnectionRefused].contains(&error.kind()) => {
                return lost;
            }
            Err(error) => {
                lost.push(format!("connect: {error}"));
                continue;
            }
        };
        let mut reply = Vec::new();
        let read = stream.write_all(CLOSE).and_then(|()| stream.read_to_end(&mut reply));
        match read {
            Ok(_) if reply.starts_with(b"HTTP/1.1 200") => {
                asked.fetch_add(1, Ordering::Relaxed);
            }
            other => lost.push(format!("{other:?}: {}", reply.escape_ascii())),
        }
    }
}

fn a_removed_socket_file_resets_no_client(engine: Engine) {
    let _turn = among_few();
    let path = std::env::temp_dir().join(format!("doorbell-close-{}-{engine:?}.sock", std::process::id()));
    let (asked, rounds) = (AtomicUsize::new(0), sized(2, 200));
    let mut lost: Vec<String> = Vec::new();
    for round in 1..=rounds {
        let server = builder(engine)
            .listen(Listen::unix(&path), Http1::new(doorbell::service_fn(answer)))
            .start()
            .unwrap();
        lost.extend(thread::scope(|scope| {
            let clients: Vec<_> =
                (0..CLIENTS).map(|_| scope.spawn(|| ask_file_until_gone(&path, &asked))).collect();
            let enough = || asked.load(Ordering::Relaxed) >= round * 10 * CLIENTS;
            assert!(wait_until(PATIENCE, enough).is_some());
            server.drain(DRAIN).unwrap();
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect::<Vec<_>>()
        }));
        assert!(!path.exists());
    }
    let asked = asked.into_inner();
    eprintln!("{engine:?}: {rounds} closes of a socket file, {asked} requests, {} lost", lost.len());
    assert!(lost.is_empty(), "{} of {asked}: {:?}", lost.len(), lost.first());
}

fn silent(place: SocketAddr) -> Vec<TcpStream> {
    (0..50).map(|_| TcpStream::connect(place).unwrap()).collect()
}

/// `accept_at_once` accepts silent clients before the end of a server. Without it a silent client
/// of a deferring listener is not in the backlog and cannot be served.
fn silent_clients_are_accepted_before_the_end(engine: Engine) {
    let _turn = alone();
    let server = serve(engine).start().unwrap();
    let (place, handle) = (addr(&server), server.handle());
    let before = silent(place);
    thread::sleep(Duration::from_millis(100));
    assert_eq!(handle.stats().conns_live, 0, "silent clients are not accepted yet");
    handle.accept_at_once(true);
    let behind = silent(place);
    let accepted = wait_until(Duration::from_millis(500), || handle.stats().conns_live >= 50);
    assert!(accepted.is_some(), "new clients are accepted at once: {:?}", handle.stats());
    // Clients that connected earlier get another SYN-ACK one second after they connected, and are
    // then accepted.
    let accepted = wait_until(Duration::from_secs(2), || handle.stats().conns_live >= 100);
    assert!(accepted.is_some(), "{:?}", handle.stats());
    let drain = thread::spawn(move || server.drain(DRAIN));
    // The kernel first drops the SYNs of new clients and later refuses them; the short timeout
    // avoids a wait for the retransmission of a SYN.
    let knock = || TcpStream::connect_timeout(&place, Duration::from_millis(20));
    let refused = || knock().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
    assert!(wait_until(PATIENCE, refused).is_some());
    for mut stream in before.into_iter().chain(behind) {
        stream.write_all(CLOSE).unwrap();
        let got = finish(&mut stream, PATIENCE);
        assert!(got.end == End::Fin && got.bytes.starts_with(b"HTTP/1.1 200"), "{got:?}");
    }
    drain.join().unwrap().unwrap();

    // After `accept_at_once(false)` accept is deferred again.
    let server = serve(engine).start().unwrap();
    server.handle().accept_at_once(true);
    server.handle().accept_at_once(false);
    let _deferred = silent(addr(&server));
    thread::sleep(Duration::from_millis(200));
    assert_eq!(server.stats().conns_live, 0);
}

fn a_silent_client_of_the_last_moment_does_not_delay_the_end(engine: Engine) {
    let _turn = among_few();
    let server = serve(engine).start().unwrap();
    let (place, handle) = (addr(&server), server.handle());
    handle.accept_at_once(true);
    let _silent = silent(place);
    let drain = thread::spawn(move || server.drain(Duration::from_secs(60)));
    // Each silent client gets one second before it is closed.
    let ended = wait_until(PATIENCE, || drain.is_finished());
    assert!(ended.is_some(), "{:?}", handle.stats());
}

/// A client that connects between the end of a server and the start of the next one is served by
/// the next one.
fn sockets_with_copies_stay_open(engine: Engine) {
    let _turn = among_few();
    let server = serve(engine).start().unwrap();
    let place = addr(&server);
    let kept = server.handle().listening().unwrap().remove(0).sockets;
    let clients = thread::scope(|scope| {
        let drain = scope.spawn(move || server.drain(DRAIN));
        let mut clients = Vec::new();
        while !drain.is_finished() {
            // A client whose SYN is dropped retries after a second.
            clients.push(TcpStream::connect_timeout(&place, Duration::from_millis(900)).unwrap());
            thread::sleep(Duration::from_millis(5));
        }
        drain.join().unwrap().unwrap();
        clients.push(TcpStream::connect_timeout(&place, Duration::from_millis(900)).unwrap());
        clients
    });
    let next = builder(engine)
        .listen(anywhere().listening(kept), Http1::new(doorbell::service_fn(answer)))
        .start()
        .unwrap();
    assert_eq!(addr(&next), place);
    let mut last = clients.into_iter().next_back().unwrap();
    last.write_all(CLOSE).unwrap();
    let got = finish(&mut last, PATIENCE);
    assert!(got.end == End::Fin && got.bytes.starts_with(b"HTTP/1.1 200"), "{got:?}");
}
