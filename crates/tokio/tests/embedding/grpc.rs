//! Promise: `grpc.health.v1` on connections that were handed over gives the states that probes over
//! HTTP get.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use doorbell_tokio::{Control, Embed, Health, HealthError, Ttl};
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Streaming};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::common::{ENGINES, builder, on_runtime, status, until};

const SERVING: i32 = 1;
const NOT_SERVING: i32 = 2;
const SERVICE_UNKNOWN: i32 = 3;

struct Bench {
    health: Health,
    control: Control,
    addr: SocketAddr,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
}

/// By each driver, then by the runtime itself.
async fn bench(way: usize) -> Bench {
    let limit = Duration::from_secs(60);
    let health = Health::builder()
        .starts_unready()
        .stalled_after(limit, limit)
        .accept_within(limit, limit)
        .push("queue", Ttl::of(Duration::from_secs(3_600)).required())
        .endpoint("cart", ["queue"])
        .build()
        .unwrap();
    let (control, handed) = match ENGINES.get(way) {
        Some(way) => Embed::new(builder(*way, &health)).health(&health).start(),
        None => on_runtime(&health).await,
    };
    control.ready().await.unwrap();
    let addr = control.tcp_addr(0).unwrap();
    let service = health.grpc_with([("shop.Cart", "cart")]).unwrap();
    let server = Server::builder().add_service(service);
    let serving = tokio::spawn(server.serve_with_incoming_shutdown(handed.streams(), control.shutdown()));
    Bench { health, control, addr, serving }
}

async fn client(addr: SocketAddr) -> HealthClient<Channel> {
    HealthClient::new(Endpoint::from_shared(format!("http://{addr}")).unwrap().connect().await.unwrap())
}

