//! Options of the comparison of TLS on the real machine, and its start.
//!
//! Does not know about: how a turn is measured.

use std::path::PathBuf;

use clap::Args;

use super::args::PairArgs;
use crate::error::RigError;
use crate::image::programs;
use crate::native::Measure;
use crate::tls;

/// Options of `tls`.
#[derive(Debug, Args)]
pub(super) struct TlsArgs {
    /// Handshakes in a turn; of requests on kept connections ten times as many
    #[arg(long, value_name = "N", default_value = "2000", value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    count: u64,

    /// Only contests whose ours/peer/kind/offer/group has these whole parts, as in `doorbell-uring/nginx` or `full/usual`
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    only: Vec<String>,

    #[command(flatten)]
    pairs: PairArgs,
}

/// CPU time of handshakes and of requests over TLS.
pub(super) fn tls(args: &TlsArgs) -> Result<(String, bool), RigError> {
    let contests = tls::contests(&args.only)?;
    // The client is this process, so no load generator is needed.
    let ours = programs::build(args.pairs.doorbell.clone(), Some(PathBuf::new()))?;
    let rules = args.pairs.rules(Measure::Cpu { requests: args.count });
    let report = tls::run(&contests, args.count, &rules, &ours)?;
    let text = args.pairs.output.of(|| report.json(), || report.table());
    Ok((text, report.is_complete()))
}
