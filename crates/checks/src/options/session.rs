//! Rules for keys that have no effect without a login, or without TLS.
//!
//! Does not know about: kinds of checks.

use doorbell_config::{Problem, Section};

/// Reports `keys` without `username`.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) fn needs_username(at: &Section<'_>, keys: &[&str]) {
    if at.place("username").is_some() {
        return;
    }
    for key in keys {
        if let Some(place) = at.right_place(key) {
            let name = key.rsplit('.').next().unwrap_or(key);
            let problem = Problem::error("missing-key", place, format!("`{name}` without a login"));
            at.problem(problem.help("add `username`, or remove it"));
        }
    }
}

/// Reports required lifetimes of certificates without TLS.
pub(super) fn needs_tls(at: &Section<'_>, has_tls: bool, help: &str) {
    for key in ["expect.certificate_expires_after", "degraded.certificate_expires_within"] {
        if let Some(place) = at.right_place(key).filter(|_| !has_tls) {
            let problem = Problem::error("missing-key", place, "without TLS there is no certificate");
            at.problem(problem.help(help));
        }
    }
}
