//! Every mode, as seen by the server.
//!
//! Does not know about: misbehaving servers (`peers`).
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod common;

use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{KEPT, REPLY, Server, answer, load, request, sleep};

/// A server that replies to any number of requests and records how each connection ended.
fn keeper(ends: &Arc<Mutex<Vec<Result<usize, ErrorKind>>>>) -> Server {
    let ends = Arc::clone(ends);
    Server::start(move |number, mut stream| {
        while let Some(asked) = read_request(&mut stream, number, &ends) {
            assert!(!asked.contains("Connection"), "{asked}");
            stream.write_all(KEPT.as_bytes()).unwrap();
        }
    })
}

fn read_request(
    stream: &mut TcpStream,
    number: u64,
    ends: &Mutex<Vec<Result<usize, ErrorKind>>>,
) -> Option<String> {
    let mut first = [0];
    match stream.peek(&mut first) {
        Ok(1) => request(stream),
        other => {
            if number > 0 {
                ends.lock().unwrap().push(other.map_err(|error| error.kind()));
            }
            None
        }
    }
}

#[test]
fn the_client_closes_or_resets_as_requested() {
    for (close, want) in [("client", Ok(0)), ("reset", Err(ErrorKind::ConnectionReset))] {
        let ends = Arc::default();
        let server = keeper(&ends);
        let Some(run) = load(&["-n", "20", "-c", "3", "--close", close, &server.url()]) else { return };
        run.assert_clean(20);
        assert_eq!((run.number("/connects"), &run.json["close"]), (20.0, &close.into()));
        for _ in 0..100 {
            if ends.lock().unwrap().len() == 20 {
                break;
            }
            sleep(Duration::from_millis(10));
        }
        assert_eq!(*ends.lock().unwrap(), vec![want; 20], "{close}");
    }
}

#[test]
fn kept_connections_are_kept() {
    let server = keeper(&Arc::default());
    let Some(run) = load(&["-n", "500", "-c", "5", "-k", "--check", "exact", &server.url()]) else { return };
    run.assert_clean(500);
    assert_eq!((run.number("/connects"), run.number("/reconnects")), (5.0, 0.0));
    assert_eq!(server.accepted(), 6, "the preflight adds one connection");
}

#[test]
fn a_pipelined_write_holds_all_its_requests() {
    let server = Server::start(|number, mut stream| {
        let batch = if number == 0 { 1 } else { 6 };
        // No reply is sent before all six requests have arrived. With fewer requests in one write
        // the test would time out.
        loop {
            for _ in 0..batch {
                if request(&mut stream).is_none() {
                    return;
                }
            }
            stream.write_all(KEPT.repeat(batch).as_bytes()).unwrap();
        }
    });
    let Some(run) = load(&["-n", "120", "-c", "4", "-k", "-p", "6", &server.url()]) else { return };
    run.assert_clean(120);
    assert_eq!(run.number("/latency_us/first_byte/count"), 20.0);
    assert_eq!(run.number("/latency_us/total/count"), 120.0);
}

#[test]
fn sources_and_targets_take_turns() {
    let seen: Arc<Mutex<HashSet<IpAddr>>> = Arc::default();
    let servers = [(); 2].map(|()| {
        let seen = Arc::clone(&seen);
        Server::start(move |_, mut stream| {
            seen.lock().unwrap().insert(stream.peer_addr().unwrap().ip());
            answer(&mut stream, REPLY);
        })
    });
    let targets = servers.each_ref().map(|server| server.addr.to_string());
    let args = ["-n", "60", "-c", "4", "-t", "2", "-s", "127.0.5.1-127.0.5.10", "http://nowhere.invalid/"];
    let Some(run) = load(&[&args[..], &["--connect-to", &targets[0], "--connect-to", &targets[1]]].concat())
    else {
        return;
    };
    run.assert_clean(60);
    let mut seen: Vec<IpAddr> = seen.lock().unwrap().iter().copied().collect();
    seen.sort_unstable();
    let want: Vec<IpAddr> = (1..=10).map(|last| IpAddr::from([127, 0, 5, last])).collect();
    // The kernel chooses the preflight's source.
    assert_eq!(seen.into_iter().filter(|ip| *ip != IpAddr::from([127, 0, 0, 1])).collect::<Vec<_>>(), want);
    let accepted = servers.each_ref().map(Server::accepted);
    assert!(accepted[0].abs_diff(accepted[1]) <= 3 && accepted[0] + accepted[1] == 61, "{accepted:?}");
}

#[test]
fn a_gap_comes_between_handshake_and_request() {
    let gaps: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let server = {
        let gaps = Arc::clone(&gaps);
        Server::start(move |number, mut stream| {
            let accepted_at = now();
            let _ = stream.peek(&mut [0]);
            if number > 0 {
                gaps.lock().unwrap().push(accepted_at.elapsed());
            }
            answer(&mut stream, REPLY);
        })
    };
    const GAP: Duration = Duration::from_secs(2);
    let Some(run) = load(&["-n", "4", "-c", "4", "--gap", "2s", &server.url()]) else { return };
    run.assert_clean(4);
    let gaps = gaps.lock().unwrap();
    // On a busy machine, the server's thread may accept most connections late and measure a shorter
    // gap. Without `--gap`, no request would arrive a second after the accept.
    assert!(gaps.len() == 4 && gaps.iter().any(|gap| *gap >= GAP / 2), "{gaps:?}");
    let middle = Duration::from_secs_f64(run.number("/latency_us/total/p50") / 1e6);
    assert!(middle < GAP, "the gap must not count as latency: {run:#?}");
}

