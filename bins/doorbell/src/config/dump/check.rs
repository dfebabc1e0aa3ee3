//! `[check.NAME]` as it is written in a file.
//!
//! Does not know about: `[check_defaults]`; each check has what follows for it.

use super::super::model::{
    Check, CheckKind, ClientTls, FileCheck, GrpcCheck, HttpCheck, Pace, Resolve, Secret, Severity, TcpCheck,
};
use super::super::statuses::Statuses;
use super::super::units::{format_duration, format_size};
use super::super::written::{INITIALS, PREFERS, REDIRECTS, SEVERITIES};
use super::{name_of, path_text, text};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// A check, and what it would be with nothing but its type, its interval and what it looks at. What must be written has no default.
pub(super) fn check_values(check: &Check) -> (Value, Value) {
    let default = Check {
        name: String::new(),
        severity: Severity::Required,
        pace: match check.kind {
            CheckKind::Ttl(ttl) => Pace::told(ttl),
            CheckKind::File(_) | CheckKind::Grpc(_) | CheckKind::Http(_) | CheckKind::Tcp(_) => {
                derived(&check.pace)
            }
        },
        kind: default_kind(&check.kind),
    };
    let mut default = check_value(&default);
    for key in ["type", "url", "address", "path", "ttl"] {
        default[key] = Value::Null;
    }
    if check.pace.interval != Pace::default().interval {
        default["interval"] = Value::Null;
    }
    (check_value(check), default)
}

/// What follows from the times that others follow from.
fn derived(pace: &Pace) -> Pace {
    let every = Pace::every(pace.interval);
    let own = Pace { fast_interval: pace.fast_interval, down_interval: pace.down_interval, ..every };
    Pace {
        timeout: every.timeout.min(pace.interval),
        connect_timeout: pace.timeout,
        max_age: own.default_max_age(),
        ..every
    }
}

fn default_kind(kind: &CheckKind) -> CheckKind {
    match kind {
        CheckKind::File(file) => CheckKind::File(FileCheck::of(file.path.clone())),
        CheckKind::Grpc(grpc) => CheckKind::Grpc(Box::new(GrpcCheck::of(grpc.address.clone()))),
        CheckKind::Http(http) => CheckKind::Http(Box::new(HttpCheck::of(http.url.clone()))),
        CheckKind::Tcp(tcp) => CheckKind::Tcp(TcpCheck::of(tcp.address.clone())),
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
    match &check.kind {
        CheckKind::File(file) => add_file(&mut value, file),
        CheckKind::Grpc(grpc) => add_grpc(&mut value, grpc),
        CheckKind::Http(http) => add_http(&mut value, http),
        CheckKind::Tcp(tcp) => add_tcp(&mut value, tcp),
        CheckKind::Ttl(ttl) => value["ttl"] = json!(format_duration(*ttl)),
    }
    value
}

fn add_file(value: &mut Value, file: &FileCheck) {
    value["path"] = path_text(&file.path);
    value["expect"] = json!({ "exists": file.exists });
    if let Some(part) = &file.contains {
        value["expect"]["contains"] = text(part);
    }
    add_time(&mut value["expect"], "max_age", file.max_age);
}

fn add_grpc(value: &mut Value, grpc: &GrpcCheck) {
    value["address"] = text(&grpc.address.to_string());
    value["service"] = text(&grpc.service);
    value["resolve"] = resolve_value(grpc.resolve);
    if let Some(tls) = &grpc.tls {
        value["tls"] = tls_value(tls);
    }
    for (key, time) in [("expect", grpc.max_latency), ("degraded", grpc.degraded_latency)] {
        if let Some(time) = time {
            value[key] = json!({ "max_latency": format_duration(time) });
        }
    }
}

fn add_http(value: &mut Value, http: &HttpCheck) {
    value["url"] = text(&http.url.to_string());
    value["method"] = json!(http.method.as_str());
    value["follow_redirects"] = json!(name_of(&REDIRECTS, http.follow_redirects));
    value["max_body"] = json!(format_size(http.body_bytes.into()));
    value["resolve"] = resolve_value(http.resolve);
    if http.bearer.is_some() {
        value["bearer"] = json!(Secret::MASK);
    }
    if !http.headers.is_empty() {
        value["headers"] = pairs(&http.headers);
    }
    if http.tls != ClientTls::default() {
        value["tls"] = tls_value(&http.tls);
    }
    let (expect, degraded) = (&http.expect, &http.degraded);
    value["expect"] = json!({ "status": expect.status.texts() });
    add_well(&mut value["expect"], &expect.body_contains, &expect.json, expect.max_latency);
    let mut table = json!({});
    if degraded.status != Statuses::default() {
        table["status"] = json!(degraded.status.texts());
    }
    add_well(&mut table, &degraded.body_contains, &degraded.json, degraded.max_latency);
    if table != json!({}) {
        value["degraded"] = table;
    }
}

fn add_well(
    table: &mut Value,
    part: &Option<String>,
    json: &[(String, String)],
    max_latency: Option<Duration>,
) {
    if let Some(part) = part {
        table["body_contains"] = text(part);
    }
    if !json.is_empty() {
        table["json"] = pairs(json);
    }
    add_time(table, "max_latency", max_latency);
}

fn add_tcp(value: &mut Value, tcp: &TcpCheck) {
    value["address"] = text(&tcp.address.to_string());
    value["resolve"] = resolve_value(tcp.resolve);
    add_bytes(value, ["send", "send_hex"], &tcp.send);
    let mut expect = json!({});
    add_bytes(&mut expect, ["contains", "hex"], &tcp.contains);
    add_time(&mut expect, "max_latency", tcp.max_latency);
    if expect != json!({}) {
        value["expect"] = expect;
    }
    if let Some(time) = tcp.degraded_latency {
        value["degraded"] = json!({ "max_latency": format_duration(time) });
    }
}

/// As text where it is text.
fn add_bytes(table: &mut Value, [as_text, as_hex]: [&str; 2], bytes: &[u8]) {
    match str::from_utf8(bytes) {
        Ok("") => {}
        Ok(part) => table[as_text] = text(part),
        Err(_) => {
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            table[as_hex] = json!(hex.join(" "));
        }
    }
}

fn add_time(table: &mut Value, key: &str, time: Option<Duration>) {
    if let Some(time) = time {
        table[key] = json!(format_duration(time));
    }
}

fn pairs(pairs: &[(String, String)]) -> Value {
    let pairs: Map<_, _> = pairs.iter().map(|(name, value)| (name.clone(), text(value))).collect();
    Value::Object(pairs)
}

fn resolve_value(resolve: Resolve) -> Value {
    json!({ "prefer": name_of(&PREFERS, resolve.prefer), "ttl": format_duration(resolve.ttl) })
}

fn tls_value(tls: &ClientTls) -> Value {
    let mut value = json!({ "verify": tls.verify });
    if let Some(ca) = &tls.ca {
        value["ca"] = path_text(ca);
    }
    if let Some((cert, key)) = &tls.identity {
        value["cert"] = path_text(cert);
        value["key"] = path_text(key);
    }
    if let Some(name) = &tls.server_name {
        value["server_name"] = text(name);
    }
    value
}
