//! `[check.NAME]` resolved: defaults from `[check_defaults]` and from the interval, what is missing, what contradicts.
//!
//! Does not know about: endpoints.

mod http;
mod local;
mod parts;
mod remote;
mod times;

use super::super::model::CHECKS_MAX;
use super::super::written;
use super::or;
use doorbell_checks::options::{Check, CheckKind, EgressOptions, GrpcMode};
use doorbell_config::{Problem, Problems};
use doorbell_health::Severity;
use std::ops::Range;
use std::time::Duration;
use times::{find_of_no_use, of_pushes, of_watch, pace, wrong_times};

/// All checks. One that is not complete is reported, and there all the same so that endpoints find its name.
pub(super) fn resolve(file: &written::File, problems: &Problems) -> Vec<Check> {
    if let Some(extra) = file.checks.get(CHECKS_MAX) {
        let message = format!("more than {CHECKS_MAX} checks");
        let problem = Problem::error("out-of-range", extra.name.span.clone(), message);
        problems.add(problem.help("share them among several doorbells"));
    }
    let mut told = Vec::new();
    file.checks.iter().map(|check| one(check, &file.check_defaults.pace, &mut told, problems)).collect()
}

/// Where connections of checks come from.
pub(super) fn resolve_egress(written: &written::Defaults) -> EgressOptions {
    let default = EgressOptions::default();
    EgressOptions {
        sources: written.egress.source.iter().map(|at| at.value).collect(),
        ports: or(&written.egress.port_window, default.ports),
    }
}

/// `told` are the mistakes of `[check_defaults]` that were told: each is told once, however many checks have it.
fn one(
    written: &written::Check,
    defaults: &written::Pace,
    told: &mut Vec<(&'static str, Range<usize>)>,
    problems: &Problems,
) -> Check {
    let kind = written.kind.as_ref().and_then(|kind| kind_of(written, kind, problems));
    // Only after an error, which stops everything.
    let kind = kind.unwrap_or(CheckKind::Ttl(Duration::from_secs(1)));
    let mut pace = pace(&written.pace, defaults);
    if let (CheckKind::Ttl(ttl), Some(written::Kind::Ttl { .. })) = (&kind, &written.kind) {
        find_of_no_use(&written.pace, problems);
        pace = of_pushes(&written.pace, *ttl, pace);
    } else {
        if matches!(&kind, CheckKind::Grpc(grpc) if grpc.mode == GrpcMode::Watch) {
            pace = of_watch(&written.pace, defaults, pace);
        }
        let problem = wrong_times(&written.pace, defaults, &pace);
        for problem in problem.into_iter().flatten() {
            let key = (problem.code, problem.span.clone());
            if !told.contains(&key) {
                told.push(key);
                problems.add(problem);
            }
        }
    }
    Check {
        name: written.name.value.clone(),
        severity: or(&written.severity, Severity::Required),
        pace,
        kind,
    }
}

fn missing(key: &str, example: &str, check: &written::Check, problems: &Problems) {
    let message = format!("check `{}` has no `{key}`", check.name.value);
    let problem = Problem::error("missing-key", check.header.clone(), message);
    problems.add(problem.help(format!("add `{key} = \"{example}\"`")));
}

fn kind_of(check: &written::Check, kind: &written::Kind, problems: &Problems) -> Option<CheckKind> {
    let needs = |is_there: bool, key: &str, example: &str| {
        if !is_there {
            missing(key, example, check, problems);
        }
    };
    let header = &check.header;
    match kind {
        written::Kind::Dns(dns) => {
            needs(dns.has_server, "server", "10.0.0.10");
            needs(dns.has_name, "name", "example.com");
            remote::dns_check(dns, problems).map(|dns| CheckKind::Dns(Box::new(dns)))
        }
        written::Kind::Exec(exec) => {
            needs(exec.has_command, "command", "/usr/lib/nagios/plugins/check_ntp");
            local::exec_check(exec).map(CheckKind::Exec)
        }
        written::Kind::File(file) => {
            needs(file.has_path, "path", "/run/app/ready");
            local::file_check(file, problems).map(CheckKind::File)
        }
        written::Kind::Gauge(gauge) => {
            needs(gauge.has_metric, "metric", "disk_free");
            local::gauge_check(gauge, header, problems).map(CheckKind::Gauge)
        }
        written::Kind::Grpc(grpc) => {
            needs(grpc.address.is_written, "address", "127.0.0.1:50051");
            remote::grpc_check(grpc, problems).map(|grpc| CheckKind::Grpc(Box::new(grpc)))
        }
        written::Kind::Http(http) => {
            needs(http.has_url, "url", "http://127.0.0.1:3000/healthz");
            http::http_check(http, problems).map(|http| CheckKind::Http(Box::new(http)))
        }
        written::Kind::Redis(redis) => {
            needs(redis.address.is_written, "address", "127.0.0.1:6379");
            remote::redis_check(redis, problems).map(|redis| CheckKind::Redis(Box::new(redis)))
        }
        written::Kind::Tcp(tcp) => {
            needs(tcp.address.is_written, "address", "127.0.0.1:5432");
            remote::tcp_check(tcp, problems).map(CheckKind::Tcp)
        }
        written::Kind::Tls(tls) => {
            needs(tls.address.is_written, "address", "queue.internal:8883");
            remote::tls_check(tls, problems).map(|tls| CheckKind::Tls(Box::new(tls)))
        }
        written::Kind::Ttl { has_ttl, ttl } => {
            needs(*has_ttl, "ttl", "30s");
            ttl.as_ref().map(|ttl| CheckKind::Ttl(ttl.value))
        }
    }
}
