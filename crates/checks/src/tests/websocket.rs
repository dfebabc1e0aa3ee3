//! WebSocket checks against correct peers and against faulty peers.
//!
//! Does not know about: other implementations, see `real`.

use super::kinds::{floods, is, is_within, says, silent, tls_config};
use super::*;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use options::WebsocketCheck;

const PONG: &[u8] = b"\x8a\x08doorbell";

fn websocket(addr: SocketAddr) -> WebsocketCheck {
    WebsocketCheck::new(url(format!("http://{addr}/socket")))
}

/// Reads a request, and returns the head of the response that accepts it.
fn accepted(stream: &mut impl std::io::Read) -> Vec<u8> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        request.extend_from_slice(&byte);
    }
    let request = String::from_utf8(request).unwrap();
    assert!(request.starts_with("GET /socket HTTP/1.1\r\n"), "{request}");
    let field = |name: &str| {
        let lines = request.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value).next().unwrap()
    };
    let fields = ["connection", "upgrade", "sec-websocket-version"].map(field);
    assert_eq!(fields, ["Upgrade", "websocket", "13"]);
    let key = format!("{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11", field("sec-websocket-key"));
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes());
    let accept = base64::prelude::BASE64_STANDARD.encode(hash);
    let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket";
    format!("{head}\r\nSec-WebSocket-Accept: {accept}\r\n\r\n").into_bytes()
}

/// A server that upgrades, sends these frames with the response, and then repeats `more` without
/// end.
fn sends_more(frames: impl Into<Vec<u8>>, more: &'static [u8]) -> SocketAddr {
    let frames = frames.into();
    server(move |stream| {
        let (mut stream, frames) = (stream.try_clone().unwrap(), frames.clone());
        std::thread::spawn(move || {
            let head = accepted(&mut stream);
            stream.write_all(&[head, frames].concat()).unwrap();
            while !more.is_empty() && stream.write_all(more).is_ok() {}
            // Until the client closes the connection.
            let _end = stream.read_to_end(&mut Vec::new());
        });
    })
}

fn sends(frames: impl Into<Vec<u8>>) -> SocketAddr {
    sends_more(frames, b"")
}

#[test]
fn pongs_and_messages() {
    let quiet = |addr| WebsocketCheck { ping: false, ..websocket(addr) };
    is(websocket(sends(PONG)), Outcome::Success, "");
    is(quiet(sends("")), Outcome::Success, "");
    is_within(SOON, websocket(sends("")), Outcome::Timeout, "no response within 1s");
    is(websocket(sends(b"\x83\x00")), Outcome::Failure, "WebSocket: ");
    let contains = |addr| WebsocketCheck {
        send: Some("hello".to_owned()),
        contains: Some("ready".to_owned()),
        ..websocket(addr)
    };
    // A message in two frames, with the pong between them.
    let split = [&b"\x01\x06are re"[..], PONG, b"\x80\x03ady"].concat();
    is(contains(sends(split)), Outcome::Success, "");
    is_within(SOON, contains(sends(PONG)), Outcome::Timeout, "no response within 1s");
    let flood = contains(sends_more(PONG, b"\x81\x02no"));
    is(flood, Outcome::Failure, "1024 messages received without \"ready\"");
    let flood = websocket(sends_more("", b"\x82\x02no"));
    is(flood, Outcome::Failure, "1024 messages received without a pong");
    // The pong of another ping, and the end.
    is(
        websocket(sends(b"\x8a\x01x\x88\x05\x03\xf0bye")),
        Outcome::Failure,
        "closed the connection: 1008 bye",
    );
    is(websocket(sends(b"\x88\x00")), Outcome::Failure, "the server closed the connection");
    let large = [&b"\x82\x7f\0\0\0\0\0\x02\0\0"[..], &[0; 100]].concat();
    is(websocket(sends(large)), Outcome::Failure, "WebSocket: ");
    let cut = server(|stream| {
        let head = accepted(stream);
        stream.write_all(&head).unwrap();
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    });
    is(websocket(cut), Outcome::Failure, "");
}

#[test]
fn what_is_not_websocket_fails() {
    let refused = says("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    is(websocket(refused), Outcome::Failure, "status 404, expected 101");
    let ordinary = says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    is(websocket(ordinary), Outcome::Failure, "status 200, expected 101");
    let wrong = "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r\n\r\n";
    is(websocket(says(wrong)), Outcome::Failure, "Sec-WebSocket-Accept is missing or wrong");
    is(websocket(says("SSH-2.0-OpenSSH_9.2\r\n\r\n")), Outcome::Failure, "the response is not HTTP/1");
    is(websocket(floods(b"HTTP/1.1 101 x\r\na: b\r\n")), Outcome::Failure, "the response is not HTTP/1");
    is_within(SOON, websocket(silent()), Outcome::Timeout, "no response within 1s");
    is_within(SOON, websocket(says("HTTP/1.1 101 x\r\n")), Outcome::Timeout, "no response within 1s");
}

/// A server with TLS, whose certificate expires in this many days.
fn tls_server(days: i64) -> SocketAddr {
    let config = tls_config(days);
    server(move |stream| {
        let (config, stream) = (Arc::clone(&config), stream.try_clone().unwrap());
        std::thread::spawn(move || {
            let session = rustls::ServerConnection::new(config).unwrap();
            let mut stream = rustls::StreamOwned::new(session, stream);
            // A client that does not trust the certificate ends here.
            if stream.flush().is_ok() {
                let head = accepted(&mut stream);
                stream.write_all(&[&head, PONG].concat()).unwrap();
                let _end = stream.read_to_end(&mut Vec::new());
            }
        });
    })
}

#[test]
fn tls_of_a_wss_url() {
    let wss = |addr: SocketAddr| WebsocketCheck {
        tls: unverified(),
        ..WebsocketCheck::new(url(format!("https://{addr}/socket")))
    };
    is(wss(tls_server(30)), Outcome::Success, "");
    let untrusted = WebsocketCheck { tls: ClientTls::default(), ..wss(tls_server(30)) };
    is(untrusted, Outcome::Failure, "TLS: invalid peer certificate: ");
    let certificate = CertificateRule {
        expires_after: Some(Duration::from_secs(86_400 * 14)),
        ..CertificateRule::default()
    };
    for (days, reason) in [(-1, "the certificate has expired"), (2, "the certificate expires in 2d")] {
        is(WebsocketCheck { certificate, ..wss(tls_server(days)) }, Outcome::Failure, reason);
    }
}
