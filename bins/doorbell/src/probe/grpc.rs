//! `grpc.health.v1`, asked by the runner of checks.
//!
//! Does not know about: frames. The call is that of our gRPC library whoever is imitated, but for who it says asks.

use super::{Ask, Facts, Phases, Report, Verdict};
use crate::checks::{Connector, GRPC_UNKNOWN, Runner, Shared, Stage};
use crate::config::model::{Check, CheckKind, Egress, GrpcCheck, HostPort, Pace, Place, Severity};
use doorbell_health::Outcome;
use std::sync::Arc;

pub(super) fn run(ask: &Ask, at: &HostPort, service: &str) -> Report {
    let user_agent = ask.prober.grpc_agent();
    let grpc = GrpcCheck { service: service.to_owned(), user_agent, ..GrpcCheck::of(Place::Tcp(at.clone())) };
    let pace = Pace { timeout: ask.timeout, connect_timeout: ask.timeout, ..Pace::default() };
    let kind = CheckKind::Grpc(Box::new(grpc));
    let check = Check { name: "probe".into(), severity: Severity::Required, pace, kind };
    let mut report = Report {
        verdict: Verdict::ProtocolFailed,
        reason: String::new(),
        status: None,
        phases: Phases::default(),
        facts: Facts::default(),
        total: std::time::Duration::ZERO,
        sent: Vec::new(),
        received: Vec::new(),
    };
    let runner = Connector::open(&Egress::default())
        .and_then(|connector| Runner::build(&check, &mut Shared::new(Arc::new(connector))));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (runner, runtime) = match (runner, runtime) {
        (Ok(Some(runner)), Ok(runtime)) => (runner, runtime),
        (Err(why), _) => return Report { reason: why, ..report },
        (_, Err(error)) => return Report { reason: error.to_string(), ..report },
        (Ok(None), _) => return report,
    };
    let (finding, stage) = runtime.block_on(runner.run_to_stage());
    runtime.shutdown_background();
    report.total = finding.latency;
    report.verdict = match finding.outcome {
        Outcome::Success | Outcome::Degraded => Verdict::Healthy,
        Outcome::Timeout => Verdict::TimedOut,
        _ if matches!(stage, Stage::Resolve | Stage::Connect) => Verdict::ConnectFailed,
        _ if ["NOT_SERVING", "UNKNOWN", GRPC_UNKNOWN].contains(&finding.reason.as_str()) => {
            Verdict::Unhealthy
        }
        _ => Verdict::ProtocolFailed,
    };
    report.reason = if finding.reason.is_empty() { "SERVING".into() } else { finding.reason };
    report
}
