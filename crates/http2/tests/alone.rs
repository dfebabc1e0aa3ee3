//! HTTP/2 in a program of one's own: the engine, one handler, and this crate, without the `doorbell`
//! program.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use doorbell::http::{Limits, MessageStart, Service};
use doorbell::{Engine, Http1, Listen, Replied, Request, Responder, Server, Status};
use doorbell_http2::{Common, ListenerOptions, Plan};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

/// Maximum time for a step that takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

struct Hello;

impl Service for Hello {
    fn call<'a>(&self, _request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        reply.status(Status::OK).content(b"hello\n")
    }

    fn hands_over(&self, start: MessageStart<'_>) -> bool {
        matches!(start, MessageStart::Http2)
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Reads frames up to the first of this type, and returns its payload.
#[track_caller]
fn next(client: &mut TcpStream, kind: u8) -> Vec<u8> {
    loop {
        let mut head = [0; 9];
        client.read_exact(&mut head).expect("a frame");
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        client.read_exact(&mut payload).unwrap();
        if head[3] == kind {
            return payload;
        }
    }
}

fn served(engine: Engine) {
    let http = || Http1::new(Hello);
    let mut plan = Plan::new(16, None, Arc::new(Common::default()));
    plan.add(ListenerOptions::new(Limits::default()), http(), None);
    let place = SocketAddr::from(([127, 0, 0, 1], 0));
    let builder = Server::builder().engine(engine).listen(Listen::tcp(place), http());
    let server = plan.attach(builder).start().unwrap();
    let http2 = plan.start();

    let mut client = TcpStream::connect(server.tcp_addr(0).unwrap()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    // GET / of the authority `a` (RFC 7541, appendix A: 2, 6, 4 and 1).
    let request = frame(HEADERS, 5, 1, b"\x82\x86\x84\x41\x01a");
    client.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[]), &request].concat()).unwrap();
    let headers = next(&mut client, HEADERS);
    assert_eq!(headers.first(), Some(&0x88), "status 200: {headers:x?}");
    assert_eq!(next(&mut client, DATA), b"hello\n");

    http2.drain(PATIENCE);
    assert_eq!(next(&mut client, GOAWAY)[4..8], [0; 4], "no error");
    drop(client);
    server.drain(PATIENCE).unwrap();
    http2.end();
}

#[test]
fn epoll_hands_over() {
    served(Engine::Epoll);
}

#[test]
fn io_uring_hands_over() {
    if doorbell_testkit::skip::io_uring() {
        served(Engine::IoUring);
    }
}
