//! Shared parts of the counting benches: the limit of a row, and running the program as a bench, as
//! a test or under callgrind.
//!
//! Does not know about: the counted operations.

use doorbell_testkit::skip::{self, Need};
use gungraun::{Callgrind, EventKind, LibraryBenchmarkConfig};
use std::process::{Command, ExitCode, Stdio};

/// The maximum number of instructions of a row.
pub(crate) fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, instructions)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

/// Defines `counted::run` for a group of rows.
macro_rules! counted {
    ($($group:ident),+) => {
        #[expect(clippy::exit, reason = "the harness reports an exceeded limit this way")]
        mod counted {
            //! The harness, in a separate module because it defines `main`.
            use super::{$($group),+};

            gungraun::main!(library_benchmark_groups = $($group),+);

            pub(super) fn run() {
                main();
            }
        }
    };
}
pub(crate) use counted;

/// Runs the program `name`: `run` counts, and `check_answers` checks that the counted work is
/// correct.
pub(crate) fn start(name: &str, check_answers: fn(), run: fn()) -> ExitCode {
    // The harness starts this program again under callgrind, with an extra argument.
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--gungraun-run") {
        run();
        return ExitCode::SUCCESS;
    }
    check_answers();
    if args.iter().any(|arg| arg == "--test") {
        return ExitCode::SUCCESS;
    }
    let missing = ["valgrind", "gungraun-runner"].into_iter().find(|program| !exists(program));
    if let Some(program) = missing {
        skip::skipped(Need::Valgrind, format_args!("{name}: there is no `{program}` in the path"));
        return ExitCode::SUCCESS;
    }
    run();
    ExitCode::SUCCESS
}

fn exists(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok()
}
