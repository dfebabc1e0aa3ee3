//! Promise: the replies of a `Health` name checks and reasons only if `details` allows it.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::time::Duration;

use axum::http::Request;
use doorbell_tokio::{Details, Health, HealthBuilder, Ttl};

const PATHS: [&str; 4] = ["/readyz", "/readyz?verbose", "/readyz?format=json", "/readyz/db"];

/// The replies while a check reports an error with a secret in its text.
fn replies(builder: HealthBuilder) -> String {
    let health = builder.push("db", Ttl::of(Duration::from_secs(3_600))).build().unwrap();
    let ask = |path| health.reply(&Request::builder().uri(path).body(()).unwrap()).unwrap();
    health.pushed("db").unwrap().report(Err("password=secret"));
    crate::common::eventually("the result is known", || ask("/readyz").status() == 503);
    PATHS.map(|path| String::from_utf8_lossy(ask(path).body()).into_owned()).concat()
}

#[tokio::test]
async fn reasons_are_hidden_unless_they_are_asked_for() {
    assert!(!replies(Health::builder()).contains("secret"));
    assert!(!replies(Health::builder().details(Details::Authenticated)).contains("secret"));
    assert!(replies(Health::builder().details(Details::Always)).contains("secret"));
}
