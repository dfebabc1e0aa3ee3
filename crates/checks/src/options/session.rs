//! Rules for keys that have no effect without TLS.
//!
//! Does not know about: kinds of checks.

use doorbell_config::{Problem, Section};

/// Reports limits on the remaining lifetime of certificates, if the check does not use TLS.
pub(super) fn needs_tls(at: &Section<'_>, has_tls: bool, help: &str) {
    for key in ["expect.certificate_expires_after", "degraded.certificate_expires_within"] {
        if let Some(place) = at.right_place(key).filter(|_| !has_tls) {
            let problem = Problem::error("missing-key", place, "without TLS there is no certificate");
            at.problem(problem.help(help));
        }
    }
}
