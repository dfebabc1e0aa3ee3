//! Options of the comparisons on the real machine, and their start.
//!
//! Does not know about: how a turn is measured.

use std::path::PathBuf;

use clap::Args;

use super::args::PairArgs;
use crate::error::RigError;
use crate::image::programs;
use crate::native::{self, Measure};

/// Options of `native`.
#[derive(Debug, Args)]
pub(super) struct NativeArgs {
    /// New connections in a turn; of requests on kept connections ten times as many
    #[arg(long, value_name = "N", default_value = "20000", value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    requests: u64,

    #[command(flatten)]
    common: CommonArgs,
}

/// Options of `latency`.
#[derive(Debug, Args)]
pub(super) struct LatencyArgs {
    /// Length of a turn
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,

    #[command(flatten)]
    common: CommonArgs,
}

/// What both have.
#[derive(Debug, Args)]
struct CommonArgs {
    /// Only contests whose ours/peer/mode/in-flight has these whole parts, as in `doorbell-uring/nginx` or `hyper/close`
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    only: Vec<String>,

    #[command(flatten)]
    pairs: PairArgs,

    /// Load with this `doorbell-load` and build none
    #[arg(long, value_name = "FILE")]
    load: Option<PathBuf>,
}

/// CPU time.
pub(super) fn native(args: &NativeArgs) -> Result<(String, bool), RigError> {
    run(&args.common, Measure::Cpu { requests: args.requests })
}

/// Latency.
pub(super) fn latency(args: &LatencyArgs) -> Result<(String, bool), RigError> {
    run(&args.common, Measure::Latency { seconds: args.seconds })
}

fn run(args: &CommonArgs, measure: Measure) -> Result<(String, bool), RigError> {
    let contests = native::contests(measure, &args.only)?;
    let mut ours = programs::build(args.pairs.doorbell.clone(), args.load.clone())?;
    let rules = args.pairs.rules(measure);
    let report = native::run(&contests, &rules, &mut ours)?;
    let text = args.pairs.output.of(|| report.json(), || report.table());
    Ok((text, report.is_complete()))
}