fn of(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

async fn check(client: &mut HealthClient<Channel>, service: &str) -> Result<i32, Code> {
    client.check(of(service)).await.map(|reply| reply.get_ref().status).map_err(|status| status.code())
}

async fn next(stream: &mut Streaming<HealthCheckResponse>) -> Result<Option<i32>, Code> {
    stream.message().await.map(|message| message.map(|reply| reply.status)).map_err(|status| status.code())
}

/// The status of each service, and of the path of its endpoint.
async fn compare(bench: &Bench, client: &mut HealthClient<Channel>, state: &str) {
    for (service, path) in [
        ("", "/readyz"),
        ("livez", "/livez"),
        ("readyz", "/readyz"),
        ("startupz", "/startupz"),
        ("shop.Cart", "/cart"),
    ] {
        let addr = bench.addr;
        let http = tokio::task::spawn_blocking(move || status(addr, path)).await.unwrap().unwrap();
        let expected = if http == 200 { SERVING } else { NOT_SERVING };
        assert_eq!(check(client, service).await, Ok(expected), "{state}: {service:?}, {http}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_state_is_the_same_over_http_and_grpc() {
    for way in 0..=ENGINES.len() {
        let bench = bench(way).await;
        let (health, mut client) = (&bench.health, client(bench.addr).await);
        let queue = health.pushed("queue").unwrap();
        compare(&bench, &mut client, "not started").await;
        queue.ok();
        until("the result is known", || health.state("cart").is_some_and(|state| state.as_str() == "up"))
            .await;
        health.set_ready(true);
        compare(&bench, &mut client, "up").await;
        let mut watch = client.watch(of("shop.Cart")).await.unwrap().into_inner();
        assert_eq!(next(&mut watch).await, Ok(Some(SERVING)));
        queue.report(Err("disks"));
        assert_eq!(next(&mut watch).await, Ok(Some(NOT_SERVING)));
        compare(&bench, &mut client, "down").await;
        queue.ok();
        assert_eq!(next(&mut watch).await, Ok(Some(SERVING)));
        health.set_live(false);
        compare(&bench, &mut client, "not live").await;
        health.set_live(true);
        assert_eq!(check(&mut client, "shop.Other").await, Err(Code::NotFound));
        let mut unknown = client.watch(of("shop.Other")).await.unwrap().into_inner();
        assert_eq!(next(&mut unknown).await, Ok(Some(SERVICE_UNKNOWN)));
        // A drain is visible at once, and open Watch streams do not delay its end.
        health.set_draining();
        assert_eq!(next(&mut watch).await, Ok(Some(NOT_SERVING)));
        compare(&bench, &mut client, "drain").await;
        bench.control.drain(Duration::from_secs(10)).await.unwrap();
        assert_eq!(
            (next(&mut watch).await, next(&mut unknown).await),
            (Err(Code::Unavailable), Err(Code::Unavailable))
        );
        drop(client);
        bench.serving.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn streams_of_a_health_without_a_server_end_with_its_drain() {
    let health = Health::builder().build().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    tokio::spawn(Server::builder().add_service(health.grpc()).serve_with_incoming(incoming));
    let mut watch = client(addr).await.watch(of("")).await.unwrap().into_inner();
    assert_eq!(next(&mut watch).await, Ok(Some(SERVING)));
    health.set_draining();
    assert_eq!(
        (next(&mut watch).await, next(&mut watch).await),
        (Ok(Some(NOT_SERVING)), Err(Code::Unavailable))
    );
}

#[tokio::test]
async fn watch_streams_are_limited() {
    let bench = bench(0).await;
    // HTTP/2 also limits the streams of one connection, so the test needs several connections.
    let mut clients = Vec::new();
    let mut open = Vec::new();
    for _ in 0..8 {
        let mut client = client(bench.addr).await;
        for _ in 0..128 {
            let mut watch = client.watch(of("livez")).await.unwrap().into_inner();
            assert_eq!(next(&mut watch).await, Ok(Some(SERVING)));
            open.push(watch);
        }
        clients.push(client);
    }
    let mut late = client(bench.addr).await;
    assert_eq!(late.watch(of("livez")).await.unwrap_err().code(), Code::ResourceExhausted);
    drop(open.pop());
    let again = async || late.clone().watch(of("livez")).await.is_ok();
    for _ in 0..2_000 {
        if again().await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(check(&mut late, "livez").await, Ok(SERVING), "other methods have no limit");
    drop((open, clients, late));
    bench.control.stop().await.unwrap();
}

#[tokio::test]
async fn an_unknown_endpoint_is_named() {
    let health = Health::builder().build().unwrap();
    let refused = health.grpc_with([("shop.Cart", "cart")]).unwrap_err();
    assert!(matches!(refused, HealthError::UnknownEndpoint { .. }));
    assert_eq!(refused.to_string(), "gRPC service shop.Cart: there is no endpoint cart");
}

/// Over gRPC, too, the prober is detected by its user agent.
#[tokio::test]
async fn probers_are_counted() {
    let bench = bench(0).await;
    let endpoint = Endpoint::from_shared(format!("http://{}", bench.addr)).unwrap();
    let channel = endpoint.user_agent("kube-probe/1.34").unwrap().connect().await.unwrap();
    assert_eq!(check(&mut HealthClient::new(channel), "livez").await, Ok(SERVING));
    let rows = bench.health.registry().prober_stats().rows();
    let counts: BTreeMap<_, _> =
        rows.iter().map(|row| ((&*row.endpoint, row.prober_name()), row.count())).collect();
    assert_eq!(counts, BTreeMap::from([(("livez", "kubelet"), 1)]));
    bench.control.stop().await.unwrap();
}

/// The layer serves probes in front of the services of tonic, whose bodies are streams.
#[tokio::test]
async fn probes_and_services_share_a_server_of_tonic() {
    let health = Health::builder().without_heartbeat().build().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let server = Server::builder().accept_http1(true).layer(health.layer()).add_service(health.grpc());
    tokio::spawn(server.serve_with_incoming(incoming));
    let mut services = client(addr).await;
    assert_eq!(check(&mut services, "").await, Ok(SERVING));

    let stream = TokioIo::new(tokio::net::TcpStream::connect(addr).await.unwrap());
    let (mut http2, conn) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(conn);
    for expected in [200, 503] {
        let probe = Request::builder().uri(format!("http://{addr}/readyz")).body(Empty::<Bytes>::new());
        let reply = http2.send_request(probe.unwrap()).await.unwrap();
        assert_eq!(reply.status(), expected);
        assert!(!reply.into_body().collect().await.unwrap().to_bytes().is_empty());
        let http1 = tokio::task::spawn_blocking(move || status(addr, "/readyz"));
        assert_eq!(http1.await.unwrap(), Ok(expected));
        health.set_draining();
    }
    assert_eq!(check(&mut services, "").await, Ok(NOT_SERVING));
}
