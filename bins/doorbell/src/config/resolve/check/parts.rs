//! What several kinds of checks have, resolved.
//!
//! Does not know about: which kind has which.

use super::super::super::written;
use super::super::or;
use doorbell_checks::options::{CertificateRule, ClientTls, Prefer, Resolve};
use doorbell_config::{At, Problem, Problems};
use std::ops::Range;
use std::path::PathBuf;

/// What is too slow to be well can no more be slow but well.
pub(super) fn check_latencies(latencies: &written::Latencies, problems: &Problems) {
    if let (Some(expect), Some(degraded)) = (&latencies.expect, &latencies.degraded)
        && degraded.value >= expect.value
    {
        let message = "what is slower is down already, and never degraded";
        problems.add(
            Problem::error("contradiction", degraded.span.clone(), message)
                .also(expect.span.clone(), "down from here on")
                .help("make `max_latency` of `degraded` the shorter one"),
        );
    }
}

/// A certificate with less left than what is down is down, and never degraded.
pub(super) fn certificate_rule(written: &written::Certificates, problems: &Problems) -> CertificateRule {
    if let (Some(after), Some(within)) = (&written.expires_after, &written.expires_within)
        && within.value <= after.value
    {
        let message = "a certificate that ends so soon is down already, and never degraded";
        problems.add(
            Problem::error("contradiction", within.span.clone(), message)
                .also(after.span.clone(), "down from here on")
                .help("make `certificate_expires_within` the longer one"),
        );
    }
    CertificateRule {
        expires_after: written.expires_after.as_ref().map(|at| at.value),
        expires_within: written.expires_within.as_ref().map(|at| at.value),
    }
}

pub(super) fn tls_of(written: &written::CheckTls, problems: &Problems) -> ClientTls {
    let default = ClientTls::default();
    let path = |at: &At<PathBuf>| at.value.clone();
    let identity = match (&written.cert, &written.key) {
        (Some(cert), Some(key)) => Some((path(cert), path(key))),
        (None, None) => None,
        (Some(one), None) | (None, Some(one)) => {
            let problem =
                Problem::error("missing-key", one.span.clone(), "a certificate and its key are two files");
            problems.add(problem.help("write both `cert` and `key`"));
            None
        }
    };
    let verify = or(&written.verify, default.verify);
    if let (Some(ca), false) = (&written.ca, verify) {
        contradiction(&ca.span, problems);
    }
    ClientTls {
        ca: written.ca.as_ref().map(path),
        identity,
        server_name: written.server_name.as_ref().map(|at| at.value.clone()),
        verify,
    }
}

fn contradiction(ca: &Range<usize>, problems: &Problems) {
    let message = "with `verify = false` nobody looks who signed the certificate";
    problems
        .add(Problem::error("contradiction", ca.clone(), message).help("remove `ca`, or `verify = false`"));
}

/// Text or hexadecimal, not both.
pub(super) fn bytes(text: &Option<At<String>>, hex: &Option<At<Vec<u8>>>, problems: &Problems) -> Vec<u8> {
    if let (Some(text), Some(hex)) = (text, hex) {
        let problem = Problem::error("contradiction", hex.span.clone(), "the same bytes twice");
        problems.add(problem.also(text.span.clone(), "as text").help("remove one of them"));
    }
    let text = text.as_ref().map(|at| at.value.clone().into_bytes());
    text.or_else(|| hex.as_ref().map(|at| at.value.clone())).unwrap_or_default()
}

pub(super) fn resolve_of(written: &written::Addresses, problems: &Problems) -> Resolve {
    let default = Resolve::default();
    let resolve = Resolve {
        prefer: or(&written.prefer, default.prefer),
        fallback: or(&written.fallback, default.fallback),
        all: or(&written.all, default.all),
        ttl: or(&written.ttl, default.ttl),
    };
    if let (Some(at), Prefer::Any) = (&written.fallback, resolve.prefer)
        && !at.value
    {
        let message = "`fallback = false` forbids the other family of none";
        let problem = Problem::error("contradiction", at.span.clone(), message);
        problems.add(problem.help("add `prefer = \"ipv4\"` or `prefer = \"ipv6\"`"));
    }
    resolve
}
