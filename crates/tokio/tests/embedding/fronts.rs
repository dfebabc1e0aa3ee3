//! Promise: in every state, the ring threads, the axum routes, the tower layer and the hyper
//! service give the same reply to a probe: status, header fields and body.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request};
use axum::routing::get;
use doorbell_tokio::{Check, Details, Embed, Handed, Health, Ttl};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};

use crate::common::{ENGINES, builder, ready, until};

/// Status, header fields and body of a reply, without the fields that depend on the connection or
/// the time.
type ProbeReply = (u16, BTreeMap<String, String>, Bytes);

const PATHS: [&str; 14] = [
    "/livez",
    "/healthz",
    "/readyz",
    "/startupz",
    "/cartz",
    "/readyz?verbose",
    "/readyz?format=json",
    "/readyz?format=spring",
    "/readyz?exclude=db",
    "/readyz?verbose&exclude=db&exclude=unknown",
    "/readyz/db",
    "/readyz/queue?format=json",
    "/readyz/unknown",
    "/readyz/",
];

const METHODS: [Method; 4] = [Method::GET, Method::HEAD, Method::OPTIONS, Method::POST];

fn health() -> Health {
    let limit = Duration::from_secs(60);
    let every = Check::every(Duration::from_secs(3_600));
    Health::builder()
        .details(Details::Always)
        .starts_unready()
        .stalled_after(limit, limit)
        .accept_within(limit, limit)
        .check("db", every, async || Ok::<(), String>(()))
        .push("queue", Ttl::of(Duration::from_secs(3_600)).degrading())
        .endpoint("cartz", ["queue"])
        .build()
        .unwrap()
}

/// Sends a request on a new connection, over HTTP/1.1 or HTTP/2.
async fn probe(addr: SocketAddr, is_http2: bool, method: &Method, path: &str, accept: &str) -> ProbeReply {
    let stream = TokioIo::new(TcpStream::connect(addr).await.unwrap());
    let request = Request::builder().method(method).uri(format!("http://{addr}{path}"));
    let request =
        request.header("host", addr.to_string()).header("accept", accept).body(Body::empty()).unwrap();
    let reply = if is_http2 {
        let executor = TokioExecutor::new();
        let (mut client, conn) = hyper::client::conn::http2::handshake(executor, stream).await.unwrap();
        tokio::spawn(conn);
        client.send_request(request).await.unwrap()
    } else {
        let (mut client, conn) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(conn);
        client.send_request(request).await.unwrap()
    };
    let status = reply.status().as_u16();
    let fields = reply.headers().iter().filter(|(name, _)| !["connection", "date"].contains(&name.as_str()));
    let fields = fields.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    (status, fields, reply.into_body().collect().await.unwrap().to_bytes())
}

async fn page(_request: Request<Incoming>) -> Result<hyper::Response<Full<Bytes>>, std::io::Error> {
    Ok(hyper::Response::new(Full::new(Bytes::from_static(b"page"))))
}

/// A proxy passes bodies on as it received them.
async fn proxied(request: Request<Incoming>) -> Result<hyper::Response<Incoming>, std::io::Error> {
    Ok(hyper::Response::new(request.into_body()))
}

async fn boxed(
    request: Request<Incoming>,
) -> Result<hyper::Response<BoxBody<Bytes, hyper::Error>>, std::io::Error> {
    Ok(hyper::Response::new(request.into_body().boxed()))
}

/// The addresses of all fronts, with their names and whether requests use HTTP/2.
async fn fronts(health: &Health) -> Vec<(&'static str, SocketAddr, bool)> {
    let page_route = || Router::new().route("/", get(async || "page"));
    let listen = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (routes, layer, hyper) = (listen().await, listen().await, listen().await);
    let addrs = [&routes, &layer, &hyper].map(|listener| listener.local_addr().unwrap());
    let with_routes = page_route().merge(health.routes());
    let with_layer = page_route().layer(health.layer());
    tokio::spawn(async move { axum::serve(routes, with_routes).await });
    tokio::spawn(async move { axum::serve(layer, with_layer).await });
    let service = health.service(service_fn(page));
    tokio::spawn(async move {
        loop {
            let (stream, service) = (hyper.accept().await.unwrap().0, service.clone());
            let http1 = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http1.serve_connection(TokioIo::new(stream), service));
        }
    });
    let [routes, layer, hyper] = addrs;
    vec![("routes", routes, false), ("layer", layer, false), ("hyper", hyper, false)]
}

