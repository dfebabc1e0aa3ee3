//! With a low descriptor limit, a server that requests direct descriptors uses ordinary
//! descriptors, and serves.
//!
//! The test lowers the limit of its process permanently, so its program contains no other test.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::num::NonZeroU16;

use doorbell::{
    Descriptors, Engine, HandOver, HandedConn, Http1, Listen, Server, StaticReply, Status, Taker, Workers,
    service_fn,
};
use doorbell_testkit::skip;
use rustix::process::{Resource, Rlimit, setrlimit};

#[test]
fn a_table_that_is_too_large_is_not_used() {
    let start = || {
        let ok = StaticReply::text(Status::OK, "ok\n");
        let http = Http1::new(service_fn(move |_, reply| reply.send(&ok)));
        Server::builder()
            .engine(Engine::IoUring)
            .descriptors(Descriptors::Direct)
            .conns_per_ip_max(0)
            .workers(Workers::Count(NonZeroU16::MIN))
            .listen(Listen::tcp((Ipv4Addr::LOCALHOST, 0).into()), http)
            .start()
    };
    if !skip::io_uring() {
        return;
    }
    start().unwrap().stop().unwrap();
    // Fewer descriptors than the backlog of one listener, for which a table of direct descriptors
    // must have room.
    let few = Rlimit { current: Some(2000), maximum: Some(2000) };
    setrlimit(Resource::Nofile, few).unwrap();
    let server = start().unwrap();
    let report = server.driver_report();
    assert!(!report.direct, "{report}");
    let mut stream = TcpStream::connect(server.tcp_addr(0).unwrap()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 "), "{report}: {reply}");
    server.stop().unwrap();
    handed_over_connections_share_the_limit(1_900);
}

/// Connections that are handed over also need descriptors.
fn handed_over_connections_share_the_limit(nearly_all: u32) {
    struct Nobody;
    impl Taker for Nobody {
        fn take(&self, _conns: &mut Vec<HandedConn>) {}
    }
    let start = |conns_max: Option<u32>| {
        let http = Http1::new(service_fn(|_, reply| reply.hand_over()));
        let to = HandOver::new(Nobody);
        let places = to.places();
        let listen = Listen::tcp((Ipv4Addr::LOCALHOST, 0).into());
        let builder =
            Server::builder().workers(Workers::Count(NonZeroU16::MIN)).listen(listen, http).hand_over(to);
        let server = match conns_max {
            Some(conns) => builder.conns_max(conns).start(),
            None => builder.start(),
        };
        (server.unwrap(), places)
    };
    let (server, places) = start(None);
    assert!((900..1_000).contains(&places.max()), "half of the descriptors: {}", places.max());
    assert_eq!(server.notes().len(), 2, "{:?}", server.notes());
    // A connection that the receiver does not take is closed, and its permit is returned.
    let mut stream = TcpStream::connect(server.tcp_addr(0).unwrap()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let _closed = stream.read_to_end(&mut Vec::new());
    assert_eq!(server.stats().hand_over_errors, 1);
    server.stop().unwrap();
    assert_eq!(places.out(), 0);
    let (server, places) = start(Some(nearly_all));
    assert!((1..100).contains(&places.max()), "the remaining permits: {}", places.max());
    server.stop().unwrap();
}
