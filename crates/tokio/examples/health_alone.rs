//! Health without ring threads: checks and probe routes in an ordinary axum program. `cargo run -p
//! doorbell-tokio --features axum --example health_alone`, then request `/readyz`.
#![expect(clippy::print_stderr, reason = "an example prints messages")]

use std::time::Duration;

use axum::{Router, routing::get};
use doorbell_tokio::{Check, Details, Health, Ttl};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let every = Check::every(Duration::from_secs(5));
    let health = Health::builder()
        .check("config", every, async || tokio::fs::metadata("/etc/hosts").await.map(drop))
        .push("queue", Ttl::of(Duration::from_secs(30)).degrading())
        .details(Details::Always)
        .build()?;
    let queue = health.pushed("queue").ok_or("there is such a check")?;
    let app = Router::new().route("/", get(|| async { "hello\n" })).merge(health.routes());
    let app = app.route("/work", get(async move || format!("reported: {}\n", queue.ok())));
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = tokio::net::TcpListener::bind(addr).await?;
    eprintln!("http://{}/readyz?verbose", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}
