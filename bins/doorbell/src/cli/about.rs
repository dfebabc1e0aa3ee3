//! What the program says about itself: completions, manual pages, versions.
//!
//! Does not know about: any one command.

use super::args::Cli;
use crate::exit::{Exit, Failure};
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use std::path::PathBuf;

pub(super) const COMPLETIONS_HELP: &str = "\
Examples:
  doorbell completions bash > /etc/bash_completion.d/doorbell
  doorbell completions zsh > \"${fpath[1]}/_doorbell\"
  doorbell completions fish > ~/.config/fish/completions/doorbell.fish";

pub(super) const MAN_HELP: &str = "\
Examples:
  doorbell man | man -l -
  doorbell man --folder /usr/local/share/man/man1";

/// Options of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// For which shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Options of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Where to write a page for every command; without it the first page goes to standard output
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Options of `version`.
#[derive(Debug, Args)]
pub struct VersionArgs {
    /// Also what it was built with and for
    #[arg(long)]
    verbose: bool,
}

pub(super) fn completions(args: &CompletionsArgs) -> String {
    let mut bytes = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "doorbell", &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The first page, unless all go into a folder.
pub(super) fn man(args: &ManArgs) -> Result<String, Failure> {
    let failed =
        |error: std::io::Error| Failure::new(Exit::Failure, format!("the pages cannot be written: {error}"));
    match &args.folder {
        Some(folder) => {
            // `doorbell.1`, `doorbell-config.1`, `doorbell-config-dump.1`.
            clap_mangen::generate_to(Cli::command(), folder).map_err(failed)?;
            Ok(String::new())
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(failed)?;
            Ok(String::from_utf8_lossy(&page).into_owned())
        }
    }
}

pub(super) fn version(args: &VersionArgs) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!("doorbell {version}\n");
    if args.verbose {
        let libc = if cfg!(target_env = "musl") { "musl" } else { "glibc" };
        let linked = if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" };
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        let revision = option_env!("DOORBELL_REVISION").unwrap_or("not recorded");
        for (what, value) in [
            ("revision", revision.to_owned()),
            ("target", format!("{} {} {libc}, {linked}", std::env::consts::OS, std::env::consts::ARCH)),
            ("build", format!("{build}, Rust {} or later", env!("CARGO_PKG_RUST_VERSION"))),
            ("tls", "rustls with aws-lc-rs, post-quantum key exchange preferred".to_owned()),
            ("engines", "io_uring, epoll".to_owned()),
        ] {
            text.push_str(&format!("{what:<9} {value}\n"));
        }
    }
    text
}
