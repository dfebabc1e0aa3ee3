//! Cost of authorizing a request with a static token, and with a signed token of each algorithm.
//!
//! The bench `instructions` counts the instructions of a decision on a static token.

#[expect(dead_code, reason = "shared with the tests, which use the other items")]
#[path = "../../crates/http/tests/auth/jwt/sign.rs"]
mod sign;

use criterion::{Criterion, criterion_group, criterion_main};
use doorbell_benches::guard::{self, AUTHORIZED};
use doorbell_http::Request;
use doorbell_http::auth::jwt::JwtPolicy;
use doorbell_http::auth::{Authorization, Decision, Policy};
use doorbell_http::parse::Head;
use std::hint::black_box;

fn tokens(c: &mut Criterion) {
    let (value, wrong) = (guard::VALUE, b"Bearer XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dX".as_slice());
    for count in [1, 8] {
        let policy = guard::policy(count);
        let mut row = |name: &str, value: &[u8], allowed: bool| {
            c.bench_function(&format!("auth/bearer/{name} of {count}"), |b| {
                b.iter(|| {
                    let decision = policy.decide(Authorization::One(black_box(value)), 0);
                    assert_eq!(matches!(decision, Decision::Allowed(_)), allowed);
                });
            });
        };
        row("good", value, true);
        row("wrong", wrong, false);
    }
    let policy = guard::policy(1);
    let mut head = Head::new();
    head.parse(AUTHORIZED, &doorbell_http::Limits::default()).expect("a good request");
    let request = Request::new(AUTHORIZED, &head, b"");
    c.bench_function("auth/bearer/whole request", |b| {
        b.iter(|| {
            let decision = policy.decide_request(black_box(&request), 0);
            assert!(matches!(decision, Decision::Allowed(_)));
        });
    });
}

fn signed(c: &mut Criterion) {
    for algorithm in sign::ALL {
        let jwt = JwtPolicy::builder()
            .key(sign::key(algorithm))
            .audience("doorbell")
            .build()
            .expect("a good policy");
        let policy = Policy::jwt("bench", jwt).expect("a good realm");
        let name = algorithm.name();
        let good =
            format!("Bearer {}", sign::sign(algorithm, &format!(r#"{{"alg":"{name}"}}"#), sign::CLAIMS));
        let expired = sign::NOW + 10_000;
        for (row, now, allowed) in [("good", sign::NOW, true), ("expired", expired, false)] {
            c.bench_function(&format!("auth/jwt/{name} {row}"), |b| {
                b.iter(|| {
                    let decision = policy.decide(Authorization::One(black_box(good.as_bytes())), now);
                    assert_eq!(matches!(decision, Decision::Allowed(_)), allowed);
                });
            });
        }
    }
    let jwt = sign::builder().build().expect("a good policy");
    c.bench_function("auth/jwt/garbage", |b| {
        b.iter(|| jwt.verify(black_box(b"eyJhbGciOiJub25lIn0.e30.AAAA"), sign::NOW).is_err());
    });
}

criterion_group!(benches, tokens, signed);
criterion_main!(benches);
