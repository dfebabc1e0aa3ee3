//! Checks of servers that are asked in another way than by HTTP, resolved.
//!
//! Does not know about: HTTP.

use super::super::super::written;
use super::super::or;
use super::parts::{bytes, certificate_rule, check_latencies, resolve_of, tls_of};
use doorbell_checks::options::{DnsCheck, DnsCode, GrpcCheck, GrpcMode, RedisCheck, TcpCheck, TlsCheck};
use doorbell_config::{Problem, Problems};

pub(super) fn grpc_check(written: &written::GrpcAsked, problems: &Problems) -> Option<GrpcCheck> {
    let default = GrpcCheck::new(written.address.place.as_ref()?.value.clone());
    check_latencies(&written.latencies, problems);
    if let (Some(mode), Some(all)) = (&written.mode, &written.resolve.all)
        && mode.value == GrpcMode::Watch
        && all.value
    {
        let problem = Problem::error("contradiction", all.span.clone(), "a watch is one call to one address");
        problems.add(problem.also(mode.span.clone(), "the watch").help("remove one of them"));
    }
    Some(GrpcCheck {
        service: or(&written.service, default.service.clone()),
        mode: or(&written.mode, default.mode),
        traceparent: or(&written.traceparent, default.traceparent),
        tls: written.tls.as_ref().map(|tls| tls_of(tls, problems)),
        max_latency: written.latencies.expect.as_ref().map(|at| at.value),
        degraded_latency: written.latencies.degraded.as_ref().map(|at| at.value),
        resolve: resolve_of(&written.resolve, problems),
        ..default
    })
}

pub(super) fn tcp_check(written: &written::TcpAsked, problems: &Problems) -> Option<TcpCheck> {
    let default = TcpCheck::new(written.address.place.as_ref()?.value.clone());
    check_latencies(&written.latencies, problems);
    Some(TcpCheck {
        send: bytes(&written.send, &written.send_hex, problems),
        contains: bytes(&written.contains, &written.contains_hex, problems),
        matches: written.matches.as_ref().map(|at| at.value.clone()),
        max_latency: written.latencies.expect.as_ref().map(|at| at.value),
        degraded_latency: written.latencies.degraded.as_ref().map(|at| at.value),
        resolve: resolve_of(&written.resolve, problems),
        ..default
    })
}

pub(super) fn tls_check(written: &written::TlsAsked, problems: &Problems) -> Option<TlsCheck> {
    let default = TlsCheck::new(written.address.place.as_ref()?.value.clone());
    check_latencies(&written.latencies, problems);
    Some(TlsCheck {
        tls: written.tls.as_ref().map(|tls| tls_of(tls, problems)).unwrap_or_default(),
        certificate: certificate_rule(&written.certificate, problems),
        max_latency: written.latencies.expect.as_ref().map(|at| at.value),
        degraded_latency: written.latencies.degraded.as_ref().map(|at| at.value),
        resolve: resolve_of(&written.resolve, problems),
        ..default
    })
}

pub(super) fn redis_check(written: &written::RedisAsked, problems: &Problems) -> Option<RedisCheck> {
    let default = RedisCheck::new(written.address.place.as_ref()?.value.clone());
    check_latencies(&written.latencies, problems);
    if let (Some(username), false) = (&written.username, written.has_password) {
        let problem = Problem::error("missing-key", username.span.clone(), "a name without a password");
        problems.add(problem.help("add `password = \"${file:/run/secrets/redis}\"`"));
    }
    Some(RedisCheck {
        username: written.username.as_ref().map(|at| at.value.clone()),
        password: written.password.as_ref().map(|at| at.value.clone()),
        tls: written.tls.as_ref().map(|tls| tls_of(tls, problems)),
        reply: or(&written.reply, default.reply.clone()),
        maintenance_key: written.maintenance_key.as_ref().map(|at| at.value.clone()),
        max_latency: written.latencies.expect.as_ref().map(|at| at.value),
        degraded_latency: written.latencies.degraded.as_ref().map(|at| at.value),
        resolve: resolve_of(&written.resolve, problems),
        ..default
    })
}

pub(super) fn dns_check(written: &written::DnsAsked, problems: &Problems) -> Option<DnsCheck> {
    let (server, name) = (written.server.as_ref()?, written.name.as_ref()?);
    if !is_name(&name.value) {
        let message = format!("{:?} is not a name that can be asked for", name.value);
        let problem = Problem::error("bad-value", name.span.clone(), message);
        problems.add(problem.help("write it in ASCII, as in \"example.com\" or \"10.2.0.192.in-addr.arpa\""));
        return None;
    }
    let default = DnsCheck::new(server.value.clone(), name.value.clone());
    check_latencies(&written.latencies, problems);
    let code = or(&written.code, default.code);
    let answers = if code == DnsCode::NoError { default.min_answers } else { 0 };
    let dns = DnsCheck {
        record: or(&written.record, default.record),
        code,
        contains: written.contains.iter().map(|at| at.value.clone()).collect(),
        min_answers: or(&written.min_answers, answers),
        max_latency: written.latencies.expect.as_ref().map(|at| at.value),
        degraded_latency: written.latencies.degraded.as_ref().map(|at| at.value),
        resolve: resolve_of(&written.resolve, problems),
        ..default
    };
    for at in written.contains.iter().filter(|at| !dns.can_contain(&at.value)) {
        let message = format!("{:?} can be no such record", at.value);
        let problem = Problem::error("bad-value", at.span.clone(), message);
        problems.add(problem.help("an A record is an IPv4 address, an AAAA record an IPv6 address"));
    }
    let wants_answers = written.contains.first().map(|at| &at.span);
    let wants_answers = wants_answers.or_else(|| written.min_answers.as_ref().map(|at| &at.span));
    if let (Some(span), true) = (wants_answers, dns.code != DnsCode::NoError) {
        let problem = Problem::error("contradiction", span.clone(), "an error comes without answers");
        problems.add(problem.help("remove it, or `code`"));
    }
    Some(dns)
}

/// RFC 1035 2.3.4, and the underscores of RFC 2782.
fn is_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_*".contains(&byte))
    };
    name.is_empty() || (name.len() <= 253 && name.split('.').all(is_label))
}
