//! `doorbell config convert`: converts a configuration file of another program.

use super::load;
use super::output::{print, print_error};
use clap::{Args, Subcommand};
use doorbell_proxy_config::convert;
use doorbell_proxy_server::exit::{Exit, Failure};
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Examples:
  doorbell config convert blackbox /etc/prometheus/blackbox.yml >> doorbell.toml
  doorbell config convert blackbox - < blackbox.yml

The result is written to standard output: [blackbox.module.NAME] tables, to which [blackbox] with `bind` and `targets` must be added. \
Each line that has no equivalent is written to standard error, with the reason and what to do instead.

Exit codes: 0 all lines were converted, 1 some were not, 2 invalid command line, 78 the file is invalid";

/// Options of `config convert`.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// Program whose file is converted.
    #[command(subcommand)]
    from: From,
}

/// Programs whose files can be converted.
#[derive(Debug, Subcommand)]
enum From {
    /// Convert the modules of Prometheus' blackbox_exporter
    #[command(after_help = HELP)]
    Blackbox {
        /// File to convert; `-` reads standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

pub(super) fn run(args: &ConvertArgs) -> Result<Exit, Failure> {
    let From::Blackbox { file } = &args.from;
    let source = load::read_source(file)?;
    let converted = convert::blackbox(&source.text)
        .map_err(|error| Failure::new(Exit::BadConfig, format!("{} is invalid: {error}", source.name)))?;
    print(&converted.toml)?;
    for note in &converted.notes {
        print_error(&format!("{}:{note}\n", source.name));
    }
    Ok(if converted.notes.is_empty() { Exit::Success } else { Exit::Failure })
}
