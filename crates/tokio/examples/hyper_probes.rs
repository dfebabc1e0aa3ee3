//! The accept loop of a plain hyper program: HTTP/1.1 and HTTP/2, with the probes in front of its
//! service, and a drain at SIGTERM. `cargo run -p doorbell-tokio --features hyper --example
//! hyper_probes`, then request `/` and `/readyz`.
#![expect(clippy::print_stderr, reason = "an example prints messages")]

use std::convert::Infallible;

use doorbell_tokio::{Doorbell, Health};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let health = Health::builder().build()?;
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let (control, mut incoming) = Doorbell::bind(addr).health(&health).start().await?;
    eprintln!("http://{}/", incoming.tcp_addr(0).ok_or("no address")?);
    let (server, open) = (auto::Builder::new(TokioExecutor::new()), GracefulShutdown::new());
    // The loop ends when the drain has delivered all waiting connections.
    while let Some(connection) = incoming.accept().await {
        let service = health.service(service_fn(hello));
        let conn = server.serve_connection_with_upgrades(TokioIo::new(connection.stream), service);
        let conn = open.watch(conn.into_owned());
        tokio::spawn(async move {
            if let Err(error) = conn.await {
                eprintln!("{error}");
            }
        });
    }
    // Until its first request was read, a graceful shutdown would close a connection without a reply.
    control.shutdown().await;
    open.shutdown().await;
    Ok(())
}

async fn hello(_request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from("hello\n"))))
}
