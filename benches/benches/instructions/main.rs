//! Exact instruction counts of the code that runs for each request, with a limit for each row of
//! doorbell.
//!
//! `cargo bench -p doorbell-benches --bench instructions` counts with callgrind and fails if a row
//! exceeds its limit. It needs `valgrind`, and `gungraun-runner` in the version of `gungraun`
//! (`cargo install gungraun-runner --version =0.20.0`). If either is missing, the bench reports
//! that and counts nothing; `DOORBELL_REQUIRE_VALGRIND=1` makes that a failure.
//!
//! A limit is the count at the time when it was set, in some rows rounded up. A change that lowers
//! a count must also lower the limit in the source. All rows of the libraries are in one program,
//! because each program takes a minute to optimize; those of the `doorbell` program are in
//! `crates/proxy-server/benches`, because building it with optimization takes minutes.

mod edge;
mod harness;
mod health;
mod log;
mod machine;
mod route;

use std::process::ExitCode;

#[expect(clippy::exit, reason = "how the harness reports a row beyond its limit")]
mod counted {
    //! The harness. It is in a module because it defines `main`.
    use crate::edge::edge;
    use crate::health::change;
    use crate::log::log;
    use crate::machine::machine;
    use crate::route::routes;

    gungraun::main!(library_benchmark_groups = machine, edge, change, log, routes);

    pub(super) fn run() {
        main();
    }
}

fn main() -> ExitCode {
    harness::start(check_replies, counted::run)
}

/// Asserts that the counted operations give the correct results.
fn check_replies() {
    machine::check_replies();
    edge::check_replies();
    log::check_replies();
    route::check_replies();
}
