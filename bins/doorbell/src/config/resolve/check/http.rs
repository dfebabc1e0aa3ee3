//! `type = "http"` resolved.
//!
//! Does not know about: other kinds of checks.

use super::super::super::model::Secret;
use super::super::super::written::{self, Latencies};
use super::super::action::check_fields;
use super::super::or;
use super::parts::{certificate_rule, check_latencies, resolve_of, tls_of};
use crate::http::Method;
use doorbell_checks::options::{FieldValue, HttpCheck, HttpDegraded, HttpExpect, Pattern};
use doorbell_config::{At, Problem, Problems};
use std::ops::Range;

/// Fields that every request has anyway, or that would break it.
const OWN_FIELDS: [&str; 4] = ["connection", "content-length", "transfer-encoding", "upgrade"];

pub(super) fn http_check(written: &written::HttpAsked, problems: &Problems) -> Option<HttpCheck> {
    let fields = written.headers.iter().map(|(name, At { value, span })| (name, value.reveal(), span));
    check_fields(fields, &OWN_FIELDS, problems);
    if let Some(bearer) = &written.bearer {
        check_bearer(bearer, &written.headers, problems);
    }
    let basic = written.basic.as_ref().and_then(|basic| basic_of(basic, written, problems));
    let url = written.url.as_ref()?;
    let default = HttpCheck::new(url.value.clone());
    if let (Some(tls), false) = (&written.tls, url.value.is_https) {
        let problem = Problem::warning("no-effect", tls.span.clone(), "`tls` has no effect on an `http` URL");
        problems.add(problem.also(url.span.clone(), "not https").help("write \"https://\", or remove `tls`"));
    }
    let text = |at: &Option<At<String>>| at.as_ref().map(|at| at.value.clone());
    let json = |pairs: &[(At<String>, At<String>)]| {
        pairs.iter().map(|(pointer, value)| (pointer.value.clone(), value.value.clone())).collect()
    };
    check_body(written, problems);
    let (expect, degraded) = (&written.expect, &written.degraded);
    let latencies = Latencies { expect: expect.max_latency.clone(), degraded: degraded.max_latency.clone() };
    check_latencies(&latencies, problems);
    let certificate = certificate_rule(&written.certificate, problems);
    if let (false, Some(at)) = (
        url.value.is_https,
        written.certificate.expires_after.as_ref().or(written.certificate.expires_within.as_ref()),
    ) {
        let problem = Problem::error("contradiction", at.span.clone(), "an `http` URL has no certificate");
        problems.add(problem.also(url.span.clone(), "not https").help("write \"https://\", or remove it"));
    }
    Some(HttpCheck {
        address: written.address.place.as_ref().map(|at| at.value.clone()),
        method: written.method.as_ref().map_or(default.method, |at| as_hyper(at.value)),
        body: text(&written.body).unwrap_or_default(),
        traceparent: or(&written.traceparent, default.traceparent),
        headers: written
            .headers
            .iter()
            .map(|(name, value)| (name.value.clone(), value.value.clone()))
            .collect(),
        basic,
        bearer: written.bearer.as_ref().map(|at| at.value.clone()),
        follow_redirects: or(&written.follow_redirects, default.follow_redirects),
        body_bytes: or(&written.body_bytes, default.body_bytes),
        tls: written.tls.as_ref().map(|tls| tls_of(tls, problems)).unwrap_or_default(),
        resolve: resolve_of(&written.resolve, problems),
        expect: HttpExpect {
            status: or(&expect.status, default.expect.status.clone()),
            http_version: written.http_version.as_ref().map(|at| at.value),
            body_contains: text(&expect.body_contains),
            body_matches: expect.body_matches.as_ref().map(|at| at.value.clone()),
            body_not_contains: text(&written.not.contains),
            body_not_matches: written.not.matches.as_ref().map(|at| at.value.clone()),
            headers: patterns(&expect.headers),
            json: json(&expect.json),
            max_latency: expect.max_latency.as_ref().map(|at| at.value),
        },
        degraded: HttpDegraded {
            status: or(&degraded.status, default.degraded.status.clone()),
            body_contains: text(&degraded.body_contains),
            body_matches: degraded.body_matches.as_ref().map(|at| at.value.clone()),
            headers: patterns(&degraded.headers),
            json: json(&degraded.json),
            max_latency: degraded.max_latency.as_ref().map(|at| at.value),
        },
        certificate,
        ..default
    })
}

fn patterns(pairs: &[(At<String>, At<Pattern>)]) -> Vec<(String, Pattern)> {
    pairs.iter().map(|(name, pattern)| (name.value.to_ascii_lowercase(), pattern.value.clone())).collect()
}

fn basic_of(
    basic: &written::Basic,
    written: &written::HttpAsked,
    problems: &Problems,
) -> Option<(String, Secret)> {
    if !basic.has_both {
        let problem =
            Problem::error("missing-key", basic.span.clone(), "a name without a password, or neither");
        problems.add(
            problem.help("write `basic = { username = \"NAME\", password = \"${file:/run/secrets/NAME}\" }`"),
        );
    }
    let (username, password) = (basic.username.as_ref()?, basic.password.as_ref()?);
    // RFC 7617 2
    if username.value.contains(':') || username.value.bytes().any(|byte| byte.is_ascii_control()) {
        let problem = Problem::error("bad-value", username.span.clone(), "a name with `:` cannot be sent");
        problems.add(problem.help("write it without `:`, which stands between name and password"));
    }
    if let Some(bearer) = &written.bearer {
        let problem =
            Problem::error("contradiction", bearer.span.clone(), "`Authorization` is written twice");
        problems.add(problem.also(basic.span.clone(), "as `basic`").help("remove one of them"));
    }
    find_field(&written.headers, &basic.span, "as `basic`", problems);
    Some((username.value.clone(), password.value.clone()))
}

/// Every method that the engine knows is a token.
fn as_hyper(method: Method) -> hyper::Method {
    hyper::Method::from_bytes(method.as_str().as_bytes()).unwrap_or_default()
}

/// RFC 9110 9.3: content in the request means nothing to these methods, and some servers refuse it.
fn check_body(written: &written::HttpAsked, problems: &Problems) {
    let method = written.method.as_ref().map_or(Method::Get, |at| at.value);
    if let (Some(body), Method::Get | Method::Head | Method::Trace) = (&written.body, method) {
        let message = format!("{method} has no content");
        let mut problem = Problem::error("contradiction", body.span.clone(), message);
        if let Some(at) = &written.method {
            problem = problem.also(at.span.clone(), "the method");
        }
        problems.add(problem.help("add `method = \"POST\"`, or remove `body`"));
    }
}

/// What is wrong with a token is said without showing it.
fn check_bearer(bearer: &At<Secret>, headers: &[(At<String>, At<FieldValue>)], problems: &Problems) {
    let text = bearer.value.reveal();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let problem = Problem::error("bad-token", bearer.span.clone(), "this cannot be sent as a token");
        problems.add(problem.help("a token has letters, digits and signs, no spaces and no line breaks"));
    }
    find_field(headers, &bearer.span, "as `bearer`", problems);
}

fn find_field(
    headers: &[(At<String>, At<FieldValue>)],
    other: &Range<usize>,
    what: &str,
    problems: &Problems,
) {
    let is_other = |name: &At<String>| name.value.eq_ignore_ascii_case("authorization");
    if let Some((name, _)) = headers.iter().find(|(name, _)| is_other(name)) {
        let problem = Problem::error("contradiction", name.span.clone(), "`Authorization` is written twice");
        problems.add(problem.also(other.clone(), what).help("remove one of them"));
    }
}
