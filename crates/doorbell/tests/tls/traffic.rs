//! Tests of sessions after the handshake: pipelines, large bodies, the order of the close,
//! truncation, key updates, panics of handlers, drains.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use doorbell::http::Next;
use doorbell::protocol::Protocol;
use doorbell::time::Time;
use doorbell::tls::{Acceptor, TlsLimits};
use doorbell::{CloseReason, Http1, HttpLimits, Raw, RawHandler, RawNext};

use crate::memory::{LARGE_LEN, Pair, VERSIONS, acceptor, answer, client, client_config, config, http};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const GET_AND_CLOSE: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

fn pair(version: &'static rustls::SupportedProtocolVersion) -> Pair<Http1> {
    let mut pair = Pair::new(client(&Arc::new(client_config(version, None))), http(&acceptor()));
    pair.talk();
    pair
}

/// Returns the types and lengths of the records in `wire`.
fn records(mut wire: &[u8]) -> Vec<(u8, usize)> {
    let mut found = Vec::new();
    while let [kind, _, _, high, low, rest @ ..] = wire {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        found.push((*kind, len));
        wire = &rest[len..];
    }
    found
}

#[test]
fn a_small_reply_and_the_close_notify_are_sent_together() {
    for version in VERSIONS {
        let mut pair = pair(version);
        pair.stand.sends.clear();
        pair.client.writer().write_all(GET_AND_CLOSE).unwrap();
        let wire = pair.wire_of_client();
        pair.stand.feed(&wire, usize::MAX);
        assert_eq!(pair.stand.sends.len(), 1, "one segment");
        let sent = pair.stand.take_sent();
        assert_eq!(records(&sent).len(), 2, "{version:?}: a reply and a close_notify: {:?}", records(&sent));
        pair.receive(&sent);
        assert!(pair.plaintext.ends_with(b"ok\n") && pair.closed, "{version:?}");
        assert_eq!(
            pair.stand.end,
            Some(Next::CloseLinger),
            "the connection lingers, so that the peer's close_notify causes no reset"
        );
        assert_eq!(pair.stand.reason(), CloseReason::Done);
    }
}

#[test]
fn pipelined_requests_are_answered_in_order_and_together() {
    for version in VERSIONS {
        for in_one_record in [true, false] {
            let mut pair = pair(version);
            let mut wire = Vec::new();
            for _ in 0..20 {
                pair.client.writer().write_all(GET).unwrap();
                if !in_one_record {
                    wire.extend(pair.wire_of_client());
                }
            }
            wire.extend(pair.wire_of_client());
            pair.stand.sends.clear();
            pair.stand.feed(&wire, usize::MAX);
            assert_eq!(pair.stand.sends.len(), 1, "one send for twenty replies");
            let sent = pair.stand.take_sent();
            assert_eq!(records(&sent).len(), 1);
            pair.receive(&sent);
            let replies = String::from_utf8(pair.plaintext.clone()).unwrap();
            assert_eq!(replies.matches("ok\n").count(), 20);
        }
    }
}

#[test]
fn a_large_body_arrives_whole_and_never_far_ahead_of_the_client() {
    for version in VERSIONS {
        for piece_len in [usize::MAX, 7] {
            let mut pair = pair(version);
            pair.piece_len = piece_len;
            pair.stand.sends.clear();
            let mut requests = b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3);
            requests.extend_from_slice(GET_AND_CLOSE);
            pair.send(&requests);
            let largest = pair.stand.sends.iter().max().unwrap();
            assert!(*largest <= 34 * 1024, "{largest} bytes in one send");
            let text = String::from_utf8(pair.plaintext.clone()).unwrap();
            assert_eq!(text.matches("HTTP/1.1 200").count(), 4);
            assert!(text.len() > 3 * LARGE_LEN && text.ends_with("ok\n") && pair.closed);
            let bodies: Vec<&str> = text.split("\r\n\r\n").collect();
            let expected: String = ('a'..='w').cycle().take(LARGE_LEN).collect();
            for body in &bodies[1..4] {
                assert!(body.starts_with(&expected), "{version:?} in chunks of {piece_len}");
            }
        }
    }
}

#[test]
fn a_body_in_parts_is_collected() {
    for version in VERSIONS {
        for piece_len in [usize::MAX, 1, 33] {
            let mut pair = pair(version);
            pair.piece_len = piece_len;
            pair.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Le");
            assert!(!pair.stand.tls.is_idle(&pair.stand.conn), "in the middle of a request");
            pair.send(b"ngth: 6\r\n\r\nabc");
            pair.send(b"def");
            assert!(pair.plaintext.ends_with(b"ok\n"), "{version:?} in chunks of {piece_len}");
            assert!(pair.stand.tls.is_idle(&pair.stand.conn));
            assert_eq!(pair.stand.tls.requests(&pair.stand.conn), 1);
        }
    }
}

