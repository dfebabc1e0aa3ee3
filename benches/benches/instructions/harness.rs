//! The limit of a row, and the ways to run the program: as a bench, as a test, or under callgrind.

use doorbell_testkit::skip::{self, Need};
use gungraun::{Callgrind, EventKind, LibraryBenchmarkConfig};
use std::process::{Command, ExitCode, Stdio};

/// Limits a row to this number of instructions.
pub(crate) fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, instructions)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

/// The program. `run` counts instructions, and `check_replies` asserts that the counted operations
/// are correct.
pub(crate) fn start(check_replies: fn(), run: fn()) -> ExitCode {
    // The harness starts this program again under callgrind, with an extra argument.
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--gungraun-run") {
        run();
        return ExitCode::SUCCESS;
    }
    check_replies();
    if args.iter().any(|arg| arg == "--test") {
        return ExitCode::SUCCESS;
    }
    let missing = ["valgrind", "gungraun-runner"].into_iter().find(|program| !exists(program));
    if let Some(program) = missing {
        skip::skipped(Need::Valgrind, format_args!("instruction counts: `{program}` is not in the path"));
        return ExitCode::SUCCESS;
    }
    run();
    ExitCode::SUCCESS
}

fn exists(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok()
}
