//! What a route answers, resolved: health, replies, files; and the header fields that go along.
//!
//! Does not know about: redirects (see `redirect`), other routes.

use super::super::model::{Action, Details, Files, HealthRoute, Reply, ReplyFile, is_field_value};
use super::super::template::Template;
use super::super::written;
use super::or;
use super::route::Resolver;
use crate::http::Method;
use crate::http::router::{self, MethodSet};
use doorbell_config::{At, Problem, Problems};
use std::ops::Range;
use std::path::PathBuf;

/// Fields the connection writes by itself, so that they cannot contradict what is sent.
const OWN_FIELDS: [&str; 8] = [
    "connection",
    "content-length",
    "content-type",
    "date",
    "keep-alive",
    "location",
    "transfer-encoding",
    "upgrade",
];

impl Resolver<'_> {
    pub(super) fn action_of(&self, written: &written::Route) -> Option<Action> {
        let name = &written.name.value;
        match written.actions.as_slice() {
            [_] => {}
            [] => {
                let message = format!("route `{name}` does not say what it answers");
                self.problems.add(
                    Problem::error("missing-key", written.header.clone(), message).help(
                        "add one of `files = { .. }`, `grpc = true`, `health = \"readyz\"`, `push = true`, `redirect = { .. }`, `reply = { .. }`",
                    ),
                );
            }
            [(first, first_span), (second, span), ..] => {
                let message = format!("route `{name}` has both `{first}` and `{second}`");
                self.problems.add(
                    Problem::error("two-actions", span.clone(), message)
                        .also(first_span.clone(), "first here")
                        .help("a route answers in one way; make two routes"),
                );
            }
        }
        if let Some(health) = &written.health {
            return self.health_of(written, health).map(Action::Health);
        }
        self.health_only(written);
        if let Some(push) = &written.push {
            return self.push_of(written, push);
        }
        if let Some(grpc) = &written.grpc {
            return self.grpc_of(grpc);
        }
        if let Some(files) = &written.files {
            return self.files_of(written, files).map(Action::Files);
        }
        if let Some(redirect) = &written.redirect {
            return self.redirect_of(redirect);
        }
        written.reply.as_ref().map(|reply| self.reply_of(written, reply))
    }

    fn health_of(&self, written: &written::Route, name: &At<String>) -> Option<HealthRoute> {
        let endpoint = self.endpoints.position(name);
        let default = HealthRoute::of(endpoint.unwrap_or(0));
        let viewers = written.details_auth.iter().flat_map(|names| &names.value);
        let details_auth: Vec<usize> = viewers.filter_map(|name| self.auth.position(name)).collect();
        let is_guarded = written.auth.as_ref().is_some_and(|auth| !auth.value.is_empty());
        let implied = if written.details_auth.is_some() { Details::Authenticated } else { default.details };
        let details = or(&written.details, implied);
        match (&written.details, &written.details_auth) {
            (Some(at), None) if details == Details::Authenticated && !is_guarded => {
                let message = "nobody can show who he is";
                self.problems.add(Problem::error("missing-key", at.span.clone(), message).help(
                    "add `details_auth = \"NAME\"`, with the [auth.NAME] of those who see the details",
                ));
            }
            (Some(at), Some(auth)) if details != Details::Authenticated => {
                let message = "`details_auth` only matters where details are for the authenticated";
                self.problems.add(
                    Problem::error("contradiction", auth.span.clone(), message)
                        .also(at.span.clone(), "said here")
                        .help("write `details = \"authenticated\"`, or remove one of them"),
                );
            }
            _ => {}
        }
        Some(HealthRoute {
            endpoint: endpoint?,
            format: or(&written.format, default.format),
            details,
            details_auth,
        })
    }

    /// Keys that say how health is answered, on a route that does not.
    fn health_only(&self, written: &written::Route) {
        let keys = [
            ("format", written.format.as_ref().map(|at| &at.span)),
            ("details", written.details.as_ref().map(|at| &at.span)),
            ("details_auth", written.details_auth.as_ref().map(|at| &at.span)),
        ];
        for (key, span) in keys {
            let Some(span) = span else { continue };
            let message = format!("`{key}` is for routes that answer with health");
            let problem = Problem::error("contradiction", span.clone(), message);
            self.problems.add(problem.help(format!("remove `{key}`, or add `health = \"readyz\"`")));
        }
    }

    fn grpc_of(&self, grpc: &At<bool>) -> Option<Action> {
        if !grpc.value {
            let problem = Problem::error("bad-value", grpc.span.clone(), "a route that answers nothing");
            self.problems
                .add(problem.help("remove the route; `enabled = false` in [grpc] turns gRPC health off"));
            return None;
        }
        Some(Action::Grpc)
    }

    /// The check and the result come out of the path, so the path must have a part for each.
    fn push_of(&self, written: &written::Route, push: &At<bool>) -> Option<Action> {
        if !push.value {
            let problem = Problem::error("bad-value", push.span.clone(), "a route that takes nothing");
            self.problems.add(problem.help("remove the route, or write `push = true`"));
            return None;
        }
        for path in written.paths.iter().flat_map(|paths| &paths.value) {
            let names = router::param_names(&path.value).unwrap_or_default();
            if !["check", "result"].iter().all(|name| names.iter().any(|known| known == name)) {
                let message = format!("path {:?} has no part for the check or for its result", path.value);
                self.problems.add(
                    Problem::error("push-without-name", path.span.clone(), message)
                        .help("write \"/-/checks/{check}/{result}\""),
                );
            }
        }
        Some(Action::Push)
    }

    /// The file's name comes out of the path, so the path must have a part for it.
    fn files_of(&self, route: &written::Route, written: &written::Files) -> Option<Files> {
        if !written.has_dir {
            let problem = Problem::error("missing-key", written.span.clone(), "files of which directory?");
            self.problems.add(problem.help("add `dir = \"/var/lib/acme/challenges\"`"));
        }
        for path in route.paths.iter().flat_map(|paths| &paths.value) {
            if !path.value.ends_with('}') {
                let message = format!("path {:?} has no part that names a file", path.value);
                let stem = path.value.trim_end_matches('/');
                self.problems.add(Problem::error("files-without-name", path.span.clone(), message).help(
                    format!("write \"{stem}/{{name}}\", or \"{stem}/{{*name}}\" for directories below it"),
                ));
            }
        }
        if let Some(content_type) = &written.content_type {
            self.check_value("content_type", content_type);
        }
        let default = Files::default();
        Some(Files {
            dir: written.dir.as_ref()?.value.clone(),
            content_type: written.content_type.as_ref().map_or(default.content_type, |at| at.value.clone()),
            max_bytes: written.max_bytes.as_ref().map_or(default.max_bytes, |at| at.value),
        })
    }

    fn reply_of(&self, route: &written::Route, written: &written::Reply) -> Action {
        let default = Reply::default();
        let status =
            written.status.as_ref().and_then(|at| u16::try_from(at.value).ok()).unwrap_or(default.status);
        if let (204 | 205 | 304, Some(body)) = (status, &written.body)
            && !body.value.is_empty()
        {
            let message = format!("a reply with status {status} has no body");
            let problem = Problem::error("contradiction", body.span.clone(), message);
            self.problems.add(problem.help("remove `body`, or choose another status"));
        }
        if let Some(content_type) = &written.content_type {
            self.check_value("content_type", content_type);
        }
        self.check_headers(&written.headers);
        self.check_templates(route, written);
        let file = written.file.as_ref();
        if let Some(file) = file {
            self.check_reply_file(route, written, file, status);
        }
        Action::Reply(Reply {
            status,
            body: written.body.as_ref().map_or(default.body, |at| at.value.clone()),
            file: file.map(|file| ReplyFile { path: file.value.clone(), content: Vec::new() }),
            content_type: written.content_type.as_ref().map_or(default.content_type, |at| at.value.clone()),
        })
    }

    /// What is beside the file must not be about another content, nor about the request: the reply is one for all.
    fn check_reply_file(
        &self,
        route: &written::Route,
        written: &written::Reply,
        file: &At<PathBuf>,
        status: u16,
    ) {
        let contradiction = |span: &Range<usize>, message: String, help: &str| {
            self.problems.add(Problem::error("contradiction", span.clone(), message).help(help));
        };
        if let Some(body) = &written.body {
            let message = "a reply has its content from a file or from `body`".to_owned();
            contradiction(&body.span, message, "remove one of the two");
        }
        if matches!(status, 204 | 205 | 304) {
            let message = format!("a reply with status {status} has no body");
            contradiction(&file.span, message, "remove `file`, or choose another status");
        }
        for (name, value) in route.headers.iter().chain(&written.headers) {
            if Template::parse(&value.value).fixed().is_none() {
                let message =
                    format!("field `{}` is made from the request, and the content from a file", name.value);
                contradiction(
                    &value.span,
                    message,
                    "write the content into `body`, or the field without names",
                );
            }
        }
    }

    pub(super) fn check_headers(&self, headers: &[(At<String>, At<String>)]) {
        let fields = headers.iter().map(|(name, At { value, span })| (name, value.as_str(), span));
        check_fields(fields, &OWN_FIELDS, self.problems);
    }

    pub(super) fn check_value(&self, name: &str, value: &At<String>) {
        check_value(name, &value.value, &value.span, self.problems);
    }
}

