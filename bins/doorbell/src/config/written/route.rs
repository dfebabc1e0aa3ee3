//! `[route.NAME]` as it was written.
//!
//! Does not know about: listeners and health endpoints, which a route only names.

use super::super::model::{ClientCert, Details, HealthFormat};
use crate::http::Method;
use crate::http::redirect::{RedirectStatus, Scheme};
use crate::http::router::MethodSet;
use doorbell_config::{At, Problem, Section, did_you_mean};
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;

#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) name: At<String>,
    pub(crate) header: Range<usize>,
    pub(crate) listeners: Option<At<Vec<At<String>>>>,
    pub(crate) hosts: Option<At<Vec<At<String>>>>,
    pub(crate) has_path: bool,
    pub(crate) paths: Option<At<Vec<At<String>>>>,
    pub(crate) methods: Option<Vec<Method>>,
    pub(crate) headers: Vec<(At<String>, At<String>)>,
    pub(crate) auth: Option<At<Vec<At<String>>>>,
    pub(crate) limit: Option<At<String>>,
    pub(crate) concurrent: Option<At<u32>>,
    pub(crate) client_cert: Option<At<ClientCert>>,
    pub(crate) client_names: Option<At<Vec<At<String>>>>,
    /// The actions that are written, right or wrong.
    pub(crate) actions: Vec<(&'static str, Range<usize>)>,
    pub(crate) files: Option<Files>,
    pub(crate) grpc: Option<At<bool>>,
    pub(crate) health: Option<At<String>>,
    pub(crate) format: Option<At<HealthFormat>>,
    pub(crate) details: Option<At<Details>>,
    pub(crate) details_auth: Option<At<Vec<At<String>>>>,
    pub(crate) push: Option<At<bool>>,
    pub(crate) redirect: Option<Redirect>,
    pub(crate) reply: Option<Reply>,
}

#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) span: Range<usize>,
    pub(crate) has_dir: bool,
    pub(crate) dir: Option<At<PathBuf>>,
    pub(crate) content_type: Option<At<String>>,
    pub(crate) max_bytes: Option<At<u32>>,
}

