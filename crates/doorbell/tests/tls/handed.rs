//! Tests of connections that are handed over by their ClientHello: in memory and on real sockets.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doorbell::http::{Next, Peer, Time, TlsVersion};
use doorbell::protocol::{HelloInfo, Protocol as _, Tls};
use doorbell::tls::{Acceptor, HandedHandshake, TlsConfig, TlsLimits};
use doorbell::{CloseReason, Engine, HandOver, HandedConn, Http1, Taker, service_fn};

use doorbell_testkit::peers::wait_until;
use rustls::{ClientConnection, ServerConnection};

use crate::memory::{
    Pair, Stand, UNIX_SECS, VERSIONS, acceptor, client, client_config, client_for, config, http,
};
use crate::pki::{Wish, ca};
use crate::promise::{addr, anywhere, builder, on_both_engines};

on_both_engines! {
    a_hello_arrives_whole_and_unanswered
}

/// Selects ClientHellos for the application, by name or by protocol.
fn is_the_programs(hello: &HelloInfo<'_>) -> bool {
    hello.server_name == Some("app.example") || hello.alpn.contains(&b"h2".as_slice())
}

fn split(acceptor: &Acceptor) -> Tls<Http1> {
    http(acceptor).hand_over_if(is_the_programs)
}

/// Returns the first flight of a client.
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
                    assert!(!stand.take_sent().is_empty(), "the listener continues the handshake");
                }
                let stats = acceptor.stats();
                assert_eq!(stats.hellos_handed_over, u64::from(leaves));
                assert_eq!(stats.handshakes_live, u64::from(!leaves));
            }
        }
    }
}

#[test]
fn a_hello_in_several_records_is_decided_with_the_last() {
    for (alpn, leaves) in [(b"h2".as_slice(), true), (b"http/1.1", false)] {
        let bytes = hello(1, "localhost", &[alpn]);
        let (header, message) = bytes.split_at(5);
        let record = |piece: &[u8]| {
            let len = u16::try_from(piece.len()).unwrap().to_be_bytes();
            [&header[..3], &len, piece].concat()
        };
        for piece_len in [1, 2, 3, 4, 50, message.len() - 1] {
            let records: Vec<Vec<u8>> = message.chunks(piece_len).map(record).collect();
            let acceptor = acceptor();
            let mut stand = Stand::new(split(&acceptor));
            for record in &records {
                assert!(stand.end.is_none() && stand.take_sent().is_empty());
                let _next = stand.call(|tls, conn, io| tls.handle_input(conn, record, io));
            }
            assert_eq!(stand.end, leaves.then_some(Next::HandOver), "records with {piece_len}");
            if leaves {
                assert_eq!(stand.input, records.concat());
            } else {
                assert!(!stand.take_sent().is_empty(), "the listener continues the handshake");
            }
        }
    }
}

#[test]
fn a_long_hello_is_decided_too() {
    let acceptor = acceptor();
    let long = [b'x'; 200];
    let alpn: Vec<&[u8]> = core::iter::repeat_n(&long[..], 60).chain([&b"h2"[..]]).collect();
    let bytes = hello(1, "localhost", &alpn);
    assert!(bytes.len() > 12_000, "{}", bytes.len());
    let mut stand = Stand::new(split(&acceptor));
    assert_eq!(stand.call(|tls, conn, io| tls.handle_input(conn, &bytes, io)), Next::HandOver);
    assert_eq!(stand.input, bytes);
}