#[test]
fn a_close_notify_is_answered_and_a_missing_one_never_completes_a_body() {
    for version in VERSIONS {
        // A close_notify between requests.
        let mut idle = pair(version);
        idle.client.send_close_notify();
        idle.talk();
        assert!(idle.closed, "the close_notify was answered");
        assert_eq!((idle.stand.end, idle.stand.reason()), (Some(Next::CloseClean), CloseReason::ClientFin));
        // A close_notify together with the last request.
        let mut last = pair(version);
        last.client.writer().write_all(GET).unwrap();
        last.client.send_close_notify();
        last.talk();
        assert!(last.plaintext.ends_with(b"ok\n") && last.closed, "{version:?}");
        assert_eq!(last.stand.end, Some(Next::CloseClean));
        // The end in the middle of a body: with a close_notify, and with a FIN alone.
        for notified in [true, false] {
            let mut cut = pair(version);
            cut.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
            if notified {
                cut.client.send_close_notify();
                cut.talk();
            } else {
                let _next = cut.stand.eof();
                cut.talk();
            }
            let text = String::from_utf8(cut.plaintext.clone()).unwrap();
            assert!(!text.contains("200") && cut.closed, "{version:?}: {text}");
            assert_eq!(cut.stand.tls.requests(&cut.stand.conn), 0);
            assert_eq!(cut.stand.reason(), CloseReason::ClientGone);
        }
        // The end in the middle of a record.
        let mut torn = pair(version);
        torn.client.writer().write_all(GET).unwrap();
        let wire = torn.wire_of_client();
        torn.stand.feed(&wire[..wire.len() - 1], usize::MAX);
        let _next = torn.stand.eof();
        torn.talk();
        assert!(torn.plaintext.is_empty() && torn.closed, "{version:?}");
    }
}

#[test]
fn a_broken_record_ends_the_session_with_an_alert() {
    for version in VERSIONS {
        let mut pair = pair(version);
        pair.client.writer().write_all(GET).unwrap();
        let mut wire = pair.wire_of_client();
        let last = wire.len() - 1;
        wire[last] ^= 1;
        pair.stand.feed(&wire, usize::MAX);
        let sent = pair.stand.take_sent();
        pair.receive(&sent);
        assert_eq!(pair.error, Some(rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac)));
        assert!(pair.plaintext.is_empty());
        assert_eq!((pair.stand.end, pair.stand.reason()), (Some(Next::CloseLinger), CloseReason::Tls));
    }
}

#[test]
fn keys_may_change_between_requests_but_not_without_end() {
    let mut pair = pair(VERSIONS[1]);
    for _ in 0..10 {
        pair.client.refresh_traffic_keys().unwrap();
        assert!(pair.ask("/").ends_with("ok\n"));
    }
    pair.client.refresh_traffic_keys().unwrap();
    pair.piece_len = 1;
    assert!(pair.ask("/").ends_with("ok\n"), "in chunks of one byte");
    // A flood of key updates without data ends the session.
    let mut flood = Vec::new();
    for _ in 0..100 {
        pair.client.refresh_traffic_keys().unwrap();
        flood.extend(pair.wire_of_client());
    }
    pair.stand.feed(&flood, usize::MAX);
    assert!(pair.stand.end.is_some(), "too many");
}

#[test]
fn a_panic_of_a_handler_is_a_500_after_earlier_replies() {
    for version in VERSIONS {
        let mut pair = pair(version);
        let mut requests = GET.to_vec();
        requests.extend_from_slice(b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n");
        requests.extend_from_slice(GET);
        pair.client.writer().write_all(&requests).unwrap();
        let wire = pair.wire_of_client();
        let stand = &mut pair.stand;
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _next = stand.call(|tls, conn, io| tls.handle_input(conn, &wire, io));
        }));
        assert!(panicked.is_err());
        let _next = stand.call(|tls, conn, io| tls.handle_panic(conn, io));
        assert_eq!(stand.reason(), CloseReason::HandlerPanic);
        let sent = stand.take_sent();
        pair.receive(&sent);
        let text = String::from_utf8(pair.plaintext.clone()).unwrap();
        assert!(text.starts_with("HTTP/1.1 200") && text.contains("HTTP/1.1 500"), "{version:?}: {text}");
        assert!(pair.closed);
        assert!(!pair.stand.end.unwrap().eq(&Next::Read));
    }
}

