//! Options that several commands share, and the parsers of their values.

use clap::{Args, ValueEnum};
use doorbell_checks::options::CheckKind;
use doorbell_proxy_config::model::{Driver, LogFormat, LogLevel};
use doorbell_proxy_config::{Bind, parse_duration};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Configuration file; `-` reads standard input
    #[arg(short, long, value_name = "FILE", env = "DOORBELL_CONFIG", global = true)]
    pub config: Option<PathBuf>,

    /// Minimum severity of log messages; also DOORBELL_LOG
    #[arg(long, value_name = "LEVEL", global = true)]
    pub log_level: Option<LogLevel>,

    /// Log format; by default text on a terminal and JSON elsewhere
    #[arg(long, value_name = "FORMAT", global = true)]
    pub log_format: Option<LogFormat>,

    /// When to use colors; auto: on a terminal, unless NO_COLOR is set or TERM=dumb
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    pub color: ColorWhen,

    /// Print and log errors only
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// When to color.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names describe the values")]
pub enum ColorWhen {
    Always,
    Auto,
    Never,
}

/// Options of `serve`.
#[derive(Clone, Debug, Default, Args)]
pub struct ServeArgs {
    /// Address to listen on; repeatable. Also DOORBELL_LISTEN, a comma-separated list
    #[arg(long, value_name = "ADDR", value_parser = parse_bind)]
    pub listen: Vec<Bind>,

    /// Address of metrics and the admin page, as in 127.0.0.1:9130, or off; also DOORBELL_ADMIN.
    /// Without a configuration file: 127.0.0.1:9130, read-only, skipped if the port is in use
    #[arg(long, value_name = "ADDR", value_parser = parse_admin)]
    pub admin: Option<AdminArg>,

    /// Allow checks of type exec to run programs
    #[arg(long)]
    pub allow_exec: bool,

    /// Target that /readyz requires: http://.., https://.., tcp://HOST:PORT, unix:/PATH,
    /// tls://HOST, redis://HOST, grpc://HOST:PORT/SERVICE, grpcs://.., udp://HOST:PORT,
    /// icmp://HOST, postgres://HOST, mysql://HOST, smtp://HOST, imap://HOST, pop3://HOST, ws://..
    /// or wss://..; repeatable
    #[arg(long, value_name = "TARGET", value_parser = parse_target)]
    pub check: Vec<CheckKind>,

    /// I/O driver; auto uses io_uring where it works and epoll elsewhere
    #[arg(long, value_name = "DRIVER")]
    pub driver: Option<Driver>,

    /// Number of worker threads. Default: one per available CPU, limited by the CPU quota and the
    /// memory limit, and at most 4 in a container without a CPU quota; `doorbell doctor` shows the
    /// number and the reason
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
}

/// Value of `--admin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminArg {
    /// Listen on this address.
    At(SocketAddr),
    /// No admin listener.
    Off,
}

/// Output formats of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names describe the values")]
pub enum ReportForm {
    Json,
    #[default]
    Text,
}

pub(super) fn parse_bind(text: &str) -> Result<Bind, String> {
    text.parse::<Bind>().map_err(|error| format!("{error}; write {}", doorbell_proxy_config::BIND_FORM))
}

pub(super) fn parse_admin(text: &str) -> Result<AdminArg, String> {
    match text.parse() {
        _ if text == "off" => Ok(AdminArg::Off),
        Ok(Bind::Tcp(addr)) => Ok(AdminArg::At(addr)),
        _ => Err("expected an IP address and a port, as in 127.0.0.1:9130, or off".into()),
    }
}

pub(super) fn parse_target(text: &str) -> Result<CheckKind, String> {
    CheckKind::parse(text).ok_or_else(|| doorbell_prober::TARGET_FORM.into())
}

pub(super) fn parse_timeout(text: &str) -> Result<Duration, String> {
    let positive = parse_duration(text).filter(|duration| !duration.is_zero());
    positive.ok_or_else(|| "expected a number and a unit, as in 500ms or 2s".into())
}
