//! `doorbell probe`: probes a target as a given prober does and reports the result.

use super::options::Global;
use super::output::{print, print_error};
use super::trust::TrustArgs;
use clap::{Args, ValueEnum};
use doorbell_checks::options::ProxyHeader;
use doorbell_prober::{Parameter, Probe, Prober, Problem, Report, TARGET_FORM, Target, Verdict};
use doorbell_proxy_config::{format_duration, parse_duration};
use doorbell_proxy_server::exit::{Exit, Failure};
use serde_json::json;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::time::Duration;

pub(super) const HELP: &str = "\
Examples:
  doorbell probe http://127.0.0.1:8080/readyz
  doorbell probe http://10.0.0.7:8080/readyz --as kubelet -v     show sent and received bytes
  doorbell probe http://10.0.0.7:8080/ --as haproxy --host app.example.com
  doorbell probe tcp://db:5432 --count 10 --interval 500ms
  doorbell probe grpc://127.0.0.1:50051/shop.Orders -o json
  doorbell probe grpc://127.0.0.1:50051 --as grpc-health-probe
  doorbell probe grpcs://orders:50051 --tls-ca-cert ca.pem --tls-server-name orders.example
  doorbell probe http://10.0.0.7:8080/ --as haproxy --send-proxy local --send-state

The requests and the close sequence of the kubelet, HAProxy, Apache and blackbox_exporter were captured; those of Consul, Envoy and \
keepalived follow their source code; elb, gcp, azure and route53 send the header fields that are known of them. gRPC probes use \
grpc.health.v1 Check with the user agent of the prober. An option that does not apply to the target is an error.

Exit codes: 0 healthy, 1 invalid command line, 2 connection failed, 3 invalid response, 4 unhealthy, 124 timeout";

/// Kinds of PROXY headers.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum SendProxy {
    /// Version 1 with the addresses of the connection: HAProxy's check-send-proxy with send-proxy
    V1,
    /// Version 2 with the addresses of the connection
    V2,
    /// Version 2 without addresses (LOCAL): HAProxy's check-send-proxy with send-proxy-v2
    Local,
}

impl From<SendProxy> for ProxyHeader {
    fn from(header: SendProxy) -> Self {
        match header {
            SendProxy::V1 => Self::V1,
            SendProxy::V2 => Self::V2,
            SendProxy::Local => Self::Local,
        }
    }
}

/// Options of `probe`.
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// Target: http://.., https://.., tcp://HOST:PORT, tls://HOST, grpc://HOST:PORT/SERVICE,
    /// grpcs://.., redis://HOST, udp://HOST:PORT, icmp://HOST, postgres://HOST, mysql://HOST,
    /// smtp://HOST, imap://HOST, pop3://HOST, ws://.., wss://.. or unix:/PATH
    #[arg(value_name = "TARGET", value_parser = parse_target)]
    target: Target,

    /// Prober to imitate
    #[arg(long = "as", value_name = "PROBER", default_value = "doorbell")]
    prober: Prober,

    /// Healthy status codes, as in 200, 200-399 or 2xx, separated by commas; default: those of the
    /// prober
    #[arg(long, value_name = "CODES", value_parser = parse_statuses)]
    expect_status: Option<Statuses>,

    /// Header field to send (gRPC: metadata), as NAME: VALUE; an empty value removes a field of the
    /// prober; repeatable
    #[arg(long, value_name = "FIELD", value_parser = parse_header)]
    header: Vec<(String, String)>,

    /// Value of Host (gRPC: :authority); default: the host of the target
    #[arg(long, value_name = "HOST", value_parser = parse_field_value)]
    host: Option<String>,

    /// Maximum time until the whole response has arrived; default: that of the prober
    #[arg(long, value_name = "TIME", value_parser = super::options::parse_timeout)]
    timeout: Option<Duration>,

    /// Number of probes; the exit code is that of the last failed probe
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,

    /// Time between the starts of two probes
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,

    /// Send a PROXY header first; for HTTP, TCP, TLS and Redis targets
    #[arg(long, value_name = "WHICH")]
    send_proxy: Option<SendProxy>,

    /// Send HAProxy's state of the server (http-check send-state): up, without connections
    #[arg(long)]
    send_state: bool,

    /// Show sent and received bytes and the time of each phase
    #[arg(short, long)]
    verbose: bool,

    /// Output format; prom uses the metric names of blackbox_exporter
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: ProbeForm,

    #[command(flatten)]
    trust: TrustArgs,
}

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProbeForm {
    Json,
    Prom,
    Text,
}

#[derive(Clone, Debug)]
struct Statuses(Vec<RangeInclusive<u16>>);

