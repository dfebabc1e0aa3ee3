//! Options of the `http` prober of blackbox_exporter.

use super::blackbox::{Module, resolve, secret_in, tls, typed};
use super::keys::{KEEP, Keys, Placed};
use doorbell_checks::options::Pattern;
use doorbell_config::{is_credential, literal};
use serde_json::{Map, Value as Json, json};

/// Keys without an equivalent: the reason, and what to do instead.
const WITHOUT: [(&str, &str, &str); 11] = [
    ("body_file", "a body is part of the configuration", "write the content of the file into `body`"),
    (
        "body_size_limit",
        "`max_body` limits what is read, and longer content does not fail the probe",
        "set `max_body`",
    ),
    ("compression", "doorbell requests no compressed content", "remove it"),
    ("enable_http3", "doorbell sends no HTTP/3", "remove it"),
    ("fail_if_not_ssl", "a module does not require TLS", "write https:// into the targets"),
    ("fail_if_ssl", "a module does not refuse TLS", "write http:// into the targets"),
    ("no_proxy", "doorbell uses no HTTP proxy", "remove it"),
    ("oauth2", "doorbell requests no tokens", "use `bearer` with a token in a file"),
    ("proxy_from_environment", "doorbell uses no HTTP proxy", KEEP),
    ("proxy_url", "doorbell uses no HTTP proxy", KEEP),
    ("skip_resolve_phase_with_proxy", "doorbell uses no HTTP proxy", "remove it"),
];

/// Why a secret is not part of the result.
const SECRET_WHY: &str = "a secret in clear text is not copied";

pub(super) fn module(name: &str, mut keys: Keys<'_>) -> Module {
    let mut module = typed("http");
    // The exporter reads all content; 256 KiB is the limit of the built-in modules of `[blackbox]`.
    module.insert("max_body".to_owned(), "256KiB".into());
    let is_http1 = keys.placed_flag("enable_http2").is_some_and(|http2| !http2.value);
    if !is_http1 {
        module.insert("http_version".to_owned(), "auto".into());
    }
    let follows = keys.placed_flag("follow_redirects").is_none_or(|follows| follows.value)
        && !keys.flag("no_follow_redirects");
    module.insert("follow_redirects".to_owned(), if follows { "all" } else { "no" }.into());
    for key in ["method", "body"] {
        if let Some(text) = keys.text(key) {
            module.insert(key.to_owned(), literal(text.value));
        }
    }
    // Prefix of the files that the notes propose for secrets in clear text.
    let file = format!("/run/secrets/{name}");
    headers(&mut keys, &mut module, &file);
    credentials(&mut keys, &mut module, &file);
    let tls = tls(&mut keys, "tls_config");
    if !tls.is_empty() {
        module.insert("tls".to_owned(), tls.into());
    }
    resolve(&mut keys, &mut module);
    let expect = expect(&mut keys);
    if !expect.is_empty() {
        module.insert("expect".to_owned(), expect.into());
    }
    keys.finish(&WITHOUT);
    module
}

fn headers(keys: &mut Keys<'_>, module: &mut Module, file: &str) {
    let Some(table) = keys.table("headers") else { return };
    let mut headers = Map::new();
    for field in table.all_texts() {
        let Placed { name, value, .. } = field;
        let place = Placed { name: "headers", ..field };
        let lower = name.to_ascii_lowercase();
        if ["connection", "content-length", "transfer-encoding", "upgrade"].contains(&&*lower) {
            keys.report(&place, "doorbell writes this field itself", "remove it");
            continue;
        }
        let is_secret = is_credential(name);
        let file = format!("{file}-{lower}");
        if is_secret {
            keys.report(&place, SECRET_WHY, &format!("write it to {file}"));
        }
        headers.insert(name.to_owned(), if is_secret { secret_in(&file) } else { literal(value) });
    }
    module.insert("headers".to_owned(), headers.into());
}

