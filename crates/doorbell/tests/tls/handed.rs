//! Connections whose ClientHello is somebody else's: in memory and on real sockets.
//!
//! Does not know about: who answers it then.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doorbell::http::Next;
use doorbell::protocol::{HelloInfo, Protocol as _, Tls};
use doorbell::tls::Acceptor;
use doorbell::{CloseReason, Engine, HandOver, HandedConn, Http1, Taker};

use crate::memory::{Pair, Stand, VERSIONS, acceptor, client, client_config, client_for, http};
use crate::promise::{addr, anywhere, builder, on_both_engines};

on_both_engines! {
    a_hello_arrives_whole_and_unanswered
}

/// Hellos for this name, or with this protocol, are the program's.
fn is_the_programs(hello: &HelloInfo<'_>) -> bool {
    hello.server_name == Some("app.example") || hello.alpn.contains(&b"h2".as_slice())
}

fn split(acceptor: &Acceptor) -> Tls<Http1> {
    http(acceptor).hand_over_if(is_the_programs)
}

/// The first flight of a client.
fn hello(version: usize, name: &str, alpn: &[&[u8]]) -> Vec<u8> {
    let mut config = client_config(VERSIONS[version], None);
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let mut bytes = Vec::new();
    let mut client = client_for(&Arc::new(config), name);
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

#[test]
fn the_name_or_the_protocol_decides_at_every_split_point() {
    for version in 0..VERSIONS.len() {
        for (name, alpn, leaves) in [
            ("app.example", [].as_slice(), true),
            ("localhost", [b"h2".as_slice(), b"http/1.1"].as_slice(), true),
            ("localhost", [b"http/1.1".as_slice()].as_slice(), false),
        ] {
            let bytes = hello(version, name, alpn);
            for at in (0..bytes.len()).step_by(7) {
                let acceptor = acceptor();
                let mut stand = Stand::new(split(&acceptor));
                for piece in [&bytes[..at], &bytes[at..]] {
                    let _next = stand.call(|tls, conn, io| tls.handle_input(conn, piece, io));
                }
                if leaves {
                    assert_eq!(stand.end, Some(Next::HandOver), "{name} cut at {at}");
                    assert_eq!(stand.input, bytes);
                    assert!(stand.take_sent().is_empty());
                } else {
                    assert_eq!(stand.end, None, "{name} cut at {at}");
                    assert!(!stand.take_sent().is_empty(), "the handshake goes on here");
                }
                let stats = acceptor.stats();
                assert_eq!(stats.hellos_handed_over, u64::from(leaves));
                assert_eq!(stats.handshakes_live, u64::from(!leaves));
            }
        }
    }
}

#[test]
fn a_hello_that_nobody_takes_gets_an_alert() {
    let acceptor = acceptor();
    let mut stand = Stand::new(split(&acceptor));
    let bytes = hello(1, "app.example", &[]);
    assert_eq!(stand.call(|tls, conn, io| tls.handle_input(conn, &bytes, io)), Next::HandOver);
    stand.end = None;
    let next = stand.call(|tls, conn, io| tls.handle_overload(conn, CloseReason::NotTaken, io));
    assert_eq!((next, stand.take_sent().as_slice()), (Next::Close, [21, 3, 3, 0, 2, 2, 80].as_slice()));
    assert_eq!(stand.reason(), CloseReason::NotTaken);
}

#[test]
fn a_request_inside_a_session_that_nobody_else_can_continue_gets_a_503() {
    let acceptor = acceptor();
    let leave = |_: &doorbell::Request<'_>, reply: doorbell::Responder<'_>| reply.hand_over();
    let config = Arc::new(client_config(VERSIONS[1], None));
    let mut pair = Pair::new(client(&config), Http1::new(leave).tls(acceptor));
    let reply = pair.ask("/app");
    assert!(reply.starts_with("HTTP/1.1 503 "), "{reply}");
}

#[derive(Clone, Default)]
struct Desk(Arc<Mutex<Vec<HandedConn>>>);

impl Taker for Desk {
    fn take(&self, conns: &mut Vec<HandedConn>) {
        self.0.lock().unwrap().append(conns);
    }
}

fn a_hello_arrives_whole_and_unanswered(engine: Engine) {
    let desk = Desk::default();
    let acceptor = acceptor();
    let server = builder(engine)
        .listen(anywhere(), split(&acceptor))
        .hand_over(HandOver::new(desk.clone()))
        .start()
        .unwrap();
    let bytes = hello(1, "app.example", &[]);
    for at in [0, 1, 5, 100, bytes.len() - 1] {
        let mut stream = TcpStream::connect(addr(&server)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(&bytes[..at]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        stream.write_all(&bytes[at..]).unwrap();
        let handed = loop {
            if let Some(handed) = desk.0.lock().unwrap().pop() {
                break handed;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(handed.bytes, bytes, "cut at {at}");
        let mut theirs = TcpStream::from(handed.fd);
        theirs.write_all(b"their own handshake").unwrap();
        drop(theirs);
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        assert_eq!(came, b"their own handshake", "nothing was answered before");
    }
    server.stop().unwrap();
}
