//! The command line as it is typed.
//!
//! Does not know about: what the commands do.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::figures::SavedArgs;
use super::lab::{AblateArgs, GateArgs, MatrixArgs};
use super::native::{LatencyArgs, NativeArgs};
use super::tls::TlsArgs;
use crate::image::Kernel;
use crate::native::{Measure, Rules};

const EXAMPLES: &str = "\
Examples:
  doorbell-rig rows                                 doorbell, both drivers, every load, on 6.12
  doorbell-rig rows --only close/64,free/64         two loads
  doorbell-rig rows --kernel 6.1 --only doorbell-epoll
  doorbell-rig compare --only nginx,doorbell-uring -o json
  doorbell-rig compare --save figures/compare-6.12  also write figures/compare-6.12.json, .md and .svg
  doorbell-rig native --only nginx/close            CPU time on this machine, in alternating pairs
  doorbell-rig list                                 all rows

Needs: qemu-system-x86, dpkg and apt (busybox-static and the kernels are fetched by name, nothing is installed). The peers of
`compare`, `native` and `latency` are nginx-light, haproxy, h2o, and programs built with cargo and golang-go; one that cannot be had
is skipped and named.

Exit codes: 0 every row was measured without a failed request, 1 not, 2 wrong command line";

/// Counts the instructions of doorbell and its peers, kernel included, in a virtual machine where an instruction is a nanosecond.
#[derive(Debug, Parser)]
#[command(name = "doorbell-rig", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// The effect of each technique of the engine, in the full set and alone
    Ablate(AblateArgs),
    /// The picture of a saved comparison, as SVG
    Chart(SavedArgs),
    /// Measure doorbell beside its peers; one table of all
    Compare(RunArgs),
    /// Compare a few rows with the committed figures; fail when one is dearer
    Gate(GateArgs),
    /// The agent inside the guest
    #[command(hide = true)]
    Guest {
        /// The plan.
        plan: PathBuf,
    },
    /// io_uring as the guest has it
    #[command(hide = true)]
    GuestCapabilities,
    /// Runs a command to which io_uring is refused
    #[command(hide = true)]
    GuestDeny {
        /// Number of the error.
        errno: i32,
        /// The command.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Starts a server and asks it
    #[command(hide = true)]
    GuestSmoke {
        /// The server.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// On this machine: latency at a tenth of the full rate, beside nginx
    Latency(LatencyArgs),
    /// Name every server and every row
    List,
    /// Which driver each kernel gets and why, and the tests of the drivers on each
    Matrix(MatrixArgs),
    /// On this machine: CPU time a request, beside each peer, in alternating pairs
    Native(NativeArgs),
    /// Measure doorbell
    Rows(RunArgs),
    /// The table of a saved comparison, as the README shows it
    Table(SavedArgs),
    /// On this machine: CPU time of TLS handshakes and of requests over TLS, beside nginx and HAProxy
    Tls(TlsArgs),
    /// What waking a thread costs by each means of the kernel
    Wakes(GuestArgs),
}

/// Options of everything that boots.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Kernel of the guest
    #[arg(long, value_name = "VERSION", default_value = "6.12")]
    pub(super) kernel: Kernel,

    /// Only rows whose server/mode/in-flight has these whole parts, as in `doorbell-epoll`, `close/64` or `nginx/free/64`
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub(super) only: Vec<String>,

    /// Samples of each row; figures are medians
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) repeat: u32,

    /// Form of the report
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    pub(super) output: OutputArg,

    /// Also write the report to STEM.json, STEM.md and STEM.svg
    #[arg(long, value_name = "STEM")]
    pub(super) save: Option<PathBuf>,

    /// CPU model, as of QEMU's -cpu
    #[arg(long, value_name = "MODEL", default_value = "max")]
    pub(super) cpu: String,

    /// Measure this `doorbell` and build none
    #[arg(long, value_name = "FILE")]
    pub(super) doorbell: Option<PathBuf>,

    /// Load with this `doorbell-load` and build none
    #[arg(long, value_name = "FILE")]
    pub(super) load: Option<PathBuf>,
}

/// Options of what has no rows.
#[derive(Debug, Args)]
pub(super) struct GuestArgs {
    /// Kernel of the guest
    #[arg(long, value_name = "VERSION", default_value = "6.12")]
    pub(super) kernel: Kernel,

    /// CPU model, as of QEMU's -cpu
    #[arg(long, value_name = "MODEL", default_value = "max")]
    pub(super) cpu: String,
}

/// Options of everything that runs in alternating pairs on this machine.
#[derive(Debug, Args)]
pub(super) struct PairArgs {
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
    pub(super) output: OutputArg,

    /// Measure this `doorbell` and build none
    #[arg(long, value_name = "FILE")]
    pub(super) doorbell: Option<PathBuf>,
}

impl PairArgs {
    /// How the pairs are held.
    pub(super) const fn rules(&self, measure: Measure) -> Rules {
        Rules { pairs: self.pairs, server_core: self.server_core, client_core: self.client_core, measure }
    }
}

/// Forms of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputArg {
    Json,
    Table,
}

impl OutputArg {
    /// The report in this form.
    pub(super) fn of(self, json: impl FnOnce() -> String, table: impl FnOnce() -> String) -> String {
        match self {
            Self::Json => json(),
            Self::Table => table(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn patterns_may_be_lists() {
        let cli = Cli::try_parse_from(["rig", "rows", "--only", "a,b/1", "--kernel", "6.1"]).unwrap();
        let Command::Rows(args) = cli.command else { panic!("another command") };
        assert_eq!(args.only, ["a", "b/1"]);
        assert_eq!(args.kernel, Kernel::V6_1);
        assert!(Cli::try_parse_from(["rig", "rows", "--kernel", "5.4"]).is_err());
        assert!(Cli::try_parse_from(["rig", "rows", "--repeat", "0"]).is_err());
    }
}
