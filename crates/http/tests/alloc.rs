//! A request causes no allocation once the connection's buffers have grown.

mod common;

use allocation_counter::measure;
use doorbell_http::{Client, Conn, Date, Io, Limits, Next, Out, StaticReply, Status, Time, service_fn};

struct Setup {
    limits: Limits,
    date: Date,
    alive: StaticReply,
    large: StaticReply,
    carry: Vec<u8>,
    out: Out,
}

impl Setup {
    fn new() -> Self {
        Self {
            limits: Limits::default(),
            date: Date::new(784_111_777),
            alive: StaticReply::text(Status::OK, "ok\n"),
            large: StaticReply::text(Status::OK, vec![b'x'; 100_000]),
            carry: Vec::with_capacity(4096),
            out: Out::with_capacity(4096),
        }
    }

    /// Passes these pieces to a new connection.
    fn serve(&mut self, pieces: &[&[u8]], expect: Next) {
        let (alive, large) = (&self.alive, &self.large);
        let service = service_fn(|request, reply| match request.path() {
            "/large" => reply.send(large),
            "/built" => reply.status(Status::FOUND).header("Location", "https://a/").content(request.path()),
            "/bad" => reply.status(Status::OK).header("a\n", "b").empty(),
            _ => reply.send(alive),
        });
        let mut conn = Conn::new(Time::ZERO, &self.limits);
        let mut next = Next::Read;
        for &piece in pieces {
            let mut fresh = piece;
            loop {
                self.out.clear();
                let io = Io {
                    now: Time::ZERO,
                    date: &self.date,
                    limits: &self.limits,
                    carry: &mut self.carry,
                    out: &mut self.out,
                    closing: false,
                    client: &Client::UNKNOWN,
                };
                next = conn.handle_input(fresh, io, &service);
                if next != Next::Flush {
                    break;
                }
                fresh = b"";
            }
        }
        assert_eq!(next, expect);
        self.carry.clear();
    }
}

#[test]
fn no_allocation_per_request() {
    let probe = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:18181\r\nUser-Agent: kube-probe/1.34\r\nAccept: */*\r\nConnection: close\r\n\r\n".as_slice();
    let get = b"GET /built HTTP/1.1\r\nHost: a\r\n\r\n".as_slice();
    let large = b"GET /large HTTP/1.1\r\nHost: a\r\n\r\nGET /large HTTP/1.1\r\nHost: a\r\n\r\nGET".as_slice();
    let post = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello".as_slice();
    let chunked =
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".as_slice();
    let bad = b"GET / HTTP/1.1\r\n\r\n".as_slice();
    let pipelined = get.repeat(100);
    let cases: [(&str, &[&[u8]], Next); 12] = [
        ("probe", &[probe], Next::CloseClean),
        ("probe in pieces", &[&probe[..20], &probe[20..50], &probe[50..]], Next::CloseClean),
        ("keep-alive", &[get, get, get], Next::Read),
        ("pipelined", &[&pipelined], Next::Read),
        ("pipelined, cut in a head", &[&pipelined[..50], &pipelined[50..]], Next::Read),
        ("large content, held back input", &[large], Next::Read),
        ("skipped body", &[post, post], Next::Read),
        ("skipped body in pieces", &[&post[..50], &post[50..]], Next::Read),
        ("skipped chunked body", &[chunked, chunked], Next::Read),
        ("skipped chunked body in pieces", &[&chunked[..60], &chunked[60..65], &chunked[65..]], Next::Read),
        ("refused", &[bad], Next::CloseLinger),
        ("misuse", &[b"GET /bad HTTP/1.1\r\nHost: a\r\n\r\n"], Next::Read),
    ];
    let mut setup = Setup::new();
    for (name, pieces, expect) in cases {
        setup.serve(pieces, expect);
        let info = measure(|| {
            for _ in 0..10 {
                setup.serve(pieces, expect);
            }
        });
        assert_eq!(info.count_total, 0, "{name}: {info:?}");
    }
    // The allocation counter itself works.
    assert_ne!(measure(|| drop(std::hint::black_box(vec![1u8]))).count_total, 0);
}
