//! The peers against a small correct server and against faulty servers: a peer that cannot detect a
//! fault proves nothing.

#![expect(clippy::disallowed_methods, reason = "real sockets, real time")]
#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use doorbell_testkit::peers::{
    End, Load, LoadReport, Mode, Shape, Trickle, Unique, connect_from, exchange, misbehave, read_paced,
};

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    ForeignByte,
    None,
    Reset,
    Short,
    WrongOrder,
}

/// A server with one thread per connection. It misbehaves on ids that end in 7.
fn serve(fault: Fault) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || answer(stream, fault));
        }
    });
    addr
}

fn answer(mut stream: TcpStream, fault: Fault) {
    let (mut input, mut buf) = (Vec::new(), [0; 4096]);
    loop {
        let n = match stream.read(&mut buf) {
            Ok(0) | Err(_) => return,
            Ok(n) => n,
        };
        input.extend_from_slice(&buf[..n]);
        let mut replies = Vec::new();
        let mut close = false;
        while let Some(end) = input.windows(4).position(|window| window == b"\r\n\r\n") {
            let head: Vec<u8> = input.drain(..end + 4).collect();
            let head = String::from_utf8(head).unwrap();
            close |= head.contains("Connection: close")
                || head.contains("HTTP/1.0")
                || head.contains("connection: close");
            let path = head.split(' ').nth(1).unwrap();
            let unique = Unique::parse(path).unwrap_or(Unique { id: 0, len: 2 });
            let mut body = unique.body();
            let bad = unique.id % 10 == 7;
            if bad && fault == Fault::ForeignByte {
                body[unique.len / 2] ^= 1;
            }
            if bad && fault == Fault::Reset {
                misbehave::reset(&stream).unwrap();
                return;
            }
            let to_head = head.starts_with("HEAD");
            let mut reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
            if !to_head {
                reply.extend_from_slice(&body);
            }
            if bad && fault == Fault::Short {
                let _ = stream.write_all(&reply[..reply.len() - 1]);
                return;
            }
            replies.push(reply);
        }
        if fault == Fault::WrongOrder {
            replies.reverse();
        }
        if stream.write_all(&replies.concat()).is_err() || close {
            return;
        }
    }
}

fn load(fault: Fault, mode: Mode) -> LoadReport {
    let load = Load {
        server: serve(fault),
        sources: vec![Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2)],
        requests: 300,
        in_flight: 8,
        mode,
        first_id: 1,
        patience: Duration::from_secs(20),
    };
    load.run().unwrap()
}

#[test]
fn an_honest_server_is_clean_in_every_mode() {
    for mode in [Mode::Close, Mode::KeepAlive(7), Mode::Pipelined(4)] {
        let report = load(Fault::None, mode);
        assert!(report.is_clean() && report.replies == 300, "{mode:?} {report:?}");
    }
}

#[test]
fn every_fault_is_seen() {
    assert_eq!(load(Fault::ForeignByte, Mode::Close).foreign_bytes, 30);
    assert_eq!(load(Fault::ForeignByte, Mode::KeepAlive(10)).foreign_bytes, 30);
    assert_eq!(load(Fault::Reset, Mode::Close).resets, 30);
    assert_eq!(load(Fault::Short, Mode::Close).cut_short, 30);
    assert!(load(Fault::WrongOrder, Mode::Pipelined(4)).foreign_bytes > 0);
}

#[test]
fn nobody_listens() {
    let addr = doorbell_testkit::peers::free_addr();
    let load = Load {
        server: addr,
        sources: Vec::new(),
        requests: 5,
        in_flight: 2,
        mode: Mode::Close,
        first_id: 0,
        patience: Duration::from_secs(5),
    };
    let report = load.run().unwrap();
    assert_eq!((report.refused, report.replies, report.is_clean()), (5, 0, false));
}

#[test]
fn a_silent_server_ends_with_patience() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let load = Load {
        server: listener.local_addr().unwrap(),
        sources: Vec::new(),
        requests: 5,
        in_flight: 2,
        mode: Mode::Close,
        first_id: 0,
        patience: Duration::from_millis(300),
    };
    let report = load.run().unwrap();
    assert_eq!((report.unanswered, report.is_clean()), (5, false));
}

#[test]
fn every_prober_gets_its_reply() {
    let addr = serve(Fault::None);
    for &shape in Shape::ALL {
        let exchange = shape.probe(addr, "/livez").unwrap();
        assert_eq!(exchange.end, End::Fin, "{shape:?}");
        assert_eq!(!exchange.bytes.is_empty(), shape.expects_reply(), "{shape:?}");
    }
}

#[test]
fn the_three_ends_are_distinguished() {
    let fin = exchange(serve(Fault::None), b"GET / HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!((fin.end, fin.bytes.len()), (End::Fin, 40));
    let reset = exchange(serve(Fault::Reset), b"GET /unique/7/40 HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(reset.end, End::Reset);
    // A server that closes with unread bytes sends a reset, and the FIN may come first.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let mut client = connect_from(Ipv4Addr::new(127, 0, 0, 9), addr).unwrap();
    let (mut server, from) = listener.accept().unwrap();
    assert_eq!(from.ip(), Ipv4Addr::new(127, 0, 0, 9));
    server.write_all(b"bye").unwrap();
    server.shutdown(std::net::Shutdown::Write).unwrap();
    client.write_all(b"unread").unwrap();
    thread::sleep(Duration::from_millis(20));
    drop(server);
    thread::sleep(Duration::from_millis(20));
    let late = doorbell_testkit::peers::finish(&mut client, Duration::from_secs(1));
    assert!(matches!(late.end, End::LateReset | End::Reset), "{late:?}");
}

#[test]
fn slow_peers_are_slow() {
    let addr = serve(Fault::None);
    let unique = Unique { id: 3, len: 60_000 };
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.write_all(format!("GET {} HTTP/1.0\r\n\r\n", unique.path()).as_bytes()).unwrap();
    let paced = read_paced(&mut stream, 100_000, Duration::from_secs(5), |_, _| 0).unwrap();
    assert_eq!((paced.end, paced.len), (End::Fin, 60_042));
    assert!(paced.took > Duration::from_millis(500), "{paced:?}");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let trickle = Trickle::new(vec![(stream, Instant::now())], Duration::from_millis(20)).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let sender = thread::spawn(move || trickle.run(&[b'x'; 100], Duration::from_secs(5)));
    let (start, mut got) = (Instant::now(), [0; 10]);
    server.read_exact(&mut got).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(150), "ten bytes, one every 20 ms");
    drop(server);
    let report = sender.join().unwrap();
    assert_eq!((report.alive, report.cut_after.len()), (0, 1));
}

#[test]
fn floods_are_as_large_as_asked() {
    for bytes in [1_000, 8 * 1024, 100_000] {
        let flood = misbehave::header_flood("/livez", bytes);
        assert!(flood.len() >= bytes && flood.len() < bytes + 80, "{}", flood.len());
        assert!(flood.ends_with(b"\r\n\r\n"));
    }
}
