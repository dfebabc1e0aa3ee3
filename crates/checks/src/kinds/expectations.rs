//! Evaluates an HTTP response and its latency by the expectations of an `http` check. Other kinds
//! use the helper functions.

use crate::finding::{Issue, Verdict};
use crate::kinds::lines::shown;
use crate::options::{HttpDegraded, HttpExpect, LatencyRule, Pattern, Payload};
use doorbell_config::{format_duration, is_credential};
use hyper::Version;
use hyper::header::HeaderMap;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::borrow::Cow;
use std::time::Duration;

/// A response, with the part of its content that was read.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// Whether reading stopped at the limit.
    pub(crate) is_cut: bool,
}

/// Evaluates a response. The first rule that applies determines the verdict: an explicitly degraded
/// status, then the failures, then the other causes of a degraded result.
pub(crate) fn evaluate(
    response: &HttpResponse,
    latency: Duration,
    expect: &HttpExpect,
    degraded: &HttpDegraded,
) -> Verdict {
    let HttpResponse { status, body, .. } = response;
    if degraded.status.contains(*status) {
        return Err(Issue::degraded(format!("status {status}")));
    }
    if !expect.status.contains(*status) {
        return Err(Issue::failure(format!("status {status}, expected {}", expect.status)));
    }
    if let Some(version) = expect.http_version
        && response.version != version.as_version()
    {
        let reason = format!("{:?}, expected {:?}", response.version, version.as_version());
        return Err(Issue::failure(reason));
    }
    if let Some(part) = &expect.body_contains
        && !contains(body, part.as_bytes())
    {
        return Err(Issue::failure(format!("the content lacks {part:?}{}", of_what(response))));
    }
    if let Some(pattern) = &expect.body_matches
        && !pattern.matches(&text_of(body))
    {
        let reason = format!("the content does not match {:?}{}", pattern.as_str(), of_what(response));
        return Err(Issue::failure(reason));
    }
    must_not(body, expect)?;
    for (name, pattern) in &expect.headers {
        if !header_matches(response, name, pattern) {
            return Err(Issue::failure(header_differs(response, name, pattern)));
        }
    }
    for (pointer, wanted) in &expect.json {
        let found = value_at(body, pointer);
        if found.as_ref() != Some(wanted) {
            return Err(Issue::failure(differs(response, pointer, wanted, found.as_deref())));
        }
    }
    too_slow(latency, expect.max_latency).map_err(Issue::failure)?;
    if let Some(part) = &degraded.body_contains
        && contains(body, part.as_bytes())
    {
        return Err(Issue::degraded(format!("the content has {part:?}")));
    }
    if let Some(pattern) = &degraded.body_matches
        && pattern.matches(&text_of(body))
    {
        return Err(Issue::degraded(format!("the content matches {:?}", pattern.as_str())));
    }
    if let Some((name, pattern)) =
        degraded.headers.iter().find(|(name, pattern)| header_matches(response, name, pattern))
    {
        return Err(Issue::degraded(format!("{name} matches {:?}", pattern.as_str())));
    }
    for (pointer, issue) in &degraded.json {
        if value_at(body, pointer).as_ref() == Some(issue) {
            return Err(Issue::degraded(format!("{pointer} is {issue:?}")));
        }
    }
    too_slow(latency, degraded.max_latency).map_err(Issue::degraded)
}

fn must_not(body: &[u8], expect: &HttpExpect) -> Verdict {
    if let Some(part) = expect.body_not_contains.as_ref().filter(|part| contains(body, part.as_bytes())) {
        return Err(Issue::failure(format!("the content has {part:?}")));
    }
    match expect.body_not_matches.as_ref().filter(|pattern| pattern.matches(&text_of(body))) {
        Some(pattern) => Err(Issue::failure(format!("the content matches {:?}", pattern.as_str()))),
        None => Ok(()),
    }
}

/// What a response lacks: the wanted bytes or, if it has them, a match of the expression.
pub(crate) fn lacking(payload: &Payload, has_wanted: bool) -> String {
    match &payload.matches {
        Some(pattern) if has_wanted => format!("anything that matches {:?}", pattern.as_str()),
        _ => shown(&payload.contains),
    }
}

/// Whether a response has an expected status but violates a regular expression.
pub(crate) fn fails_pattern(response: &HttpResponse, expect: &HttpExpect) -> bool {
    let body = text_of(&response.body);
    let lacks = expect.body_matches.as_ref().is_some_and(|pattern| !pattern.matches(&body));
    let has = expect.body_not_matches.as_ref().is_some_and(|pattern| pattern.matches(&body));
    let mut headers = expect.headers.iter();
    let differs = headers.any(|(name, pattern)| !header_matches(response, name, pattern));
    expect.status.contains(response.status) && (lacks || has || differs)
}

