//! A service with an access log: `cargo run --example access_log -- 127.0.0.1:8080 access.log`.
//!
//! A program with log rotation calls `AccessLog::reopen` in its signal handler.
#![expect(clippy::print_stderr, reason = "an example prints messages")]

use core::time::Duration;

use doorbell::access_log::{AccessLog, LogTarget};
use doorbell::http::layer::ServiceExt;
use doorbell::http::log::{Filter, Format, Logger};
use doorbell::{Http1, Listen, Server, StaticReply, Status, service_fn};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned()).parse()?;
    let target = std::env::args().nth(2).map_or(LogTarget::Stdout, |path| LogTarget::File(path.into()));
    let log = AccessLog::builder(target)
        .format(Format::Json)
        .on_trouble(|trouble| eprintln!("{trouble}"))
        .start()?;

    let hello = StaticReply::text(Status::OK, "hello\n");
    let service = service_fn(move |_, reply| reply.send(&hello));
    let service = service.with(Logger::new(Filter::ALL, log.sink()));

    let server = Server::builder().listen(Listen::tcp(addr), Http1::new(service)).start()?;
    eprintln!("listening on {}", server.local_addrs()[0]);

    // Runs until standard input ends. The log is stopped last, so that no record is missing.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    server.drain(Duration::from_secs(5))?;
    log.stop(Duration::from_secs(1));
    Ok(())
}
