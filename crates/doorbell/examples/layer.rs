//! A custom layer around a service: `cargo run --example layer -- 127.0.0.1:8080` adds the number
//! of previous requests to its replies.
//!
//! Does not know about: the layers of the crate (see `doorbell::http::layer`).
#![expect(clippy::print_stderr, reason = "an example prints messages")]

use std::sync::atomic::{AtomicU64, Ordering};

use doorbell::http::layer::{Guard, ServiceExt};
use doorbell::{Http1, Listen, Replied, Request, Responder, Server, StaticReply, Status, service_fn};

/// A layer that numbers the replies. [`Guard::admit`] is the only method that a layer needs.
struct Numbered(AtomicU64);

impl Guard for Numbered {
    fn admit<'a>(&self, _: &Request<'_>, reply: Responder<'a>) -> Result<Responder<'a>, Replied<'a>> {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        Ok(reply.header("X-Request-Number", number.to_string()))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned()).parse()?;
    let hello = StaticReply::text(Status::OK, "hello\n");
    let service = service_fn(move |_, reply| reply.send(&hello));
    let service = service.guarded(Numbered(AtomicU64::new(0)));

    let server = Server::builder().listen(Listen::tcp(addr), Http1::new(service)).start()?;
    eprintln!("listening on {}", server.local_addrs()[0]);

    server.wait()?;
    Ok(())
}
