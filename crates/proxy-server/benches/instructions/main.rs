//! Exact instruction counts of a health probe and of a fixed reply in the program, with a limit for
//! each row.
//!
//! `cargo bench -p doorbell-proxy-server --bench instructions` counts with callgrind, as the bench of
//! the same name of `doorbell-benches` does for the libraries.

#[path = "../../../../benches/benches/instructions/harness.rs"]
mod harness;
mod probes;

use std::process::ExitCode;

#[expect(clippy::exit, reason = "how the harness reports a row beyond its limit")]
mod counted {
    //! The harness. It is in a module because it defines `main`.
    use crate::probes::probes;

    gungraun::main!(library_benchmark_groups = probes);

    pub(super) fn run() {
        main();
    }
}

fn main() -> ExitCode {
    harness::start(probes::check_replies, counted::run)
}
