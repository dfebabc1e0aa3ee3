//! The command line.
//!
//! Does not know about: what the commands do.

use crate::config::model::{CheckKind, LogFormat, LogLevel};
use crate::config::{Bind, parse_duration};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  doorbell                                     answer probes on 127.0.0.1:8080
  doorbell --listen :8080                      the same, for everybody
  doorbell --check tcp://127.0.0.1:3000        ready while somebody accepts there
  doorbell -c doorbell.toml                    what the file says
  DOORBELL__LOG__LEVEL=debug doorbell          any key by itself: DOORBELL__SECTION__KEY
  curl 127.0.0.1:9130/metrics                  without a file, or with --admin 127.0.0.1:9130
  doorbell -t -c doorbell.toml                 is the file good?
  doorbell redirect --host example.com         http://example.com/x to https://example.com/x
  doorbell healthcheck                         HEALTHCHECK of a container
  doorbell status                              what a running doorbell does

Exit codes:
   0  clean stop, or the answer is yes
   1  failed while running, or the answer is no
   2  wrong command line
  69  the engine asked for with --engine does not work here, or no doorbell answers
  71  the limit of open files is too low (ulimit -n)
  73  another process listens on the address
  77  no permission, as for a port below 1024
  78  the configuration cannot be used

Signals: TERM drains and stops; INT, QUIT or a second TERM stops at once; HUP reads the configuration anew; USR1 writes the state to \
the log; USR2 opens log files again.";

const CHECK_HELP: &str = "\
Examples:
  doorbell check doorbell.toml
  doorbell check -c doorbell.toml -o json | jq '.problems[].message'
  cat doorbell.toml | doorbell check -c -

Exit codes: 0 valid, also with warnings, 1 invalid; with --strict warnings are errors";

const DUMP_HELP: &str = "\
Examples:
  doorbell config dump -c doorbell.toml --with-defaults
  doorbell config dump > doorbell.toml         a first file, from what runs without one

Secrets are shown as stars. Exit codes: 0 written, 2 wrong command line, 78 the configuration cannot be used";

const SCHEMA_HELP: &str = "\
Examples:
  doorbell config schema > doorbell.schema.json
  doorbell config schema | jq '.properties.lifecycle.properties | map_values(.default)'

A file that begins with `#:schema ./doorbell.schema.json` is completed and explained by editors with Taplo (Even Better TOML). \
The same for people: `doorbell man doorbell.toml | man -l -`.";

const SERVE_HELP: &str = "\
Examples:
  doorbell serve --listen :8080
  doorbell serve --check http://127.0.0.1:3000/healthz --check tcp://db:5432
  doorbell serve -c /etc/doorbell/doorbell.toml

What the command line says goes before DOORBELL__SECTION__KEY, and that before the file. Exit codes and signals: `doorbell --help`.";

