//! The command line arguments.

use std::path::PathBuf;

use clap::{Arg, Args, Parser, Subcommand};

use crate::ablate::Question;
use crate::gate::base::Base;
use crate::image::Kernel;
use crate::native::Rules;
use crate::report::Form;
use crate::session::Session;

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

Exit codes: 0 done and within limits, 1 a row failed or exceeds its limit, 2 invalid command line";

/// Counts the instructions of doorbell and its peers, kernel included, in a virtual machine where
/// one instruction takes one nanosecond.
#[derive(Debug, Parser)]
#[command(name = "doorbell-rig", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Measure the effect of each technique of the engine, once with all others at their defaults
    /// and once with all others off
    Ablate(AblateArgs),
    /// Draw a saved comparison as an SVG chart
    Chart {
        /// Output of `compare -o json`, or file written by `compare --save`
        report: PathBuf,
    },
    /// Measure doorbell and its peers, in one table
    Compare(RunArgs),
    /// Measure the cost of echoing a datagram, compared with a loop of recvmmsg and sendmmsg, and
    /// of a TCP probe during a flood of datagrams
    Datagrams(Session),
    /// Compare a few rows with the committed figures, and fail if a row costs more
    Gate(GateArgs),
    /// Run a plan inside the guest
    #[command(hide = true)]
    Guest { plan: PathBuf },
    /// Print the io_uring capabilities inside the guest
    #[command(hide = true)]
    GuestCapabilities,
    /// Run a command with io_uring refused
    #[command(hide = true)]
    GuestDeny {
        /// Number of the errno that io_uring calls return
        errno: i32,
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Start a server and test it
    #[command(hide = true)]
    GuestSmoke {
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Measure latency on this machine, by default compared with nginx, at a tenth of the maximum
    /// rate of the slower server
    Latency {
        /// Duration of a turn, which is one measurement of one server
        #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=60))]
        seconds: u32,

        #[command(flatten)]
        contest: ContestArgs,
    },
    /// List every server, load and technique
    List,
    /// On each kernel, show which driver doorbell chooses and why, and run the tests of the drivers
    Matrix(MatrixArgs),
    /// Measure CPU time per request on this machine, compared with each peer in alternating pairs
    Native {
        #[command(flatten)]
        turn: RequestArgs,

        #[command(flatten)]
        contest: ContestArgs,
    },
    /// Measure doorbell
    Rows(RunArgs),
    /// Print the table of a saved comparison, as in the book
    Table {
        /// Output of `compare -o json`, or file written by `compare --save`
        report: PathBuf,
    },
    /// Measure CPU time of TLS handshakes and of requests over TLS on this machine, compared with
    /// nginx and HAProxy
    #[command(mut_arg("load", |load| load.hide(true).value_parser(refused)))]
    #[command(mut_arg("requests", |requests| requests.default_value("2000")))]
    Tls {
        #[command(flatten)]
        turn: RequestArgs,

        #[command(flatten)]
        contest: ContestArgs,
    },
    /// Measure the cost of waking a thread by each mechanism of the kernel
    Wakes(Session),
}

/// Options of `rows` and `compare`.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) session: Session,

    /// Only rows whose server/mode/in-flight contains these parts, as in `doorbell-epoll`,
    /// `close/64` or `nginx/free/64`
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub(super) only: Vec<String>,

    /// Samples of each row; the figures are medians
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) repeat: u32,

    #[command(flatten)]
    pub(super) common: Common,
}

/// Options of every command with a report.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// Format of the report
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: Form,

    /// Also write the report to STEM.json and STEM.md, and the chart of a comparison to STEM.svg
    #[arg(long, value_name = "STEM")]
    pub(super) save: Option<PathBuf>,

    #[command(flatten)]
    pub(super) given: Given,
}

/// Programs that are given as files instead of being built.
#[derive(Debug, Args)]
pub(super) struct Given {
    /// Measure this `doorbell` instead of building one
    #[arg(long, value_name = "FILE")]
    pub(super) doorbell: Option<PathBuf>,

    /// Use this `doorbell-load` instead of building one
    #[arg(long, value_name = "FILE")]
    pub(super) load: Option<PathBuf>,
}

/// Number of requests in a turn, which is one measurement of one side.
#[derive(Debug, Args)]
pub(super) struct RequestArgs {
    /// New connections in a turn, which is one measurement of one server; a turn on kept
    /// connections has ten times as many requests
    #[arg(long, value_name = "N", default_value = "20000", value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub(super) requests: u64,
}

/// Options of `native`, `latency` and `tls`.
#[derive(Debug, Args)]
pub(super) struct ContestArgs {
    /// Only comparisons whose name contains these parts, as in `doorbell-uring/nginx`,
    /// `hyper/close` or `full/usual`; a name is ours/peer/mode/in-flight, with `tls`
    /// ours/peer/kind/offer/group (of handshake, cipher suites, key exchange)
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub(super) only: Vec<String>,

    #[command(flatten)]
    pub(super) rules: Rules,

    #[command(flatten)]
    pub(super) common: Common,
}

/// Options of `ablate`.
#[derive(Debug, Args)]
#[command(mut_args(natively))]
pub(super) struct AblateArgs {
    /// Measure CPU time on this machine instead of instructions in a guest, in alternating pairs,
    /// with the other techniques at their defaults
    #[arg(long, conflicts_with_all = ["kernel", "repeat", "cpu"])]
    pub(super) native: bool,

    #[command(flatten)]
    pub(super) question: Question,

    #[command(flatten)]
    pub(super) common: Common,

    #[command(flatten)]
    pub(super) turn: RequestArgs,

    #[command(flatten)]
    pub(super) rules: Rules,
}

/// Options of `gate`.
#[derive(Debug, Args)]
pub(super) struct GateArgs {
    /// Write the figures instead of comparing them
    #[arg(long)]
    pub(super) write: bool,

    /// File of figures; default: the committed one
    #[arg(long, value_name = "FILE")]
    pub(super) figures: Option<PathBuf>,

    #[command(flatten)]
    pub(super) base: Base,

    #[command(flatten)]
    pub(super) given: Given,
}

/// Options of `matrix`.
#[derive(Debug, Args)]
pub(super) struct MatrixArgs {
    /// Kernels of the guest; default: all
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    pub(super) kernel: Vec<Kernel>,

    /// CPU model, as for QEMU's -cpu
    #[arg(long, value_name = "MODEL", default_value = "max")]
    pub(super) cpu: String,

    #[command(flatten)]
    pub(super) common: Common,
}

/// Refuses the load generator for `tls`.
fn refused(_file: &str) -> Result<PathBuf, &'static str> {
    Err("the rig itself is the client over TLS")
}

/// Makes an option require `--native` if it applies only to measurements on this machine.
fn natively(arg: Arg) -> Arg {
    let is_of_turns = ["client_core", "pairs", "requests", "server_core"].contains(&arg.get_id().as_str());
    if is_of_turns { arg.requires("native").help_heading("With --native") } else { arg }
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
        assert_eq!(args.session.kernel, Kernel::V6_1);
        assert!(Cli::try_parse_from(["rig", "rows", "--kernel", "5.4"]).is_err());
        assert!(Cli::try_parse_from(["rig", "rows", "--repeat", "0"]).is_err());
    }
}
