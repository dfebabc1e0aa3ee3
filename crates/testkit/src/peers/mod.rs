//! Peers on real sockets: well-known probers, and clients that misbehave in one named way each.
//!
//! Start with [`Shape`] for probers, [`Load`] for many unique requests in flight, [`misbehave`] for
//! the rest, and [`process`] for the kernel's statistics of a process.

#![expect(
    clippy::disallowed_methods,
    reason = "peers on real sockets use real time; only the simulator has virtual time"
)]

pub mod clickhouse;
mod end;
mod load;
pub mod misbehave;
mod port;
mod probe;
pub mod process;
pub mod redis;
mod reply;
mod slow;
mod unique;

pub use end::{End, Exchange, connect_from, exchange, finish};
pub use load::{Load, LoadReport, Mode};
pub use port::{free_addr, free_port};
pub use probe::{Close, Shape};
pub use reply::Reply;
pub use slow::{Paced, Trickle, TrickleReport, read_paced};
pub use unique::Unique;

use std::time::{Duration, Instant};

/// Time after which a peer considers the server failed.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until `done` holds, polling every millisecond, for at most `limit`.
///
/// Returns the time it took, or `None`.
pub fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> Option<Duration> {
    let start = Instant::now();
    while !done() {
        if start.elapsed() > limit {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Some(start.elapsed())
}

/// The given percentile of `samples`; zero when there are none.
///
/// Sorts in place.
pub fn percentile(samples: &mut [Duration], percent: f64) -> Duration {
    samples.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index into a small table"
    )]
    let rank = (samples.len() as f64 * percent / 100.0).ceil() as usize;
    samples.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}
