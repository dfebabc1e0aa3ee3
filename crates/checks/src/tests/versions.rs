//! HTTP/2 requests, and the PROXY header before a request.

use super::watches::{await_request, field, frame};
use super::*;
use options::{HttpVersion, Payload, ProxyHeader, RequestVersion};
use std::sync::mpsc;

fn http(addr: SocketAddr) -> HttpCheck {
    HttpCheck::new(url(format!("http://{addr}/x")))
}

fn over_http2(addr: SocketAddr) -> HttpCheck {
    let expect = HttpExpect { http_version: Some(HttpVersion::Http2), ..HttpExpect::default() };
    HttpCheck { http_version: RequestVersion::Http2, expect, ..http(addr) }
}

/// A server that sends these frames after the head of a request.
fn frames(answer: Vec<u8>) -> SocketAddr {
    server(move |stream| {
        await_request(stream);
        stream.write_all(&[frame(4, 0, 0, &[]), answer.clone()].concat()).unwrap();
    })
}

#[test]
fn requests_use_http2_with_prior_knowledge() {
    let ok = || [vec![0x88], field("x-app", "shop")].concat();
    let whole = [frame(1, 4, 1, &ok()), frame(0, 1, 1, b"ready")].concat();
    let (empty, cut) = (frame(1, 5, 1, &ok()), frame(1, 4, 1, &ok()));
    // The static table of HPACK has no entry for the status 503.
    let down = frame(1, 5, 1, &field(":status", "503"));
    let wants = |check: HttpCheck, text: &str| HttpCheck {
        expect: HttpExpect { body_contains: Some(text.to_owned()), ..check.expect },
        ..check
    };
    let http1 = server(|stream| heard(stream).write_all(b"HTTP/1.1 400 B\r\n\r\n").unwrap());
    let goaway = frame(7, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 11]);
    for (check, outcome, reason) in [
        (wants(over_http2(frames(whole.clone())), "ready"), Outcome::Success, ""),
        (wants(over_http2(frames(whole)), "no"), Outcome::Failure, "the content lacks \"no\""),
        (over_http2(frames(empty)), Outcome::Success, ""),
        (over_http2(frames(down)), Outcome::Failure, "status 503, expected 200-299"),
        (over_http2(http1), Outcome::Failure, "the server speaks HTTP/1 here, not HTTP/2"),
        (over_http2(frames(goaway)), Outcome::Failure, ""),
        (over_http2(frames(cut)), Outcome::Timeout, "no end of the response within 1s"),
    ] {
        let finding = block_on(runner_within(SOON, check).run());
        assert_eq!(finding.outcome, outcome, "{}", finding.reason);
        assert!(finding.reason.contains(reason), "{} {reason}", finding.reason);
    }
}

/// The bytes that the server gets from its first `read`.
fn received(kind: impl FnOnce(SocketAddr) -> CheckKind) -> Vec<u8> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let addr = server(move |stream| {
        let mut bytes = [0; 256];
        let len = stream.read(&mut bytes).unwrap();
        sender.send(bytes[..len].to_vec()).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let finding = block_on(runner_within(SOON, kind(addr)).run());
    assert!(finding.outcome != Outcome::Error, "{finding:?}");
    receiver.recv().unwrap()
}

#[test]
fn a_proxy_header_comes_first() {
    let v1 = Some(ProxyHeader::V1);
    let http1 = received(|addr| HttpCheck { proxy_protocol: v1, ..http(addr) }.into());
    let tls = received(|addr| TlsCheck { proxy_protocol: v1, ..TlsCheck::new(address(addr)) }.into());
    let sent = received(|addr| {
        let payload = Payload { send: b"PING".to_vec(), ..Payload::default() };
        TcpCheck { proxy_protocol: v1, payload, ..TcpCheck::new(address(addr)) }.into()
    });
    for bytes in [http1, tls, sent] {
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with("PROXY TCP4 127.0.0.1 127.0.0.1 "), "{text:?}");
    }
    let kind = |addr| TcpCheck { proxy_protocol: Some(ProxyHeader::Local), ..TcpCheck::new(address(addr)) };
    let local = received(|addr| kind(addr).into());
    assert_eq!(local, b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", "a check that sends nothing else");
}
