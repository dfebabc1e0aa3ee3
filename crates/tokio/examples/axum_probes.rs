//! An axum program whose probes are served by ring threads. Probes get replies even while the
//! runtime is stuck. If it stays stuck, they fail.
//!
//! `cargo run -p doorbell-tokio --features axum --example axum_probes -- 127.0.0.1:8080`, then
//! `curl 127.0.0.1:8080/block` blocks the runtime for 5 s. `/livez` still replies immediately,
//! with 503 once the runtime has been blocked for 3 s.
#![expect(clippy::print_stderr, reason = "an example prints messages")]
#![expect(clippy::disallowed_methods, reason = "the example shows what not to do")]

use std::net::SocketAddr;
use std::time::Duration;

use axum::{Router, routing::get};
use doorbell::{Http1, Listen, Server};
use doorbell_tokio::{Control, Embed, Handed, Health, Probes};

/// Embeds a server in front of `app`, on `addr`.
fn embed(addr: SocketAddr, health: &Health) -> (Control, Handed) {
    let service = Http1::new(Probes::new(health));
    Embed::new(Server::builder().listen(Listen::tcp(addr), service)).health(health).start()
}

fn app() -> Router {
    // Never do this in async code: the only thread of the runtime sleeps.
    let block = || async {
        std::thread::sleep(Duration::from_secs(5));
        "awake again\n"
    };
    Router::new().route("/", get(|| async { "hello\n" })).route("/block", get(block))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned()).parse()?;
    let health = Health::builder().stalled_after(Duration::from_secs(3), Duration::from_secs(3)).build()?;
    let (control, handed) = embed(addr, &health);
    control.ready().await?;
    eprintln!("http://{}/livez", control.tcp_addr(0).ok_or("no address")?);
    axum::serve(handed, app()).await?;
    Ok(())
}
