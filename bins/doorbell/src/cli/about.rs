//! `doorbell completions`, `man` and `version`.

use super::command_line;
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use doorbell_proxy_server::exit::{Exit, Failure};
use std::path::{Path, PathBuf};

pub(super) const COMPLETIONS_HELP: &str = "\
Examples:
  doorbell completions bash > /etc/bash_completion.d/doorbell
  doorbell completions zsh > \"${fpath[1]}/_doorbell\"
  doorbell completions fish > ~/.config/fish/completions/doorbell.fish";

pub(super) const MAN_HELP: &str = "\
Examples:
  doorbell man | man -l -
  doorbell man probe | man -l -
  doorbell man doorbell.toml | man -l -        all configuration keys
  doorbell man --folder /usr/local/share/man/man1
  doorbell man doorbell.toml > /usr/local/share/man/man5/doorbell.toml.5";

pub(super) const VERSION_HELP: &str = "\
Examples:
  doorbell version --verbose                   revision, target, TLS library, drivers";

/// Options of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell to print the completion script for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Options of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Page to print: a command such as probe or config-dump, or doorbell.toml; default: the page
    /// of doorbell itself
    #[arg(value_name = "PAGE")]
    page: Option<String>,

    /// Folder to write the pages of all commands to, instead of printing one page
    #[arg(long, value_name = "FOLDER", conflicts_with = "page")]
    folder: Option<PathBuf>,
}

/// Options of `version`.
#[derive(Debug, Args)]
pub struct VersionArgs {
    /// Show build information
    #[arg(short, long)]
    verbose: bool,
}

pub(super) fn completions(args: &CompletionsArgs) -> String {
    let mut bytes = Vec::new();
    clap_complete::generate(args.shell, &mut command_line(), "doorbell", &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Renders one page, or writes all pages into a folder.
pub(super) fn man(args: &ManArgs) -> Result<String, Failure> {
    let failed = |place: &str| {
        let place = place.to_owned();
        move |error: std::io::Error| {
            Failure::new(Exit::Failure, format!("cannot write the manual pages{place}: {error}"))
        }
    };
    if let Some(folder) = &args.folder {
        // Writes `doorbell.1`, `doorbell-config.1`, `doorbell-config-dump.1` and so on.
        std::fs::create_dir_all(folder)
            .and_then(|()| {
                let mut all = command_line().disable_help_subcommand(true);
                all.build();
                write_pages(&all, folder)
            })
            .map_err(failed(&format!(" to {}", folder.display())))?;
        return Ok(String::new());
    }
    let of = match args.page.as_deref() {
        Some("doorbell.toml") => return Ok(super::manual::file_page()),
        Some(name) => {
            named(command_line(), name.strip_prefix("doorbell-").unwrap_or(name)).ok_or_else(|| {
                let message = format!(
                    "unknown page {name:?}: expected a command such as probe or config-dump, or doorbell.toml"
                );
                Failure::new(Exit::Usage, message)
            })?
        }
        None => command_line(),
    };
    let mut page = Vec::new();
    page_of(of).render(&mut page).map_err(failed(""))?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

/// The manual page of a command, with name and version of the program.
fn page_of(command: Command) -> Man {
    Man::new(command).source(concat!("doorbell ", env!("CARGO_PKG_VERSION")))
}

/// Writes the pages of a command and of all commands below it.
fn write_pages(command: &Command, folder: &Path) -> std::io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, folder)?;
    }
    page_of(command.clone()).generate_to(folder).map(drop)
}

/// Returns the command for a page name such as `config-dump`, with its inherited options.
fn named(mut command: Command, name: &str) -> Option<Command> {
    command.build();
    let mut command = &command;
    for word in name.split('-').filter(|word| *word != "doorbell") {
        command = command.find_subcommand(word)?;
    }
    Some(command.clone())
}

pub(super) fn version(args: &VersionArgs) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!("doorbell {version}\n");
    if args.verbose {
        let libc = if cfg!(target_env = "musl") { "musl" } else { "glibc" };
        let linked = if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" };
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        for (what, value) in [
            ("revision", env!("DOORBELL_REVISION").to_owned()),
            ("target", format!("{} {} {libc}, {linked}", std::env::consts::OS, std::env::consts::ARCH)),
            ("build", format!("{build}, Rust {} or later", env!("CARGO_PKG_RUST_VERSION"))),
            ("tls", "rustls with aws-lc-rs, post-quantum key exchange preferred".to_owned()),
            ("drivers", "io_uring, epoll".to_owned()),
        ] {
            text.push_str(&format!("{what:<9} {value}\n"));
        }
    }
    text
}
