//! An axum program behind ring threads receives requests unchanged: requests of every shape, client
//! addresses, shutdown.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ConnectInfo;
use axum::routing::{any, get, post};
use axum::{Router, http::HeaderMap};
use doorbell::{Http1, Server, service_fn};
use doorbell_testkit::peers::{Reply, exchange};
use doorbell_tokio::{Control, Doorbell, Embed, Front, Peer, Probes, Stats};

use crate::common::{
    ENGINES, anywhere, builder, on_runtime, patient, ready, status, until, without_heartbeat,
};

fn app() -> Router {
    let slow = || async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        "slow"
    };
    let client = |ConnectInfo(peer): ConnectInfo<Peer>| async move {
        format!("{} {}", peer.addr.unwrap().ip(), peer.listener.0)
    };
    Router::new()
        .route("/echo", post(|body: Bytes| async move { body }))
        .route("/host", any(|headers: HeaderMap| async move { headers["host"].to_str().unwrap().to_owned() }))
        .route("/slow", get(slow))
        .route("/client", get(client))
}

/// By each driver, then by the runtime itself.
async fn serve(way: usize) -> (Control, SocketAddr, tokio::task::JoinHandle<std::io::Result<()>>) {
    let health = patient();
    let (control, handed) = match ENGINES.get(way) {
        Some(way) => Embed::new(builder(*way, &health)).health(&health).start(),
        None => on_runtime(&health).await,
    };
    control.ready().await.unwrap();
    let addr = control.tcp_addr(0).unwrap();
    health.set_ready(true);
    let app = app().into_make_service_with_connect_info::<Peer>();
    let delivered = control.shutdown();
    let serving =
        tokio::spawn(async move { axum::serve(handed, app).with_graceful_shutdown(delivered).await });
    (control, addr, serving)
}

async fn ask(addr: SocketAddr, request: impl Into<Vec<u8>>) -> (u16, String) {
    let request = request.into();
    let got = tokio::task::spawn_blocking(move || exchange(addr, &request)).await.unwrap().unwrap();
    let reply = Reply::parse(&got.bytes, false).unwrap();
    (reply.status, String::from_utf8(reply.body).unwrap())
}