#[test]
fn timeouts_and_drains_send_close_notify() {
    for version in VERSIONS {
        let mut idle = pair(version);
        assert!(idle.ask("/").ends_with("ok\n"));
        let wait = idle.stand.tls.deadline(&idle.stand.conn).since(idle.stand.now);
        let _next = idle.stand.timeout_after(wait);
        idle.talk();
        assert!(idle.closed && idle.stand.end.is_some(), "{version:?}: idle too long");
        assert_eq!(idle.stand.reason(), CloseReason::IdleTimeout);

        let mut slow = pair(version);
        slow.send(b"GET / HTTP/1.1\r\n");
        let _next = slow.stand.timeout_after(Duration::from_secs(11));
        slow.talk();
        assert!(slow.plaintext.starts_with(b"HTTP/1.1 408") && slow.closed, "{version:?}: 408");
        assert_eq!(slow.stand.reason(), CloseReason::HeaderTimeout);

        let mut drained = pair(version);
        assert!(drained.stand.tls.is_idle(&drained.stand.conn));
        let _next = drained.stand.call(|tls, conn, io| tls.handle_drain(conn, io));
        drained.talk();
        assert!(drained.closed && drained.stand.end == Some(Next::CloseLinger), "{version:?}: drained");

        let mut last = pair(version);
        last.stand.draining = true;
        assert!(last.ask("/").contains("Connection: close\r\n") && last.closed, "{version:?}");
    }
}

#[test]
fn memory_for_requests_in_parts_is_capped_over_all_connections() {
    let limits = TlsLimits { plain_bytes_max: 10_000, ..TlsLimits::default() };
    let acceptor = Acceptor::with_limits(&config(), limits, None).unwrap();
    let client_config = Arc::new(client_config(VERSIONS[1], None));
    let tls = || Http1::new(doorbell::service_fn(answer)).limits(HttpLimits::default()).tls(acceptor.clone());
    let begin = |len: usize| {
        let mut pair = Pair::new(client(&client_config), tls());
        pair.send(format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "y".repeat(len)).as_bytes());
        pair
    };
    let held = begin(7_000);
    assert_eq!(held.stand.end, None);
    let refused = begin(7_000);
    assert!(
        refused.plaintext.starts_with(b"HTTP/1.1 503"),
        "{}",
        String::from_utf8_lossy(&refused.plaintext)
    );
    assert!(refused.closed);
    drop(held);
    assert_eq!(begin(7_000).stand.end, None, "there is memory again");
}

#[test]
fn a_raw_protocol_works_behind_tls_and_may_greet() {
    struct Greeter;
    impl RawHandler for Greeter {
        fn speaks_first(&self) -> bool {
            true
        }

        fn greet(&self, _now: Time, reply: &mut Vec<u8>) -> RawNext {
            reply.extend_from_slice(b"220 hello\r\n");
            RawNext::Continue
        }

        fn handle(&self, _now: Time, received: &[u8], reply: &mut Vec<u8>) -> RawNext {
            reply.extend_from_slice(received);
            if received == b"QUIT" { RawNext::Close } else { RawNext::Continue }
        }
    }
    for version in VERSIONS {
        let tls = Raw::new(Greeter).tls(acceptor());
        assert!(!tls.speaks_first(), "the client sends first in TLS");
        let mut pair = Pair::new(client(&Arc::new(client_config(version, None))), tls);
        pair.talk();
        assert_eq!(pair.plaintext, b"220 hello\r\n", "{version:?}");
        pair.send(b"PING");
        pair.send(b"QUIT");
        assert_eq!(pair.plaintext, b"220 hello\r\nPINGQUIT");
        assert!(pair.closed);
    }
}

/// Replies of the handler and error replies of the parser have the field.
#[test]
fn every_reply_has_the_field_of_hsts() {
    let field = "\r\nStrict-Transport-Security: max-age=1\r\n";
    let pair = |bytes: &[u8]| {
        let http = Http1::new(doorbell::service_fn(answer)).hsts("max-age=1").unwrap();
        let mut pair = Pair::new(client(&Arc::new(client_config(VERSIONS[1], None))), http.tls(acceptor()));
        pair.talk();
        pair.send(bytes);
        pair
    };
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(40_000));
    let rows = [
        (get("/"), 200, 1),
        (get("/").repeat(3), 200, 3),
        (get("/large"), 200, 1),
        (get("/") + "GET / HTTP/1.1\r\n\r\n", 400, 2),
        (get("/%00"), 400, 1),
        (get("/").replace("GET", "BREW"), 501, 1),
        (get("/").replace("1.1", "3.0"), 505, 1),
        (long, 431, 1),
        ("GET / HT".to_owned(), 408, 1),
    ];
    for (bytes, status, count) in rows {
        let mut pair = pair(bytes.as_bytes());
        if status == 408 {
            let _next = pair.stand.timeout_after(Duration::from_secs(1000));
        }
        pair.talk();
        let plaintext = String::from_utf8_lossy(&pair.plaintext).into_owned();
        let start: String = bytes.chars().take(30).collect();
        assert_eq!(plaintext.matches(field).count(), count, "{start:?}: {plaintext:.500}");
        assert_eq!(plaintext.matches("HTTP/1.1 ").count(), count, "{start:?}: {plaintext:.500}");
        assert!(plaintext.contains(&format!("HTTP/1.1 {status} ")), "{start:?}: {plaintext:.500}");
    }
}