const HEALTHCHECK_HELP: &str = "\
Examples:
  HEALTHCHECK CMD [\"doorbell\", \"healthcheck\"]
  doorbell healthcheck -c /etc/doorbell/doorbell.toml
  doorbell healthcheck --endpoint livez --address 127.0.0.1:9000 --timeout 500ms

A file says where to ask, and whether with TLS.

Exit codes: 0 healthy, 1 everything else, also a wrong command line: Docker keeps 2 for itself";

const REDIRECT_HELP: &str = "\
Examples:
  doorbell redirect --listen :80 --to https --host example.com --host www.example.com
  doorbell redirect --listen :8080 --to https --host example.com --port 8443 --status 307
  doorbell redirect --host example.com --acme /var/lib/acme/.well-known/acme-challenge

Path and query are kept. A host that is not listed gets 421 and is never sent anywhere.
/livez and /readyz are answered for every host, and with --acme the tokens of certificates too. \
Exit codes and signals: `doorbell --help`.";

/// Answers the door: health probes, redirects and small fixed replies.
#[derive(Debug, Parser)]
#[command(name = "doorbell", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do; without a command: serve.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Check the configuration and exit, as `doorbell check`
    #[arg(short = 't', long = "test")]
    pub test: bool,

    /// Options of serve.
    #[command(flatten)]
    pub serve: ServeArgs,

    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Configuration file, `-` for standard input
    #[arg(short, long, value_name = "FILE", env = "DOORBELL_CONFIG", global = true)]
    pub config: Option<PathBuf>,

    /// Least severe messages to write; DOORBELL_LOG says the same
    #[arg(long, value_name = "LEVEL", global = true)]
    pub log_level: Option<LogLevel>,

    /// How log lines look: text on a terminal and JSON elsewhere, unless said otherwise
    #[arg(long, value_name = "FORMAT", global = true)]
    pub log_format: Option<LogFormat>,

    /// Colors: on a terminal and without NO_COLOR, unless said otherwise
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    pub color: ColorWhen,

    /// Only errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// When to color.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ColorWhen {
    Always,
    Auto,
    Never,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Wait until targets are well, then run a command
    #[command(after_help = super::until::HELP)]
    Await(super::until::AwaitArgs),
    /// Check a configuration file: every problem with its place and a fix
    #[command(after_help = CHECK_HELP)]
    Check(CheckArgs),
    /// Write what a shell needs to complete commands and options
    #[command(after_help = super::about::COMPLETIONS_HELP)]
    Completions(super::about::CompletionsArgs),
    /// Work with configurations
    Config {
        /// What to do with it.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Look at this system: io_uring, limits, network settings
    #[command(after_help = super::doctor::HELP)]
    Doctor(super::doctor::DoctorArgs),
    /// Ask a running doorbell whether it is well; for containers
    #[command(after_help = HEALTHCHECK_HELP)]
    Healthcheck(HealthcheckArgs),
    /// Write the manual pages
    #[command(after_help = super::about::MAN_HELP)]
    Man(super::about::ManArgs),
    /// Ask a target as the kubelet, HAProxy or another prober would
    #[command(after_help = super::probe::HELP)]
    Probe(super::probe::ProbeArgs),
    /// Commands for a running doorbell.
    #[command(flatten)]
    Operate(super::operate::OperateCommand),
    /// Redirect hosts without a configuration file
    #[command(after_help = REDIRECT_HELP)]
    Redirect(RedirectArgs),
    /// Serve beside another program, and end both in the right order
    #[command(after_help = super::run::HELP)]
    Run(super::run::RunArgs),
    /// Serve; the default command
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArgs),
    /// Say which version this is
    #[command(after_help = super::about::VERSION_HELP)]
    Version(super::about::VersionArgs),
}

/// Commands of `config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Compare two files by what they mean
    #[command(after_help = super::diff::HELP)]
    Diff(super::diff::DiffArgs),
    /// Write the configuration as it is understood, environment variables filled in
    #[command(after_help = DUMP_HELP)]
    Dump(DumpArgs),
    /// Write a first file for a surrounding
    #[command(after_help = super::init::HELP)]
    Init(super::init::InitArgs),
    /// Write the JSON Schema of configuration files, for editors
    #[command(after_help = SCHEMA_HELP)]
    Schema,
}

/// Options of `serve`.
#[derive(Clone, Debug, Default, Args)]
pub struct ServeArgs {
    /// Address to listen on; may be given several times. DOORBELL_LISTEN says the same, with commas between addresses
    #[arg(long, value_name = "ADDR", value_parser = parse_bind)]
    pub listen: Vec<Bind>,

    /// Where metrics are and operators ask, as in 127.0.0.1:9130, or off; DOORBELL_ADMIN says the same. Without a file it is there by
    /// itself, only shows, and does without where somebody else has the address
    #[arg(long, value_name = "ADDR", value_parser = parse_admin)]
    pub admin: Option<AdminArg>,

    /// Let checks of type exec run their programs
    #[arg(long)]
    pub allow_exec: bool,

    /// What /readyz depends on: http://.., https://.., tcp://HOST:PORT, unix:/PATH, tls://HOST, redis://HOST, grpc://HOST:PORT/SERVICE or grpcs://..; may be given several times
    #[arg(long, value_name = "TARGET", value_parser = parse_target)]
    pub check: Vec<CheckKind>,

    /// Driver; auto takes io_uring where it works
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<EngineArg>,

    /// Threads; by default one for each processor that may be used, fewer where the CPU quota or the memory limit of a container is
    /// smaller, and 4 in a container without a quota: `doorbell doctor` says how many and why
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
}

