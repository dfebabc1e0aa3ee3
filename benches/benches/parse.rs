//! The head parser, compared with httparse plus a strict check.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use doorbell_benches::{BROWSER, POST, PROBE};
use doorbell_http::Limits;
use doorbell_http::parse::Head;
use std::hint::black_box;

#[path = "../../crates/http/fuzz/targets/oracle.rs"]
mod oracle;

fn parse(c: &mut Criterion) {
    let limits = Limits::default();
    let mut group = c.benchmark_group("parse");
    for (name, request) in [("probe", PROBE), ("browser", BROWSER), ("post", POST)] {
        group.throughput(Throughput::Bytes(request.len() as u64));
        group.bench_with_input(BenchmarkId::new("own", name), request, |b, request| {
            b.iter(|| {
                let mut head = Head::new();
                let len = head.parse(black_box(request), &limits);
                assert!(matches!(len, Ok(Some(_))));
                head
            });
        });
        group.bench_with_input(BenchmarkId::new("httparse+strict", name), request, |b, request| {
            b.iter(|| {
                let verdict = oracle::parse(black_box(request), 100);
                assert!(matches!(verdict, oracle::Verdict::Complete(_)));
                verdict
            });
        });
    }
    group.finish();
}

criterion_group!(benches, parse);
criterion_main!(benches);
