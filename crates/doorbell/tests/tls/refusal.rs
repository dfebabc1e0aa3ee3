//! Tests of refusals before or during a handshake: their replies, costs and counters.

use std::sync::Arc;
use std::time::Duration;

use doorbell::CloseReason;
use doorbell::http::limit::{Limiter, Quota};
use doorbell::http::{Next, Time};
use doorbell::protocol::Protocol;
use doorbell::tls::{Acceptor, HandshakeGate, TlsLimits};

use crate::memory::{Pair, Stand, VERSIONS, acceptor, client, client_config, config, http, in_fragments};

fn limited(limits: TlsLimits) -> Acceptor {
    Acceptor::with_limits(&config(), limits, None).unwrap()
}

/// Returns an unencrypted record with a fatal alert.
const fn alert(description: u8) -> [u8; 7] {
    [21, 3, 3, 0, 2, 2, description]
}

#[test]
fn plain_http_gets_a_readable_400() {
    for (request, piece_len) in
        [("GET / HTTP/1.1\r\nHost: a\r\n\r\n", usize::MAX), ("POST /x HTTP/1.0\r\n\r\n", 1)]
    {
        let acceptor = acceptor();
        let mut stand = Stand::new(http(&acceptor));
        stand.feed(request.as_bytes(), piece_len);
        let reply = String::from_utf8(stand.take_sent()).unwrap();
        assert!(reply.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{reply}");
        assert!(reply.ends_with("\r\n\r\nThis port requires TLS: use https:// here\n"), "{reply}");
        assert_eq!(stand.end, Some(Next::CloseLinger));
        assert_eq!(stand.reason(), CloseReason::Tls);
        let stats = acceptor.stats();
        assert_eq!((stats.plain_http, stats.handshakes_live), (1, 0), "{stats:?}");
    }
}

#[test]
fn garbage_gets_an_alert_and_no_session() {
    let table: [(&[u8], Next); 5] = [
        (&[0; 50], Next::CloseClean),
        (b"\x80\x2e\x01\x00\x02", Next::CloseClean),
        (&[255], Next::CloseClean),
        (b"SSH-2.0-x\r\n", Next::CloseClean),
        (&[22, 3, 9], Next::CloseLinger),
    ];
    for (row, (bytes, end)) in table.into_iter().enumerate() {
        let acceptor = acceptor();
        let mut stand = Stand::new(http(&acceptor));
        stand.feed(bytes, usize::MAX);
        assert_eq!(stand.take_sent(), alert(50), "row {row}");
        assert_eq!((stand.end, stand.reason()), (Some(end), CloseReason::Tls), "row {row}");
        assert_eq!(acceptor.stats().not_tls, 1);
    }
}

#[test]
fn a_hello_of_noise_gets_an_alert() {
    let mut noise = vec![22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3];
    noise.extend((0..250_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8));
    noise.truncate(5 + 256);
    let acceptor = acceptor();
    let mut stand = Stand::new(http(&acceptor));
    stand.feed(&noise, usize::MAX);
    let sent = stand.take_sent();
    assert_eq!((sent[0], sent.len()), (21, 7), "{sent:?}");
    assert_eq!((stand.end, stand.reason()), (Some(Next::CloseClean), CloseReason::Tls));
    assert_eq!(acceptor.stats().handshakes_failed, 1);
}

#[test]
fn a_hello_over_the_limit_is_refused_at_its_length_and_in_any_fragments() {
    // The length of the hello is in its first bytes.
    let acceptor = acceptor();
    let mut stand = Stand::new(http(&acceptor));
    stand.feed(&[22, 3, 1, 2, 0, 1, 0, 64, 1], 1);
    assert_eq!(stand.take_sent(), alert(50));
    assert_eq!(stand.end, Some(Next::CloseLinger), "the rest of the hello is still arriving");
    assert_eq!(acceptor.stats().handshakes_failed, 1);
    // A permitted length, in fragments whose overhead exceeds the limit.
    for fragment_len in [1, 2, 7] {
        let limits = TlsLimits { hello_bytes_max: 4096, ..TlsLimits::default() };
        let acceptor = limited(limits);
        let mut stand = Stand::new(http(&acceptor));
        let mut hello = vec![1, 0, 15, 252];
        hello.resize(4096, 0);
        let wire = in_fragments(&hello, fragment_len);
        stand.feed(&wire, 100);
        assert_eq!(stand.take_sent(), alert(50), "fragments of {fragment_len}");
        assert_eq!(stand.end, Some(Next::CloseLinger));
        assert!(stand.input.is_empty());
    }
}

#[test]
fn a_hello_in_fragments_within_the_limit_is_accepted() {
    for version in VERSIONS {
        for fragment_len in [1, 3, 100] {
            let config = Arc::new(client_config(version, None));
            let mut pair = Pair::new(client(&config), http(&acceptor()));
            let hello = pair.wire_of_client();
            let wire = in_fragments(&hello[5..], fragment_len);
            pair.stand.feed(&wire, usize::MAX);
            let reply = pair.ask("/");
            assert!(reply.ends_with("ok\n"), "{version:?} in fragments of {fragment_len}: {:?}", pair.error);
        }
    }
}

#[test]
fn a_truncated_handshake_is_abandoned_and_a_slow_one_times_out() {
    let config = Arc::new(client_config(VERSIONS[1], None));
    let hello = Pair::new(client(&config), http(&acceptor())).wire_of_client();
    for len in [0, 1, 5, 100, hello.len()] {
        let acceptor = acceptor();
        let mut stand = Stand::new(http(&acceptor));
        stand.feed(&hello[..len], usize::MAX);
        assert_eq!(acceptor.stats().handshakes_live, 1);
        assert_eq!(stand.eof(), Next::Close);
        assert_eq!(stand.reason(), CloseReason::ClientGone);
        drop(stand);
        let stats = acceptor.stats();
        assert_eq!((stats.handshakes_abandoned, stats.handshakes_live), (u64::from(len > 0), 0), "{len}");

        let mut stand = Stand::new(http(&acceptor));
        stand.feed(&hello[..len], usize::MAX);
        assert_eq!(stand.tls.deadline(&stand.conn), stand.now.after(Duration::from_secs(5)));
        assert_eq!(
            stand.timeout_after(Duration::from_millis(4_900)),
            Next::Read,
            "an occasional byte does not extend the deadline"
        );
        assert_eq!(stand.timeout_after(Duration::from_millis(100)), Next::Close);
        assert_eq!(stand.reason(), CloseReason::HandshakeTimeout);
        assert_eq!((acceptor.stats().handshakes_timed_out, acceptor.stats().handshakes_live), (1, 0));
    }
}

#[test]
fn over_the_cap_a_connection_is_refused_without_cryptography() {
    let acceptor = limited(TlsLimits { handshakes_max: Some(2), ..TlsLimits::default() });
    let config = Arc::new(client_config(VERSIONS[1], None));
    let waiting = [Stand::new(http(&acceptor)), Stand::new(http(&acceptor))];
    let mut third = Pair::new(client(&config), http(&acceptor));
    assert_eq!(third.stand.tls.deadline(&third.stand.conn), third.stand.now, "the deadline has passed");
    third.talk();
    assert_eq!(third.error, Some(rustls::Error::AlertReceived(rustls::AlertDescription::InternalError)));
    assert_eq!((third.stand.end, third.stand.reason()), (Some(Next::CloseClean), CloseReason::HandshakeCap));
    let stats = acceptor.stats();
    assert_eq!((stats.handshakes_over_cap, stats.handshakes_live), (1, 2));
    drop(waiting);
    let mut fourth = Pair::new(client(&config), http(&acceptor));
    assert!(fourth.ask("/").ends_with("ok\n"), "a handshake is possible again");
    let mut fifth = Pair::new(client(&config), http(&acceptor));
    assert!(fifth.ask("/").ends_with("ok\n"), "an established connection does not count");
    assert_eq!(acceptor.stats().handshakes_live, 0);
}

#[test]
fn the_gate_is_called_once_per_hello_and_a_refusal_is_an_alert() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let asked = Arc::new(AtomicU32::new(0));
    let gate = {
        let asked = Arc::clone(&asked);
        move |client: std::net::IpAddr, _now| {
            assert_eq!(client, std::net::IpAddr::from([192, 0, 2, 1]));
            asked.fetch_add(1, Ordering::Relaxed) == 0
        }
    };
    let acceptor = Acceptor::with_limits(&config(), TlsLimits::default(), Some(Box::new(gate))).unwrap();
    assert!(http(&acceptor).wants_client());
    let config = Arc::new(client_config(VERSIONS[1], None));
    let mut first = Pair::new(client(&config), http(&acceptor));
    first.piece_len = 10;
    assert!(first.ask("/").ends_with("ok\n"));
    let mut second = Pair::new(client(&config), http(&acceptor));
    second.talk();
    assert_eq!(second.stand.end, Some(Next::CloseClean));
    assert_eq!((asked.load(Ordering::Relaxed), acceptor.stats().handshakes_gate_refused), (2, 1));
}

