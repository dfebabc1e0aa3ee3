//! The command line.

use super::options::{Global, ServeArgs};
use clap::{Args, Parser, Subcommand, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  doorbell                                     reply to probes on 127.0.0.1:8080
  doorbell --listen :8080                      the same, on every address
  doorbell --check tcp://127.0.0.1:3000        ready while that port accepts connections
  doorbell -c doorbell.toml                    use a configuration file
  DOORBELL__LOG__LEVEL=debug doorbell          set one key: DOORBELL__SECTION__KEY
  curl 127.0.0.1:9130/metrics                  metrics, without a file or with --admin
  doorbell -t -c doorbell.toml                 validate a file
  doorbell redirect --host example.com         http://example.com/x to https://example.com/x
  doorbell healthcheck                         HEALTHCHECK of a container
  doorbell status                              state of the running instance

Exit codes:
   0  clean stop, or the result is positive
   1  failure while running, or the result is negative
   2  invalid command line
  69  the driver given with --driver does not work on this system, or no instance replies
  71  the limit of open files is too low (ulimit -n)
  73  another process listens on the address
  77  permission denied, as for a port below 1024
  78  invalid configuration

Signals: TERM drains and stops; INT, QUIT or a second TERM stops immediately; HUP reloads the configuration; USR1 logs the state; USR2 \
reopens the log files.";

const DUMP_HELP: &str = "\
Examples:
  doorbell config dump -c doorbell.toml --with-defaults
  doorbell config dump > doorbell.toml         a starter file from the built-in configuration

Secrets are replaced by asterisks. Exit codes: 0 written, 2 invalid command line, 78 invalid configuration";

const SCHEMA_HELP: &str = "\
Examples:
  doorbell config schema > doorbell.schema.json
  doorbell config schema | jq '.properties.lifecycle.properties | map_values(.default)'

Editors with Taplo (Even Better TOML) complete and explain the keys of a file that begins with `#:schema ./doorbell.schema.json`. \
The same reference as a manual page: `doorbell man doorbell.toml | man -l -`.";

const SERVE_HELP: &str = "\
Examples:
  doorbell serve --listen :8080
  doorbell serve --check http://127.0.0.1:3000/healthz --check tcp://db:5432
  doorbell serve -c /etc/doorbell/doorbell.toml

The command line overrides DOORBELL__SECTION__KEY variables, which override the file. Exit codes and signals: `doorbell --help`.";

/// HTTP server for health checks, redirects and small fixed replies
#[derive(Debug, Parser)]
#[command(name = "doorbell", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Cli {
    /// Command to run; default: `serve`.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Validate the configuration and exit, as `doorbell validate`
    #[arg(short = 't', long = "test")]
    pub test: bool,

    /// Options of serve.
    #[command(flatten)]
    pub serve: ServeArgs,

    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Wait until targets are healthy, then run a command
    #[command(after_help = super::until::HELP)]
    Await(super::until::AwaitArgs),
    /// Print a shell completion script
    #[command(after_help = super::about::COMPLETIONS_HELP)]
    Completions(super::about::CompletionsArgs),
    /// Print, compare, create and convert configurations
    Config {
        /// Command to run.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Examine this system: io_uring, limits, network settings
    #[command(after_help = super::doctor::HELP)]
    Doctor(super::doctor::DoctorArgs),
    /// List all instances that announce themselves in the shared store
    #[command(after_help = super::fleet::HELP)]
    Fleet(super::fleet::FleetArgs),
    /// Query the health of a running instance; for containers
    #[command(after_help = super::healthcheck::HELP)]
    Healthcheck(super::healthcheck::HealthcheckArgs),
    /// Query the history in ClickHouse, and create its schema
    #[command(after_help = super::history::HELP)]
    History {
        /// Command to run.
        #[command(subcommand)]
        command: super::history::HistoryCommand,
    },
    /// Print the manual pages
    #[command(after_help = super::about::MAN_HELP)]
    Man(super::about::ManArgs),
    /// Probe a target as the kubelet, HAProxy or another prober does
    #[command(after_help = super::probe::HELP)]
    Probe(super::probe::ProbeArgs),
    /// Commands for a running instance.
    #[command(flatten)]
    Operate(super::operate::OperateCommand),
    /// Serve redirects without a configuration file
    #[command(after_help = super::redirect::HELP)]
    Redirect(super::redirect::RedirectArgs),
    /// Run doorbell and another program together and stop them in the right order
    #[command(after_help = super::run::HELP)]
    Run(super::run::RunArgs),
    /// Serve (default command)
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArgs),
    /// Validate a configuration file: report each problem with its position and a fix
    #[command(after_help = super::validate::HELP)]
    Validate(super::validate::ValidateArgs),
    /// Print the version
    #[command(after_help = super::about::VERSION_HELP)]
    Version(super::about::VersionArgs),
}

/// Commands of `config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Convert a configuration file of another program
    #[command(after_help = super::convert::HELP)]
    Convert(super::convert::ConvertArgs),
    /// Compare two configuration files by their effective values
    #[command(after_help = super::diff::HELP)]
    Diff(super::diff::DiffArgs),
    /// Print the effective configuration, with environment variables expanded
    #[command(after_help = DUMP_HELP)]
    Dump(DumpArgs),
    /// Print a starter configuration for an environment
    #[command(after_help = super::init::HELP)]
    Init(super::init::InitArgs),
    /// Print the JSON Schema of configuration files, for editors
    #[command(after_help = SCHEMA_HELP)]
    Schema,
}

/// Options of `config dump`.
#[derive(Debug, Args)]
pub struct DumpArgs {
    /// Include keys that have their default value
    #[arg(long)]
    pub with_defaults: bool,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "toml")]
    pub output: DumpForm,
}

/// Output formats of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names describe the values")]
pub enum DumpForm {
    Json,
    Toml,
}
