//! What each kind of check has beside its pace, as it is written in a file.
//!
//! Does not know about: defaults.

use super::super::super::model::Secret;
use super::super::super::written::{CODES, GRPC_MODES, HTTP_VERSIONS, METRICS, PREFERS, RECORDS, REDIRECTS};
use super::super::{literal, name_of, path_text, text};
use doorbell_checks::options::{
    BadIs, CertificateRule, CheckKind, ClientTls, DnsCheck, FieldValue, FileCheck, GaugeCheck, GrpcCheck,
    HttpCheck, Pattern, RedisCheck, Resolve, StatusSet, TcpCheck, TlsCheck,
};
use doorbell_config::{format_duration, format_size};
use serde_json::{Map, Value, json};
use std::time::Duration;

pub(super) fn add(value: &mut Value, kind: &CheckKind) {
    match kind {
        CheckKind::Dns(dns) => add_dns(value, dns),
        CheckKind::Exec(exec) => {
            value["command"] = literal(&exec.command);
            if let Some(code) = exec.degraded_exit_code {
                value["degraded"] = json!({ "exit_code": code });
            }
        }
        CheckKind::File(file) => add_file(value, file),
        CheckKind::Gauge(gauge) => add_gauge(value, gauge),
        CheckKind::Grpc(grpc) => add_grpc(value, grpc),
        CheckKind::Http(http) => add_http(value, http),
        CheckKind::Redis(redis) => add_redis(value, redis),
        CheckKind::Tcp(tcp) => add_tcp(value, tcp),
        CheckKind::Tls(tls) => add_tls(value, tls),
        CheckKind::Ttl(ttl) => value["ttl"] = json!(format_duration(*ttl)),
    }
}

fn add_dns(value: &mut Value, dns: &DnsCheck) {
    value["server"] = text(&dns.server.to_string());
    value["name"] = text(&dns.name);
    value["record"] = json!(name_of(&RECORDS, dns.record));
    value["resolve"] = resolve_value(dns.resolve);
    let mut expect = json!({ "code": name_of(&CODES, dns.code) });
    if dns.min_answers != u32::from(dns.code == Default::default()) {
        expect["min_answers"] = json!(dns.min_answers);
    }
    if !dns.contains.is_empty() {
        expect["contains"] = literal(&dns.contains);
    }
    value["expect"] = expect;
    add_latencies(value, dns.max_latency, dns.degraded_latency);
}

fn add_file(value: &mut Value, file: &FileCheck) {
    value["path"] = path_text(&file.path);
    value["expect"] = json!({ "exists": file.exists });
    if let Some(part) = &file.contains {
        value["expect"]["contains"] = text(part);
    }
    add_time(&mut value["expect"], "max_age", file.max_age);
}

fn add_gauge(value: &mut Value, gauge: &GaugeCheck) {
    value["metric"] = json!(name_of(&METRICS, gauge.metric));
    if !gauge.path.as_os_str().is_empty() {
        value["path"] = path_text(&gauge.path);
    }
    let [down, up, degraded] = match gauge.bad_is {
        BadIs::Above => ["down_above", "up_below", "degraded_above"],
        BadIs::Below => ["down_below", "up_above", "degraded_below"],
    };
    value[down] = json!(gauge.down.text(gauge.metric));
    value[up] = json!(gauge.up.text(gauge.metric));
    if let Some(level) = gauge.degraded {
        value[degraded] = json!(level.text(gauge.metric));
    }
}

fn add_grpc(value: &mut Value, grpc: &GrpcCheck) {
    value["address"] = text(&grpc.address.to_string());
    value["service"] = text(&grpc.service);
    value["mode"] = json!(name_of(&GRPC_MODES, grpc.mode));
    value["traceparent"] = json!(grpc.traceparent);
    value["resolve"] = resolve_value(grpc.resolve);
    if let Some(tls) = &grpc.tls {
        value["tls"] = tls_value(tls);
    }
    add_latencies(value, grpc.max_latency, grpc.degraded_latency);
}

