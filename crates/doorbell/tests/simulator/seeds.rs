//! Runs many seeds one after another and prints a summary.

use std::panic::catch_unwind;

use super::run::{Report, play};

/// Number of seeds of an ordinary run.
const SEEDS: u64 = 256;

/// Number of failed seeds after which the test ends.
const FAILURES_MAX: usize = 10;

#[test]
fn every_promise_holds_in_every_seed() {
    if let Some(seed) = number("DOORBELL_SIM_SEED") {
        // A failing run prints its events.
        let (report, sim) = play(seed, true);
        sim.world().trace().iter().for_each(|line| println!("{line}"));
        println!("seed {seed}: {}", summary(1, &report));
        return;
    }
    let seeds = number("DOORBELL_SIM_SEEDS").unwrap_or(SEEDS);
    let mut sum = Report::default();
    let mut failed = Vec::new();
    for seed in 0..seeds {
        match catch_unwind(|| play(seed, false)) {
            Ok((report, _)) => sum.add(&report),
            Err(_) => {
                eprintln!(
                    "seed {seed} failed; replay it with every event: \
                     DOORBELL_SIM_SEED={seed} cargo test -p doorbell --test simulator -- --nocapture"
                );
                failed.push(seed);
                if failed.len() == FAILURES_MAX {
                    break;
                }
            }
        }
    }
    assert!(failed.is_empty(), "seeds that failed: {failed:?}");
    println!("{}", summary(seeds, &sum));
    if seeds >= SEEDS {
        assert_eq!(sum.faults.missing(), [], "each fault occurs in at least one seed");
    }
}

/// Two runs of the same seed have the same events; otherwise a replay would be useless.
#[test]
fn a_seed_is_always_the_same_run() {
    for seed in [3, 77] {
        let trace = || play(seed, true).1.world().trace().to_vec();
        let first = trace();
        assert!(first.len() > 100, "a run has events");
        assert!(first == trace(), "seed {seed} had two different runs");
    }
}

fn summary(seeds: u64, report: &Report) -> String {
    format!(
        "{seeds} seeds: {} connections ({} judged strictly), {} replies due, {} whole, {} jobs, {} turns, {} faults ({})",
        report.conns,
        report.strict,
        report.requests,
        report.replies_whole,
        report.jobs,
        report.turns,
        report.faults.total(),
        report.faults
    )
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {value:?}")))
}
