//! A tonic server: ring threads serve HTTP probes, and the same port serves `grpc.health.v1` beside
//! the services of the program; a layer serves probes over HTTP/2. `cargo run -p doorbell-tokio
//! --features grpc,tower --example grpc`, then request `/readyz`, or `grpc-health-probe -addr
//! 127.0.0.1:8080`. SIGTERM begins a drain.
#![expect(clippy::print_stderr, reason = "an example prints messages")]

use std::time::Duration;

use doorbell_tokio::{Check, Doorbell, Health};
use tonic::transport::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let health = Health::builder()
        .check("db", Check::every(Duration::from_secs(5)).required(), async || Ok::<(), &str>(()))
        .build()?;
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let (control, incoming) = Doorbell::bind(addr).health(&health).start().await?;
    eprintln!("http://{}/readyz", control.tcp_addr(0).ok_or("no address")?);
    Server::builder()
        .layer(health.layer())
        .add_service(health.grpc_with([("shop.Cart", "readyz")])?)
        // .add_service(CartServer::new(...))
        .serve_with_incoming_shutdown(incoming.streams(), control.shutdown())
        .await?;
    Ok(())
}
