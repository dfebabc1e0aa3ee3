//! Graceful shutdown: SIGTERM fails readiness, the ring threads finish or hand over requests in
//! progress, then axum finishes.
#![expect(clippy::print_stderr, reason = "an example prints messages")]

use std::time::Duration;

use axum::{Router, routing::get};
use doorbell_tokio::{Doorbell, Health};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let health = Health::builder().build()?;
    // At SIGTERM, readiness fails at once; 100 ms later the listener closes.
    let (delay, timeout) = (Duration::from_millis(100), Duration::from_secs(10));
    let doorbell = Doorbell::bind(addr).health(&health).drain_after(delay, timeout);
    let (control, incoming) = doorbell.start().await?;
    eprintln!("http://{}/slow", control.tcp_addr(0).ok_or("no address")?);

    let slow = || async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        "done\n"
    };
    let app = Router::new().route("/slow", get(slow)).merge(health.routes());
    axum::serve(incoming, app).with_graceful_shutdown(control.shutdown()).await?;
    eprintln!("over");
    Ok(())
}