/// Header fields that somebody chose, of which none may be one of `own`.
pub(super) fn check_fields<'w>(
    fields: impl Iterator<Item = (&'w At<String>, &'w str, &'w Range<usize>)>,
    own: &[&str],
    problems: &Problems,
) {
    for (name, value, span) in fields {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let problem = |code, message| Problem::error(code, name.span.clone(), message);
        if name.value.is_empty() || !name.value.bytes().all(token) {
            let message = format!("{:?} is not the name of a header field", name.value);
            problems.add(problem("bad-header", message).help("letters, digits and `-`"));
        } else if own.contains(&&*name.value.to_ascii_lowercase()) {
            let help = match &*name.value.to_ascii_lowercase() {
                "content-type" => "set `content_type` of the reply",
                _ => "remove it; doorbell writes this field itself",
            };
            let message = format!("header field `{}` cannot be set", name.value);
            problems.add(problem("bad-header", message).help(help));
        }
        check_value(&name.value, value, span, problems);
    }
}

fn check_value(name: &str, value: &str, span: &Range<usize>, problems: &Problems) {
    if !is_field_value(value) {
        let message = format!("the value of `{name}` cannot be sent");
        problems.add(
            Problem::error("bad-header", span.clone(), message)
                .help("no line breaks or other control characters, no space at either end"),
        );
    }
}

/// The methods of a route that does not list any. Probers use all three of a health route; a redirect keeps whatever
/// method it gets, but a link is only followed.
pub(crate) fn default_methods(action: &Action) -> Vec<Method> {
    match action {
        Action::Files(_) | Action::Links(_) | Action::Reply(_) => vec![Method::Get, Method::Head],
        Action::Grpc => vec![Method::Post],
        Action::Health(_) => vec![Method::Get, Method::Head, Method::Options],
        Action::Push => vec![Method::Post, Method::Put],
        Action::Redirect(_) => MethodSet::ANY.iter().collect(),
    }
}
