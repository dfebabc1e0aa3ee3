//! Frames a number of streams, prints the results, and fails if a difference has no reason.
//!
//! Arguments: `STREAMS [SEED]`.
#![forbid(unsafe_code)]

use doorbell_differential::go::Go;
use doorbell_differential::run::run;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> io::Result<ExitCode> {
    let mut numbers = std::env::args().skip(1).map(|arg| arg.parse().map_err(io::Error::other));
    let streams = numbers.next().transpose()?.unwrap_or(100_000);
    let seed = numbers.next().transpose()?.unwrap_or(1);
    let mut go = Go::start(&std::env::temp_dir())?;
    let mut out = io::stdout().lock();
    if go.is_none() {
        writeln!(out, "SKIPPED: Go net/http: `go` is not in the path")?;
    }
    let report = run(seed, 0..streams, go.as_mut())?;
    writeln!(out, "{report}")?;
    Ok(if report.unlisted == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
