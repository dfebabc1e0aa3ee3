//! `doorbell probe`: asks a target as a certain prober would, and says what came of it.
//!
//! Does not know about: how probers ask.

use super::args::Global;
use super::{print, print_error};
use crate::config::model::ClientTls;
use crate::config::{format_duration, parse_duration};
use crate::exit::{Exit, Failure};
use crate::probe::{Ask, Prober, Report, TARGET_FORM, Target, Verdict};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::fmt::{Display, Write as _};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const HELP: &str = "\
Examples:
  doorbell probe http://127.0.0.1:8080/readyz
  doorbell probe http://10.0.0.7:8080/readyz --as kubelet -v     also what is sent and comes
  doorbell probe http://10.0.0.7:8080/ --as haproxy --host app.example.com
  doorbell probe tcp://db:5432 --count 10 --interval 500ms
  doorbell probe grpc://127.0.0.1:50051/shop.Orders -o json
  doorbell probe grpc://127.0.0.1:50051 --as grpc-health-probe

The bytes and the way to close are those of the kubelet, HAProxy, Apache and blackbox_exporter as captured; those of Consul, Envoy and \
keepalived follow their sources; elb, gcp, azure and route53 have the fields that are known of them. gRPC is asked in one way, \
grpc.health.v1 Check, and with the user agent of the prober.

Exit codes: 0 healthy, 1 wrong command line, 2 no connection, 3 no answer that can be understood, 4 unhealthy, 124 no answer in time";

/// Options of `probe`.
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// What to ask: http://.., https://.., tcp://HOST:PORT, tls://HOST, grpc://HOST:PORT/SERVICE, redis://HOST or unix:/PATH
    #[arg(value_name = "TARGET", value_parser = parse_target)]
    target: Target,

    /// In whose manner
    #[arg(long = "as", value_name = "PROBER", default_value = "doorbell")]
    prober: Prober,

    /// Codes that are well; by default those of the prober
    #[arg(long, value_name = "CODES", value_parser = parse_statuses)]
    expect_status: Option<Statuses>,

    /// A field to send, as NAME: VALUE; an empty value takes one of the prober's away; may be given several times
    #[arg(long, value_name = "FIELD", value_parser = parse_header)]
    header: Vec<(String, String)>,

    /// The value of Host, where it is not that of the target
    #[arg(long, value_name = "HOST", value_parser = parse_field_value)]
    host: Option<String>,

    /// Longest wait for the whole answer; by default that of the prober
    #[arg(long, value_name = "TIME", value_parser = super::args::parse_timeout)]
    timeout: Option<Duration>,

    /// How often to ask; the exit code is that of the last answer that was not well
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,

    /// From one question to the next
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,

    /// Who signs the server's certificate, as PEM; by default those that this system trusts, except that the kubelet and load balancers do not look
    #[arg(long, value_name = "FILE")]
    tls_ca_cert: Option<PathBuf>,

    /// Do not look at the certificate
    #[arg(long, conflicts_with = "tls_ca_cert")]
    tls_no_verify: bool,

    /// The name that the certificate is for, where it is not that of the target
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,

    /// Also what was sent and what came
    #[arg(short, long)]
    verbose: bool,

    /// Form of the report; prom has the names of blackbox_exporter
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    output: ProbeForm,
}

/// Forms of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProbeForm {
    Json,
    Prom,
    Text,
}

#[derive(Clone, Debug)]
struct Statuses(Vec<RangeInclusive<u16>>);

