//! `doorbell-load connect`: its command line, progress and report.

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use doorbell_egress::{PortChoice, PortRange};

use super::OutputArg;
use super::units::parse_count;
use crate::connect::report::StudyReport;
use crate::connect::{
    LOCALHOST, Observer, Run, RunName, Study, Transport, Unsupported, conns_per_helper, network, plot,
};
use crate::exit::{Exit, Failure};

pub(super) const EXAMPLES: &str = "\
What it shows:
  A connection needs a port, and connect() searches for a free one. By default Linux tries one half
  of the ports (by parity) before the other: when the first half is in use, every connect() searches
  all of it first. With tens of thousands of connections to one address, connect() then takes
  milliseconds instead of microseconds.

Ways to choose ports (--strategy):
  kernel   the kernel's default
  select   a random port chosen by this program; another one if it is in use
  N        the kernel, in a random window of N ports (IP_LOCAL_PORT_RANGE, Linux 6.3); another
           window if it is full
  full     the kernel, in its whole range, passed by the same option: searched port by port from
           Linux 6.8 on
  auto     the best strategy for this kernel, found by a test at start; the default of doorbell's
           checks

What is measured:
  even, odd   the time in connect(), handshake included, by the parity of the port; all attempts of
              one connection together
  whole       the time to a connected socket, including socket(), options, binding and every attempt
  retries     attempts for which no candidate port was free; failed: connections that were not made

Examples:
  doorbell-load connect                        56,000 connections, or 99.5 % of the ports if less
  doorbell-load connect --own-network          in a network namespace with 56,512 ports
  doorbell-load connect --own-network -S auto  the same with doorbell's strategy
  doorbell-load connect -S kernel,auto -t tcp -n 20k --plot connect.svg
  doorbell-load connect -S auto -o json | jq '.runs[] | {transport, odd_over_even, retries}'

Limits:
  Each connection takes an open file on both sides. Helper processes hold them, each below the hard
  limit of open files (`ulimit -Hn`), so a limit of some hundreds is enough. 56,000 connections take
  about 1 GiB of kernel memory. --own-network needs no root. With every strategy it takes many
  minutes, because kernel with TCP, and windows with UDP, are slow when the ports are nearly used
  up; with -S auto it takes some seconds.

Exit codes:
   0  every connection was made
   1  a connection or a helper failed
   2  wrong command line, or more connections than there are ports
  69  --own-network is not possible here; the message says why";

/// Measures the cost of each connect() to one address, by the position of the connection (first,
/// second, ...) and the parity of its local port, for each selected port selection strategy.
#[derive(Debug, Parser)]
#[command(name = "doorbell-load connect", version, after_help = EXAMPLES)]
pub(crate) struct ConnectArgs {
    /// Number of connections, all open at once; default 56,000 or 99.5 % of the ports, if less
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_count)]
    connections: Option<u64>,

    /// Port selection strategies to measure: kernel, select, full, auto, or the size of a window;
    /// default: kernel,select,500,1000,5000,10000,full
    #[arg(short = 'S', long, value_name = "LIST", value_delimiter = ',')]
    strategy: Vec<PortChoice>,

    /// TCP, UDP or both
    #[arg(short, long, value_name = "TRANSPORT", default_value = "both")]
    transport: TransportArg,

    /// Connect from these addresses in turn, each with its own ports, for example
    /// 127.0.0.2,127.1.0.0/28
    #[arg(short, long, value_name = "LIST")]
    source: Option<String>,

    /// Connections per helper process; default: the number that its limit of open files allows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    per_process: Option<u32>,

    /// Run in a separate network namespace with the local ports 9024 to 65535
    #[arg(long)]
    own_network: bool,

    /// Write a plot (SVG) of the time of the n-th connect() for each n
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Format of the report
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: OutputArg,

    /// No progress on standard error
    #[arg(short, long)]
    quiet: bool,
}

/// The transports to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TransportArg {
    Both,
    Tcp,
    Udp,
}

const CONNS: u32 = 56_000;
const STRATEGIES: [&str; 7] = ["kernel", "select", "500", "1000", "5000", "10000", "full"];

