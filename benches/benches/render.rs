//! Rendering a reply into the output of a connection.

use criterion::{Criterion, criterion_group, criterion_main};
use doorbell_http::{Date, Out, StaticReply, Status};
use std::hint::black_box;

fn render(c: &mut Criterion) {
    let mut date = Date::new(784_111_777);
    let alive = StaticReply::text(Status::OK, "ok\n");
    let mut out = Out::with_capacity(4096);
    c.bench_function("render/static", |b| {
        b.iter(|| {
            out.clear();
            black_box(&alive).put_last(&mut out, &date);
            black_box(out.head.as_slice());
        });
    });
    let mut secs = 0;
    c.bench_function("render/date", |b| {
        b.iter(|| {
            secs += 1;
            date.refresh(black_box(secs))
        });
    });
}

criterion_group!(benches, render);
criterion_main!(benches);
