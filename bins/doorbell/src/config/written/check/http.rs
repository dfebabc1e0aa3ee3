//! `type = "http"` as it was written.
//!
//! Does not know about: defaults.

use super::super::super::model::Secret;
use super::parts::{Addresses, Certificates, CheckTls, Target, read_latency};
use crate::http::Method;
use doorbell_checks::options::{
    FieldValue, FollowRedirects, HttpVersion, Pattern, StatusRange, StatusSet, Url,
};
use doorbell_config::{At, Problem, Section};
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

pub(crate) const REDIRECTS: [(&str, FollowRedirects); 3] =
    [("all", FollowRedirects::All), ("no", FollowRedirects::No), ("same-host", FollowRedirects::SameHost)];

pub(crate) const HTTP_VERSIONS: [(&str, HttpVersion); 2] =
    [("HTTP/1.0", HttpVersion::Http10), ("HTTP/1.1", HttpVersion::Http11)];

/// Forms of a set of status codes, for help texts.
const STATUS_FORM: &str =
    "a code, a range, a class or several, as in \"200\", \"200-399\", \"2xx\" or \"200,204\"";

/// What a check reads at most; it is kept until the run is over.
const BODY_RANGE: RangeInclusive<u32> = 0..=4 << 20;

#[derive(Debug)]
pub(crate) struct HttpAsked {
    pub(crate) has_url: bool,
    pub(crate) url: Option<At<Url>>,
    pub(crate) address: Target,
    pub(crate) method: Option<At<Method>>,
    pub(crate) body: Option<At<String>>,
    pub(crate) traceparent: Option<At<bool>>,
    pub(crate) headers: Vec<(At<String>, At<FieldValue>)>,
    pub(crate) basic: Option<Basic>,
    pub(crate) bearer: Option<At<Secret>>,
    pub(crate) follow_redirects: Option<At<FollowRedirects>>,
    pub(crate) body_bytes: Option<At<u32>>,
    pub(crate) tls: Option<CheckTls>,
    pub(crate) resolve: Addresses,
    pub(crate) expect: HttpWell,
    /// Of `expect`.
    pub(crate) http_version: Option<At<HttpVersion>>,
    /// Of `expect`.
    pub(crate) not: HttpNot,
    pub(crate) degraded: HttpWell,
    pub(crate) certificate: Certificates,
}

/// `expect` or `degraded`.
#[derive(Debug, Default)]
pub(crate) struct HttpWell {
    pub(crate) status: Option<At<StatusSet>>,
    pub(crate) body_contains: Option<At<String>>,
    pub(crate) body_matches: Option<At<Pattern>>,
    pub(crate) headers: Vec<(At<String>, At<Pattern>)>,
    pub(crate) json: Vec<(At<String>, At<String>)>,
    pub(crate) max_latency: Option<At<Duration>>,
}

/// What must not be in the content.
#[derive(Debug, Default)]
pub(crate) struct HttpNot {
    pub(crate) contains: Option<At<String>>,
    pub(crate) matches: Option<At<Pattern>>,
}

/// A name and a password.
#[derive(Debug)]
pub(crate) struct Basic {
    pub(crate) span: Range<usize>,
    /// Whether both are written, right or wrong.
    pub(crate) has_both: bool,
    pub(crate) username: Option<At<String>>,
    pub(crate) password: Option<At<Secret>>,
}

impl HttpAsked {
    pub(super) fn read(at: &mut Section<'_>) -> Self {
        let (mut certificate, mut http_version, mut not) =
            (Certificates::default(), None, HttpNot::default());
        let expect = at.section("expect").map(|mut expect| {
            certificate.read_expect(&mut expect);
            http_version = expect.choice("http_version", &HTTP_VERSIONS);
            not.contains = expect.string("body_not_contains");
            not.matches = read_pattern(&mut expect, "body_not_matches");
            HttpWell::read(expect)
        });
        let degraded = at.section("degraded").map(|mut degraded| {
            certificate.read_degraded(&mut degraded);
            HttpWell::read(degraded)
        });
        Self {
            has_url: at.value("url").is_some(),
            url: read_url(at),
            address: Target::read(at),
            method: read_method(at),
            body: at.string("body"),
            traceparent: at.bool("traceparent"),
            headers: at.section("headers").map(|headers| read_fields(&headers)).unwrap_or_default(),
            basic: at.section("basic").map(Basic::read),
            bearer: at.secret("bearer"),
            follow_redirects: at.choice("follow_redirects", &REDIRECTS),
            body_bytes: at.size("max_body", BODY_RANGE),
            tls: at.section("tls").map(CheckTls::read),
            resolve: Addresses::read(at),
            expect: expect.unwrap_or_default(),
            http_version,
            not,
            degraded: degraded.unwrap_or_default(),
            certificate,
        }
    }
}

