//! An axum program whose probes do not wait for it. Run `cargo run -p doorbell-tokio --features
//! axum --example hello`, then request `/readyz` and `/`.
//!
//! Does not know about: stuck runtimes (see `axum_probes`), graceful shutdown (see `shutdown`).

use axum::{Router, routing::get};
use doorbell::{Http1, Listen, Server};
use doorbell_tokio::{Embed, Health, Probes};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let health = Health::new();
    let listen = Listen::tcp("127.0.0.1:8080".parse()?);
    let server = Server::builder().listen(listen, Http1::new(Probes::new(&health)));
    let (control, handed) = Embed::new(server).health(&health).start();
    control.ready().await?;
    health.set_ready(true);
    let app = Router::new().route("/", get(|| async { "hello\n" })).layer(health.layer());
    Ok(axum::serve(handed, app).with_graceful_shutdown(control.delivered()).await?)
}
