//! A service with three checks: one is required, one only degrades, and one gets its results from
//! the program. `cargo run -p doorbell-tokio --features axum,grpc,metrics --example service`, then
//! request `/readyz?verbose` or `/metrics`, or call `grpc.health.v1`. SIGTERM begins a drain.
#![expect(clippy::print_stderr, reason = "an example prints messages")]

use std::time::Duration;

use axum::{Router, routing::get};
use doorbell_tokio::{Check, Details, Doorbell, Health, Ttl};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = Database::connect().await?;
    let health = Health::builder()
        .check("db", Check::every(Duration::from_secs(5)).rise(2).fall(3).required(), move || {
            let db = db.clone();
            async move { db.ping().await }
        })
        .check("cache", Check::every(Duration::from_secs(5)).degrading(), ping_cache)
        .push("queue", Ttl::of(Duration::from_secs(30)))
        .details(Details::Always)
        .build()?;
    let addr = std::env::args().nth(1).unwrap_or_else(|| "0.0.0.0:8080".to_owned());
    let (control, incoming) = Doorbell::bind(addr).health(&health).start().await?;
    eprintln!("http://{}/", incoming.tcp_addr(0).ok_or("no address")?);
    let app = Router::new()
        .route("/", get(hello))
        .merge(health.routes())
        .merge(health.grpc_routes())
        .merge(health.metrics().with_server(&control).routes());
    health.pushed("queue").ok_or("no such check")?.ok();
    Ok(axum::serve(incoming, app).with_graceful_shutdown(control.shutdown()).await?)
}

async fn hello() -> &'static str {
    "hello\n"
}

/// Stands in for a real database client.
#[derive(Clone)]
struct Database;

impl Database {
    async fn connect() -> Result<Self, std::io::Error> {
        Ok(Self)
    }

    async fn ping(&self) -> Result<(), std::io::Error> {
        Ok(())
    }
}

async fn ping_cache() -> Result<(), &'static str> {
    Err("not configured")
}