fn credentials(keys: &mut Keys<'_>, module: &mut Module, file: &str) {
    let secret = |from: &mut Keys<'_>, clear: &str, in_file: &str| -> Option<Json> {
        if let Some(text) = from.text(clear) {
            from.report(&text, SECRET_WHY, &format!("write it to {file}"));
            return Some(secret_in(file));
        }
        from.text(in_file).map(|path| secret_in(path.value))
    };
    if let Some(mut basic) = keys.table("basic_auth") {
        let username = basic.text("username").map(|name| name.value).unwrap_or_default();
        let password = secret(&mut basic, "password", "password_file");
        let mut both = json!({ "username": literal(username) });
        match password {
            Some(password) => both["password"] = password,
            // A null would make the whole conversion fail, because TOML has none.
            None => basic.report_table("there is no `password`", &format!("write it to {file}")),
        }
        module.insert("basic".to_owned(), both);
        basic.finish(&[
            ("password_ref", "doorbell supports no secret manager", "write the password to a file"),
            ("username_file", "a user name is part of the configuration", "write it into `basic`"),
            ("username_ref", "doorbell supports no secret manager", "write it into `basic`"),
        ]);
    }
    let mut bearer = secret(keys, "bearer_token", "bearer_token_file");
    if let Some(mut authorization) = keys.table("authorization") {
        let scheme = authorization.text("type").filter(|kind| !kind.value.eq_ignore_ascii_case("bearer"));
        let token = secret(&mut authorization, "credentials", "credentials_file");
        match scheme {
            Some(scheme) => {
                let instead = "add `Authorization` to `headers`, with the value in a file";
                authorization.report(&scheme, "only `Bearer` has a key of its own", instead);
            }
            None => bearer = bearer.or(token),
        }
        authorization.finish(&[(
            "credentials_ref",
            "doorbell supports no secret manager",
            "write the token to a file",
        )]);
    }
    if let Some(bearer) = bearer {
        module.insert("bearer".to_owned(), bearer);
    }
}

/// The conditions of a success.
fn expect(keys: &mut Keys<'_>) -> Module {
    let mut expect = Map::new();
    let codes = keys.texts("valid_status_codes");
    if !codes.is_empty() {
        let codes = codes.iter().map(|code| Json::from(code.value)).collect::<Vec<_>>();
        expect.insert("status".to_owned(), codes.into());
    }
    versions(keys, &mut expect);
    let refused = patterns(keys, "fail_if_body_matches_regexp");
    if !refused.is_empty() {
        let any = match refused.as_slice() {
            [one] => one.value.to_owned(),
            several => several.iter().map(|one| format!("(?:{})", one.value)).collect::<Vec<_>>().join("|"),
        };
        expect.insert("body_not_matches".to_owned(), literal(&any));
    }
    for (at, pattern) in patterns(keys, "fail_if_body_not_matches_regexp").into_iter().enumerate() {
        if at == 0 {
            expect.insert("body_matches".to_owned(), literal(pattern.value));
        } else {
            let why = "a module can have only one such expression";
            keys.report(&pattern, why, "write an expression that stands for both");
        }
    }
    fields(keys, &mut expect);
    expect
}

fn versions(keys: &mut Keys<'_>, expect: &mut Module) {
    let versions = keys.texts("valid_http_versions");
    let version = match versions.as_slice() {
        [] => return,
        [Placed { value: version @ ("HTTP/1.0" | "HTTP/1.1"), .. }] => *version,
        [Placed { value: "HTTP/2" | "HTTP/2.0", .. }] => "HTTP/2",
        _ => "",
    };
    if version.is_empty() {
        let why = "a module can require only one version";
        keys.report(&versions[0], why, "set `http_version` in `expect`, or remove it");
    } else {
        expect.insert("http_version".to_owned(), version.into());
    }
}

/// Header fields that must match an expression.
fn fields(keys: &mut Keys<'_>, expect: &mut Module) {
    let mut fields = Map::new();
    const NAME: &str = "fail_if_header_not_matches";
    for node in keys.list(NAME) {
        let mut rule = keys.element(NAME, node);
        let (field, pattern) = (rule.text("header"), rule.text("regexp"));
        let may_lack = rule.flag("allow_missing");
        match (field, pattern) {
            _ if may_lack => {
                let why = "an expected header field must be present";
                rule.report(&node.placed("allow_missing"), why, "remove the rule, or write a [check.NAME]");
            }
            (Some(field), Some(pattern)) if is_pattern(&rule, pattern) => {
                fields.insert(field.value.to_owned(), literal(pattern.value));
            }
            _ => {}
        }
        rule.finish(&[]);
    }
    const REFUSED: &str = "fail_if_header_matches";
    for node in keys.list(REFUSED) {
        let why = "a module cannot refuse a header field";
        keys.report(&node.placed(REFUSED), why, "expect the right value with `expect.headers`");
    }
    if !fields.is_empty() {
        expect.insert("headers".to_owned(), fields.into());
    }
}

/// The supported expressions of a list; unsupported expressions are reported.
fn patterns<'n>(keys: &mut Keys<'n>, name: &'n str) -> Vec<Placed<'n, &'n str>> {
    let mut patterns = keys.texts(name);
    patterns.retain(|pattern| is_pattern(keys, *pattern));
    patterns
}

/// Whether doorbell supports an expression; an unsupported expression is reported.
pub(super) fn is_pattern(keys: &Keys<'_>, pattern: Placed<'_, &str>) -> bool {
    let is_valid = Pattern::new(pattern.value).is_ok();
    if !is_valid {
        let why = "doorbell does not support this regular expression";
        keys.report(&pattern, why, "rewrite it without look-around and Unicode classes");
    }
    is_valid
}