/// A server that stalls once for 300 ms delays the thirty requests that are due during that time. A
/// closed loop would measure only one of them.
#[test]
fn with_a_rate_a_stall_counts_for_each_delayed_request() {
    let server = Server::start(|number, mut stream| {
        let mut served = 0;
        while request(&mut stream).is_some() {
            served += 1;
            if number > 0 && served == 10 {
                sleep(Duration::from_millis(300));
            }
            stream.write_all(KEPT.as_bytes()).unwrap();
        }
    });
    let Some(run) = load(&["-r", "100", "-d", "1s", "-c", "1", "-k", &server.url()]) else { return };
    assert_eq!((run.exit, &run.json["failed"]), (0, &0.into()), "{run:#?}");
    // Requests that a busy machine delayed at the very end are not started, and are reported.
    let (requests, unstarted) = (run.number("/requests"), run.number("/unstarted"));
    assert_eq!(requests + unstarted, 100.0, "{run:#?}");
    assert!(unstarted < 40.0, "{run:#?}");
    assert!(run.number("/latency_us/total/max") > 290_000.0, "{run:#?}");
    // The k-th of the thirty requests that become due during the pause waits (300 - 10 k) ms, so a
    // fifth of the 100 requests wait at least 100 ms.
    assert!(run.number("/latency_us/total/p90") > 150_000.0, "{run:#?}");
    assert_eq!(run.number("/rate_wanted"), 100.0, "{run:#?}");
}

#[test]
fn a_rate_that_cannot_be_kept_is_said() {
    let server = Server::start(|_, mut stream| {
        while request(&mut stream).is_some() {
            sleep(Duration::from_millis(20));
            stream.write_all(KEPT.as_bytes()).unwrap();
        }
    });
    let Some(run) = load(&["-r", "500", "-d", "400ms", "-c", "1", "-k", &server.url()]) else { return };
    assert_eq!(run.exit, 0, "{run:#?}");
    let (requests, unstarted) = (run.number("/requests"), run.number("/unstarted"));
    assert!((1.0..30.0).contains(&requests) && (150.0..200.0).contains(&unstarted), "{run:#?}");
    assert_eq!(requests + unstarted, 200.0, "{run:#?}");
}

#[test]
fn warm_up_does_not_count() {
    let server = Server::start(|number, mut stream| {
        // The first requests are slow, as on a cold server.
        if number < 8 {
            sleep(Duration::from_millis(30));
        }
        answer(&mut stream, REPLY);
    });
    let Some(run) = load(&["-w", "200ms", "-n", "30", "-c", "2", &server.url()]) else { return };
    assert_eq!((run.exit, &run.json["failed"]), (0, &0.into()), "{run:#?}");
    // Requests in progress at the end of the warm-up are not measured.
    assert_eq!(run.number("/requests"), 30.0, "{run:#?}");
    assert!(server.accepted() > 40, "the warm-up must open connections");
}

#[test]
fn failures_of_the_warm_up_do_not_count() {
    // Every 11th reply hangs, so that all connections hang after some time.
    let server = Server::start(|number, mut stream| {
        if number % 11 == 10 {
            let _ = request(&mut stream);
            sleep(Duration::from_secs(3));
        } else {
            answer(&mut stream, REPLY);
        }
    });
    let args = ["-w", "500ms", "-n", "5", "-c", "10", "--timeout", "2s", &server.url()];
    let Some(run) = load(&args) else { return };
    assert_eq!(run.number("/requests") + run.number("/failed"), 5.0, "{run:#?}");
    assert_eq!(run.number("/latency_us/total/count"), run.number("/requests"), "{run:#?}");
}

#[test]
fn the_measured_time_ends_with_the_last_failure() {
    let server = Server::start(|number, mut stream| {
        if number == 7 {
            let _ = request(&mut stream);
            sleep(Duration::from_secs(3));
        } else {
            answer(&mut stream, REPLY);
        }
    });
    let Some(run) = load(&["-n", "20", "-c", "20", "--timeout", "500ms", &server.url()]) else { return };
    assert!(run.exit == 1 && run.only_failure("timeout") >= 1, "{run:#?}");
    assert!(run.number("/elapsed_s") >= 0.5, "{run:#?}");
}

#[test]
fn a_number_of_requests_at_a_rate_takes_an_interval_for_each() {
    let server = Server::start(|_, mut stream| {
        answer(&mut stream, REPLY);
    });
    let Some(run) = load(&["-r", "20", "-n", "10", "-t", "2", &server.url()]) else { return };
    run.assert_clean(10);
    assert!(run.number("/elapsed_s") >= 0.5 && run.number("/requests_per_s") <= 20.0, "{run:#?}");
}

#[expect(clippy::disallowed_methods, reason = "the server records times of the real clock")]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn methods_headers_and_bodies_arrive_as_given() {
    let server = Server::start(|_, mut stream| {
        let asked = request(&mut stream).unwrap_or_default();
        let mut body = [0; 4];
        stream.read_exact(&mut body).unwrap();
        let good = asked.starts_with("PUT /a?b HTTP/1.1\r\n")
            && asked.contains("\r\nX-A: b\r\n")
            && asked.contains("\r\nHost: h\r\n")
            && asked.contains("\r\nContent-Length: 4\r\n")
            && &body == b"body";
        let status = if good { "201 Created" } else { "400 Bad" };
        let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 3\r\nConnection: close\r\n\r\nyes");
    });
    let url = format!("http://{}/a?b", server.addr);
    let args = ["-n", "9", "-c", "2", "-X", "PUT", "-H", "X-A: b", "-H", "Host: h", "--body", "body"];
    let more = ["--expect-status", "201", "--expect-body", "yes", &url];
    let Some(run) = load(&[&args[..], &more].concat()) else { return };
    run.assert_clean(9);
}
