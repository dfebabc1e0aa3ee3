//! A request through a whole [`Conn`]: parsing, call of the service, rendering.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use doorbell_benches::{POST, PROBE, PROBE_KEEP_ALIVE};
use doorbell_http::{Client, Conn, Date, Io, Limits, Next, Out, StaticReply, Status, Time, service_fn};
use std::hint::black_box;

fn conn(c: &mut Criterion) {
    let limits = Limits { requests_per_conn_max: u32::MAX, ..Limits::default() };
    let date = Date::new(784_111_777);
    let alive = StaticReply::text(Status::OK, "ok\n");
    let service = service_fn(|_, reply| reply.send(&alive));
    let (mut carry, mut out) = (Vec::new(), Out::with_capacity(16 * 1024));
    c.bench_function("conn/probe, one connection each", |b| {
        b.iter(|| {
            out.clear();
            let mut conn = Conn::new(Time::ZERO, &limits);
            let io = io(&date, &limits, &mut carry, &mut out);
            assert_eq!(conn.handle_input(black_box(PROBE), io, &service), Next::CloseClean);
        });
    });
    let pipelined = PROBE_KEEP_ALIVE.repeat(16);
    for (name, input) in [
        ("conn/probe, keep-alive", PROBE_KEEP_ALIVE),
        ("conn/post, skipped body", POST),
        ("conn/probe, 16 pipelined", pipelined.as_slice()),
    ] {
        let mut conn = Conn::new(Time::ZERO, &limits);
        let mut group = c.benchmark_group("conn");
        group.throughput(Throughput::Bytes(input.len() as u64));
        group.bench_function(name.trim_start_matches("conn/"), |b| {
            b.iter(|| {
                out.clear();
                let io = io(&date, &limits, &mut carry, &mut out);
                assert_eq!(conn.handle_input(black_box(input), io, &service), Next::Read);
            });
        });
        group.finish();
    }
    assert_eq!(carry.capacity(), 0, "input that arrives in one piece must not be copied");
}

const fn io<'a>(date: &'a Date, limits: &'a Limits, carry: &'a mut Vec<u8>, out: &'a mut Out) -> Io<'a> {
    Io { now: Time::ZERO, date, limits, carry, out, closing: false, client: &Client::UNKNOWN }
}

criterion_group!(benches, conn);
criterion_main!(benches);