#[derive(Debug)]
pub(crate) struct Redirect {
    pub(crate) span: Range<usize>,
    pub(crate) scheme: Option<At<Scheme>>,
    pub(crate) host: Option<At<String>>,
    pub(crate) has_host: bool,
    pub(crate) port: Option<At<u32>>,
    pub(crate) path: Option<At<String>>,
    pub(crate) status: Option<RedirectStatus>,
    pub(crate) keep_query: Option<At<bool>>,
    pub(crate) has_map: bool,
    pub(crate) map: Option<At<PathBuf>>,
    pub(crate) default: Option<At<String>>,
    /// The keys that are written and have no meaning beside `map`.
    pub(crate) not_of_maps: Vec<(&'static str, Range<usize>)>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: Option<At<u32>>,
    pub(crate) body: Option<At<String>>,
    pub(crate) file: Option<At<PathBuf>>,
    pub(crate) content_type: Option<At<String>>,
    pub(crate) headers: Vec<(At<String>, At<String>)>,
}

/// A file is sent as a whole, from memory.
const FILE_LEN_RANGE: RangeInclusive<u32> = 1..=16 << 20;

pub(crate) const CLIENT_CERTS: [(&str, ClientCert); 2] =
    [("exempt", ClientCert::Exempt), ("require", ClientCert::Require)];

pub(crate) const FORMATS: [(&str, HealthFormat); 5] = [
    ("auto", HealthFormat::Auto),
    ("health+json", HealthFormat::HealthJson),
    ("kube-verbose", HealthFormat::KubeVerbose),
    ("spring", HealthFormat::Spring),
    ("text", HealthFormat::Text),
];

pub(crate) const DETAILS: [(&str, Details); 3] =
    [("always", Details::Always), ("authenticated", Details::Authenticated), ("never", Details::Never)];

impl Route {
    pub(super) fn read(name: At<String>, mut at: Section<'_>) -> Self {
        let mut actions = Vec::new();
        for key in ["files", "grpc", "health", "push", "redirect", "reply"] {
            if let Some(value) = at.value(key) {
                actions.push((key, value.span()));
            }
        }
        let route = Self {
            name,
            header: at.span.clone(),
            listeners: at.strings("listener"),
            hosts: at.strings("hosts"),
            has_path: at.value("path").is_some(),
            paths: at.strings("path"),
            methods: read_methods(&mut at),
            headers: read_headers(&mut at),
            auth: at.strings("auth"),
            limit: at.string("limit"),
            concurrent: at.limit("concurrent", 4_000_000),
            client_cert: at.choice("client_cert", &CLIENT_CERTS),
            client_names: at.strings("client_names"),
            actions,
            files: at.section("files").map(Files::read),
            grpc: at.bool("grpc"),
            health: at.string("health"),
            format: at.choice("format", &FORMATS),
            details: at.choice("details", &DETAILS),
            details_auth: at.strings("details_auth"),
            push: at.bool("push"),
            redirect: at.section("redirect").map(Redirect::read),
            reply: at.section("reply").map(Reply::read),
        };
        at.finish();
        route
    }
}

impl Files {
    fn read(mut at: Section<'_>) -> Self {
        let files = Self {
            span: at.span.clone(),
            has_dir: at.value("dir").is_some(),
            dir: at.path("dir"),
            content_type: at.string("content_type"),
            max_bytes: at.size_limit("max_bytes", FILE_LEN_RANGE),
        };
        at.finish();
        files
    }
}

impl Redirect {
    fn read(mut at: Section<'_>) -> Self {
        let mut not_of_maps = Vec::new();
        for key in ["scheme", "host", "port", "path", "keep_query"] {
            if let Some(value) = at.value(key) {
                not_of_maps.push((key, value.span()));
            }
        }
        let redirect = Self {
            span: at.span.clone(),
            scheme: at.choice("scheme", &[("http", Scheme::Http), ("https", Scheme::Https)]),
            host: at.string("host"),
            has_host: at.value("host").is_some(),
            port: at.integer("port", 1..=65_535),
            path: at.string("path"),
            status: read_redirect_status(&mut at),
            keep_query: at.bool("keep_query"),
            has_map: at.value("map").is_some(),
            map: at.path("map"),
            default: at.string("default"),
            not_of_maps,
        };
        at.finish();
        redirect
    }
}

impl Reply {
    fn read(mut at: Section<'_>) -> Self {
        let reply = Self {
            status: at.integer("status", 200..=599),
            body: at.string("body"),
            file: at.path("file"),
            content_type: at.string("content_type"),
            headers: read_headers(&mut at),
        };
        at.finish();
        reply
    }
}

fn read_methods(at: &mut Section<'_>) -> Option<Vec<Method>> {
    let names = at.strings("methods")?;
    if names.value.is_empty() {
        let problem = Problem::error("empty-list", names.span, "a route needs a method");
        at.problem(problem.help("leave `methods` out for the usual ones"));
        return None;
    }
    let known = Method::ALL.map(Method::as_str);
    let mut methods = Vec::new();
    for At { value: name, span } in names.value {
        if name == "any" {
            methods.extend(MethodSet::ANY.iter());
            continue;
        }
        match Method::from_bytes(name.as_bytes()) {
            Some(Method::Connect) => at.problem(
                Problem::error("bad-value", span, "CONNECT opens a tunnel, which no route can")
                    .help("remove it"),
            ),
            Some(Method::Trace) => at.problem(
                Problem::error("bad-value", span, "TRACE is answered with 405 before any route")
                    .help("remove it; what comes back could hold what a proxy added (RFC 9110 9.3.8)"),
            ),
            Some(method) => methods.push(method),
            None => {
                let upper = name.to_ascii_uppercase();
                let help = match Method::from_bytes(upper.as_bytes()) {
                    Some(method) => format!("methods are upper case: `{method}`"),
                    None => did_you_mean(&upper, &known)
                        .unwrap_or_else(|| format!("one of {}, or `any`", known.join(", "))),
                };
                at.problem(Problem::error("bad-value", span, format!("{name:?} is not a method")).help(help));
            }
        }
    }
    Some(methods)
}

fn read_headers(at: &mut Section<'_>) -> Vec<(At<String>, At<String>)> {
    at.section("headers").map(|headers| headers.all_strings()).unwrap_or_default()
}

fn read_redirect_status(at: &mut Section<'_>) -> Option<RedirectStatus> {
    let code = at.integer("status", 0..=999)?;
    let status = u16::try_from(code.value).ok().and_then(RedirectStatus::from_code);
    if status.is_none() {
        let problem =
            Problem::error("bad-value", code.span, format!("{} is not a status of a redirect", code.value));
        at.problem(
            problem.help("one of 301, 302, 303, 307, 308; the default is 308, which keeps the method"),
        );
    }
    status
}
