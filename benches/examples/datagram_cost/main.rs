//! The cost of echoing a datagram: a worker with each driver, against a loop of `recvmmsg(2)` and
//! `sendmmsg(2)` that sets the source address of each reply; the cost of the limit and of the guard.
//! And the cost of a TCP probe beside a flood of datagrams.
//!
//! The figures are the server's time, kernel included, in nanoseconds. The clients run between the
//! turns of the worker, untimed. `doorbell-rig datagrams` runs this program in a QEMU guest, in
//! which each instruction takes one nanosecond. Decision 0061 has figures.
//!
//! The argument is the limit of what a flood may add to a probe, in per cent. Without it nothing is
//! judged, as the time of a machine that does other work depends on that work.
//!
//! Does not know about: several workers.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement reads real time, prints it and may panic"
)]

mod echo;
mod flood;
mod server;

use std::process::ExitCode;

fn main() -> ExitCode {
    let percent_max = std::env::args().nth(1).map(|percent| percent.parse().unwrap());
    echo::print();
    println!();
    if flood::print(percent_max) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The median.
fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
