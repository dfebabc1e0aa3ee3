//! Servers that reset, truncate, send wrong bytes, stall and swap replies. Each failure must be
//! counted by its kind.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod common;

use std::io::Write;
use std::net::Shutdown;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{KEPT, REPLY, Server, answer, header, load, request, sleep};
use rustix::net::sockopt::set_socket_linger;

/// Every fourth connection after the preflight is bad, ten of 40.
fn is_bad(number: u64) -> bool {
    number % 4 == 3
}

const RUN: [&str; 4] = ["-n", "40", "-c", "4"];

#[test]
fn good_replies_are_clean() {
    let server = Server::start(|_, mut stream| {
        answer(&mut stream, REPLY);
    });
    let Some(run) = load(&[&RUN[..], &["--check", "exact", &server.url()]].concat()) else { return };
    run.assert_clean(40);
    assert_eq!((run.number("/connects"), server.accepted()), (40.0, 41));
    for row in ["connect", "first_byte", "total"] {
        assert_eq!(run.number(&format!("/latency_us/{row}/count")), 40.0, "{run:#?}");
    }
    assert!(run.number("/latency_us/total/p50") >= run.number("/latency_us/first_byte/p50"), "{run:#?}");
}

#[test]
fn bad_replies_are_counted_by_kind() {
    let cases: [(&str, &str, &str); 6] = [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok",
            "short_reply",
            "cut in the body",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Le", "short_reply", "cut in the head"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nOk\n", "wrong_bytes", "one byte"),
        ("HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "status", "another status"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "unsupported", "chunked"),
        ("* OK IMAP4 ready\r\n", "malformed", "another protocol"),
    ];
    for (reply, kind, what) in cases {
        let server = Server::start(move |number, mut stream| {
            answer(&mut stream, if is_bad(number) { reply } else { REPLY });
        });
        let Some(run) = load(&[&RUN[..], &[&server.url()]].concat()) else { return };
        assert_eq!((run.exit, run.only_failure(kind)), (1, 10), "{what}: {run:#?}");
        assert_eq!(run.number("/requests"), 30.0, "{what}");
        for row in ["first_byte", "total"] {
            let count = run.number(&format!("/latency_us/{row}/count"));
            assert_eq!(count, 30.0, "a failed request has no latency: {what}");
        }
    }
}

#[test]
fn resets_are_seen_before_and_after_the_reply() {
    for after_reply in [false, true] {
        let server = Server::start(move |number, mut stream| {
            if !is_bad(number) {
                answer(&mut stream, REPLY);
                return;
            }
            request(&mut stream);
            if after_reply {
                stream.write_all(REPLY.as_bytes()).unwrap();
                sleep(Duration::from_millis(20));
            }
            set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        });
        let Some(run) = load(&[&RUN[..], &[&server.url()]].concat()) else { return };
        assert_eq!((run.exit, run.only_failure("reset")), (1, 10), "{run:#?}");
        assert!(run.json["failures"][0]["first_error"].as_str().unwrap().contains("reset"), "{run:#?}");
    }
}

#[test]
fn silence_and_a_missing_end_are_timeouts_and_do_not_hold_up_the_run() {
    for answers in [false, true] {
        let server = Server::start(move |number, mut stream| {
            if !is_bad(number) {
                answer(&mut stream, REPLY);
                return;
            }
            request(&mut stream);
            if answers {
                stream.write_all(REPLY.as_bytes()).unwrap();
            }
            request(&mut stream);
        });
        let Some(run) = load(&[&RUN[..], &["--timeout", "100ms", &server.url()]].concat()) else { return };
        assert_eq!((run.exit, run.only_failure("timeout")), (1, 10), "{run:#?}");
        assert!(run.number("/elapsed_s") < 3.0, "{run:#?}");
    }
}

#[test]
fn a_reply_that_drips_is_still_good() {
    let server = Server::start(|_, mut stream| {
        request(&mut stream);
        stream.set_nodelay(true).unwrap();
        for byte in REPLY.as_bytes() {
            stream.write_all(&[*byte]).unwrap();
            sleep(Duration::from_micros(200));
        }
    });
    let Some(run) = load(&["-n", "12", "-c", "4", "--check", "exact", &server.url()]) else { return };
    run.assert_clean(12);
}

