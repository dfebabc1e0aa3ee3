//! Certificates that change during requests: no request is lost, and invalid certificates are not
//! used.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use doorbell_testkit::peers::wait_until;
use rustix::process::Signal;

use crate::https::{Https, ask};
use crate::pki::{Signed, ca, localhost};
use crate::support::{Doorbell, LIMIT, Scratch, StopAtEnd, at_most, on_both_engines};

on_both_engines! {
    no_request_fails_while_certificates_change
    a_change_is_detected_without_a_signal
    a_broken_pair_changes_nothing
    sighup_looks_immediately
}

fn serve(engine: &str, scratch: &Scratch) -> Doorbell {
    let (cert, key) = localhost().write(scratch, "tls");
    Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[runtime]\nworkers = 2\n[tls.web]\ncert = {cert:?}\nkey = {key:?}\nhandshakes_per_ip = \"off\"\n\
             [listener.web]\nbind = \"127.0.0.1:0\"\ntls = \"web\"\nkeep_alive = {{ max_requests = 1000000 }}\n\
             [route.hello]\npath = \"/hello\"\nreply = {{ body = \"hello\\n\" }}\n"
        ),
    )
}

/// The certificate that the server presents, in DER.
fn presented(https: &Https) -> Vec<u8> {
    let mut stream = https.connect().unwrap();
    assert_eq!(ask(&mut stream, "/hello").unwrap().status, 200);
    stream.conn.peer_certificates().unwrap()[0].to_vec()
}

fn is_presented(https: &Https, signed: &Signed) -> bool {
    presented(https) == signed.der()
}

fn no_request_fails_while_certificates_change(engine: &str) {
    let swaps = if std::env::var_os("DOORBELL_FULL").is_some() { 1_000 } else { 200 };
    let scratch = Scratch::new();
    let doorbell = serve(engine, &scratch);
    let https = Https::new(doorbell.addr);
    let pairs: Vec<Signed> = (0..8).map(|_| ca().server(&["localhost"])).collect();
    let swapping = AtomicBool::new(true);
    let seen = AtomicUsize::new(0);
    let (fresh, kept, lost) = thread::scope(|scope| {
        let end = StopAtEnd(&swapping);
        let fresh = scope.spawn(|| count_until(&swapping, || https.get("/hello").map(|reply| reply.status)));
        let kept = scope.spawn(|| {
            let mut stream = https.connect().unwrap();
            count_until(&swapping, || {
                // Limits the rate to that of the other thread, which needs a handshake for each
                // request.
                thread::sleep(Duration::from_millis(1));
                ask(&mut stream, "/hello").map(|reply| reply.status)
            })
        });
        for swap in 0..swaps {
            let next = &pairs[swap % pairs.len()];
            next.replace(&scratch, "tls");
            doorbell.process.signal(Signal::HUP);
            // Most rounds wait until the new certificate is in use. In every tenth round the next
            // swap follows immediately.
            if swap % 10 != 0 && wait_until(LIMIT, || is_presented(&https, next)).is_some() {
                seen.fetch_add(1, Ordering::Relaxed);
            }
        }
        drop(end);
        let (fresh, kept) = (fresh.join().unwrap(), kept.join().unwrap());
        (fresh.0, kept.0, [fresh.1, kept.1].concat())
    });
    let seen = seen.into_inner();
    eprintln!(
        "{engine}: {swaps} swaps, {seen} seen; {fresh} requests on new connections, {kept} on one, {} lost",
        lost.len()
    );
    assert!(lost.is_empty(), "{:?}", &lost[..lost.len().min(5)]);
    assert_eq!(seen, swaps - swaps.div_ceil(10), "{}", doorbell.process.log());
    assert!(fresh >= swaps / 2 && kept >= swaps / 2, "too few requests: {fresh} and {kept}");
}

/// Sends requests until the end. Returns the number of good replies, and the failures.
fn count_until(running: &AtomicBool, mut get: impl FnMut() -> std::io::Result<u16>) -> (usize, Vec<String>) {
    let (mut good, mut lost) = (0, Vec::new());
    while running.load(Ordering::Relaxed) {
        match get() {
            Ok(200) => good += 1,
            other => lost.push(format!("{other:?}")),
        }
        // After a broken connection every further request fails, so stop.
        if lost.len() > 100 {
            break;
        }
    }
    (good, lost)
}

fn a_change_is_detected_without_a_signal(engine: &str) {
    let scratch = Scratch::new();
    let doorbell = serve(engine, &scratch);
    let https = Https::new(doorbell.addr);
    let next = ca().server(&["localhost"]);
    next.replace(&scratch, "tls");
    let noticed = wait_until(LIMIT, || is_presented(&https, &next));
    assert!(noticed.is_some(), "{}", doorbell.process.log());
    let swaps = || doorbell.process.log().matches("new certificates in use").count();
    assert!(wait_until(LIMIT, || swaps() == 1).is_some(), "{}", doorbell.process.log());
}

fn a_broken_pair_changes_nothing(engine: &str) {
    let scratch = Scratch::new();
    let doorbell = serve(engine, &scratch);
    let https = Https::new(doorbell.addr);
    let next = ca().server(&["localhost"]);
    let complaints = || doorbell.process.log().matches("keeping the previous version").count();
    // A certificate that does not match the key, an invalid file, and a missing file.
    let break_it: [(&str, &dyn Fn()); 3] = [
        ("a foreign key", &|| drop(scratch.write("tls.crt", &next.certificate))),
        ("no PEM", &|| drop(scratch.write("tls.crt", "-----BEGIN CERTIFICATE-----\nnonsense\n"))),
        ("no file", &|| fs::remove_file(scratch.path("tls.crt")).unwrap()),
    ];
    for (count, (what, break_it)) in (1..).zip(break_it) {
        break_it();
        doorbell.process.signal(Signal::HUP);
        let reported = wait_until(LIMIT, || complaints() >= count);
        assert!(reported.is_some(), "{what}: {}", doorbell.process.log());
        // Further polls log nothing.
        for _ in 0..3 {
            doorbell.process.signal(Signal::HUP);
            thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(complaints(), count, "{what}: {}", doorbell.process.log());
        assert!(is_presented(&https, localhost()), "{what}");
    }
    next.replace(&scratch, "tls");
    doorbell.process.signal(Signal::HUP);
    let noticed = wait_until(LIMIT, || is_presented(&https, &next));
    assert!(noticed.is_some(), "a repaired pair must be used: {}", doorbell.process.log());
}

fn sighup_looks_immediately(engine: &str) {
    let scratch = Scratch::new();
    let doorbell = serve(engine, &scratch);
    let https = Https::new(doorbell.addr);
    let took = (0..5).map(|_| {
        let next = ca().server(&["localhost"]);
        next.replace(&scratch, "tls");
        doorbell.process.signal(Signal::HUP);
        wait_until(LIMIT, || is_presented(&https, &next)).unwrap()
    });
    let slowest = took.max().unwrap();
    at_most(
        format_args!("{engine}: time until a new certificate is in use"),
        slowest,
        Duration::from_millis(90),
    );
}
