//! Rules between keys of one route: its action and path, valid header fields and templates.

use super::super::super::template::{NAMES, TEMPLATE_LEN_MAX, Template};
use super::super::is_field_value;
use super::sources::FIELD_VALUE_HELP;
use super::{Action, ClientCert, Details, Reply, Route};
use doorbell::http::router;
use doorbell_config::{At, Problem, Section, did_you_mean};
use std::ops::Range;

const ACTIONS: [&str; 6] = ["files", "grpc", "health", "push", "redirect", "reply"];

/// Fields that doorbell writes itself, so that they match the reply.
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

pub(super) fn check(route: &mut Route, at: &Section<'_>) {
    // The default of a key with an error is dropped: the default would cause misleading conflicts.
    let is_wrong = |key: &str| at.place(key).is_some() && !at.has_valid(key);
    if is_wrong("path") {
        route.paths.clear();
    }
    if is_wrong("methods") {
        route.methods.clear();
    }
    check_actions(route, at);
    if at.place("path").is_none() && route.paths.is_empty() {
        let message = format!("route `{}` has no path", route.name);
        let problem = Problem::error("missing-key", at.span.clone(), message);
        at.problem(problem.help("add `path = \"/...\"`, or `path = \"/{*rest}\"` for everything"));
    }
    check_names(route, at);
    check_health(route, at);
    for field in route.written_fields() {
        check_field(field, at);
    }
    match (route.action(), &route.reply) {
        (Action::Redirect(redirect), _) if at.place("redirect.map").is_none() => {
            redirect.check_route(route, at);
        }
        (Action::Reply(_), Some(reply)) => check_reply(route, reply, at),
        _ => {}
    }
    let exempt = at.right_place("client_cert").filter(|_| route.client_cert == Some(ClientCert::Exempt));
    if let (Some(exempt), Some(names)) = (exempt, at.right_place("client_names")) {
        let message = "an exempt route cannot require the name of a certificate";
        at.problem(
            Problem::error("contradiction", names, message)
                .also(exempt, "no certificate needed")
                .help("remove one of the two"),
        );
    }
}

fn check_actions(route: &Route, at: &Section<'_>) {
    let written = ACTIONS.into_iter().filter_map(|key| Some((key, at.place(key)?)));
    let written: Vec<(&str, Range<usize>)> = written.collect();
    match written.as_slice() {
        [_] => {}
        [] => {
            let message = format!("route `{}` has no action", route.name);
            at.problem(Problem::error("missing-key", at.span.clone(), message).help(
                "add one of `files = { .. }`, `grpc = true`, `health = \"readyz\"`, `push = true`, `redirect = { .. }`, `reply = { .. }`",
            ));
        }
        [(first, first_place), (second, place), ..] => {
            let message = format!("route `{}` has both `{first}` and `{second}`", route.name);
            at.problem(
                Problem::error("two-actions", place.clone(), message)
                    .also(first_place.clone(), "first here")
                    .help("a route has one action; use two routes"),
            );
        }
    }
    let off = |key: &str, message: &str, help: &str| {
        at.problem(Problem::error("bad-value", at.place(key).unwrap_or_default(), message).help(help));
    };
    if route.push == Some(false) {
        off("push", "this route accepts nothing", "remove the route, or write `push = true`");
    }
    if route.grpc == Some(false) {
        let help = "remove the route; `enabled = false` in [grpc] turns gRPC health off";
        off("grpc", "this route serves nothing", help);
    }
}

/// Requires path parameters for the check and result of a push, and for the name of a file.
fn check_names(route: &Route, at: &Section<'_>) {
    for path in &route.paths {
        let names = router::param_names(path).unwrap_or_default();
        let has = |name: &str| names.iter().any(|known| known == name);
        let (code, message, help) = match route.action() {
            Action::Push if !has("check") || !has("result") => (
                "push-without-name",
                format!("path {:?} has no parameter for the check or for its result", path.value),
                "write \"/-/checks/{check}/{result}\"".to_owned(),
            ),
            Action::Files(_) if !path.ends_with('}') => {
                let stem = path.trim_end_matches('/');
                (
                    "files-without-name",
                    format!("path {:?} has no parameter that names a file", path.value),
                    format!("write \"{stem}/{{name}}\""),
                )
            }
            _ => continue,
        };
        at.problem(Problem::error(code, path.span.clone(), message).help(help));
    }
}

