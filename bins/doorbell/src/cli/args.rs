//! The command line.
//!
//! Does not know about: what the commands do.

use super::options::{Global, ServeArgs};
use clap::{Args, Parser, Subcommand, ValueEnum};

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
  69  the driver given with --driver does not work on this system, or no doorbell replies
  71  the limit of open files is too low (ulimit -n)
  73  another process listens on the address
  77  no permission, as for a port below 1024
  78  the configuration cannot be used

Signals: TERM drains and stops; INT, QUIT or a second TERM stops at once; HUP reads the configuration anew; USR1 writes the state to \
the log; USR2 opens log files again.";

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

/// Answers the door: health probes, redirects and small fixed replies.
#[derive(Debug, Parser)]
#[command(name = "doorbell", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do; without a command: serve.
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
    /// Wait until targets are well, then run a command
    #[command(after_help = super::until::HELP)]
    Await(super::until::AwaitArgs),
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
    #[command(after_help = super::healthcheck::HELP)]
    Healthcheck(super::healthcheck::HealthcheckArgs),
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
    #[command(after_help = super::redirect::HELP)]
    Redirect(super::redirect::RedirectArgs),
    /// Serve beside another program, and end both in the right order
    #[command(after_help = super::run::HELP)]
    Run(super::run::RunArgs),
    /// Serve; the default command
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArgs),
    /// Validate a configuration file: every problem with its place and a fix
    #[command(after_help = super::validate::HELP)]
    Validate(super::validate::ValidateArgs),
    /// Print the version
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
