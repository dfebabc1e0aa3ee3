//! The arguments of the commands for a running doorbell.
//!
//! Does not know about: what the commands do.

use crate::config::{format_duration, parse_duration};
use crate::operator::HOLD_MAX;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

macro_rules! help {
    ($($line:literal)*) => { concat!("Examples:\n", $("  ", $line, "\n",)* "\n\
The doorbell is found by its control socket: in $RUNTIME_DIRECTORY, /run/doorbell or $XDG_RUNTIME_DIR/doorbell, \
or where `control.socket` of the file named with -c says. Where several run, --socket names one.\n\n\
Exit codes: 0 done, 1 refused, 2 wrong command line or several doorbells, 69 no doorbell answers") };
}

/// Commands for a running doorbell.
#[derive(Debug, Subcommand)]
pub enum OperateCommand {
    /// Show the checks of a running doorbell, their last results, and run one now
    #[command(after_help = help!(
        "doorbell checks                    all of them, a line each"
        "doorbell checks db --history       its last results"
        "doorbell checks db --run           run it now, and show what it finds"
        "doorbell checks -o json | jq -r '.[] | select(.state != \"up\") | .name'"
    ))]
    Checks(ChecksArgs),
    /// Tell probers to stay away, of one endpoint or of all, while everything is still served; kept across restarts
    #[command(after_help = help!(
        "doorbell drain --reason 'new kernel'          until `doorbell undrain`"
        "doorbell drain readyz --for 30m               one endpoint; the others answer as before"
        "doorbell drain --wait 30s                     and wait until it is over"
    ))]
    Drain(DrainArgs),
    /// Show what happened: states that changed, drains, maintenance, reloads
    #[command(after_help = help!(
        "doorbell events --follow"
        "doorbell events -f -o json | jq -c 'select(.event == \"check\")'"
    ))]
    Events(EventsArgs),
    /// Declare maintenance of an endpoint, a check or all endpoints; it is kept across restarts
    #[command(after_help = help!(
        "doorbell maint --reason 'weekly patch' --for 30m     every endpoint but those about being alive"
        "doorbell maint readyz                                until `doorbell ready readyz`"
        "doorbell maint check:db --for 2h                     one check"
    ))]
    Maint(MaintArgs),
    /// Drain, and wait until load balancers had `drain_delay` to hear of it: for a preStop hook of Kubernetes
    #[command(after_help = help!(
        "doorbell prestop"
        "preStop: { exec: { command: [/doorbell, prestop] } }     SIGTERM comes when it is done"
    ))]
    Prestop(PrestopArgs),
    /// Show who probes, how often, and what they were told
    #[command(after_help = help!("doorbell probers"))]
    Probers(ViewArgs),
    /// Drain and end, as SIGTERM does; `undrain` calls it off until listeners close
    #[command(after_help = help!("doorbell quit --wait" "doorbell quit --now"))]
    Quit(QuitArgs),
    /// End maintenance, an open window of it and the drain of an endpoint, or of all
    #[command(after_help = help!("doorbell ready" "doorbell ready readyz"))]
    Ready(ReadyArgs),
    /// Read the configuration anew; what is wrong with it is said, and the old one stays
    #[command(after_help = help!("doorbell reload"))]
    Reload(Reach),
    /// Show a running doorbell at a glance
    #[command(after_help = help!(
        "doorbell status"
        "doorbell status --watch            again every second, until Ctrl-C"
        "doorbell status -o json | jq -r .lifecycle"
    ))]
    Status(StatusArgs),
    /// Call a drain off, of one endpoint or every drain, also one that would end the program
    #[command(after_help = help!("doorbell undrain" "doorbell undrain readyz"))]
    Undrain(UndrainArgs),
}

/// How a running doorbell is found.
#[derive(Clone, Debug, Default, Args)]
pub struct Reach {
    /// Control socket of the doorbell that is meant
    #[arg(long, value_name = "PATH", env = "DOORBELL_CONTROL")]
    pub socket: Option<PathBuf>,
}

/// Forms of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For programs
    Json,
    /// For people
    #[default]
    Text,
    /// With more columns, of `status` and `checks`
    Wide,
}

