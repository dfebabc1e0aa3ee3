//! Exact instruction counts of the access log on the thread that answers requests.
//!
//! Does not know about: time; `logger.rs` measures that.
//!
//! Run and limits as in `instructions.rs`: `cargo bench -p doorbell-benches --bench instructions_log`. The rows are a whole request, bytes in
//! to bytes out, as in the rows `whole` there; what the log costs is the difference to `without`.
#![expect(missing_docs, reason = "the macros of the harness make public items without")]

use std::num::NonZeroU32;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};

use doorbell_benches::machine::Machine;
use doorbell_benches::probes::{ELB, KUBELET, REDIRECT};
use doorbell_http::Next;
use doorbell_http::log::{Filter, Record, Sink};
use gungraun::{Callgrind, EventKind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group};

/// A row must not take more instructions than this.
fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, instructions)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

/// Copies records into slots in turn, as a queue does. The writer's own thread would run too, and what it reads of the kernel's clocks is not there
/// under callgrind.
#[derive(Clone, Default)]
struct Slots(Arc<Mutex<Vec<Record>>>);

impl Sink for Slots {
    fn log(&self, record: &Record) {
        let mut slots = self.0.try_lock().expect("one thread");
        slots.truncate(7);
        slots.push(*record);
    }
}

/// A machine, and where its records go.
struct Logging {
    machine: Box<Machine>,
    slots: Slots,
}

impl Logging {
    fn new(input: &[u8], filter: Filter) -> Box<Self> {
        // The first search of a process asks what the processor can do.
        let _ = Machine::logged(input, Filter::ALL, Slots::default()).handle();
        let slots = Slots(Arc::new(Mutex::new(Vec::with_capacity(8))));
        Box::new(Self { machine: Machine::logged(input, filter, slots.clone()), slots })
    }

    fn without(input: &[u8]) -> Box<Self> {
        Box::new(Self { machine: Machine::new(input), slots: Slots::default() })
    }
}

fn sampled() -> Filter {
    Filter::ERRORS.one_in(NonZeroU32::MAX)
}

// What was set up goes out again so that it is not dropped while counting.
#[library_benchmark]
#[bench::without(args = (Logging::without(KUBELET)), config = at_most(705))]
#[bench::off(args = (Logging::new(KUBELET, Filter::OFF)), config = at_most(720))]
#[bench::errors(args = (Logging::new(KUBELET, Filter::ERRORS)), config = at_most(762))]
#[bench::sampled(args = (Logging::new(KUBELET, sampled())), config = at_most(1_210))]
#[bench::all(args = (Logging::new(KUBELET, Filter::ALL)), config = at_most(1_620))]
fn request(mut logging: Box<Logging>) -> (Next, Box<Logging>) {
    (logging.machine.handle(), logging)
}

library_benchmark_group!(name = log, benchmarks = [request]);

#[expect(clippy::exit, reason = "how the harness reports a row beyond its limit")]
mod counted {
    //! The harness, in a place of its own because it wants to be `main`.
    use super::log;

    gungraun::main!(library_benchmark_groups = log);

    pub(super) fn run() {
        main();
    }
}

fn main() -> ExitCode {
    // The harness starts this program again under callgrind, with an argument of its own.
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--gungraun-run") {
        counted::run();
        return ExitCode::SUCCESS;
    }
    check_answers();
    if args.iter().any(|arg| arg == "--test") {
        return ExitCode::SUCCESS;
    }
    let missing = ["valgrind", "gungraun-runner"].into_iter().find(|program| !exists(program));
    if let Some(program) = missing {
        tell(&format!("SKIPPED: instructions_log: there is no `{program}` in the path"));
        let required = std::env::var_os("DOORBELL_REQUIRE_VALGRIND").is_some_and(|value| value == "1");
        return if required { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    counted::run();
    ExitCode::SUCCESS
}

/// What is counted is the right work.
fn check_answers() {
    for (filter, records) in [(Filter::OFF, 0), (Filter::ERRORS, 0), (sampled(), 0), (Filter::ALL, 1)] {
        for input in [ELB, REDIRECT] {
            let mut logging = Logging::new(input, filter);
            let _ = logging.machine.handle();
            assert!(logging.machine.output().starts_with(b"HTTP/1.1 "));
            // A sample has no probes in it, and these are.
            assert_eq!(logging.slots.0.lock().expect("one thread").len(), records, "{filter:?}");
        }
    }
}

fn exists(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok()
}

#[expect(clippy::print_stderr, reason = "a skip must be heard of")]
fn tell(line: &str) {
    eprintln!("{line}");
}
