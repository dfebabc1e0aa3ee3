//! HTTP/2 in a program of one's own: the engine, one handler, and this crate, without the `doorbell`
//! program.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use doorbell::http::{Limits, MessageStart, RequestError, Service};
use doorbell::protocol::ListenerProtocol;
use doorbell::tls::{Acceptor, CertPair, TlsConfig};
use doorbell::{Engine, Http1, Listen, Replied, Request, Responder, Server, Status};
use doorbell_http2::{Common, Http2, ListenerOptions, Plan};
use h2::client::SendRequest;
use hyper::Response;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

/// Maximum time for a step that takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

struct Hello;

impl Service for Hello {
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        match request.path() {
            "/cookie" => {
                let value = request.header("cookie").unwrap_or_default().to_vec();
                reply.status(Status::OK).header("X-Cookie", value).empty()
            }
            "/hand-over" => reply.hand_over(),
            "/panic" => panic!("a panic of a handler"),
            _ => reply.status(Status::OK).content(b"hello\n"),
        }
    }

    fn hands_over(&self, start: MessageStart<'_>) -> bool {
        matches!(start, MessageStart::Http2 | MessageStart::Unknown(RequestError::MethodUnknown))
    }
}

/// A server with one listener, and its HTTP/2.
struct Stand {
    server: Server,
    http2: Http2,
    common: Arc<Common>,
}

impl Stand {
    fn start(engine: Engine) -> Self {
        Self::start_with(engine, ListenerOptions::new(Limits::default()), Http1::new(Hello), None)
    }

    fn start_with(engine: Engine, options: ListenerOptions, http: Http1, acceptor: Option<Acceptor>) -> Self {
        let common = Arc::new(Common::default());
        let mut plan = Plan::new(16, None, Arc::clone(&common));
        plan.add(options, http.clone(), acceptor.clone());
        let protocol: ListenerProtocol = match acceptor {
            Some(acceptor) => {
                http.tls(acceptor).hand_over_if(|hello| hello.alpn.contains(&&b"h2"[..])).into()
            }
            None => http.into(),
        };
        let place = SocketAddr::from(([127, 0, 0, 1], 0));
        let builder = Server::builder().engine(engine).listen(Listen::tcp(place), protocol);
        let server = plan.attach(builder).start().unwrap();
        Self { server, http2: plan.start(), common }
    }

    fn addr(&self) -> SocketAddr {
        self.server.tcp_addr(0).unwrap()
    }

    /// Runs a client of the server.
    fn run<T>(&self, client: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { tokio::time::timeout(PATIENCE, client).await.expect("the client ends") })
    }

    async fn connect(&self) -> SendRequest<Bytes> {
        handshake(tokio::net::TcpStream::connect(self.addr()).await.unwrap()).await
    }

    /// The counters that are not 0.
    fn counted(&self) -> Vec<(&'static str, u64)> {
        self.common.counters().fields().filter(|&(_, count)| count > 0).collect()
    }

    fn end(self) {
        self.http2.drain(PATIENCE);
        self.server.drain(PATIENCE).unwrap();
        self.http2.end();
    }
}

async fn handshake<S>(stream: S) -> SendRequest<Bytes>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client
}

fn get(path: &str) -> hyper::http::request::Builder {
    hyper::Request::get(format!("http://a{path}"))
}

/// Sends a request without a body, and waits for the head of its reply.
async fn ask(
    client: &SendRequest<Bytes>,
    request: hyper::http::request::Builder,
) -> Response<h2::RecvStream> {
    let mut client = client.clone().ready().await.unwrap();
    let (reply, _body) = client.send_request(request.body(()).unwrap(), true).unwrap();
    reply.await.expect("a reply")
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

fn a_connection_is_served_and_drained(engine: Engine) {
    let stand = Stand::start(engine);
    let mut client = TcpStream::connect(stand.addr()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    // GET / of the authority `a` (RFC 7541, appendix A: 2, 6, 4 and 1).
    let request = frame(HEADERS, 5, 1, b"\x82\x86\x84\x41\x01a");
    client.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[]), &request].concat()).unwrap();
    let headers = next(&mut client, HEADERS);
    assert_eq!(headers.first(), Some(&0x88), "status 200: {headers:x?}");
    assert_eq!(next(&mut client, DATA), b"hello\n");

    stand.http2.drain(PATIENCE);
    assert_eq!(next(&mut client, GOAWAY)[4..8], [0; 4], "no error");
    drop(client);
    stand.end();
}

