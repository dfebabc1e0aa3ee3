//! An axum program with probes on ring threads. Run `cargo run -p doorbell-tokio --features axum
//! --example hello`, then request `/readyz` and `/`. SIGTERM begins a drain.
//!
//! Does not know about: stuck runtimes (see `axum_probes`).

use axum::{Router, routing::get};
use doorbell_tokio::{Doorbell, Health};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let health = Health::builder().build()?;
    let (control, incoming) = Doorbell::bind("127.0.0.1:8080").health(&health).start().await?;
    let app = Router::new().route("/", get(|| async { "hello\n" })).merge(health.routes());
    Ok(axum::serve(incoming, app).with_graceful_shutdown(control.shutdown()).await?)
}
