//! More workers than CPUs: all workers start, serve and stop.

use std::net::TcpStream;

use rustix::process::Signal;

use crate::plain::get;
use crate::support::{Doorbell, on_both_engines};

on_both_engines! {
    eight_workers
    sixty_four_workers
}

fn eight_workers(engine: &str) {
    workers_serve_and_end(engine, 8);
}

fn sixty_four_workers(engine: &str) {
    workers_serve_and_end(engine, 64);
}

fn workers_serve_and_end(engine: &str, workers: usize) {
    let count = workers.to_string();
    let args = ["serve", "--listen", "127.0.0.1:0", "--driver", engine, "--workers", &count];
    let mut doorbell = Doorbell::try_start(&args).unwrap_or_else(|log| panic!("{log}"));
    let threads = doorbell_testkit::peers::process::threads(&doorbell.process.pid()).unwrap();
    let ring =
        threads.iter().filter(|name| name.starts_with("doorbell-") && name[9..].parse::<u16>().is_ok());
    assert_eq!(ring.count(), workers, "{threads:?}");
    let _idle: Vec<_> = (0..100).map(|_| TcpStream::connect(doorbell.addr).unwrap()).collect();
    for _ in 0..10 * workers {
        assert_eq!(get(doorbell.addr, "/livez", &[]).status, 200);
    }
    doorbell.process.signal(Signal::TERM);
    doorbell.process.signal(Signal::TERM);
    let (status, _) = doorbell.process.wait();
    assert_eq!(status.code(), Some(0), "{}", doorbell.process.log());
}
