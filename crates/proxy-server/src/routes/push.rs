//! Push routes: accept the results of checks from the application.

use super::fixed::{Fixed, with_headers};
use crate::guards::browser::{is_cross_site, is_own_host};
use doorbell::http::router::Params;
use doorbell::http::{Replied, Request, Responder, StaticReply, Status};
use doorbell_checks::options::CheckKind;
use doorbell_checks::{Finding, Push, PushRefused};
use doorbell_health::Outcome;
use doorbell_proxy_config::model::Config;
use doorbell_proxy_config::parse_duration;
use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

/// Maximum length of a note in bytes; the limit for stored notes is lower.
const NOTE_LEN_MAX: usize = 1024;

/// Accepts results for the checks of type `ttl`.
#[derive(Debug)]
pub(super) struct PushHandler {
    push: Push,
    /// Positions of the checks, by name.
    checks: HashMap<Box<[u8]>, usize>,
    accepted: StaticReply,
    busy: StaticReply,
    bad_result: StaticReply,
    bad_latency: StaticReply,
    cross_site: StaticReply,
    /// Whether the route is limited to named hosts.
    has_hosts: bool,
}

impl PushHandler {
    /// Builds the route; `None` if its header fields cannot be sent.
    pub(super) fn build(
        push: Push,
        config: &Config,
        has_hosts: bool,
        headers: &[(String, String)],
    ) -> Option<Self> {
        let pushed = config.checks.iter().enumerate();
        let pushed = pushed.filter(|(_, check)| matches!(check.kind, CheckKind::Ttl(_)));
        let text = |status, text: &'static str| with_headers(StaticReply::text(status, text), headers);
        Some(Self {
            push,
            checks: pushed.map(|(position, check)| (check.name.as_bytes().into(), position)).collect(),
            accepted: with_headers(StaticReply::new(Status::NO_CONTENT), headers)?,
            busy: text(Status::SERVICE_UNAVAILABLE, "too many results at once\n")?,
            bad_result: text(Status::BAD_REQUEST, "a result is pass, warn, fail or maintenance\n")?,
            bad_latency: text(
                Status::BAD_REQUEST,
                "a latency is a number of seconds or a duration, as in 2 or 250ms\n",
            )?,
            cross_site: text(Status::FORBIDDEN, "a page of another site may not push results\n")?,
            has_hosts,
        })
    }

    pub(super) fn send<'a>(
        &self,
        params: &Params<'_, '_>,
        request: &Request<'_>,
        fixed: &Fixed,
        reply: Responder<'a>,
    ) -> Replied<'a> {
        let is_own = |host: &[u8]| self.has_hosts || is_own_host(host, &[]);
        let host = request.host_bytes().unwrap_or_default();
        if is_cross_site(|name| request.header(name), host, is_own) {
            return reply.send(&self.cross_site);
        }
        let value = |name| params.value(name).unwrap_or_default();
        let Some(&check) = self.checks.get(value("check")) else { return reply.send(&fixed.not_found) };
        let outcome = match value("result") {
            b"fail" => Outcome::Failure,
            b"maintenance" => Outcome::Maintenance,
            b"pass" => Outcome::Success,
            b"warn" => Outcome::Degraded,
            _ => return reply.send(&self.bad_result),
        };
        let query = request.query_bytes().unwrap_or_default();
        let Some(latency) = latency_of(query) else { return reply.send(&self.bad_latency) };
        let finding = Finding { outcome, latency, reason: note_of(query) };
        reply.send(match self.push.leave(check, finding) {
            Ok(()) => &self.accepted,
            Err(PushRefused::Full) => &self.busy,
            Err(PushRefused::NoCheck) => &fixed.not_found,
        })
    }
}

/// Returns the decoded value of a parameter of a query; empty without the parameter.
fn value_of<'q>(query: &'q [u8], name: &str) -> Cow<'q, str> {
    let value = form_urlencoded::parse(query).find(|(found, _)| found == name);
    value.map(|(_, value)| value).unwrap_or_default()
}

/// Returns `latency` in a query, which is the time that the run took: zero without `latency`,
/// `None` if the value is not a duration. A number without a unit is in seconds, as on the admin
/// address.
fn latency_of(query: &[u8]) -> Option<Duration> {
    match &*value_of(query, "latency") {
        "" => Some(Duration::ZERO),
        text => parse_duration(text).or_else(|| text.parse().ok().map(Duration::from_secs)),
    }
}

/// Returns `note` in a query.
fn note_of(query: &[u8]) -> String {
    let mut note = value_of(query, "note").into_owned();
    note.truncate(note.floor_char_boundary(NOTE_LEN_MAX));
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies() {
        for (query, expected) in [
            ("", Some(0)),
            ("latency=", Some(0)),
            ("note=x&latency=250ms", Some(250_000)),
            ("latency=1m2s&latency=3s", Some(62_000_000)),
            ("my_latency=3s", Some(0)),
            ("latency=3", Some(3_000_000)),
            ("latency=-1s", None),
            ("latency=%32s", Some(2_000_000)),
            ("latency=\u{e9}", None),
        ] {
            let expected = expected.map(Duration::from_micros);
            assert_eq!(latency_of(query.as_bytes()), expected, "{query:?}");
        }
    }

    #[test]
    fn notes() {
        for (query, expected) in [
            ("", ""),
            ("note=", ""),
            ("note=queue+is%20full", "queue is full"),
            ("a=1&note=x%2By&note=z", "x+y"),
            ("note=%c3%A9%", "\u{e9}%"),
            ("note=%zz%4", "%zz%4"),
            ("note=%ff", "\u{fffd}"),
            ("notes=x", ""),
        ] {
            assert_eq!(note_of(query.as_bytes()), expected, "{query:?}");
        }
        assert_eq!(note_of(format!("note={}", "x".repeat(9999)).as_bytes()).len(), NOTE_LEN_MAX);
    }
}