impl Basic {
    fn read(mut at: Section<'_>) -> Self {
        let basic = Self {
            span: at.span.clone(),
            has_both: ["username", "password"].iter().all(|key| at.value(key).is_some()),
            username: at.string("username"),
            password: at.secret("password"),
        };
        at.finish();
        basic
    }
}

impl HttpWell {
    fn read(mut at: Section<'_>) -> Self {
        let well = Self {
            status: read_statuses(&mut at),
            body_contains: at.string("body_contains"),
            body_matches: read_pattern(&mut at, "body_matches"),
            headers: read_patterns(&mut at),
            json: at.section("json").map(|json| json.all_strings()).unwrap_or_default(),
            max_latency: read_latency(&mut at),
        };
        for (pointer, _) in &well.json {
            if !pointer.value.is_empty() && !pointer.value.starts_with('/') {
                let message = format!("{:?} is not a JSON pointer", pointer.value);
                let problem = Problem::error("bad-value", pointer.span.clone(), message);
                at.problem(problem.help(format!("write \"/{}\"", pointer.value.replace('.', "/"))));
            }
        }
        at.finish();
        well
    }
}

fn read_fields(headers: &Section<'_>) -> Vec<(At<String>, At<FieldValue>)> {
    headers.all_fields(FieldValue::Open, FieldValue::Secret)
}

fn read_patterns(at: &mut Section<'_>) -> Vec<(At<String>, At<Pattern>)> {
    let Some(headers) = at.section("headers") else { return Vec::new() };
    let pairs = headers.all_strings().into_iter();
    pairs.filter_map(|(name, text)| Some((name, as_pattern(at, text)?))).collect()
}

pub(super) fn read_pattern(at: &mut Section<'_>, key: &'static str) -> Option<At<Pattern>> {
    let text = at.string(key)?;
    as_pattern(at, text)
}

fn as_pattern(at: &Section<'_>, text: At<String>) -> Option<At<Pattern>> {
    match Pattern::new(&text.value) {
        Ok(value) => Some(At { value, span: text.span }),
        Err(error) => {
            let message = format!("this is not a regular expression: {error}");
            let help = "write it as the regex crate has it, without look-around and back-references, in 'single quotes'";
            at.problem(Problem::error("bad-pattern", text.span, message).help(help));
            None
        }
    }
}

fn read_url(at: &mut Section<'_>) -> Option<At<Url>> {
    let text = at.string("url")?;
    let url = Url::parse(&text.value);
    if url.is_none() {
        let help = if !text.value.contains("://") {
            format!("write \"http://{}\"", text.value)
        } else if text.value.contains('@') {
            "write who asks into `headers`, not into the URL".to_owned()
        } else {
            "write \"http://host:port/path\" or \"https://host/path\", without `#`".to_owned()
        };
        // One with a password is shown below, without it.
        let message = match text.value.contains('@') {
            true => "this is not a URL that can be asked".to_owned(),
            false => format!("{:?} is not a URL that can be asked", text.value),
        };
        at.problem(Problem::error("bad-value", text.span.clone(), message).help(help));
    }
    Some(At { value: url?, span: text.span })
}

fn read_method(at: &mut Section<'_>) -> Option<At<Method>> {
    let methods: Vec<(&str, Method)> = Method::ALL
        .into_iter()
        .filter(|method| *method != Method::Connect)
        .map(|method| (method.as_str(), method))
        .collect();
    at.choice("method", &methods)
}

fn read_statuses(at: &mut Section<'_>) -> Option<At<StatusSet>> {
    let At { value: texts, span } = at.strings("status")?;
    if texts.is_empty() {
        let problem = Problem::error("empty-list", span, "a list of codes without a code");
        at.problem(problem.help(format!("write {STATUS_FORM}, or remove it")));
        return None;
    }
    let (mut codes, mut is_well) = (Vec::new(), true);
    for text in &texts {
        // As load balancers write lists: "200,204".
        for part in text.value.split(',') {
            let part = part.trim();
            match StatusRange::parse(part) {
                Some(one) => codes.push(one),
                None => {
                    is_well = false;
                    let message = format!("{part:?} is not a status");
                    let problem = Problem::error("bad-value", text.span.clone(), message);
                    at.problem(problem.help(format!("write {STATUS_FORM}, from 200 to 599")));
                }
            }
        }
    }
    is_well.then(|| At { value: codes.into_iter().collect(), span })
}