pub(super) fn run(args: ProbeArgs, global: &Global) -> Result<Exit, Failure> {
    if matches!(args.target, Target::Http(_)) && !args.prober.speaks_http() {
        let message = "grpc_health_probe asks by gRPC only: write grpc://HOST:PORT/SERVICE";
        return Err(Failure::new(Exit::Failure, message));
    }
    let ask = ask_of(&args);
    let mut exit = Exit::Success;
    let mut healthy = 0;
    for number in 1..=args.count {
        let report = ask.run();
        match report.verdict {
            Verdict::Healthy => healthy += 1,
            verdict => exit = exit_of(verdict),
        }
        show(&ask, &report, &args, global)?;
        if number < args.count {
            // A pipe that nobody ends waits as long as it is told.
            wait(args.interval.saturating_sub(report.total));
        }
    }
    if args.count > 1 && args.output == ProbeForm::Text && !global.quiet {
        print(&format!("{} asked, {healthy} healthy\n", args.count))?;
    }
    Ok(exit)
}

fn ask_of(args: &ProbeArgs) -> Ask {
    let default = Ask::of(args.target.clone(), args.prober);
    Ask {
        statuses: args.expect_status.clone().map(|Statuses(ranges)| ranges),
        headers: args.header.clone(),
        host: args.host.clone(),
        timeout: args.timeout.unwrap_or(default.timeout),
        tls: ClientTls {
            verify: (default.tls.verify || args.tls_ca_cert.is_some()) && !args.tls_no_verify,
            ca: args.tls_ca_cert.clone(),
            server_name: args.tls_server_name.clone(),
            identity: None,
        },
        ..default
    }
}

#[expect(clippy::disallowed_methods, reason = "a command line waits in real time")]
fn wait(duration: Duration) {
    std::thread::sleep(duration);
}

const fn exit_of(verdict: Verdict) -> Exit {
    match verdict {
        Verdict::ConnectFailed => Exit::Code(2),
        Verdict::Healthy => Exit::Success,
        Verdict::ProtocolFailed => Exit::Code(3),
        Verdict::TimedOut => Exit::Code(124),
        Verdict::Unhealthy => Exit::Code(4),
    }
}

fn show(ask: &Ask, report: &Report, args: &ProbeArgs, global: &Global) -> Result<(), Failure> {
    match args.output {
        ProbeForm::Json => print(&format!("{}\n", json_of(ask, report, args))),
        ProbeForm::Prom => print(&prom_of(ask, report)),
        ProbeForm::Text => {
            let is_healthy = report.verdict == Verdict::Healthy;
            let word = report.verdict.word();
            let line =
                format!("{}: {word} in {}: {}\n", ask.target, format_duration(report.total), report.reason);
            let line = if args.verbose { details(report) + &line } else { line };
            match is_healthy {
                true if global.quiet => Ok(()),
                true => print(&line),
                false => {
                    print_error(&line);
                    Ok(())
                }
            }
        }
    }
}

/// Bytes so that each can be told, one line to a line.
fn details(report: &Report) -> String {
    let mut text = String::new();
    for (mark, bytes) in [('>', &report.sent), ('<', &report.received)] {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let _infallible = writeln!(text, "{mark} {}", line.escape_ascii());
        }
    }
    let phases = report.phases;
    for (name, took) in [
        ("resolve", phases.resolve),
        ("connect", phases.connect),
        ("tls", phases.tls),
        ("processing", phases.processing),
        ("transfer", phases.transfer),
    ] {
        let _infallible = writeln!(text, "* {name:<10} {}", format_duration(took));
    }
    text
}

fn json_of(ask: &Ask, report: &Report, args: &ProbeArgs) -> serde_json::Value {
    let phases = report.phases;
    let prober = args.prober.to_possible_value();
    let mut value = json!({
        "target": ask.target.to_string(),
        "as": prober.map(|value| value.get_name().to_owned()),
        "healthy": report.verdict == Verdict::Healthy,
        "verdict": report.verdict.word(),
        "reason": report.reason,
        "status": report.status,
        "seconds": report.total.as_secs_f64(),
        "phases": {
            "resolve": phases.resolve.as_secs_f64(),
            "connect": phases.connect.as_secs_f64(),
            "tls": phases.tls.as_secs_f64(),
            "processing": phases.processing.as_secs_f64(),
            "transfer": phases.transfer.as_secs_f64(),
        },
    });
    if args.verbose {
        value["sent"] = report.sent.escape_ascii().to_string().into();
        value["received"] = report.received.escape_ascii().to_string().into();
    }
    value
}