/// Serves HTTP/2 connections that ring threads hand over.
async fn serve_http2(mut handed: Handed, app: Router) {
    while let Some(connection) = handed.accept().await {
        let service = TowerToHyperService::new(app.clone());
        let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        tokio::spawn(http2.serve_connection(TokioIo::new(connection.stream), service));
    }
}

async fn compare(ring: SocketAddr, fronts: &[(&'static str, SocketAddr, bool)], state: &str) {
    for path in PATHS {
        for method in &METHODS {
            let accepts = if *method == Method::GET { &["*/*", "application/json"][..] } else { &["*/*"] };
            for accept in accepts {
                let expected = probe(ring, false, method, path, accept).await;
                assert!(expected.0 != 200 || expected.1["cache-control"] == "no-store", "{expected:?}");
                for (name, addr, is_http2) in fronts {
                    let got = probe(*addr, *is_http2, method, path, accept).await;
                    assert_eq!(got, expected, "{state}: {name}: {method} {path} with {accept}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_front_gives_the_same_reply_in_every_state() {
    let health = health();
    let (control, handed) = Embed::new(builder(ENGINES[0], &health)).health(&health).start();
    let ring = ready(&control, ENGINES[0]).await;
    tokio::spawn(serve_http2(handed, Router::new().merge(health.routes())));
    let mut fronts = fronts(&health).await;
    fronts.push(("http2", ring, true));
    let queue = health.pushed("queue").unwrap();
    until("the check has run", || {
        health.registry().with_board(|board| {
            let db = board.check(board.check_named("db").unwrap()).unwrap();
            db.last().is_some()
        })
    })
    .await;

    assert!(!health.is_started() && !health.is_ready() && health.is_live());
    compare(ring, &fronts, "starting").await;
    health.set_ready(true);
    assert!(health.is_started() && health.is_ready());
    assert_eq!(health.state("readyz").unwrap().as_str(), "degraded", "nothing was pushed yet");
    compare(ring, &fronts, "degraded").await;
    queue.ok();
    until("it is up", || health.state("readyz").unwrap().as_str() == "up").await;
    compare(ring, &fronts, "up").await;
    queue.report(Err("full"));
    until("it is degraded", || health.state("cartz").unwrap().as_str() == "degraded").await;
    compare(ring, &fronts, "pushed").await;
    health.set_live(false);
    compare(ring, &fronts, "not alive").await;
    health.set_live(true);
    health.set_draining();
    compare(ring, &fronts, "draining").await;
    control.stop().await.unwrap();
}

/// Bodies that cannot be made from bytes, such as those of a proxy.
#[tokio::test]
async fn services_with_other_bodies_have_probes_too() {
    let health = Health::builder().without_heartbeat().build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let http1 = hyper::server::conn::http1::Builder::new();
        for number in 0.. {
            let stream = TokioIo::new(listener.accept().await.unwrap().0);
            if number % 2 == 0 {
                tokio::spawn(http1.serve_connection(stream, health.service(service_fn(proxied))));
            } else {
                tokio::spawn(http1.serve_connection(stream, health.service(service_fn(boxed))));
            }
        }
    });
    for _ in 0..2 {
        let stream = TokioIo::new(TcpStream::connect(addr).await.unwrap());
        let (mut client, conn) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(conn);
        for (path, expected) in [("/echo", "ping"), ("/readyz", "up\n"), ("/echo", "ping")] {
            let request = Request::builder().uri(path).header("host", "a").method(Method::POST);
            let request = match path {
                "/echo" => request.body(Body::from("ping")),
                _ => request.method(Method::GET).body(Body::empty()),
            };
            let reply = client.send_request(request.unwrap()).await.unwrap();
            let len = reply.headers()["content-length"].to_str().unwrap().to_owned();
            assert_eq!(len, expected.len().to_string(), "{path}");
            assert_eq!(reply.into_body().collect().await.unwrap().to_bytes(), expected, "{path}");
        }
    }
}
