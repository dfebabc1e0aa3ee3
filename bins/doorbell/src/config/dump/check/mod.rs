//! `[check.NAME]` as it is written in a file.
//!
//! Does not know about: `[check_defaults]`; each check has what follows for it.

mod kinds;

use super::super::written::{INITIALS, SEVERITIES};
use super::name_of;
use doorbell_checks::options::{
    Check, CheckKind, DnsCheck, EgressOptions, ExecCheck, FileCheck, GaugeCheck, GrpcCheck, GrpcMode,
    HttpCheck, Pace, RedisCheck, TcpCheck, TlsCheck,
};
use doorbell_config::format_duration;
use doorbell_egress::{PortChoice, Strategy};
use doorbell_health::Severity;
use serde_json::{Value, json};

/// A check, and what it would be with nothing but its type, its interval and what it looks at. What must be written has no default.
pub(super) fn check_values(check: &Check) -> (Value, Value) {
    let default = Check {
        name: String::new(),
        severity: Severity::Required,
        pace: match check.kind {
            CheckKind::Ttl(ttl) => Pace::pushed(ttl),
            CheckKind::Grpc(ref grpc) if grpc.mode == GrpcMode::Watch => {
                Pace { rise: 1, fall: 1, ..derived(&check.pace) }
            }
            _ => derived(&check.pace),
        },
        kind: default_kind(&check.kind),
    };
    let mut default = check_value(&default);
    for key in [
        "type",
        "url",
        "address",
        "path",
        "ttl",
        "server",
        "name",
        "command",
        "metric",
        "down_above",
        "down_below",
    ] {
        default[key] = Value::Null;
    }
    if check.pace.interval != Pace::default().interval
        || (check.pace.cache.is_some() && check.pace.is_scheduled)
    {
        default["interval"] = Value::Null;
    }
    (check_value(check), default)
}

/// What follows from the times that others follow from.
fn derived(pace: &Pace) -> Pace {
    let every = Pace::every(pace.interval);
    let own = Pace {
        fast_interval: pace.fast_interval,
        down_interval: pace.down_interval,
        cache: pace.cache,
        is_scheduled: pace.is_scheduled,
        ..every
    };
    Pace {
        timeout: every.timeout.min(pace.interval),
        connect_timeout: pace.timeout,
        max_age: own.default_max_age(),
        ..every
    }
}

/// `[check_defaults]`, of which only this belongs to no check.
pub(super) fn defaults_value(egress: &EgressOptions) -> Value {
    let sources: Vec<String> = egress.sources.iter().map(ToString::to_string).collect();
    let ports = match egress.ports {
        PortChoice::Only(Strategy::Window(width)) => json!(width.get()),
        PortChoice::Only(Strategy::Kernel) => json!("off"),
        other @ (PortChoice::Auto | PortChoice::Only(_)) => json!(other.to_string()),
    };
    json!({ "egress": { "source": sources, "port_window": ports } })
}

fn default_kind(kind: &CheckKind) -> CheckKind {
    match kind {
        CheckKind::Dns(dns) => {
            let default = DnsCheck::new(dns.server.clone(), dns.name.clone());
            CheckKind::Dns(Box::new(default))
        }
        CheckKind::Exec(exec) => CheckKind::Exec(ExecCheck { degraded_exit_code: None, ..exec.clone() }),
        CheckKind::File(file) => CheckKind::File(FileCheck::new(file.path.clone())),
        CheckKind::Gauge(gauge) => {
            CheckKind::Gauge(GaugeCheck { up: gauge.down, degraded: None, ..gauge.clone() })
        }
        CheckKind::Grpc(grpc) => CheckKind::Grpc(Box::new(GrpcCheck::new(grpc.address.clone()))),
        CheckKind::Http(http) => CheckKind::Http(Box::new(HttpCheck::new(http.url.clone()))),
        CheckKind::Redis(redis) => CheckKind::Redis(Box::new(RedisCheck::new(redis.address.clone()))),
        CheckKind::Tcp(tcp) => CheckKind::Tcp(TcpCheck::new(tcp.address.clone())),
        CheckKind::Tls(tls) => CheckKind::Tls(Box::new(TlsCheck::new(tls.address.clone()))),
        CheckKind::Ttl(ttl) => CheckKind::Ttl(*ttl),
    }
}

fn check_value(check: &Check) -> Value {
    let pace = &check.pace;
    let is_ttl = matches!(check.kind, CheckKind::Ttl(_));
    let mut value = json!({
        "type": check.kind.word(),
        "severity": name_of(&SEVERITIES, check.severity),
        "rise": pace.rise,
        "fall": pace.fall,
        "initial": name_of(&INITIALS, pace.initial),
        "history": pace.history,
    });
    if !is_ttl {
        for (key, time) in [
            ("interval", pace.interval),
            ("fast_interval", pace.fast_interval),
            ("down_interval", pace.down_interval),
            ("timeout", pace.timeout),
            ("connect_timeout", pace.connect_timeout),
            ("max_age", pace.max_age),
        ] {
            value[key] = json!(format_duration(time));
        }
        if let (false, Some(table)) = (pace.is_scheduled, value.as_object_mut()) {
            // With it the check would run by itself.
            table.remove("interval");
        }
        value["jitter"] = json!(pace.jitter);
    }
    value["flap"] = match &pace.flap {
        None => json!("off"),
        Some(rule) => json!({
            "window": format_duration(rule.window),
            "max_transitions": rule.transitions_max,
            "hold": format_duration(rule.hold),
        }),
    };
    if let Some(cache) = pace.cache {
        value["cache"] = json!(format_duration(cache));
    }
    kinds::add(&mut value, &check.kind);
    value
}