#[test]
fn a_limiter_is_a_gate_and_counts_an_ipv6_64_network_as_one_client() {
    let limiter = || Limiter::new(Quota::new(2, 1, Duration::from_secs(1)).unwrap(), 1024, [3, 4]);
    let gate: Box<dyn HandshakeGate> = Box::new(limiter());
    let now = Time::ZERO.after(Duration::from_secs(100));
    let said: Vec<bool> =
        ["2001:db8::1", "2001:db8::ffff:2", "2001:db8::3", "2001:db8:0:1::1", "192.0.2.1", "192.0.2.2"]
            .iter()
            .map(|client| gate.admits(client.parse().unwrap(), now))
            .collect();
    assert_eq!(said, [true, true, false, true, true, true]);
    let acceptor = Acceptor::with_limits(&config(), TlsLimits::default(), Some(Box::new(limiter()))).unwrap();
    let client_config = Arc::new(client_config(VERSIONS[1], None));
    for admitted in [true, true, false] {
        let mut pair = Pair::new(client(&client_config), http(&acceptor));
        pair.talk();
        assert_eq!(pair.stand.end.is_none(), admitted);
    }
}

#[test]
fn a_connection_over_the_cap_of_its_address_gets_an_alert() {
    let acceptor = acceptor();
    let mut stand = Stand::new(http(&acceptor));
    let next = stand.call(|tls, conn, io| tls.handle_overload(conn, CloseReason::PerIpCap, io));
    assert_eq!((next, stand.reason()), (Next::Close, CloseReason::PerIpCap));
    assert_eq!(stand.take_sent(), alert(80));
}
