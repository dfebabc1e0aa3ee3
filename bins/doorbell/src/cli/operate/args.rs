//! The arguments of the commands for a running instance.

use crate::cli::report::{self, ReportArgs};
use clap::{Args, Subcommand, ValueEnum};
use doorbell_proxy_config::{format_duration, parse_duration};
use doorbell_proxy_server::HOLD_MAX;
use std::path::PathBuf;
use std::time::Duration;

macro_rules! help {
    ($($line:literal)*) => { concat!("Examples:\n", $("  ", $line, "\n",)* "\n\
The instance is found by its control socket, in $RUNTIME_DIRECTORY, /run/doorbell or $XDG_RUNTIME_DIR/doorbell, or at `control.socket` \
of the file given with -c. If several instances run, select one with --socket.\n\n\
Exit codes: 0 done, 1 refused, 2 invalid command line or several instances, 69 no instance replies") };
}

/// Commands for a running instance.
#[derive(Debug, Subcommand)]
pub enum OperateCommand {
    /// Show checks and their last results, or run a check now
    #[command(after_help = help!(
        "doorbell checks                    every check, one line each"
        "doorbell checks db --history       its recent results"
        "doorbell checks db --run           run it now and show the result"
        "doorbell checks -o json | jq -r '.[] | select(.state != \"up\") | .name'"
    ))]
    Checks(At<ChecksArgs>),
    /// Drain one endpoint or all: fail readiness while requests are still served; stored in the
    /// state file
    #[command(after_help = help!(
        "doorbell drain --reason 'new kernel'          until `doorbell undrain`"
        "doorbell drain readyz --for 30m               one endpoint; the others are unchanged"
        "doorbell drain --wait 30s                     and wait until it has finished"
    ))]
    Drain(At<DrainArgs>),
    /// Show events: state changes, drains, maintenance, reloads
    #[command(after_help = help!(
        "doorbell events --follow"
        "doorbell events -f -o json | jq -c 'select(.event == \"check\")'"
    ))]
    Events(At<EventsArgs>),
    /// Show the links to other instances: state, latency, losses
    #[command(after_help = help!(
        "doorbell links"
        "doorbell links --watch             refresh every second, until Ctrl-C"
        "doorbell links -o json | jq -r '.[] | select(.connected_ms == null) | .name'"
        "doorbell links report              losses and latency of the last day, from the history"
    ))]
    Links(LinksArgs),
    /// Put an endpoint, a check or all readiness endpoints into maintenance; stored in the state
    /// file
    #[command(after_help = help!(
        "doorbell maint --reason 'weekly patch' --for 30m     every readiness endpoint"
        "doorbell maint readyz                                until `doorbell ready readyz`"
        "doorbell maint check:db --for 2h                     one check"
    ))]
    Maint(At<MaintArgs>),
    /// Drain and wait for `drain_delay`, so that load balancers notice the drain; for preStop hooks
    /// of Kubernetes
    #[command(after_help = help!(
        "doorbell prestop"
        "preStop: { exec: { command: [/doorbell, prestop] } }     SIGTERM follows when it returns"
    ))]
    Prestop(At<PrestopArgs>),
    /// Show probers: intervals, last probes and the verdicts they got
    #[command(after_help = help!("doorbell probers"))]
    Probers(At<ViewArgs>),
    /// Drain and stop, as SIGTERM does; `undrain` cancels the stop until the listeners close
    #[command(after_help = help!("doorbell quit --wait" "doorbell quit --now"))]
    Quit(At<QuitArgs>),
    /// End the maintenance, the open maintenance window and the drain of an endpoint, a check or
    /// all
    #[command(after_help = help!("doorbell ready" "doorbell ready readyz"))]
    Ready(At<ReadyArgs>),
    /// Reload the configuration; an invalid configuration is reported and the current one stays in
    /// use
    #[command(after_help = help!("doorbell reload"))]
    Reload(InstanceArgs),
    /// Show the state of a running instance
    #[command(after_help = help!(
        "doorbell status"
        "doorbell status --watch            refresh every second, until Ctrl-C"
        "doorbell status -o json | jq -r .lifecycle"
    ))]
    Status(At<StatusArgs>),
    /// Cancel the drain of one endpoint, or every drain including one that precedes a stop
    #[command(after_help = help!("doorbell undrain" "doorbell undrain readyz"))]
    Undrain(At<UndrainArgs>),
}

/// Options that select the instance.
#[derive(Clone, Debug, Default, Args)]
pub struct InstanceArgs {
    /// Control socket of the instance
    #[arg(long, value_name = "PATH", env = "DOORBELL_CONTROL")]
    pub socket: Option<PathBuf>,
}

