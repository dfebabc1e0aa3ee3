//! What an answer is worth: the expectations of an `http` check against a status, some content and a time.
//!
//! Does not know about: connections.

use crate::checks::finding::{Complaint, Verdict};
use crate::checks::kinds::lines::shown;
use crate::config::model::{HttpDegraded, HttpExpect, Pattern};
use crate::config::{format_duration, is_credential};
use hyper::Version;
use hyper::header::HeaderMap;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::borrow::Cow;
use std::time::Duration;

/// An answer, as far as it was read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// There was more than is read of any answer.
    pub(crate) is_cut: bool,
}

/// The first rule that applies: a status that is well with a complaint, what is wrong, what else is well with a complaint.
pub(crate) fn judge(
    answer: &Answer,
    latency: Duration,
    expect: &HttpExpect,
    degraded: &HttpDegraded,
) -> Verdict {
    let Answer { status, body, .. } = answer;
    if degraded.status.contains(*status) {
        return Err(Complaint::degraded(format!("status {status}")));
    }
    if !expect.status.contains(*status) {
        return Err(Complaint::failure(format!("status {status}, expected {}", expect.status)));
    }
    if let Some(version) = expect.http_version
        && answer.version != version.as_version()
    {
        let reason = format!("{:?}, expected {:?}", answer.version, version.as_version());
        return Err(Complaint::failure(reason));
    }
    if let Some(part) = &expect.body_contains
        && !contains(body, part.as_bytes())
    {
        return Err(Complaint::failure(format!("the content lacks {part:?}{}", of_what(answer))));
    }
    if let Some(pattern) = &expect.body_matches
        && !pattern.matches(&text_of(body))
    {
        let reason = format!("the content does not match {:?}{}", pattern.as_str(), of_what(answer));
        return Err(Complaint::failure(reason));
    }
    must_not(body, expect)?;
    for (name, pattern) in &expect.headers {
        if !header_matches(answer, name, pattern) {
            return Err(Complaint::failure(header_differs(answer, name, pattern)));
        }
    }
    for (pointer, wanted) in &expect.json {
        let found = value_at(body, pointer);
        if found.as_ref() != Some(wanted) {
            return Err(Complaint::failure(differs(answer, pointer, wanted, found.as_deref())));
        }
    }
    too_slow(latency, expect.max_latency).map_err(Complaint::failure)?;
    if let Some(part) = &degraded.body_contains
        && contains(body, part.as_bytes())
    {
        return Err(Complaint::degraded(format!("the content has {part:?}")));
    }
    if let Some(pattern) = &degraded.body_matches
        && pattern.matches(&text_of(body))
    {
        return Err(Complaint::degraded(format!("the content matches {:?}", pattern.as_str())));
    }
    if let Some((name, pattern)) =
        degraded.headers.iter().find(|(name, pattern)| header_matches(answer, name, pattern))
    {
        return Err(Complaint::degraded(format!("{name} matches {:?}", pattern.as_str())));
    }
    for (pointer, complaint) in &degraded.json {
        if value_at(body, pointer).as_ref() == Some(complaint) {
            return Err(Complaint::degraded(format!("{pointer} is {complaint:?}")));
        }
    }
    too_slow(latency, degraded.max_latency).map_err(Complaint::degraded)
}

fn must_not(body: &[u8], expect: &HttpExpect) -> Verdict {
    if let Some(part) = expect.body_not_contains.as_ref().filter(|part| contains(body, part.as_bytes())) {
        return Err(Complaint::failure(format!("the content has {part:?}")));
    }
    match expect.body_not_matches.as_ref().filter(|pattern| pattern.matches(&text_of(body))) {
        Some(pattern) => Err(Complaint::failure(format!("the content matches {:?}", pattern.as_str()))),
        None => Ok(()),
    }
}

/// The reason when it took longer.
pub(crate) fn too_slow(latency: Duration, max: Option<Duration>) -> Result<(), String> {
    match max {
        Some(max) if latency > max => {
            let took = format_duration(Duration::from_millis(
                u64::try_from(latency.as_millis()).unwrap_or(u64::MAX),
            ));
            Err(format!("took {took}, at most {} is well", format_duration(max)))
        }
        _ => Ok(()),
    }
}

