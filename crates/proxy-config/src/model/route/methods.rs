//! `methods` of a route: names of methods, or `any`.

use doorbell::http::Method;
use doorbell::http::router::MethodSet;
use doorbell_config::{Entry, Json, Key, TEXTS, did_you_mean, form};

pub(super) fn read(entry: &Entry<'_>) -> Option<Vec<Method>> {
    entry.list(TEXTS, one).map(|methods| methods.concat())
}

fn one(entry: &Entry<'_>) -> Option<Vec<Method>> {
    let name = entry.string()?;
    match Method::from_bytes(name.as_bytes()) {
        _ if name == "any" => Some(MethodSet::ANY.iter().collect()),
        Some(Method::Connect) => entry.refuse("bad-value", "routes cannot serve CONNECT", "remove it"),
        Some(Method::Trace) => entry.refuse(
            "bad-value",
            "TRACE always gets 405",
            "remove it; its reply could expose header fields that a proxy added (RFC 9110 9.3.8)",
        ),
        Some(method) => Some(vec![method]),
        None => {
            let (upper, known) = (name.to_ascii_uppercase(), Method::ALL.map(Method::as_str));
            let help = match Method::from_bytes(upper.as_bytes()) {
                Some(method) => format!("methods are upper case: `{method}`"),
                None => did_you_mean(&upper, &known)
                    .unwrap_or_else(|| format!("one of {}, or `any`", known.join(", "))),
            };
            entry.refuse("bad-value", format!("{name:?} is not a method"), help)
        }
    }
}

pub(super) fn dump(methods: &[Method]) -> Option<Json> {
    Some(methods.iter().map(|method| method.as_str()).collect())
}

pub(super) fn form(_: &Key) -> Json {
    let methods = Method::ALL.map(Method::as_str).into_iter();
    let words: Vec<&str> =
        methods.filter(|name| !["CONNECT", "TRACE"].contains(name)).chain(["any"]).collect();
    form::one_or_list(&form::words(&words))
}