#[test]
fn a_refused_hello_gets_an_alert() {
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
fn a_hand_over_inside_a_session_gets_a_503() {
    let acceptor = acceptor();
    let leave = service_fn(|_, reply| reply.hand_over());
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
    for (before, at) in [0, 1, 5, 100, bytes.len() - 1].into_iter().enumerate() {
        let mut stream = TcpStream::connect(addr(&server)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(&bytes[..at]).unwrap();
        // The handshake timeout begins when the connection is accepted.
        let is_accepted = || server.stats().conns_accepted > before as u64;
        assert!(wait_until(Duration::from_secs(20), is_accepted).is_some(), "{:?}", server.stats());
        std::thread::sleep(Duration::from_millis(20));
        stream.write_all(&bytes[at..]).unwrap();
        let handed = loop {
            if let Some(handed) = desk.0.lock().unwrap().pop() {
                break handed;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(handed.bytes, bytes, "cut at {at}");
        // The handshake timeout has begun, and the new owner gets the remaining time.
        let (whole, pause) = (acceptor.limits().handshake_timeout, if at == 0 { 0 } else { 15 });
        let left_max = whole - Duration::from_millis(pause);
        assert!(handed.time_left <= left_max && handed.time_left > whole / 2, "{:?}", handed.time_left);
        let mut theirs = TcpStream::from(handed.fd);
        theirs.write_all(b"their own handshake").unwrap();
        drop(theirs);
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        assert_eq!(came, b"their own handshake", "doorbell has sent nothing");
    }
    server.stop().unwrap();
}

/// Makes a handshake in memory, with a client of this version that offers these protocols.
fn shake_hands(
    handshake: &HandedHandshake,
    version: usize,
    alpn: &[&[u8]],
) -> Result<ServerConnection, rustls::Error> {
    let mut config = client_config(VERSIONS[version], None);
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    shake_with(&mut client(&Arc::new(config)), handshake)
}

fn shake_with(
    client: &mut ClientConnection,
    handshake: &HandedHandshake,
) -> Result<ServerConnection, rustls::Error> {
    let mut server = ServerConnection::new(handshake.config())?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut bytes.as_slice()).unwrap();
        server.process_new_packets()?;
        bytes.clear();
        server.write_tls(&mut bytes).unwrap();
        client.read_tls(&mut bytes.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    Ok(server)
}

#[test]
fn a_handed_handshake_uses_the_same_certificates_and_is_counted() {
    let acceptor = Acceptor::new(&config().alpn_handed(["h2"])).unwrap();
    for (version, expected) in [(0, TlsVersion::Tls12), (1, TlsVersion::Tls13)] {
        let handshake = acceptor.begin_handed(Peer::Unknown, Time::ZERO).unwrap();
        assert_eq!(acceptor.stats().handshakes_live, 1);
        let session = shake_hands(&handshake, version, &[b"http/1.1", b"h2"]).unwrap();
        let info = handshake.done(&session, UNIX_SECS).unwrap();
        assert_eq!((info.alpn.as_deref(), info.version), (Some("h2"), expected));
        assert_eq!(info.server_name.as_deref(), Some("localhost"));
    }
    let handshake = acceptor.begin_handed(Peer::Unknown, Time::ZERO).unwrap();
    let error = shake_hands(&handshake, 1, &[b"http/1.1"]).unwrap_err();
    handshake.failed(&error);
    acceptor.begin_handed(Peer::Unknown, Time::ZERO).unwrap().timed_out();
    drop(acceptor.begin_handed(Peer::Unknown, Time::ZERO).unwrap());
    let stats = acceptor.stats();
    assert_eq!((stats.handshakes_tls12, stats.handshakes_tls13, stats.handshakes_live), (1, 1, 0));
    assert_eq!((stats.handshakes_failed, stats.handshakes_timed_out, stats.handshakes_abandoned), (1, 1, 1));
}

#[test]
fn the_limits_of_handshakes_apply_to_handed_ones_too() {
    assert!(acceptor().begin_handed(Peer::Unknown, Time::ZERO).is_none(), "no protocol is offered");
    let limits = TlsLimits { handshakes_max: Some(1), ..TlsLimits::default() };
    let gate = |client: IpAddr, _: Time| client.is_loopback();
    let acceptor =
        Acceptor::with_limits(&config().alpn_handed(["h2"]), limits, Some(Box::new(gate))).unwrap();
    let [here, elsewhere] = [[127, 0, 0, 1], [192, 0, 2, 1]].map(|addr| Peer::Addr(addr.into()));
    let first = acceptor.begin_handed(here, Time::ZERO).unwrap();
    assert!(acceptor.begin_handed(here, Time::ZERO).is_none());
    drop(first);
    assert!(acceptor.begin_handed(elsewhere, Time::ZERO).is_none());
    assert!(acceptor.begin_handed(here, Time::ZERO).is_some());
    assert!(acceptor.begin_handed(Peer::Unknown, Time::ZERO).is_none(), "an unknown address is not admitted");
    assert!(acceptor.begin_handed(Peer::Unix, Time::ZERO).is_some());
    let stats = acceptor.stats();
    assert_eq!((stats.handshakes_over_cap, stats.handshakes_gate_refused), (1, 2));
}

#[test]
fn handed_handshakes_use_a_replaced_certificate() {
    let acceptor = Acceptor::new(&config().alpn_handed(["h2"])).unwrap();
    let presented = || {
        let handshake = acceptor.begin_handed(Peer::Unknown, Time::ZERO).unwrap();
        let mut config = client_config(VERSIONS[1], None);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let mut client = client(&Arc::new(config));
        shake_with(&mut client, &handshake).unwrap();
        client.peer_certificates().unwrap()[0].clone()
    };
    let before = presented();
    assert_eq!(presented(), before);
    let other = TlsConfig::new(ca().sign(Wish { names: &["localhost"], ..Wish::default() }).pair());
    assert!(acceptor.replace(&other.alpn_handed(["h2"])).unwrap());
    assert_ne!(presented(), before);
}