/// As blackbox_exporter calls them.
fn prom_of(ask: &Ask, report: &Report) -> String {
    let (phases, facts) = (report.phases, report.facts);
    let mut text = String::new();
    let mut gauge = |name: &str, help: &str, value: &dyn Display| {
        let _infallible = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
    };
    let is_healthy = u8::from(report.verdict == Verdict::Healthy);
    gauge("probe_success", "Whether the probe was a success", &is_healthy);
    gauge("probe_duration_seconds", "How long the probe took", &report.total.as_secs_f64());
    gauge("probe_timeout_seconds", "How long the probe might have taken", &ask.timeout.as_secs_f64());
    let lookup = phases.resolve.as_secs_f64();
    gauge("probe_dns_lookup_time_seconds", "How long the lookup of names took", &lookup);
    if let Some(ip) = facts.address {
        gauge("probe_ip_protocol", "4 or 6", if ip.is_ipv4() { &4 } else { &6 });
    }
    if let Target::Http(url) = &ask.target {
        gauge("probe_http_status_code", "Status of the answer", &report.status.unwrap_or(0));
        gauge("probe_http_version", "Version of HTTP of the answer", &facts.version.unwrap_or("0"));
        let length = facts.content_length.map_or_else(|| "-1".to_owned(), |length| length.to_string());
        gauge("probe_http_content_length", "Length of the content as the answer says it", &length);
        gauge("probe_http_redirects", "How many redirects there were", &facts.redirects);
        gauge("probe_http_ssl", "Whether TLS was asked for", &u8::from(url.is_https));
        text.push_str(
            "# HELP probe_http_duration_seconds How long the parts took, those of the last redirect\n",
        );
        text.push_str("# TYPE probe_http_duration_seconds gauge\n");
        for (phase, took) in [
            ("resolve", phases.resolve),
            ("connect", phases.connect),
            ("tls", phases.tls),
            ("processing", phases.processing),
            ("transfer", phases.transfer),
        ] {
            let took = took.as_secs_f64();
            let _infallible = writeln!(text, "probe_http_duration_seconds{{phase=\"{phase}\"}} {took}");
        }
    }
    text
}

pub(super) fn parse_target(text: &str) -> Result<Target, String> {
    Target::parse(text).ok_or_else(|| TARGET_FORM.into())
}

/// `200`, `200-399`, `2xx`, and several of them with commas.
fn parse_statuses(text: &str) -> Result<Statuses, String> {
    let code = |text: &str| text.parse::<u16>().ok().filter(|code| (100..=999).contains(code));
    let range = |part: &str| match (part.strip_suffix("xx"), part.split_once('-')) {
        (Some(class), _) => class
            .parse()
            .ok()
            .filter(|class| (1..=9).contains(class))
            .map(|class: u16| class * 100..=class * 100 + 99),
        (None, Some((first, last))) => Some(code(first)?..=code(last)?),
        (None, None) => code(part).map(|code| code..=code),
    };
    let ranges: Option<Vec<_>> = text.split(',').map(|part| range(part.trim())).collect();
    ranges.map(Statuses).ok_or_else(|| "write 200, 200-399, 2xx or several of them with commas".into())
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let split = text.split_once(':').map(|(name, value)| (name.to_owned(), value.trim()));
    match split.filter(|(name, _)| !name.is_empty() && name.bytes().all(is_token)) {
        Some((name, value)) => Ok((name, parse_field_value(value)?)),
        None => Err("write NAME: VALUE, as in \"X-Probe: 1\"".into()),
    }
}

fn parse_field_value(text: &str) -> Result<String, String> {
    let is_plain = text.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte));
    if is_plain { Ok(text.to_owned()) } else { Err("a field has printable ASCII characters only".into()) }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "write a number and a unit, as in 500ms or 2s".into())
}