/// Compares the latency of a run with the limits of its check.
pub(crate) fn in_time(latency: Duration, rule: LatencyRule) -> Verdict {
    too_slow(latency, rule.fails_above).map_err(Issue::failure)?;
    too_slow(latency, rule.degraded_above).map_err(Issue::degraded)
}

/// Returns the reason as an error if the run took longer than `max`.
pub(crate) fn too_slow(latency: Duration, max: Option<Duration>) -> Result<(), String> {
    match max {
        Some(max) if latency > max => {
            let took = format_duration(Duration::from_millis(
                u64::try_from(latency.as_millis()).unwrap_or(u64::MAX),
            ));
            Err(format!("took {took}, above the maximum of {}", format_duration(max)))
        }
        _ => Ok(()),
    }
}

/// Whether `part` occurs in `bytes`; an empty part always does.
pub(crate) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || memchr::memmem::find(bytes, part).is_some()
}

/// Decodes UTF-8; invalid bytes become U+FFFD.
pub(crate) fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Whether a field of this name matches.
fn header_matches(response: &HttpResponse, name: &str, pattern: &Pattern) -> bool {
    response.headers.get_all(name).iter().any(|value| pattern.matches(&text_of(value.as_bytes())))
}

fn header_differs(response: &HttpResponse, name: &str, pattern: &Pattern) -> String {
    match response.headers.get(name) {
        Some(_) if is_credential(name) => format!("{name} does not match {:?}", pattern.as_str()),
        // The value is truncated, because the server controls its length.
        Some(value) => {
            format!("{name} is {}, which does not match {:?}", shown(value.as_bytes()), pattern.as_str())
        }
        None => format!("the response has no {name}"),
    }
}

fn of_what(response: &HttpResponse) -> String {
    if response.is_cut { format!(" in its first {} bytes", response.body.len()) } else { String::new() }
}

fn differs(response: &HttpResponse, pointer: &str, wanted: &str, found: Option<&str>) -> String {
    match found {
        Some(found) => format!("{pointer} is {found:?}, expected {wanted:?}"),
        None if serde_json::from_slice::<IgnoredAny>(&response.body).is_err() => {
            format!("the content is not JSON{}, expected {wanted:?} at {pointer}", of_what(response))
        }
        None => format!("the content has no {pointer}, expected {wanted:?}"),
    }
}