pub(super) fn run(args: ProbeArgs, global: &Global) -> Result<Exit, Failure> {
    let probe = probe_of(&args);
    if let Some(why) = problem_of(&args, &probe) {
        return Err(Failure::new(Exit::Failure, why));
    }
    let mut exit = Exit::Success;
    let mut healthy = 0;
    for number in 1..=args.count {
        let report = probe.run();
        match report.verdict {
            Verdict::Healthy => healthy += 1,
            verdict => exit = exit_of(verdict),
        }
        show(&probe, &report, &args, global)?;
        if number < args.count {
            // Waits for the rest of the interval even if standard output is closed.
            wait(args.interval.saturating_sub(report.total));
        }
    }
    if args.count > 1 && args.output == ProbeForm::Text && !global.quiet {
        print(&format!("{} probes, {healthy} healthy\n", args.count))?;
    }
    Ok(exit)
}

fn probe_of(args: &ProbeArgs) -> Probe {
    let default = Probe::of(args.trust.with_tls(args.target.clone()), args.prober);
    Probe {
        statuses: args.expect_status.clone().map(|Statuses(ranges)| ranges),
        headers: args.header.clone(),
        host: args.host.clone(),
        timeout: args.timeout.unwrap_or(default.timeout),
        tls: args.trust.client(default.tls.verify),
        proxy_header: args.send_proxy.map(ProxyHeader::from),
        send_state: args.send_state,
        ..default
    }
}

/// Returns an error for options that are invalid, or that do not apply to this target.
fn problem_of(args: &ProbeArgs, probe: &Probe) -> Option<String> {
    match probe.problem() {
        None => args.trust.unused_option(std::slice::from_ref(&probe.target), args.prober),
        Some(Problem::NoEffect(parameter, target)) => {
            Some(format!("{} has no effect on {target}", option_of(parameter)))
        }
        Some(Problem::NotOfProber(parameter)) => {
            Some(format!("{} is a feature of HAProxy: add --as haproxy", option_of(parameter)))
        }
        Some(other) => Some(other.to_string()),
    }
}

/// The option that sets a parameter.
const fn option_of(parameter: Parameter) -> &'static str {
    match parameter {
        Parameter::Headers => "--header",
        Parameter::Host => "--host",
        Parameter::ProxyHeader => "--send-proxy",
        Parameter::SendState => "--send-state",
        Parameter::Statuses => "--expect-status",
    }
}

#[expect(clippy::disallowed_methods, reason = "commands wait in real time")]
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

fn show(probe: &Probe, report: &Report, args: &ProbeArgs, global: &Global) -> Result<(), Failure> {
    match args.output {
        ProbeForm::Json => print(&format!("{}\n", json_of(probe, report, args))),
        ProbeForm::Prom => print(&report.exported(probe)),
        ProbeForm::Text => {
            let is_healthy = report.verdict == Verdict::Healthy;
            let word = report.verdict.word();
            let line =
                format!("{}: {word} in {}: {}\n", probe.target, format_duration(report.total), report.reason);
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

/// Formats the bytes, escaped and split at line ends, and the time of each phase.
fn details(report: &Report) -> String {
    let mut text = String::new();
    for (mark, bytes) in [('>', &report.sent), ('<', &report.received)] {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let _infallible = writeln!(text, "{mark} {}", line.escape_ascii());
        }
    }
    for (name, took) in report.phases.named() {
        let _infallible = writeln!(text, "* {name:<10} {}", format_duration(took));
    }
    text
}

fn json_of(probe: &Probe, report: &Report, args: &ProbeArgs) -> serde_json::Value {
    let phases = report.phases.named().map(|(name, took)| (name.to_owned(), took.as_secs_f64().into()));
    let phases = serde_json::Map::from_iter(phases);
    let prober = args.prober.to_possible_value();
    let mut value = json!({
        "target": probe.target.to_string(),
        "as": prober.map(|value| value.get_name().to_owned()),
        "healthy": report.verdict == Verdict::Healthy,
        "verdict": report.verdict.word(),
        "reason": report.reason,
        "status": report.status,
        "seconds": report.total.as_secs_f64(),
        "phases": phases,
    });
    if args.verbose {
        value["sent"] = report.sent.escape_ascii().to_string().into();
        value["received"] = report.received.escape_ascii().to_string().into();
    }
    value
}

pub(super) fn parse_target(text: &str) -> Result<Target, String> {
    Target::parse(text).ok_or_else(|| TARGET_FORM.into())
}

/// Parses status codes: `200`, `200-399` or `2xx`, separated by commas.
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
    ranges
        .map(Statuses)
        .ok_or_else(|| "expected 200, 200-399, 2xx or several of them separated by commas".into())
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let split = text.split_once(':').map(|(name, value)| (name.to_owned(), value.trim()));
    match split.filter(|(name, _)| !name.is_empty() && name.bytes().all(is_token)) {
        Some((name, value)) => Ok((name, parse_field_value(value)?)),
        None => Err("expected NAME: VALUE, as in \"X-Probe: 1\"".into()),
    }
}

fn parse_field_value(text: &str) -> Result<String, String> {
    let is_plain = text.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte));
    if is_plain { Ok(text.to_owned()) } else { Err("expected printable ASCII characters".into()) }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "expected a number and a unit, as in 500ms or 2s".into())
}
