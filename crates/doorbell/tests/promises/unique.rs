//! Promise: no byte of a reply reaches another connection. Clients request unique ids with many
//! requests in flight, and use connections in every supported way.
//!
//! A slow server passes; a wrong byte fails.

#![expect(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "measurements and skips are printed, and test helpers may panic"
)]

use std::net::SocketAddr;
use std::time::Duration;

use doorbell::{Engine, HttpLimits};
use doorbell_testkit::peers::{Load, Mode};

use crate::promise::{addr, builder, on_both_engines, raw, serve_with, sized, workers};

on_both_engines! {
    no_foreign_byte_with_one_worker
    no_foreign_byte_with_two_workers
    no_foreign_byte_over_the_raw_protocol
}

/// Numbers of requests in flight.
const WIDTHS: [u32; 6] = [1, 2, 8, 64, 256, 1_000];
const MODES: [Mode; 3] = [Mode::Close, Mode::KeepAlive(50), Mode::Pipelined(8)];

/// Number of requests of one test. Together the tests get 100,000 replies per driver, or 1,000,000
/// in the full version.
fn requests() -> u64 {
    sized(100_000, 1_000_000) / (2 * WIDTHS.len() as u64 * MODES.len() as u64) + 1
}

fn no_foreign_byte_with_one_worker(engine: Engine) {
    over_http(engine, 1);
}

fn no_foreign_byte_with_two_workers(engine: Engine) {
    over_http(engine, 2);
}

fn over_http(engine: Engine, count: u16) {
    let server = serve_with(engine, HttpLimits::default()).workers(workers(count)).start().unwrap();
    let mut first_id = u64::from(count) << 40;
    let mut replies = 0;
    for in_flight in WIDTHS {
        for mode in MODES {
            replies += load(addr(&server), in_flight, mode, first_id);
            first_id += 1 << 32;
        }
    }
    eprintln!("{engine:?}, {count} workers: {replies} replies, 0 foreign bytes");
    server.stop().unwrap();
}

fn no_foreign_byte_over_the_raw_protocol(engine: Engine) {
    let server = builder(engine).listen(crate::promise::anywhere(), raw()).start().unwrap();
    for (n, in_flight) in WIDTHS.into_iter().enumerate() {
        load(addr(&server), in_flight, Mode::Close, (n as u64) << 32);
    }
    server.stop().unwrap();
}

fn load(server: SocketAddr, in_flight: u32, mode: Mode, first_id: u64) -> u64 {
    let requests = requests();
    let load = Load {
        server,
        sources: Vec::new(),
        requests,
        in_flight,
        mode,
        first_id,
        patience: Duration::from_secs(120),
    };
    let report = load.run().unwrap();
    assert!(
        report.is_clean() && report.replies == requests,
        "{mode:?}, {in_flight} in flight: {}",
        summary(&report)
    );
    report.replies
}

fn summary(report: &doorbell_testkit::peers::LoadReport) -> String {
    format!("{:?}", doorbell_testkit::peers::LoadReport { latencies: Vec::new(), ..report.clone() })
}
