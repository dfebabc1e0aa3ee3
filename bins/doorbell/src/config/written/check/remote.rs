//! Checks of servers that are asked in another way than by HTTP, as they were written.
//!
//! Does not know about: defaults.

use super::super::super::model::Secret;
use super::http::read_pattern;
use super::parts::{
    Addresses, Certificates, CheckTls, Latencies, Target, read_hex, read_latency, read_server,
};
use doorbell_checks::options::{DnsCode, DnsRecord, GrpcMode, HostPort, Pattern};
use doorbell_config::{At, Section};

pub(crate) const MODES: [(&str, GrpcMode); 2] = [("check", GrpcMode::Check), ("watch", GrpcMode::Watch)];

pub(crate) const RECORDS: [(&str, DnsRecord); 10] = [
    ("A", DnsRecord::A),
    ("AAAA", DnsRecord::Aaaa),
    ("CAA", DnsRecord::Caa),
    ("CNAME", DnsRecord::Cname),
    ("MX", DnsRecord::Mx),
    ("NS", DnsRecord::Ns),
    ("PTR", DnsRecord::Ptr),
    ("SOA", DnsRecord::Soa),
    ("SRV", DnsRecord::Srv),
    ("TXT", DnsRecord::Txt),
];

pub(crate) const CODES: [(&str, DnsCode); 3] =
    [("NOERROR", DnsCode::NoError), ("NXDOMAIN", DnsCode::NxDomain), ("REFUSED", DnsCode::Refused)];

/// As many as fit a message over UDP.
const ANSWERS_MAX: u32 = 64;

#[derive(Debug)]
pub(crate) struct GrpcAsked {
    pub(crate) address: Target,
    pub(crate) service: Option<At<String>>,
    pub(crate) tls: Option<CheckTls>,
    pub(crate) traceparent: Option<At<bool>>,
    pub(crate) mode: Option<At<GrpcMode>>,
    pub(crate) latencies: Latencies,
    pub(crate) resolve: Addresses,
}

#[derive(Debug)]
pub(crate) struct TcpAsked {
    pub(crate) address: Target,
    pub(crate) send: Option<At<String>>,
    pub(crate) send_hex: Option<At<Vec<u8>>>,
    pub(crate) contains: Option<At<String>>,
    pub(crate) contains_hex: Option<At<Vec<u8>>>,
    pub(crate) matches: Option<At<Pattern>>,
    pub(crate) latencies: Latencies,
    pub(crate) resolve: Addresses,
}

#[derive(Debug)]
pub(crate) struct TlsAsked {
    pub(crate) address: Target,
    pub(crate) tls: Option<CheckTls>,
    pub(crate) certificate: Certificates,
    pub(crate) latencies: Latencies,
    pub(crate) resolve: Addresses,
}

#[derive(Debug)]
pub(crate) struct RedisAsked {
    pub(crate) address: Target,
    pub(crate) username: Option<At<String>>,
    /// Whether `password` is written, right or wrong.
    pub(crate) has_password: bool,
    pub(crate) password: Option<At<Secret>>,
    pub(crate) tls: Option<CheckTls>,
    pub(crate) reply: Option<At<String>>,
    pub(crate) maintenance_key: Option<At<String>>,
    pub(crate) latencies: Latencies,
    pub(crate) resolve: Addresses,
}

#[derive(Debug)]
pub(crate) struct DnsAsked {
    pub(crate) has_server: bool,
    pub(crate) server: Option<At<HostPort>>,
    pub(crate) has_name: bool,
    pub(crate) name: Option<At<String>>,
    pub(crate) record: Option<At<DnsRecord>>,
    pub(crate) code: Option<At<DnsCode>>,
    pub(crate) contains: Vec<At<String>>,
    pub(crate) min_answers: Option<At<u32>>,
    pub(crate) latencies: Latencies,
    pub(crate) resolve: Addresses,
}