fn split_cookies_are_joined(engine: Engine) {
    let stand = Stand::start(engine);
    stand.run(async {
        let client = stand.connect().await;
        for (split, joined) in [(&["a=1"][..], "a=1"), (&["a=1", "b=2", "c=3; d=4"], "a=1; b=2; c=3; d=4")] {
            let request =
                split.iter().fold(get("/cookie"), |request, cookie| request.header("cookie", *cookie));
            assert_eq!(ask(&client, request).await.headers()["x-cookie"], joined);
        }
    });
    stand.end();
}

fn strict_transport_security_is_that_of_the_service(engine: Engine) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pair = CertPair::from_pem(cert.pem().as_bytes(), signing_key.serialize_pem().as_bytes()).unwrap();
    let acceptor = Acceptor::new(&TlsConfig::new(pair).alpn_handed(["h2"])).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));

    let (options, http) =
        (ListenerOptions::new(Limits::default()), Http1::new(Hello).hsts("max-age=1").unwrap());
    let stand = Stand::start_with(engine, options.clone(), http.clone(), Some(acceptor));
    stand.run(async {
        let stream = tokio::net::TcpStream::connect(stand.addr()).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let client = handshake(connector.connect(name, stream).await.unwrap()).await;
        for (request, status) in [(get("/"), 200), (get("/%00"), 400)] {
            let reply = ask(&client, request).await;
            assert_eq!(reply.status(), status);
            assert_eq!(reply.headers()["strict-transport-security"], "max-age=1");
        }
        // This crate itself refuses a body that is too large.
        let large = hyper::Request::post("http://a/").header("content-length", 1 << 30);
        let (reply, _body) = client.clone().send_request(large.body(()).unwrap(), false).unwrap();
        let reply = reply.await.unwrap();
        assert_eq!(
            (reply.status().as_u16(), &reply.headers()["strict-transport-security"]),
            (413, &"max-age=1".parse().unwrap())
        );
    });
    stand.end();

    let plain = Stand::start_with(engine, options, http, None);
    plain.run(async {
        let reply = ask(&plain.connect().await, get("/")).await;
        assert!(!reply.headers().contains_key("strict-transport-security"), "{reply:?}");
    });
    plain.end();
}

fn a_panic_is_a_500_and_a_hand_over_a_503(engine: Engine) {
    let stand = Stand::start(engine);
    stand.run(async {
        let client = stand.connect().await;
        assert_eq!(ask(&client, get("/panic")).await.status(), 500);
        for request in [get("/hand-over"), get("/").method("BREW")] {
            let reply = ask(&client, request).await;
            assert_eq!(
                (reply.status().as_u16(), reply.headers()["retry-after"].as_bytes()),
                (503, &b"1"[..])
            );
        }
        assert_eq!(ask(&client, get("/")).await.status(), 200, "the connection continues");
    });
    assert_eq!(stand.counted(), [("http2_hand_over_refused", 2), ("http2_handler_panics", 1)]);
    stand.end();
}

fn as_many_streams_as_announced_may_be_open(engine: Engine) {
    for (configured, announced) in [(0, 1), (1, 1), (5000, 1000)] {
        let options =
            ListenerOptions { concurrent_streams_max: configured, ..ListenerOptions::new(Limits::default()) };
        let stand = Stand::start_with(engine, options, Http1::new(Hello), None);
        stand.run(async {
            let client = stand.connect().await;
            // After a reply, the client knows the settings.
            assert_eq!(ask(&client, get("/")).await.status(), 200);
            assert_eq!(client.current_max_send_streams(), announced, "{configured}");
            let mut open = Vec::new();
            for _ in 0..announced {
                let request = hyper::Request::post("http://a/").body(()).unwrap();
                open.push(client.clone().ready().await.unwrap().send_request(request, false).unwrap());
            }
            for (reply, mut body) in open {
                body.send_data(Bytes::new(), true).unwrap();
                assert_eq!(reply.await.expect("a reply").status(), 200);
            }
        });
        assert_eq!(stand.counted(), [], "{configured}");
        stand.end();
    }
}

macro_rules! on_both_drivers {
    ($($test:ident,)*) => {
        mod epoll {
            $(#[test]
            fn $test() {
                super::$test(doorbell::Engine::Epoll);
            })*
        }

        mod io_uring {
            $(#[test]
            fn $test() {
                if doorbell_testkit::skip::io_uring() {
                    super::$test(doorbell::Engine::IoUring);
                }
            })*
        }
    };
}

on_both_drivers! {
    a_connection_is_served_and_drained,
    a_panic_is_a_500_and_a_hand_over_a_503,
    as_many_streams_as_announced_may_be_open,
    split_cookies_are_joined,
    strict_transport_security_is_that_of_the_service,
}
