//! The cost of echoing a datagram: a worker with each driver, against a loop of `recvmmsg(2)` and
//! `sendmmsg(2)` that sets the source address of each reply. Also the cost of a rate limit, of
//! the guard against amplification, and of a TCP probe beside a flood of datagrams.
//!
//! The figures are the server's time, kernel included, in nanoseconds. The clients run between the
//! turns of the worker, untimed. `doorbell-rig datagrams` runs this program in a QEMU guest, in
//! which each instruction takes one nanosecond. Decision 0061 has figures.
//!
//! The optional arguments are two limits in per cent: what a datagram may cost more than in the loop,
//! and what a flood may add to the cost of a probe. Without them no figure is judged, because the
//! times depend on the other work of the machine.
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
    let mut percents_max = std::env::args().skip(1).map(|percent| percent.parse().unwrap());
    let is_cheap = echo::print(percents_max.next());
    println!();
    let is_fair = flood::print(percents_max.next());
    if is_cheap && is_fair { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
