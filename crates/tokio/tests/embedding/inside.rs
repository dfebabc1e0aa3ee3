//! Promise: the program gives the same replies to probes that the ring threads do not see, and
//! services in front of the hand-over do not change a request.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, Request, Version};
use axum::routing::{get, post};
use axum::{Router, serve};
use doorbell::http::layer::{Guard, ServiceExt as _};
use doorbell::{Handler, Http1, Replied, Responder, Server, StaticReply, Status, service_fn};
use doorbell_testkit::peers::{Reply, exchange};
use doorbell_tokio::{Control, Embed, HandOverAll, Health, Probes};
use http_body_util::BodyExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;

use crate::common::{ENGINES, anywhere, builder, patient, ready};

fn app(health: &Health) -> Router {
    Router::new()
        .route("/app", get(async || "app"))
        .route("/echo", post(|body: Bytes| async move { body }))
        .layer(DefaultBodyLimit::disable())
        .layer(health.layer())
}

/// Sends a request on a kept connection and reads the reply.
fn ask(stream: &mut TcpStream, method: &str, path: &str) -> Reply {
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 1024];
        let len = stream.read(&mut piece).unwrap();
        assert!(len > 0, "{method} {path}: it closed after {:?}", bytes.escape_ascii().to_string());
        bytes.extend_from_slice(&piece[..len]);
        if let Some(reply) = Reply::parse(&bytes, method == "HEAD") {
            return reply;
        }
    }
}

fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

const FIELDS: [&str; 3] = ["content-type", "cache-control", "allow"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_behind_a_request_for_the_program_gets_the_same_reply() {
    for way in ENGINES {
        let health = patient();
        let (control, handed) = Embed::new(builder(way, &health)).health(&health).start();
        let addr = ready(&control, way).await;
        let app = app(&health);
        tokio::spawn(async move { serve(handed, app).await });
        for is_ready in [false, true] {
            health.set_ready(is_ready);
            tokio::task::spawn_blocking(move || {
                let (mut own, mut theirs) = (connect(addr), connect(addr));
                assert_eq!(ask(&mut theirs, "GET", "/app").body, b"app");
                for path in ["/livez", "/readyz", "/startupz", "/healthz"] {
                    for method in ["GET", "HEAD", "OPTIONS", "DELETE"] {
                        let [own, theirs] = [&mut own, &mut theirs].map(|by| ask(by, method, path));
                        assert_eq!((own.status, &own.body), (theirs.status, &theirs.body), "{method} {path}");
                        for name in FIELDS {
                            assert_eq!(own.field(name), theirs.field(name), "{method} {path}: {name}");
                        }
                    }
                }
                assert_eq!(ask(&mut theirs, "GET", "/readyz").status, if is_ready { 200 } else { 503 });
            })
            .await
            .unwrap();
        }
        control.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_probe_by_http2_gets_the_same_reply() {
    let health = patient();
    let (control, mut handed) = Embed::new(builder(ENGINES[0], &health)).health(&health).start();
    let addr = ready(&control, ENGINES[0]).await;
    let service = TowerToHyperService::new(app(&health));
    tokio::spawn(async move {
        let stream = TokioIo::new(handed.accept().await.unwrap().stream);
        let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        http2.serve_connection(stream, service).await.unwrap();
    });
    let stream = TokioIo::new(tokio::net::TcpStream::connect(addr).await.unwrap());
    let (mut client, connection) =
        hyper::client::conn::http2::handshake::<_, _, Body>(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    for (is_ready, status, expected) in [(false, 503, "down\n"), (true, 200, "up\n")] {
        health.set_ready(is_ready);
        let request = Request::builder().uri(format!("http://{addr}/readyz")).body(Body::empty()).unwrap();
        let reply = client.send_request(request).await.unwrap();
        assert_eq!((reply.status().as_u16(), reply.version()), (status, Version::HTTP_2));
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        assert!(body.starts_with(expected.as_bytes()), "{body:?}");
    }
    let request = Request::builder().method(Method::GET).uri(format!("http://{addr}/app"));
    let reply = client.send_request(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(reply.into_body().collect().await.unwrap().to_bytes(), "app");
    control.stop().await.unwrap();
}

/// Admits every request.
struct Open;

impl Guard for Open {
    fn admit<'a>(
        &self,
        _request: &doorbell::Request<'_>,
        reply: Responder<'a>,
    ) -> Result<Responder<'a>, Replied<'a>> {
        Ok(reply)
    }
}

/// `/old` is served by a closure, which hands over everything else.
fn closure() -> impl Handler + Send + Sync {
    let gone = StaticReply::text(Status::GONE, "gone\n");
    service_fn(
        move |request, reply| {
            if request.path() == "/old" { reply.send(&gone) } else { reply.hand_over() }
        },
    )
}

async fn echoes(control: &Control, addr: SocketAddr, name: &str) {
    let long = "x".repeat(500_000);
    let post =
        |path: &str, body: &str| format!("POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{body}");
    let table = [
        (post("/echo", "Content-Length: 5\r\n\r\nhello"), 200, "hello"),
        (post("/echo", "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"), 200, "hello"),
        (post("/echo", &format!("Content-Length: 500000\r\n\r\n{long}")), 200, long.as_str()),
        (post("/livez", "Content-Length: 2\r\n\r\nhi"), 405, ""),
    ];
    for (request, status, body) in table {
        let head = request.lines().next().unwrap().to_owned();
        let got = tokio::task::spawn_blocking(move || exchange(addr, request.as_bytes())).await.unwrap();
        let reply = Reply::parse(&got.unwrap().bytes, false).unwrap();
        assert_eq!(reply.status, status, "{name}: {head}");
        assert!(reply.body == body.as_bytes(), "{name}: {head}: {} bytes", reply.body.len());
    }
    assert_eq!(control.stats().ring.hand_over_errors, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_with_bodies_pass_closures_guards_and_layers() {
    for way in ENGINES {
        for name in ["closure", "guard", "layer around all"] {
            let health = patient();
            let http = match name {
                "closure" => Http1::new(Probes::new(&health).before(closure())),
                "guard" => Http1::new(Probes::new(&health).before(HandOverAll.guarded(Open))),
                _ => Http1::new(Probes::new(&health).before(closure()).guarded(Open)),
            };
            let server =
                Server::builder().engine(way.0).descriptors(way.1).conns_max(4_000).conns_per_ip_max(0);
            let (control, handed) = Embed::new(server.listen(anywhere(), http)).health(&health).start();
            let addr = ready(&control, way).await;
            let app = app(&health);
            tokio::spawn(async move { serve(handed, app).await });
            echoes(&control, addr, name).await;
            control.stop().await.unwrap();
        }
    }
}