/// Options of a command, and the instance to which the command applies.
#[derive(Debug, Args)]
pub struct At<T: Args> {
    /// Options of the command.
    #[command(flatten)]
    pub args: T,

    /// The instance.
    #[command(flatten)]
    pub instance: InstanceArgs,
}

/// Output formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// JSON
    Json,
    /// Text
    #[default]
    Text,
    /// Text with more columns, for `status`, `checks`, `links` and `fleet`
    Wide,
}

/// Options of `checks`.
#[derive(Debug, Args)]
pub struct ChecksArgs {
    /// Check to show; default: all
    pub name: Option<String>,

    /// Run the check now and wait for its result
    #[arg(long, requires = "name")]
    pub run: bool,

    /// Show recent results
    #[arg(long)]
    pub history: bool,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Form,
}

/// Options of `drain`.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Endpoint to drain, or all
    #[arg(default_value = "all")]
    pub target: String,

    /// Reason, shown in status, events and logs
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,

    /// Duration of the drain; default: until `doorbell undrain`
    #[arg(long = "for", value_name = "TIME", value_parser = parse_length)]
    pub for_time: Option<Duration>,

    /// Wait until `drain_delay` has passed and no connection is open (for one endpoint: only until
    /// `drain_delay` has passed); TIME limits the wait
    #[arg(long, value_name = "TIME", value_parser = parse_time, num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "absent, without a time, or with a time")]
    pub wait: Option<Option<Duration>>,
}

/// Options of `prestop`.
#[derive(Debug, Args)]
pub struct PrestopArgs {
    /// Reason, shown in status, events and logs
    #[arg(long, value_name = "TEXT", default_value = "the container is being stopped")]
    pub reason: String,
}

/// Options of `events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Print new events as they happen
    #[arg(short, long)]
    pub follow: bool,

    /// Show only events after this event number
    #[arg(long, value_name = "NUMBER", default_value = "0")]
    pub since: u64,

    /// Output format; json prints one line per event
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Form,
}

/// Options of `maint`.
#[derive(Debug, Args)]
pub struct MaintArgs {
    /// Endpoint, check (`check:NAME` if an endpoint has the same name), or all
    #[arg(default_value = "all")]
    pub target: String,

    /// Reason, shown in status, events and logs
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,

    /// Duration of the maintenance; default: until `doorbell ready`
    #[arg(long = "for", value_name = "TIME", value_parser = parse_length)]
    pub for_time: Option<Duration>,
}

/// Options of `quit`.
#[derive(Debug, Args)]
pub struct QuitArgs {
    /// Stop without draining
    #[arg(long)]
    pub now: bool,

    /// Wait until the instance has exited
    #[arg(long)]
    pub wait: bool,
}

/// Options of `ready`.
#[derive(Debug, Args)]
pub struct ReadyArgs {
    /// Endpoint, check (`check:NAME` if an endpoint has the same name), or all
    #[arg(default_value = "all")]
    pub target: String,
}

/// Options of `links`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LinksArgs {
    /// What to show instead of the links of a running instance.
    #[command(subcommand)]
    pub command: Option<LinksCommand>,

    /// Options for the links of a running instance.
    #[command(flatten)]
    pub status: At<StatusArgs>,
}

/// Commands of `links`.
#[derive(Debug, Subcommand)]
pub enum LinksCommand {
    /// Print losses and latency of links in a period, from the history
    #[command(after_help = report::HELP)]
    Report(ReportArgs),
}

/// Options of `status` and `links`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Refresh every second
    #[arg(short, long)]
    pub watch: bool,

    /// Output format; json with --watch prints one line per update
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Form,
}

/// Options of `undrain`.
#[derive(Debug, Args)]
pub struct UndrainArgs {
    /// Endpoint, or all
    #[arg(default_value = "all")]
    pub target: String,
}

/// Options of `probers`.
#[derive(Debug, Args)]
pub struct ViewArgs {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Form,
}

/// Parses the duration of maintenance or a drain.
fn parse_length(text: &str) -> Result<Duration, String> {
    let too_long = || format!("the maximum is {}; omit the option for no limit", format_duration(HOLD_MAX));
    parse_time(text).and_then(|time| if time > HOLD_MAX { Err(too_long()) } else { Ok(time) })
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let positive = parse_duration(text).filter(|duration| !duration.is_zero());
    positive.ok_or_else(|| "expected a number and a unit, as in 90s, 30m or 2h".into())
}