/// Whether and where operators ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminArg {
    /// There.
    At(SocketAddr),
    /// Nowhere.
    Off,
}

/// Drivers by the names of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names say it")]
pub enum EngineArg {
    Auto,
    Epoll,
    #[value(name = "io_uring")]
    IoUring,
}

/// Options of `check`.
#[derive(Debug, Default, Args)]
pub struct CheckArgs {
    /// The file, in the place of -c
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Warnings count as errors
    #[arg(long)]
    pub strict: bool,

    /// Form of the report; sarif is for code scanners
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: CheckForm,
}

/// Forms of the report of `check`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names say it")]
pub enum CheckForm {
    Json,
    Sarif,
    #[default]
    Text,
}

/// Forms of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ReportForm {
    Json,
    #[default]
    Text,
}

/// Options of `config dump`.
#[derive(Debug, Args)]
pub struct DumpArgs {
    /// Also write what is the default anyway
    #[arg(long)]
    pub with_defaults: bool,

    /// Form of the output
    #[arg(short, long, value_name = "FORM", default_value = "toml")]
    pub output: DumpForm,
}

/// Forms of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names say it")]
pub enum DumpForm {
    Json,
    Toml,
}

/// Options of `healthcheck`.
#[derive(Debug, Args)]
pub struct HealthcheckArgs {
    /// What to ask for: readyz, livez or a path
    #[arg(long, value_name = "NAME", default_value = "readyz")]
    pub endpoint: String,

    /// Where doorbell listens, an address, HOST:PORT or unix:/PATH; by default the first listener that can be asked of the file named with
    /// -c, else of the one doorbell that runs here, else of /etc/doorbell/doorbell.toml where there is one, and else 127.0.0.1:8080
    #[arg(long, value_name = "ADDR", value_parser = super::healthcheck::parse_address)]
    pub address: Option<super::healthcheck::Address>,

    /// Longest wait for the whole answer
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_timeout)]
    pub timeout: Duration,
}

/// Options of `redirect`.
#[derive(Debug, Args)]
pub struct RedirectArgs {
    /// Options shared with serve.
    #[command(flatten)]
    pub serve: ServeArgs,

    /// Scheme of the location
    #[arg(long, value_name = "SCHEME", default_value = "https")]
    pub to: SchemeArg,

    /// Host that is redirected; may be given several times
    #[arg(long, value_name = "HOST", required = true)]
    pub host: Vec<String>,

    /// Directory of the tokens of ACME (http-01), answered for every host below /.well-known/acme-challenge/; for certbot that is
    /// WEBROOT/.well-known/acme-challenge
    #[arg(long, value_name = "DIR", value_parser = parse_directory)]
    pub acme: Option<PathBuf>,

    /// Port of the location; by default that of the scheme, which is not written
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,

    /// Status: 301, 302, 303, 307 or 308
    #[arg(long, value_name = "CODE", default_value = "308")]
    pub status: u16,
}

/// Schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names say it")]
pub enum SchemeArg {
    Http,
    Https,
}

pub(super) fn parse_bind(text: &str) -> Result<Bind, String> {
    text.parse::<Bind>().map_err(|error| format!("{error}; write {}", crate::config::BIND_FORM))
}

pub(super) fn parse_admin(text: &str) -> Result<AdminArg, String> {
    match text.parse() {
        _ if text == "off" => Ok(AdminArg::Off),
        Ok(Bind::Tcp(addr)) => Ok(AdminArg::At(addr)),
        _ => Err("write an IP address and a port as in 127.0.0.1:9130, or off".into()),
    }
}

pub(super) fn parse_target(text: &str) -> Result<CheckKind, String> {
    CheckKind::parse(text).ok_or_else(|| crate::probe::TARGET_FORM.into())
}

/// Also one that is not there yet.
fn parse_directory(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if text.is_empty() || path.is_file() {
        return Err("name a directory, as in /var/lib/acme/.well-known/acme-challenge".into());
    }
    Ok(path)
}

pub(super) fn parse_timeout(text: &str) -> Result<Duration, String> {
    let positive = parse_duration(text).filter(|duration| !duration.is_zero());
    positive.ok_or_else(|| "write a number and a unit, as in 500ms or 2s".into())
}