/// Runs the command with the arguments after its name.
pub(super) fn run(args: &[OsString]) -> Result<Exit, Failure> {
    let typed = [OsString::from("doorbell-load connect")].into_iter().chain(args.iter().cloned());
    let typed = match ConnectArgs::try_parse_from(typed) {
        Ok(typed) => typed,
        Err(error) => return Ok(super::report_usage(&error)),
    };
    if typed.own_network {
        let args: Vec<OsString> = args.iter().filter(|arg| *arg != "--own-network").cloned().collect();
        return Err(network::enter(&args));
    }
    let study = study(&typed)?;
    study.check()?;
    let unsupported = if typed.strategy.is_empty() { Unsupported::Skip } else { Unsupported::Failure };
    let runs = study.run(unsupported, &mut Progress::new(typed.quiet))?;
    let report = StudyReport::new(&study, &runs);
    if let Some(file) = &typed.plot {
        fs::write(file, plot::svg(&study, &runs))
            .map_err(|error| Failure::new(Exit::Failures, format!("{}: {error}", file.display())))?;
    }
    let text = match typed.output {
        OutputArg::Json => report.to_json(),
        OutputArg::Text => report.to_text(),
    };
    super::print(&text)?;
    Ok(if report.is_clean() { Exit::Clean } else { Exit::Failures })
}

fn study(typed: &ConnectArgs) -> Result<Study, Failure> {
    let sources = typed.source.as_deref().map_or_else(|| Ok(Vec::new()), crate::plan::parse_sources);
    let sources = sources.map_err(Failure::usage)?;
    let ports = PortRange::of_system()
        .map_err(|error| Failure::new(Exit::Failures, format!("the system's ports are unknown: {error}")))?;
    let all = || STRATEGIES.iter().map(|name| name.parse().expect("a strategy")).collect();
    let mut study = Study {
        transports: match typed.transport {
            TransportArg::Both => vec![Transport::Tcp, Transport::Udp],
            TransportArg::Tcp => vec![Transport::Tcp],
            TransportArg::Udp => vec![Transport::Udp],
        },
        strategies: if typed.strategy.is_empty() { all() } else { typed.strategy.clone() },
        conns: 0,
        target: if sources.first().is_some_and(std::net::IpAddr::is_ipv6) {
            std::net::Ipv6Addr::LOCALHOST.into()
        } else {
            LOCALHOST
        },
        sources,
        ports,
        conns_per_helper: 0,
    };
    study.conns = match typed.connections {
        Some(conns) => u32::try_from(conns).unwrap_or(u32::MAX),
        // Some ports are in use by other programs.
        None => u32::try_from(study.ports_in_all() * 995 / 1_000).map_or(CONNS, |most| most.clamp(1, CONNS)),
    };
    let allowed = conns_per_helper().unwrap_or(u32::MAX);
    study.conns_per_helper =
        typed.per_process.map_or(allowed, |asked| asked.min(allowed)).min(study.conns.max(1));
    Ok(study)
}

/// A line that is overwritten in place on a terminal; otherwise one line per run.
#[derive(Debug)]
struct Progress {
    quiet: bool,
    terminal: bool,
}

impl Progress {
    fn new(quiet: bool) -> Self {
        Self { quiet, terminal: io::stderr().is_terminal() }
    }

    fn line(&self, text: &str, last: bool) {
        let (before, after) = match (self.terminal, last) {
            (true, false) => ("\r\x1b[K", ""),
            (true, true) => ("\r\x1b[K", "\n"),
            (false, _) => ("", "\n"),
        };
        // A failure to write to standard error cannot be reported.
        let _ = write!(io::stderr(), "{before}{text}{after}");
    }
}

impl Observer for Progress {
    fn on_connects(&mut self, run: &RunName, done: u32, of: u32) {
        if self.terminal && !self.quiet {
            self.line(&format!("{} {}: {done} of {of} connections", run.transport.name(), run.choice), false);
        }
    }

    fn on_run(&mut self, run: &RunName, done: &Run) {
        if !self.quiet {
            let (conns, helpers) = (done.samples.len(), done.helpers);
            let text = format!(
                "{} {}: {conns} connections, processes that held them: {helpers}",
                run.transport.name(),
                run.choice
            );
            self.line(&text, true);
        }
    }

    fn on_skipped(&mut self, why: &str) {
        if !self.quiet {
            self.line(why, true);
        }
    }
}