/// The value at a JSON pointer as text: the contents of a string, or the JSON of any other value.
fn value_at(body: &[u8], pointer: &str) -> Option<String> {
    let json: Value = serde_json::from_slice(body).ok()?;
    Some(match json.pointer(pointer)? {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{HttpVersion, StatusSet};
    use hyper::header::{HeaderValue, SERVER, SET_COOKIE};

    type Rules = (HttpExpect, HttpDegraded);

    fn rules(change: impl FnOnce(&mut HttpExpect, &mut HttpDegraded)) -> Rules {
        let (mut expect, mut degraded) = Rules::default();
        change(&mut expect, &mut degraded);
        (expect, degraded)
    }

    fn pattern(text: &str) -> Pattern {
        Pattern::new(text).unwrap()
    }

    fn statuses(text: &str) -> StatusSet {
        StatusSet::parse(text).unwrap()
    }

    fn json(pointer: &str, value: &str) -> Vec<(String, String)> {
        vec![(pointer.to_owned(), value.to_owned())]
    }

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn header(name: &str, value: &str) -> Vec<(String, Pattern)> {
        vec![(name.to_owned(), pattern(value))]
    }

    fn ms(ms: u64) -> Option<Duration> {
        Some(Duration::from_millis(ms))
    }

    #[test]
    fn the_first_rule_that_applies_decides() {
        let plain = &rules(|_, _| {});
        let some = &rules(|expect, degraded| {
            expect.status = statuses("200-299,304");
            expect.body_contains = text("up");
            expect.json = json("/a/b", "1");
            expect.max_latency = ms(500);
            degraded.status = statuses("429");
            degraded.body_contains = text("warn");
            degraded.json = json("/mode", "slow");
            degraded.max_latency = ms(200);
        });
        let matched = &rules(|expect, degraded| {
            expect.body_matches = Some(pattern("^v[0-9]+$"));
            expect.headers = header("server", "^app/1[.]");
            degraded.body_matches = Some(pattern("9$"));
            degraded.headers = header("server", "beta");
        });
        let none = &rules(|expect, _| {
            expect.body_not_contains = text("error");
            expect.body_not_matches = Some(pattern("[0-9]{3} failed"));
        });
        let web = &rules(|expect, _| expect.headers = header("server", "^web"));
        let state = &rules(|expect, _| expect.headers = header("x-state", "."));
        let new = &rules(|expect, _| expect.http_version = Some(HttpVersion::Http11));
        let old = &rules(|expect, _| expect.http_version = Some(HttpVersion::Http10));
        let other = &rules(|expect, _| expect.status = statuses("200, 3xx"));
        let beta = &rules(|_, degraded| degraded.headers = header("server", "1.2"));
        let good = r#"{"up": true, "a": {"b": 1}}"#;
        for (rules, status, body, ms, expected) in [
            (plain, 200, "", 0, "ok"),
            (plain, 299, "anything", 9_000, "ok"),
            (plain, 302, "", 0, "failure: status 302, expected 200-299"),
            (some, 200, good, 100, "ok"),
            (some, 304, good, 200, "ok"),
            (some, 429, "", 9_000, "degraded: status 429"),
            (some, 503, good, 0, "failure: status 503, expected 200-299, 304"),
            (some, 200, r#"{"a": {"b": 1}}"#, 0, "failure: the content lacks \"up\""),
            (some, 200, "up", 0, "failure: the content is not JSON, expected \"1\" at /a/b"),
            (some, 200, "\"up\"", 0, "failure: the content has no /a/b, expected \"1\""),
            (some, 200, r#"{"up": 1, "a": {"b": "2"}}"#, 0, "failure: /a/b is \"2\", expected \"1\""),
            (some, 200, good, 501, "failure: took 501ms, above the maximum of 500ms"),
            (some, 200, good, 201, "degraded: took 201ms, above the maximum of 200ms"),
            (some, 200, r#"{"up": "warn", "a": {"b": "1"}}"#, 201, "degraded: the content has \"warn\""),
            (some, 200, r#"{"up": "", "a": {"b": 1}, "mode": "slow"}"#, 0, "degraded: /mode is \"slow\""),
            (matched, 200, "v12", 0, "ok"),
            (matched, 200, "v12 ", 0, "failure: the content does not match \"^v[0-9]+$\""),
            (matched, 200, "v19", 0, "degraded: the content matches \"9$\""),
            (web, 200, "", 0, "failure: server is \"app/1.2\", which does not match \"^web\""),
            (state, 200, "", 0, "failure: the response has no x-state"),
            (none, 200, "12 failed", 0, "ok"),
            (none, 200, "no error", 0, "failure: the content has \"error\""),
            (none, 200, "123 failed", 0, "failure: the content matches \"[0-9]{3} failed\""),
            (none, 503, "error", 0, "failure: status 503, expected 200-299"),
            (new, 200, "", 0, "ok"),
            (old, 200, "old", 0, "ok"),
            (new, 200, "old", 0, "failure: HTTP/1.0, expected HTTP/1.1"),
            (other, 204, "", 0, "failure: status 204, expected 200, 300-399"),
            (beta, 200, "", 0, "degraded: server matches \"1.2\""),
        ] {
            let headers = HeaderMap::from_iter([(SERVER, HeaderValue::from_static("app/1.2"))]);
            let version = if body == "old" { Version::HTTP_10 } else { Version::HTTP_11 };
            let response = HttpResponse { status, version, headers, body: body.into(), is_cut: false };
            let verdict = evaluate(&response, Duration::from_millis(ms), &rules.0, &rules.1);
            let found = match verdict {
                Ok(()) => "ok".to_owned(),
                Err(issue) => format!("{}: {}", issue.outcome.as_str(), issue.reason),
            };
            assert_eq!(found, expected, "{rules:?} {status} {body} {ms}");
        }
    }

    #[test]
    fn a_credential_in_an_answer_is_in_no_reason() {
        let rules = rules(|expect, _| expect.headers = header("set-cookie", "^sid="));
        let headers = HeaderMap::from_iter([(SET_COOKIE, HeaderValue::from_static("id=hunter2"))]);
        let response =
            HttpResponse { status: 200, version: Version::HTTP_11, headers, body: Vec::new(), is_cut: false };
        let verdict = evaluate(&response, Duration::ZERO, &rules.0, &rules.1);
        assert_eq!(verdict, Err(Issue::failure("set-cookie does not match \"^sid=\"")));
    }

    #[test]
    fn reasons_mention_truncated_content() {
        let rules = rules(|expect, _| expect.body_contains = text("end"));
        let (version, headers) = (Version::HTTP_11, HeaderMap::new());
        let response = HttpResponse { status: 200, version, headers, body: b"begin".to_vec(), is_cut: true };
        let verdict = evaluate(&response, Duration::ZERO, &rules.0, &rules.1);
        assert_eq!(verdict, Err(Issue::failure("the content lacks \"end\" in its first 5 bytes")));
    }
}
