//! Exact instruction counts of everything that runs per request, with a limit for each row.
//!
//! `cargo bench -p doorbell-benches --bench instructions` counts with callgrind and fails if a row exceeds its limit. It needs `valgrind` and
//! `gungraun-runner` in the version of `gungraun` (`cargo install gungraun-runner --version =0.20.0`). If one of them is missing it says so and
//! counts nothing, unless `DOORBELL_REQUIRE_VALGRIND=1` makes that a failure.
//!
//! A limit is the count when it was set; a change that lowers a count lowers its limit. All rows are one program, because optimising a program
//! as a whole takes a minute.
//!
//! Does not know about: time; the other benches measure that.

mod edge;
mod harness;
mod health;
mod log;
mod machine;
mod route;

use std::process::ExitCode;

#[expect(clippy::exit, reason = "how the harness reports a row beyond its limit")]
mod counted {
    //! The harness, in a module because it defines `main`.
    use crate::edge::edge;
    use crate::health::{change, probes};
    use crate::log::log;
    use crate::machine::machine;
    use crate::route::routes;

    gungraun::main!(library_benchmark_groups = machine, edge, probes, change, log, routes);

    pub(super) fn run() {
        main();
    }
}

fn main() -> ExitCode {
    harness::start(check_replies, counted::run)
}

/// The counted work is the right work.
fn check_replies() {
    machine::check_replies();
    edge::check_replies();
    health::check_replies();
    log::check_replies();
    route::check_replies();
}