/// Whether some bytes are among others; none always are.
pub(crate) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || memchr::memmem::find(bytes, part).is_some()
}

/// What is not UTF-8 has a sign in its place.
pub(crate) fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Whether one of the fields of this name matches.
fn header_matches(answer: &Answer, name: &str, pattern: &Pattern) -> bool {
    answer.headers.get_all(name).iter().any(|value| pattern.matches(&text_of(value.as_bytes())))
}

fn header_differs(answer: &Answer, name: &str, pattern: &Pattern) -> String {
    match answer.headers.get(name) {
        Some(_) if is_credential(name) => format!("{name} does not match {:?}", pattern.as_str()),
        // A server may send more than is to be read.
        Some(value) => {
            format!("{name} is {}, which does not match {:?}", shown(value.as_bytes()), pattern.as_str())
        }
        None => format!("there is no {name} in the answer"),
    }
}

fn of_what(answer: &Answer) -> String {
    if answer.is_cut { format!(" in its first {} bytes", answer.body.len()) } else { String::new() }
}

fn differs(answer: &Answer, pointer: &str, wanted: &str, found: Option<&str>) -> String {
    match found {
        Some(found) => format!("{pointer} is {found:?}, expected {wanted:?}"),
        None if serde_json::from_slice::<IgnoredAny>(&answer.body).is_err() => {
            format!("the content is no JSON{}, expected {wanted:?} as its {pointer}", of_what(answer))
        }
        None => format!("there is no {pointer} in the content, expected {wanted:?}"),
    }
}