fn add_http(value: &mut Value, http: &HttpCheck) {
    value["url"] = text(&http.url.to_string());
    value["method"] = json!(http.method.as_str());
    value["follow_redirects"] = json!(name_of(&REDIRECTS, http.follow_redirects));
    value["max_body"] = json!(format_size(http.body_bytes.into()));
    value["resolve"] = resolve_value(http.resolve);
    if let Some(address) = &http.address {
        value["address"] = text(&address.to_string());
    }
    value["traceparent"] = json!(http.traceparent);
    if !http.body.is_empty() {
        value["body"] = text(&http.body);
    }
    if let Some((name, _)) = &http.basic {
        value["basic"] = json!({ "username": text(name), "password": Secret::MASK });
    }
    if http.bearer.is_some() {
        value["bearer"] = json!(Secret::MASK);
    }
    if !http.headers.is_empty() {
        let shown = |value: &FieldValue| match value {
            FieldValue::Open(open) => text(open),
            FieldValue::Secret(_) => json!(Secret::MASK),
        };
        let fields = http.headers.iter().map(|(name, value)| (name.clone(), shown(value)));
        value["headers"] = Value::Object(fields.collect());
    }
    if http.tls != ClientTls::default() {
        value["tls"] = tls_value(&http.tls);
    }
    let (expect, degraded) = (&http.expect, &http.degraded);
    value["expect"] = json!({ "status": expect.status.texts() });
    add_well(&mut value["expect"], &expect.body_contains, &expect.json, expect.max_latency);
    add_patterns(&mut value["expect"], &expect.body_matches, &expect.headers);
    if let Some(part) = &expect.body_not_contains {
        value["expect"]["body_not_contains"] = text(part);
    }
    if let Some(pattern) = &expect.body_not_matches {
        value["expect"]["body_not_matches"] = text(pattern.as_str());
    }
    if let Some(version) = expect.http_version {
        value["expect"]["http_version"] = json!(name_of(&HTTP_VERSIONS, version));
    }
    let mut table = json!({});
    if degraded.status != StatusSet::default() {
        table["status"] = json!(degraded.status.texts());
    }
    add_well(&mut table, &degraded.body_contains, &degraded.json, degraded.max_latency);
    add_patterns(&mut table, &degraded.body_matches, &degraded.headers);
    if table != json!({}) {
        value["degraded"] = table;
    }
    add_certificate(value, &http.certificate);
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

fn add_patterns(table: &mut Value, body: &Option<Pattern>, headers: &[(String, Pattern)]) {
    if let Some(pattern) = body {
        table["body_matches"] = text(pattern.as_str());
    }
    if !headers.is_empty() {
        let headers = headers.iter().map(|(name, pattern)| (name.clone(), text(pattern.as_str())));
        table["headers"] = Value::Object(headers.collect());
    }
}

fn add_redis(value: &mut Value, redis: &RedisCheck) {
    value["address"] = text(&redis.address.to_string());
    value["resolve"] = resolve_value(redis.resolve);
    if let Some(name) = &redis.username {
        value["username"] = text(name);
    }
    if redis.password.is_some() {
        value["password"] = json!(Secret::MASK);
    }
    if let Some(tls) = &redis.tls {
        value["tls"] = tls_value(tls);
    }
    value["expect"] = json!({ "reply": text(&redis.reply) });
    if let Some(key) = &redis.maintenance_key {
        value["expect"]["maintenance_key"] = text(key);
    }
    add_latencies(value, redis.max_latency, redis.degraded_latency);
}

fn add_tcp(value: &mut Value, tcp: &TcpCheck) {
    value["address"] = text(&tcp.address.to_string());
    value["resolve"] = resolve_value(tcp.resolve);
    add_bytes(value, ["send", "send_hex"], &tcp.send);
    let mut expect = json!({});
    add_bytes(&mut expect, ["contains", "hex"], &tcp.contains);
    if let Some(pattern) = &tcp.matches {
        expect["matches"] = text(pattern.as_str());
    }
    add_time(&mut expect, "max_latency", tcp.max_latency);
    if expect != json!({}) {
        value["expect"] = expect;
    }
    if let Some(time) = tcp.degraded_latency {
        value["degraded"] = json!({ "max_latency": format_duration(time) });
    }
}

fn add_tls(value: &mut Value, tls: &TlsCheck) {
    value["address"] = text(&tls.address.to_string());
    value["resolve"] = resolve_value(tls.resolve);
    if tls.tls != ClientTls::default() {
        value["tls"] = tls_value(&tls.tls);
    }
    add_latencies(value, tls.max_latency, tls.degraded_latency);
    add_certificate(value, &tls.certificate);
}

fn add_latencies(value: &mut Value, expect: Option<Duration>, degraded: Option<Duration>) {
    for (key, time) in [("expect", expect), ("degraded", degraded)] {
        if let Some(time) = time {
            value[key]["max_latency"] = json!(format_duration(time));
        }
    }
}

fn add_certificate(value: &mut Value, rule: &CertificateRule) {
    if let Some(time) = rule.expires_after {
        value["expect"]["certificate_expires_after"] = json!(format_duration(time));
    }
    if let Some(time) = rule.expires_within {
        value["degraded"]["certificate_expires_within"] = json!(format_duration(time));
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
    json!({
        "prefer": name_of(&PREFERS, resolve.prefer),
        "fallback": resolve.fallback,
        "all": resolve.all,
        "ttl": format_duration(resolve.ttl),
    })
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
