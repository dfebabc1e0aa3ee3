//! Options of the comparison of TLS on the real machine, and its start.
//!
//! Does not know about: how a turn is measured.

use std::path::PathBuf;

use clap::Args;

use super::args::OutputArg;
use crate::error::RigError;
use crate::image::programs;
use crate::native::{Measure, Rules};
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

    /// Pairs of turns of each contest; ours is first in every other one
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=100))]
    pairs: u32,

    /// The core of the server
    #[arg(long, value_name = "CORE", default_value = "0")]
    server_core: u32,

    /// The core of the client
    #[arg(long, value_name = "CORE", default_value = "1")]
    client_core: u32,

    /// Form of the report
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    output: OutputArg,

    /// Measure this `doorbell` and build none
    #[arg(long, value_name = "FILE")]
    doorbell: Option<PathBuf>,
}

/// CPU time of handshakes and of requests over TLS.
pub(super) fn tls(args: &TlsArgs) -> Result<(String, bool), RigError> {
    let contests = tls::contests(&args.only)?;
    // The client is this process, so no load generator is needed.
    let ours = programs::build(args.doorbell.clone(), Some(PathBuf::new()))?;
    let measure = Measure::Cpu { requests: args.count };
    let rules =
        Rules { pairs: args.pairs, server_core: args.server_core, client_core: args.client_core, measure };
    let report = tls::run(&contests, args.count, &rules, &ours)?;
    let text = match args.output {
        OutputArg::Json => report.json(),
        OutputArg::Table => report.table(),
    };
    Ok((text, report.is_complete()))
}