/// The value at a JSON pointer as text: of a string what is in it, of all else how it is written.
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
    use crate::config::model::CheckKind;
    use crate::config::model::HttpCheck;
    use crate::config::{Source, parse};
    use hyper::header::{HeaderValue, SERVER, SET_COOKIE};

    /// The rules as a file would have them.
    fn rules(lines: &str) -> HttpCheck {
        let text = format!("version = 1\n[check.a]\ntype = \"http\"\nurl = \"http://a\"\n{lines}\n");
        let parsed = parse(&Source { name: "f".to_owned(), text }, &|_| None);
        match parsed.config.unwrap_or_else(|| panic!("{:?}", parsed.problems)).checks[0].kind.clone() {
            CheckKind::Http(http) => *http,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_first_rule_that_applies_decides() {
        let some = "expect = { status = [\"200-299\", \"304\"], body_contains = \"up\", json = { \"/a/b\" = \"1\" }, max_latency = \"500ms\" }\n\
                    degraded = { status = \"429\", body_contains = \"warn\", json = { \"/mode\" = \"slow\" }, max_latency = \"200ms\" }";
        let matched = "expect = { body_matches = '^v[0-9]+$', headers = { Server = '^app/1[.]' } }\n\
                       degraded = { body_matches = '9$', headers = { server = 'beta' } }";
        let none = "expect = { body_not_contains = \"error\", body_not_matches = '[0-9]{3} failed' }";
        let good = r#"{"up": true, "a": {"b": 1}}"#;
        for (lines, status, body, ms, expected) in [
            ("", 200, "", 0, "ok"),
            ("", 299, "anything", 9_000, "ok"),
            ("", 302, "", 0, "failure: status 302, expected 200-299"),
            (some, 200, good, 100, "ok"),
            (some, 304, good, 200, "ok"),
            (some, 429, "", 9_000, "degraded: status 429"),
            (some, 503, good, 0, "failure: status 503, expected 200-299, 304-304"),
            (some, 200, r#"{"a": {"b": 1}}"#, 0, "failure: the content lacks \"up\""),
            (some, 200, "up", 0, "failure: the content is no JSON, expected \"1\" as its /a/b"),
            (some, 200, "\"up\"", 0, "failure: there is no /a/b in the content, expected \"1\""),
            (some, 200, r#"{"up": 1, "a": {"b": "2"}}"#, 0, "failure: /a/b is \"2\", expected \"1\""),
            (some, 200, good, 501, "failure: took 501ms, at most 500ms is well"),
            (some, 200, good, 201, "degraded: took 201ms, at most 200ms is well"),
            (some, 200, r#"{"up": "warn", "a": {"b": "1"}}"#, 201, "degraded: the content has \"warn\""),
            (some, 200, r#"{"up": "", "a": {"b": 1}, "mode": "slow"}"#, 0, "degraded: /mode is \"slow\""),
            (matched, 200, "v12", 0, "ok"),
            (matched, 200, "v12 ", 0, "failure: the content does not match \"^v[0-9]+$\""),
            (matched, 200, "v19", 0, "degraded: the content matches \"9$\""),
            (
                "expect = { headers = { server = '^web' } }",
                200,
                "",
                0,
                "failure: server is \"app/1.2\", which does not match \"^web\"",
            ),
            (
                "expect = { headers = { x-state = '.' } }",
                200,
                "",
                0,
                "failure: there is no x-state in the answer",
            ),
            (none, 200, "12 failed", 0, "ok"),
            (none, 200, "no error", 0, "failure: the content has \"error\""),
            (none, 200, "123 failed", 0, "failure: the content matches \"[0-9]{3} failed\""),
            (none, 503, "error", 0, "failure: status 503, expected 200-299"),
            ("expect = { http_version = \"HTTP/1.1\" }", 200, "", 0, "ok"),
            ("expect = { http_version = \"HTTP/1.0\" }", 200, "old", 0, "ok"),
            (
                "expect = { http_version = \"HTTP/1.1\" }",
                200,
                "old",
                0,
                "failure: HTTP/1.0, expected HTTP/1.1",
            ),
            ("expect = { status = \"200,204\" }", 204, "", 0, "ok"),
            ("expect = { status = \"200, 3xx\" }", 204, "", 0, "failure: status 204, expected 200, 300-399"),
            ("degraded = { headers = { server = '1.2' } }", 200, "", 0, "degraded: server matches \"1.2\""),
        ] {
            let rules = rules(lines);
            let headers = HeaderMap::from_iter([(SERVER, HeaderValue::from_static("app/1.2"))]);
            let version = if body == "old" { Version::HTTP_10 } else { Version::HTTP_11 };
            let answer = Answer { status, version, headers, body: body.into(), is_cut: false };
            let verdict = judge(&answer, Duration::from_millis(ms), &rules.expect, &rules.degraded);
            let found = match verdict {
                Ok(()) => "ok".to_owned(),
                Err(complaint) => format!("{}: {}", complaint.outcome.as_str(), complaint.reason),
            };
            let expected = expected.replace("304-304", "304");
            assert_eq!(found, expected, "{lines} {status} {body} {ms}");
        }
    }

    #[test]
    fn a_credential_in_an_answer_is_in_no_reason() {
        let rules = rules("expect = { headers = { Set-Cookie = '^sid=' } }");
        let headers = HeaderMap::from_iter([(SET_COOKIE, HeaderValue::from_static("id=hunter2"))]);
        let answer =
            Answer { status: 200, version: Version::HTTP_11, headers, body: Vec::new(), is_cut: false };
        let verdict = judge(&answer, Duration::ZERO, &rules.expect, &rules.degraded);
        assert_eq!(verdict, Err(Complaint::failure("set-cookie does not match \"^sid=\"")));
    }

    #[test]
    fn what_was_cut_off_is_said() {
        let rules = rules("expect = { body_contains = \"end\" }");
        let (version, headers) = (Version::HTTP_11, HeaderMap::new());
        let answer = Answer { status: 200, version, headers, body: b"begin".to_vec(), is_cut: true };
        let verdict = judge(&answer, Duration::ZERO, &rules.expect, &rules.degraded);
        assert_eq!(verdict, Err(Complaint::failure("the content lacks \"end\" in its first 5 bytes")));
    }
}
