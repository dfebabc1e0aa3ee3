//! Time of a round of 64 connections with one request each: accepted by axum directly, and handed
//! over to axum by a ring thread.
//!
//! Does not know about: instructions, which the rig counts (`doorbell-rig compare --only
//! axum/close/64,axum-handed/close/64`).
#![expect(clippy::unwrap_used, reason = "a bench may panic")]

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use doorbell::{Http1, Listen, Server, Workers};
use doorbell_testkit::peers::{Load, Mode};
use doorbell_tokio::{Control, Embed, HandOverAll};
use tokio::runtime::{Builder, Runtime};

const IN_FLIGHT: u32 = 64;

/// Route of the requests that [`Load`] sends.
const PATH: &str = "/unique/{id}/{len}";

fn routes() -> Router {
    let body = |path: axum::extract::Path<(String, usize)>| async move {
        let (id, len) = path.0;
        id.repeat(len.div_ceil(16)).get(..len).unwrap_or_default().to_owned()
    };
    Router::new().route(PATH, get(body))
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn without_doorbell(runtime: &Runtime) -> SocketAddr {
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let addr = listener.local_addr().unwrap();
    runtime.spawn(async move { axum::serve(listener, routes()).await });
    addr
}

fn with_doorbell(runtime: &Runtime) -> (SocketAddr, Control) {
    let _context = runtime.enter();
    let listen = Listen::tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let one = Workers::Count(NonZeroU16::MIN);
    let server = Server::builder().workers(one).conns_per_ip_max(0).listen(listen, Http1::new(HandOverAll));
    let (control, handed) = Embed::new(server).start();
    runtime.block_on(control.ready()).unwrap();
    runtime.spawn(async move { axum::serve(handed, routes()).await });
    (control.tcp_addr(0).unwrap(), control)
}

fn round(server: SocketAddr, first_id: u64) {
    let load = Load {
        server,
        sources: Vec::new(),
        requests: u64::from(IN_FLIGHT),
        in_flight: IN_FLIGHT,
        mode: Mode::Close,
        first_id,
        patience: Duration::from_secs(20),
    };
    let report = load.run().unwrap();
    assert!(report.is_clean(), "{} replies", report.replies);
}

fn rounds(criterion: &mut Criterion) {
    let runtime = runtime();
    let (handed, _control) = with_doorbell(&runtime);
    let mut group = criterion.benchmark_group("64 connections");
    group.throughput(Throughput::Elements(u64::from(IN_FLIGHT)));
    for (name, addr) in [("axum", without_doorbell(&runtime)), ("axum, handed over", handed)] {
        let mut first_id = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                first_id += 1 << 20;
                round(addr, first_id);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, rounds);
criterion_main!(benches);
