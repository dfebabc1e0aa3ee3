//! Options that several commands share, and how their values are read.
//!
//! Does not know about: the commands.

use crate::config::model::{LogFormat, LogLevel};
use crate::config::{Bind, parse_duration};
use clap::{Args, ValueEnum};
use doorbell_checks::options::CheckKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

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
    #[arg(long, value_name = "DRIVER")]
    pub driver: Option<DriverArg>,

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
pub enum DriverArg {
    Auto,
    Epoll,
    #[value(name = "io_uring")]
    IoUring,
}

/// Forms of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ReportForm {
    Json,
    #[default]
    Text,
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

pub(super) fn parse_timeout(text: &str) -> Result<Duration, String> {
    let positive = parse_duration(text).filter(|duration| !duration.is_zero());
    positive.ok_or_else(|| "write a number and a unit, as in 500ms or 2s".into())
}
