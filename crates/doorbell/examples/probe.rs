//! Serves the liveness and readiness of a service: `cargo run --example probe -- 127.0.0.1:8080`.
//!
//! Does not know about: configurable routes, which the `doorbell` binary supports.
#![expect(clippy::print_stderr, reason = "an example prints messages")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use doorbell::{Http1, Listen, Server, StaticReply, Status, service_fn};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned()).parse()?;
    let ready = Arc::new(AtomicBool::new(true));

    let ok = StaticReply::text(Status::OK, "ok\n");
    let not_ready = StaticReply::text(Status::SERVICE_UNAVAILABLE, "not ready\n");
    let not_found = StaticReply::text(Status::NOT_FOUND, "not found\n");
    let flag = Arc::clone(&ready);
    let probes = service_fn(move |request, reply| match request.path() {
        "/livez" => reply.send(&ok),
        "/readyz" if flag.load(Ordering::Relaxed) => reply.send(&ok),
        "/readyz" => reply.send(&not_ready),
        _ => reply.send(&not_found),
    });

    let server = Server::builder().listen(Listen::tcp(addr), Http1::new(probes)).start()?;
    eprintln!("listening on {}, {}", server.local_addrs()[0], server.driver_report());

    // The service runs here. Before it ends, set `ready` to false and call `server.drain`, which
    // finishes requests in progress.
    server.wait()?;
    Ok(())
}
