//! doorbell with a small amount of work per request, on the ring thread or in a job. The difference
//! is the cost of a job.
//!
//! Usage: `jobs home|away io_uring|epoll ADDR:PORT`. The ring thread is named `doorbell-0`.
#![forbid(unsafe_code)]

use std::error::Error;
use std::net::SocketAddr;
use std::num::NonZeroU16;

use doorbell::{Engine, Http1, HttpLimits, Listen, Offload, Reply, Server, Status, Workers, service_fn};

const USAGE: &str = "usage: jobs home|away io_uring|epoll ADDR:PORT";

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let is_away = match words.next().as_deref() {
        Some("home") => false,
        Some("away") => true,
        _ => return Err(USAGE.into()),
    };
    let engine = match words.next().as_deref() {
        Some("io_uring") => Engine::IoUring,
        Some("epoll") => Engine::Epoll,
        _ => return Err(USAGE.into()),
    };
    let addr: SocketAddr = words.next().ok_or(USAGE)?.parse()?;
    let jobs = Offload::builder().threads(NonZeroU16::MIN).build()?;
    let service = service_fn(
        move |request, reply| {
            if is_away { jobs.run(request, reply, work) } else { reply.send_owned(work()) }
        },
    );
    let limits = HttpLimits { requests_per_conn_max: u32::MAX, ..HttpLimits::default() };
    let server = Server::builder()
        .engine(engine)
        .workers(Workers::Count(NonZeroU16::MIN))
        .listen(Listen::tcp(addr), Http1::new(service).limits(limits))
        .start()?;
    server.wait()?;
    Ok(())
}

fn work() -> Reply {
    Reply::text(Status::OK, "ok\n")
}