/// Options of `checks`.
#[derive(Debug, Args)]
pub struct ChecksArgs {
    /// One of them
    pub name: Option<String>,

    /// Run it now and wait for the result
    #[arg(long, requires = "name")]
    pub run: bool,

    /// Also the last results
    #[arg(long)]
    pub history: bool,

    /// Form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: Form,

    /// Which doorbell.
    #[command(flatten)]
    pub reach: Reach,
}

/// Options of `drain`.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// An endpoint, or all, which drains the program as a whole
    #[arg(default_value = "all")]
    pub target: String,

    /// Why, for those who look
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,

    /// For how long; without it until `doorbell undrain`
    #[arg(long = "for", value_name = "TIME", value_parser = parse_length)]
    pub for_time: Option<Duration>,

    /// Wait until it is over, for at most so long: load balancers had `drain_delay` to hear of it, and no connection is open
    /// (of one endpoint the time alone counts)
    #[arg(long, value_name = "TIME", value_parser = parse_time, num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "given, with a time or without")]
    pub wait: Option<Option<Duration>>,

    /// Which doorbell.
    #[command(flatten)]
    pub reach: Reach,
}

/// Options of `prestop`.
#[derive(Debug, Args)]
pub struct PrestopArgs {
    /// Why, for those who look
    #[arg(long, value_name = "TEXT", default_value = "the container is to be stopped")]
    pub reason: String,

    /// Which doorbell.
    #[command(flatten)]
    pub reach: Reach,
}

/// Options of `events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Go on as they come
    #[arg(short, long)]
    pub follow: bool,

    /// Only those after the one with this number
    #[arg(long, value_name = "NUMBER", default_value = "0")]
    pub since: u64,

    /// Form of the answer; json is a line each
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: Form,

    /// Which doorbell.
    #[command(flatten)]
    pub reach: Reach,
}

/// Options of `maint`.
#[derive(Debug, Args)]
pub struct MaintArgs {
    /// An endpoint, a check (`check:NAME` where an endpoint has the same name), or all
    #[arg(default_value = "all")]
    pub target: String,

    /// Why, for those who look
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,

    /// For how long; without it until `doorbell ready`
    #[arg(long = "for", value_name = "TIME", value_parser = parse_length)]
    pub for_time: Option<Duration>,

    /// Which doorbell.
    #[command(flatten)]
    pub reach: Reach,
}

/// Options of `quit`.
#[derive(Debug, Args)]
pub struct QuitArgs {
    /// Without the drain
    #[arg(long)]
    pub now: bool,

    /// Wait until it is gone
    #[arg(long)]
    pub wait: bool,

    /// Which doorbell.
    #[command(flatten)]
    pub reach: Reach,
}

/// Options of `ready`.
#[derive(Debug, Args)]
pub struct ReadyArgs {
    /// An endpoint, a check (`check:NAME` where an endpoint has the same name), or all
    #[arg(default_value = "all")]
    pub target: String,

    /// Which doorbell.
    #[command(flatten)]
    pub reach: Reach,
}

/// Options of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Again every second
    #[arg(short, long)]
    pub watch: bool,

    /// Form of the answer; json with --watch is a line each
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: Form,

    /// Which doorbell.
    #[command(flatten)]
    pub reach: Reach,
}

/// Options of `undrain`.
#[derive(Debug, Args)]
pub struct UndrainArgs {
    /// An endpoint, or all
    #[arg(default_value = "all")]
    pub target: String,

    /// Which doorbell.
    #[command(flatten)]
    pub reach: Reach,
}

/// Options of commands that only show.
#[derive(Debug, Args)]
pub struct ViewArgs {
    /// Form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: Form,

    /// Which doorbell.
    #[command(flatten)]
    pub reach: Reach,
}

/// Of maintenance or a drain that ends by itself.
fn parse_length(text: &str) -> Result<Duration, String> {
    let too_long = || format!("at most {}; without it there is no end", format_duration(HOLD_MAX));
    parse_time(text).and_then(|time| if time > HOLD_MAX { Err(too_long()) } else { Ok(time) })
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let positive = parse_duration(text).filter(|duration| !duration.is_zero());
    positive.ok_or_else(|| "write a number and a unit, as in 90s, 30m or 2h".into())
}