/// Validates the keys of health routes, and reports them on other routes.
fn check_health(route: &Route, at: &Section<'_>) {
    if route.health.is_none() {
        for key in ["format", "details", "details_auth"] {
            let Some(place) = at.right_place(key) else { continue };
            let message = format!("`{key}` is only for health routes");
            let problem = Problem::error("contradiction", place, message);
            at.problem(problem.help(format!("remove `{key}`, or add `health = \"readyz\"`")));
        }
        return;
    }
    let Some(place) = at.right_place("details") else { return };
    match (at.right_place("details_auth"), route.details == Details::Authenticated) {
        (None, true) if route.auth.is_empty() => {
            at.problem(
                Problem::error("missing-key", place, "no client can authenticate here").help(
                    "add `details_auth = \"NAME\"`, with the [auth.NAME] of clients that see the details",
                ),
            );
        }
        (Some(auth), false) => at.problem(
            Problem::error(
                "contradiction",
                auth,
                "`details_auth` has no effect with this value of `details`",
            )
            .also(place, "set here")
            .help("write `details = \"authenticated\"`, or remove one of them"),
        ),
        _ => {}
    }
}

fn check_reply(route: &Route, reply: &Reply, at: &Section<'_>) {
    let contradiction = |place: Range<usize>, message: String, help: &str| {
        at.problem(Problem::error("contradiction", place, message).help(help));
    };
    let place = |key: &str| at.right_place(&format!("reply.{key}"));
    let is_empty = matches!(reply.status, 204 | 205 | 304);
    let no_body = format!("a reply with status {} has no body", reply.status);
    if let Some(place) = place("body").filter(|_| is_empty && !reply.body.is_empty()) {
        contradiction(place, no_body.clone(), "remove `body`, or choose another status");
    }
    if let Some(place) = place("body") {
        check_template(route, &At { value: reply.body.clone(), span: place }, at);
    }
    for (_, value) in route.written_fields() {
        check_template(route, value, at);
    }
    let Some(file) = &reply.file else { return };
    // A reply from a file is the same for all requests: `file` excludes `body`, and fields with
    // parameters.
    if let Some(place) = place("body").filter(|_| !reply.body.is_empty()) {
        let message = "a reply has either `file` or `body`".to_owned();
        contradiction(place, message, "remove one of the two");
    }
    if is_empty {
        contradiction(file.span.clone(), no_body, "remove `file`, or choose another status");
    }
    for (name, value) in route.written_fields().filter(|(_, value)| Template::parse(value).fixed().is_none())
    {
        let message =
            format!("field `{}` depends on the request, but the content comes from a file", name.value);
        let help = "set `body` instead of `file`, or remove the parameters from the field";
        contradiction(value.span.clone(), message, help);
    }
}

fn check_field((name, value): &(At<String>, At<String>), at: &Section<'_>) {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let problem = |message: String, help: &str| {
        at.problem(Problem::error("bad-header", name.span.clone(), message).help(help));
    };
    let lower = name.to_ascii_lowercase();
    if name.is_empty() || !name.bytes().all(token) {
        problem(format!("{:?} is not the name of a header field", name.value), "letters, digits and `-`");
    } else if OWN_FIELDS.contains(&&*lower) {
        let help = match &*lower {
            "content-type" => "set `content_type` of the reply",
            _ => "remove it; doorbell writes this field itself",
        };
        problem(format!("header field `{}` cannot be set", name.value), help);
    }
    if !is_field_value(value) {
        let message = format!("the value of `{}` cannot be sent", name.value);
        at.problem(Problem::error("bad-header", value.span.clone(), message).help(FIELD_VALUE_HELP));
    }
}

/// Validates that every request provides a value for each parameter of a template.
fn check_template(route: &Route, text: &At<String>, at: &Section<'_>) {
    let template = Template::parse(text);
    if template.fixed().is_none() && text.len() > TEMPLATE_LEN_MAX {
        let message = "a text with parameters is built for every request, so its length is limited";
        at.problem(
            Problem::error("out-of-range", text.span.clone(), message)
                .help("at most 16KiB; write `{{` for a literal brace"),
        );
    }
    for path in &route.paths {
        let known = router::param_names(path).unwrap_or_default();
        for name in template.params().filter(|name| !known.iter().any(|known| known == name)) {
            let names: Vec<&str> = known.iter().map(|name| &**name).chain(NAMES).collect();
            let escape = format!("`{{{{{name}}}` for the literal text");
            let help = match did_you_mean(name, &names) {
                Some(other) => format!("{other} Or write {escape}"),
                None => format!("the parameters are `{}`; write {escape}", names.join("`, `")),
            };
            let message = format!("path {:?} has no parameter `{name}`", path.value);
            at.problem(
                Problem::error("unknown-parameter", text.span.clone(), message)
                    .also(path.span.clone(), "of this path")
                    .help(help),
            );
        }
    }
}
