//! Words for help texts: what was probably meant, and lists of what there is.
//!
//! Does not know about: tables, problems.

/// A word that was probably meant, as a question.
pub(crate) fn did_you_mean(word: &str, known: &[&str]) -> Option<String> {
    // Names of any length may stand in a file, but distances are worth computing only for short ones.
    // Of two numbers none was meant for the other.
    if word.len() > 64 || !word.contains(char::is_alphabetic) {
        return None;
    }
    let scored =
        known.iter().map(|candidate| (strsim::jaro_winkler(&word.to_lowercase(), candidate), candidate));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.8).then(|| format!("did you mean `{}`?", best.1))
}

/// `"a", "b"`.
pub(crate) fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

/// A table in one line, of those that are often taken for a single value.
pub(super) fn example(key: &str) -> Option<&'static str> {
    Some(match key {
        "certificates" => "certificates = [{ cert = \"/etc/a.crt\", key = \"/etc/a.key\" }]",
        "files" => "files = { dir = \"/var/www\" }",
        "redirect" => "redirect = { scheme = \"https\", host = \"example.com\" }",
        "reply" => "reply = { status = 200, body = \"ok\" }",
        "expect" => "expect = { status = \"200-299\" }",
        "on_drain" => "on_drain = { default = 503 }",
        "keep_alive" => "keep_alive = { enabled = true, idle = \"10s\" }",
        "timeouts" => "timeouts = { header = \"2s\" }",
        "limits" => "limits = { header_bytes = \"8KiB\" }",
        _ => return None,
    })
}

/// What is said in another way than others say it, and than the words suggest.
pub(super) fn elsewhere(kind: &str, key: &str) -> Option<&'static str> {
    Some(match (kind, key) {
        ("listener.NAME", "protocols" | "h2" | "h2c" | "alpn") => {
            "HTTP/1 is always spoken, and HTTP/2 with `http2 = true`: behind TLS by ALPN, else with prior knowledge"
        }
        _ => return None,
    })
}