#[tokio::test]
async fn requests_of_every_shape_arrive_whole() {
    for way in 0..=ENGINES.len() {
        let (control, addr, serving) = serve(way).await;
        let long = "x".repeat(500_000);
        let table = [
            ("GET /client HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned(), 200, "127.0.0.1 0"),
            ("GET /host HTTP/1.0\r\nHost: a.example\r\n\r\n".to_owned(), 200, "a.example"),
            ("PROPFIND /host HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n".to_owned(), 200, "b"),
            (
                "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"
                    .to_owned(),
                200,
                "hello",
            ),
            (
                "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
                 3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
                    .to_owned(),
                200,
                "hello",
            ),
            (
                format!(
                    "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 500000\r\n\r\n{long}"
                ),
                200,
                long.as_str(),
            ),
            ("GET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned(), 404, ""),
        ];
        for (request, expected, body) in table {
            let head = request.lines().next().unwrap().to_owned();
            assert_eq!(ask(addr, request).await, (expected, body.to_owned()), "{head} by way {way}");
        }
        // First a probe on a separate connection, then a probe and a request for the program on one
        // connection.
        assert_eq!(ask(addr, "GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.0, 200);
        let both = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\nGET /client HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let got =
            tokio::task::spawn_blocking(move || exchange(addr, both.as_bytes())).await.unwrap().unwrap();
        let text = String::from_utf8(got.bytes).unwrap();
        assert_eq!(text.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{text}");
        assert!(text.ends_with("127.0.0.1 0"), "{text}");
        control.stop().await.unwrap();
        serving.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_fails_readiness_and_loses_no_client() {
    for way in 0..=ENGINES.len() {
        let (control, addr, serving) = serve(way).await;
        let slow = tokio::spawn(ask(addr, "GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        until("it was handed over", || control.stats().handed_out == 1).await;
        // A client that has sent part of a request.
        let (began, has_begun) = tokio::sync::oneshot::channel();
        let late = tokio::task::spawn_blocking(move || {
            use std::io::{Read as _, Write as _};
            let mut stream = std::net::TcpStream::connect(addr).unwrap();
            stream.write_all(b"GET /client HTTP").unwrap();
            began.send(()).unwrap();
            std::thread::park_timeout(Duration::from_millis(200));
            stream.write_all(b"/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
            let mut reply = String::new();
            stream.read_to_string(&mut reply).unwrap();
            reply
        });
        has_begun.await.unwrap();
        let live = |stats: Stats| stats.ring.conns_live + stats.runtime.conns_live;
        until("it is connected", || live(control.stats()) == 1).await;
        control.drain(Duration::from_secs(10)).await.unwrap();
        assert!(
            late.await.unwrap().starts_with("HTTP/1.1 200 OK\r\n"),
            "a client that had sent part of a request gets a reply"
        );
        assert_eq!(slow.await.unwrap(), (200, "slow".to_owned()));
        serving.await.unwrap().unwrap();
        until("the program dropped its connections", || control.stats().handed_out == 0).await;
        assert!(std::net::TcpStream::connect(addr).is_err(), "no process listens");
    }
}

#[tokio::test]
async fn connect_info_may_be_a_socket_address() {
    let health = patient();
    let (control, handed) = Embed::new(builder(ENGINES[0], &health)).health(&health).start();
    let addr = ready(&control, ENGINES[0]).await;
    let client = |ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { peer.to_string() };
    let app = Router::new().route("/", get(client)).into_make_service_with_connect_info::<SocketAddr>();
    let serving = tokio::spawn(async move { axum::serve(handed.with_socket_addrs(), app).await });
    let (status, peer) = ask(addr, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    assert_eq!((status, peer.parse::<SocketAddr>().unwrap().ip()), (200, addr.ip()));
    control.stop().await.unwrap();
    serving.abort();
}

#[tokio::test]
async fn a_name_is_resolved_and_an_invalid_address_is_named() {
    let (control, _incoming) = Doorbell::bind("localhost:0").without_signals().start().await.unwrap();
    assert!(control.tcp_addr(0).unwrap().ip().is_loopback());
    control.stop().await.unwrap();
    for addr in ["8080", "[::1", "no-such-name.invalid:80"] {
        let refused = Doorbell::bind(addr).without_signals().start().await.unwrap_err();
        let expected = format!("cannot listen on {addr:?}: ");
        assert!(refused.to_string().starts_with(&expected), "{refused}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_start_reports_the_reason() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let health = patient();
    let server = Server::builder()
        .listen(doorbell::Listen::tcp(taken.local_addr().unwrap()), Http1::new(Probes::new(&health)));
    let (control, mut handed) = Embed::new(server).start();
    let error = control.ready().await.unwrap_err();
    assert!(error.to_string().contains("did not start"), "{error}");
    assert!(handed.accept().await.is_none());
    assert!(control.drain(Duration::ZERO).await.is_err());
}

#[tokio::test]
async fn requests_served_by_a_front_do_not_reach_the_program() {
    for way in ENGINES {
        let health = without_heartbeat();
        let ours = |request: &doorbell::Request<'_>| request.path().starts_with("/old");
        let moved = service_fn(|_, reply| {
            reply.status(doorbell::Status::FOUND).header("Location", "/client").empty()
        });
        let service = Probes::new(&health).before(Front::new(ours, moved));
        let server = Server::builder().engine(way.0).descriptors(way.1).conns_max(4_000).conns_per_ip_max(0);
        let (control, handed) = Embed::new(server.listen(anywhere(), Http1::new(service))).start();
        let addr = ready(&control, way).await;
        let serving = tokio::spawn(async move {
            axum::serve(handed, app().into_make_service_with_connect_info::<Peer>()).await
        });
        let probe = tokio::task::spawn_blocking(move || status(addr, "/readyz")).await.unwrap();
        assert_eq!(probe, Ok(503), "the program is not ready");
        let post = "POST /old HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
        assert_eq!(ask(addr, post).await.0, 302);
        assert_eq!(control.stats().ring.closed_because(doorbell::CloseReason::HandedOver), 0);
        let post = "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
        assert_eq!(ask(addr, post).await, (200, "hi".to_owned()));
        control.stop().await.unwrap();
        serving.abort();
    }
}
