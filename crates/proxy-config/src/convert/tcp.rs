//! Options of the `tcp` prober of blackbox_exporter.

use super::blackbox::{Module, SOURCE, resolve, tls, typed};
use super::http::is_pattern;
use super::keys::Keys;
use doorbell_config::literal;
use serde_json::json;

const DIALOG: &str = "a tcp check sends once and then reads once";
const INSTEAD: &str = "keep the exporter for this module, or use `tcp_connect`";

/// Converts the options; `None` if a `tcp` check cannot perform the dialog of `query_response`.
pub(super) fn module(mut keys: Keys<'_>) -> Option<Module> {
    let is_tls = keys.placed_flag("tls").filter(|tls| tls.value);
    let tls = tls(&mut keys, "tls_config");
    let steps = keys.list("query_response");
    let mut module = match is_tls {
        Some(place) if !steps.is_empty() => {
            keys.report(&place, "a tcp check does not use TLS", INSTEAD);
            return None;
        }
        Some(_) => {
            let mut module = typed("tls");
            module.insert("tls".to_owned(), tls.into());
            module
        }
        None => typed("tcp"),
    };
    let mut sent = String::new();
    let mut is_read = false;
    for node in steps {
        let mut step = keys.element("query_response", node);
        if let Some(pattern) = step.text("expect") {
            if is_read {
                step.report(&pattern, DIALOG, INSTEAD);
                return None;
            }
            if !is_pattern(&step, pattern) {
                return None;
            }
            is_read = true;
            // The exporter compares line by line.
            let lines = format!("(?mR){}", pattern.value);
            module.insert("expect".to_owned(), json!({ "matches": literal(&lines) }));
        }
        if let Some(text) = step.text("send") {
            if is_read {
                let why = "a tcp check sends nothing after it has read; the result is the same";
                step.report(&text, why, "remove it");
            } else {
                sent.push_str(text.value);
                sent.push('\n');
            }
        }
        if let Some(starttls) = step.placed_flag("starttls").filter(|flag| flag.value) {
            step.report(&starttls, "a tcp check cannot start TLS", INSTEAD);
            return None;
        }
        step.finish(&[
            ("expect_bytes", "an expression for bytes is not supported", "use `expect.hex`"),
            ("labels", "a module exports no labels", "remove it"),
        ]);
    }
    if !sent.is_empty() {
        module.insert("send".to_owned(), literal(&sent));
    }
    resolve(&mut keys, &mut module);
    keys.finish(&[SOURCE]);
    Some(module)
}
