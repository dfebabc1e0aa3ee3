//! Graceful shutdown: SIGTERM fails readiness, the ring threads finish or hand over requests in
//! progress, then axum finishes.
#![expect(clippy::print_stderr, reason = "an example prints messages")]

use std::time::Duration;

use axum::{Router, routing::get};
use doorbell::{Http1, Listen, Server};
use doorbell_tokio::{Embed, Health, Probes};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned()).parse()?;
    let mut terminate = signal(SignalKind::terminate())?;
    let health = Health::new();
    let service = Http1::new(Probes::new(&health));
    let (control, handed) =
        Embed::new(Server::builder().listen(Listen::tcp(addr), service)).health(&health).start();
    control.ready().await?;
    health.set_ready(true);
    eprintln!("http://{}/slow", control.tcp_addr(0).ok_or("no address")?);

    let slow = || async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        "done\n"
    };
    let app = Router::new().route("/slow", get(slow));
    let serve = axum::serve(handed, app).with_graceful_shutdown(control.delivered());
    let drain = async {
        terminate.recv().await;
        control.drain(Duration::from_secs(10)).await
    };
    let (served, drained) = tokio::join!(serve.into_future(), drain);
    served?;
    drained?;
    eprintln!("over");
    Ok(())
}
