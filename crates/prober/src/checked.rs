//! Probes that the check runner performs: `grpc.health.v1`, UDP and ICMP, databases, mail servers
//! and WebSockets.

use super::probe::Probe;
use super::report::{Report, Verdict};
use doorbell_checks::options::{
    Address, Check, CheckKind, EgressOptions, FieldValue, GrpcCheck, HostPort, IcmpCheck, Pace, UdpCheck,
};
use doorbell_checks::{
    Connector, GRPC_UNKNOWN, Phases, Runner, SharedResources, Stage, Trace, cause_of, tls_client,
};
use doorbell_health::Outcome;
use std::sync::Arc;
use std::thread;
use tokio::runtime::Handle;

/// Calls `grpc.health.v1`.
pub(super) fn grpc(probe: &Probe, at: &HostPort, service: &str, is_tls: bool) -> Report {
    // An empty value removes the prober's user agent.
    let is_mute =
        probe.headers.iter().any(|(name, value)| name.eq_ignore_ascii_case("user-agent") && value.is_empty());
    let metadata = probe.headers.iter().filter(|(_, value)| !value.is_empty());
    let metadata = metadata.map(|(name, value)| (name.clone(), FieldValue::Open(value.clone())));
    let grpc = GrpcCheck {
        service: service.to_owned(),
        user_agent: probe.prober.grpc_agent().filter(|_| !is_mute),
        tls: is_tls.then(|| probe.tls.clone()),
        authority: probe.host.clone(),
        metadata: metadata.collect(),
        ..GrpcCheck::new(Address::Tcp(at.clone()))
    };
    // The check runner builds the TLS client again; this call only reports an unusable file.
    if let Some(Err(why)) = is_tls.then(|| tls_client(&probe.tls, "h2")) {
        return Report { reason: format!("TLS: {why}"), ..Report::default() };
    }
    run(probe, grpc.into(), "SERVING", |reason| {
        match ["NOT_SERVING", "UNKNOWN", GRPC_UNKNOWN].contains(&reason) {
            true => Verdict::Unhealthy,
            false => Verdict::ProtocolFailed,
        }
    })
}

/// Sends an empty datagram.
pub(super) fn udp(probe: &Probe, at: &HostPort) -> Report {
    let udp = UdpCheck::new(Address::Tcp(at.clone()));
    run(probe, udp.into(), "no ICMP error", |_reason| Verdict::ConnectFailed)
}

/// Sends an echo request.
pub(super) fn icmp(probe: &Probe, host: &HostPort) -> Report {
    run(probe, IcmpCheck::new(host.clone()).into(), "echo reply", |_reason| Verdict::ConnectFailed)
}

/// Checks a database, a mail server or a WebSocket.
pub(super) fn session(probe: &Probe, target: &str) -> Report {
    let Some(mut kind) = CheckKind::parse(target) else { return Report::default() };
    if let CheckKind::Websocket(socket) = &mut kind {
        socket.tls = probe.tls.clone();
    }
    run(probe, kind, "answered", |_reason| Verdict::Unhealthy)
}

/// Runs a check once. `healthy` is the reason of a success; `judge` evaluates the reason of a
/// failure after connecting.
fn run(probe: &Probe, kind: CheckKind, healthy: &str, judge: impl Fn(&str) -> Verdict + Send) -> Report {
    if Handle::try_current().is_err() {
        return run_here(probe, kind, healthy, judge);
    }
    // A runtime cannot block within another one.
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("probe".into());
        match thread.spawn_scoped(scope, || run_here(probe, kind, healthy, judge)) {
            Ok(running) => running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(error) => {
                Report { reason: format!("cannot start a thread: {}", cause_of(&error)), ..Report::default() }
            }
        }
    })
}

fn run_here(probe: &Probe, kind: CheckKind, healthy: &str, judge: impl Fn(&str) -> Verdict) -> Report {
    let pace = Pace { timeout: probe.timeout, connect_timeout: probe.timeout, ..Pace::default() };
    let check = Check { pace, ..Check::new("probe", kind) };
    let mut report = Report::default();
    let runner = Connector::open(&EgressOptions::default())
        .and_then(|connector| Runner::build(&check, &mut SharedResources::new(Arc::new(connector))));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (runner, runtime) = match (runner, runtime) {
        (Ok(Some(runner)), Ok(runtime)) => (runner, runtime),
        (Err(why), _) => return Report { reason: why, ..report },
        (_, Err(error)) => return Report { reason: error.to_string(), ..report },
        (Ok(None), _) => return report,
    };
    let (finding, seen) = runtime.block_on(async {
        let trace = Trace::begin();
        let finding = runner.run_traced(&trace).await;
        (finding, trace.seen())
    });
    runtime.shutdown_background();
    let stage = seen.stages.last().map_or(Stage::Resolve, |(stage, _)| *stage);
    report.phases = Phases::of(&seen, finding.latency);
    report.seen = seen;
    report.total = finding.latency;
    report.verdict = match finding.outcome {
        Outcome::Success | Outcome::Degraded => Verdict::Healthy,
        Outcome::Timeout => Verdict::TimedOut,
        _ if matches!(stage, Stage::Resolve | Stage::Connect) => Verdict::ConnectFailed,
        _ => judge(&finding.reason),
    };
    report.reason = if finding.reason.is_empty() { healthy.into() } else { finding.reason };
    report
}