#[test]
fn a_reply_may_end_with_the_connection() {
    let server = Server::start(|number, mut stream| {
        let body = if is_bad(number) { "no" } else { "ok\n" };
        answer(&mut stream, &format!("HTTP/1.0 200 OK\r\n\r\n{body}"));
    });
    let Some(run) = load(&[&RUN[..], &[&server.url()]].concat()) else { return };
    assert_eq!((run.exit, run.only_failure("wrong_bytes")), (1, 10), "{run:#?}");
}

/// This check detects a server that uses one buffer for the replies of several connections.
#[test]
fn a_reply_with_the_id_of_another_request_is_foreign() {
    let last = Arc::new(Mutex::new(String::new()));
    let server = Server::start(move |number, mut stream| {
        let Some(asked) = request(&mut stream) else { return };
        let mine = header(&asked, "X-Request-Id").unwrap().to_owned();
        assert_eq!(asked.matches(&mine).count(), 2, "the id must be in the path and in the header");
        let before = std::mem::replace(&mut *last.lock().unwrap(), mine.clone());
        let id = if is_bad(number) { before } else { mine };
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 18\r\nConnection: close\r\n";
        stream.write_all(format!("{head}\r\n<{id}>").as_bytes()).unwrap();
        let _ = stream.shutdown(Shutdown::Write);
    });
    let url = format!("http://{}/{{id}}", server.addr);
    let Some(run) = load(&[&RUN[..], &["--unique-id", &url]].concat()) else { return };
    assert_eq!((run.exit, run.only_failure("foreign_bytes")), (1, 10), "{run:#?}");
    let bytes = run.number("/foreign_bytes");
    assert!((100.0..=160.0).contains(&bytes), "{run:#?}");
}

#[test]
fn ids_stay_with_their_requests_when_pipelined() {
    let server = Server::start(|_, mut stream| {
        while let Some(asked) = request(&mut stream) {
            let id = header(&asked, "X-Request-Id").unwrap();
            let reply = format!("HTTP/1.1 200 OK\r\nX-Id: {id}\r\nContent-Length: 2\r\n\r\nok");
            stream.write_all(reply.as_bytes()).unwrap();
        }
    });
    let Some(run) = load(&["-n", "203", "-c", "3", "-k", "-p", "8", "--unique-id", &server.url()]) else {
        return;
    };
    run.assert_clean(203);
    assert_eq!((run.number("/foreign_bytes"), run.number("/connects")), (0.0, 3.0));
}

#[test]
fn a_kept_connection_may_end_between_two_requests() {
    let server = Server::start(|_, mut stream| {
        // Ten replies for each connection. The last reply announces the close if the client's port
        // is even; otherwise the close is unexpected.
        for left in (0..10).rev() {
            let says_so = left == 0 && stream.peer_addr().unwrap().port() % 2 == 0;
            if request(&mut stream).is_none() {
                return;
            }
            stream.write_all(if says_so { REPLY } else { KEPT }.as_bytes()).unwrap();
        }
    });
    let Some(run) = load(&["-n", "100", "-c", "2", "-k", &server.url()]) else { return };
    run.assert_clean(100);
    assert!((9.0..=10.0).contains(&run.number("/reconnects")), "{run:#?}");
    assert!(run.number("/connects") >= 10.0, "{run:#?}");
}

#[test]
fn a_server_that_goes_away_is_not_asked_in_a_busy_loop() {
    let server = Arc::new(Mutex::new(None::<Server>));
    let owner = Arc::clone(&server);
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    *server.lock().unwrap() = Some(Server::start(move |number, mut stream| {
        answer(&mut stream, REPLY);
        if number == 20 {
            let _ = sender.send(());
        }
    }));
    let url = server.lock().unwrap().as_ref().unwrap().url();
    let stopper = std::thread::spawn(move || {
        receiver.recv().unwrap();
        owner.lock().unwrap().take();
    });
    let Some(run) = load(&["-d", "600ms", "-c", "4", &url]) else { return };
    stopper.join().unwrap();
    assert_eq!(run.exit, 1, "{run:#?}");
    let failed = run.number("/failed");
    // Four connections with a pause of 10 ms make at most 240 attempts in 0.6 s. Connections that
    // are reset when the listener closes also count as failures.
    assert!((4.0..300.0).contains(&failed), "{run:#?}");
    assert!(run.json["failures"].as_array().unwrap().iter().any(|row| row["kind"] == "connect"), "{run:#?}");
}