impl GrpcAsked {
    pub(super) fn read(at: &mut Section<'_>) -> Self {
        Self {
            address: Target::read(at),
            service: at.string("service"),
            mode: at.choice("mode", &MODES),
            traceparent: at.bool("traceparent"),
            tls: at.section("tls").map(CheckTls::read),
            latencies: Latencies::read(at),
            resolve: Addresses::read(at),
        }
    }
}

impl TcpAsked {
    pub(super) fn read(at: &mut Section<'_>) -> Self {
        let mut tcp = Self {
            address: Target::read(at),
            send: at.string("send"),
            send_hex: read_hex(at, "send_hex"),
            contains: None,
            contains_hex: None,
            matches: None,
            latencies: Latencies::default(),
            resolve: Addresses::read(at),
        };
        if let Some(mut expect) = at.section("expect") {
            tcp.contains = expect.string("contains");
            tcp.contains_hex = read_hex(&mut expect, "hex");
            tcp.matches = read_pattern(&mut expect, "matches");
            tcp.latencies.expect = read_latency(&mut expect);
            expect.finish();
        }
        if let Some(mut degraded) = at.section("degraded") {
            tcp.latencies.degraded = read_latency(&mut degraded);
            degraded.finish();
        }
        tcp
    }
}

impl TlsAsked {
    pub(super) fn read(at: &mut Section<'_>) -> Self {
        let mut tls = Self {
            address: Target::read(at),
            tls: at.section("tls").map(CheckTls::read),
            certificate: Certificates::default(),
            latencies: Latencies::default(),
            resolve: Addresses::read(at),
        };
        if let Some(mut expect) = at.section("expect") {
            tls.certificate.read_expect(&mut expect);
            tls.latencies.expect = read_latency(&mut expect);
            expect.finish();
        }
        if let Some(mut degraded) = at.section("degraded") {
            tls.certificate.read_degraded(&mut degraded);
            tls.latencies.degraded = read_latency(&mut degraded);
            degraded.finish();
        }
        tls
    }
}

impl RedisAsked {
    pub(super) fn read(at: &mut Section<'_>) -> Self {
        let mut redis = Self {
            address: Target::read(at),
            username: at.string("username"),
            has_password: at.value("password").is_some(),
            password: at.secret("password"),
            tls: at.section("tls").map(CheckTls::read),
            reply: None,
            maintenance_key: None,
            latencies: Latencies::default(),
            resolve: Addresses::read(at),
        };
        if let Some(mut expect) = at.section("expect") {
            redis.reply = expect.string("reply");
            redis.maintenance_key = expect.string("maintenance_key");
            redis.latencies.expect = read_latency(&mut expect);
            expect.finish();
        }
        if let Some(mut degraded) = at.section("degraded") {
            redis.latencies.degraded = read_latency(&mut degraded);
            degraded.finish();
        }
        redis
    }
}

impl DnsAsked {
    pub(super) fn read(at: &mut Section<'_>) -> Self {
        let mut dns = Self {
            has_server: at.value("server").is_some(),
            server: read_server(at, "server", 53),
            has_name: at.value("name").is_some(),
            name: at.string("name"),
            record: at.choice("record", &RECORDS),
            code: None,
            contains: Vec::new(),
            min_answers: None,
            latencies: Latencies::default(),
            resolve: Addresses::read(at),
        };
        if let Some(mut expect) = at.section("expect") {
            dns.code = expect.choice("code", &CODES);
            dns.contains = expect.strings("contains").map(|texts| texts.value).unwrap_or_default();
            dns.min_answers = expect.integer("min_answers", 0..=ANSWERS_MAX);
            dns.latencies.expect = read_latency(&mut expect);
            expect.finish();
        }
        if let Some(mut degraded) = at.section("degraded") {
            dns.latencies.degraded = read_latency(&mut degraded);
            degraded.finish();
        }
        dns
    }
}
