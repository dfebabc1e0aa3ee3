//! `[tls.NAME]` resolved: which certificates, whom to ask for one.
//!
//! Does not know about: what is in the files, which listener names the table.

use super::super::bind::Bind;
use super::super::model::{CertificateFiles, ClientAuth, ClientAuthMode, Config, Tls, uncountable};
use super::super::written;
use super::action::is_field_value;
use super::or;
use doorbell_config::{At, Problem, Problems};
use std::ops::Range;

pub(super) fn resolve(written: &written::Tls, problems: &Problems) -> Tls {
    let default = Tls::default();
    let handshakes_per_ip = or(&written.handshakes_per_ip, default.handshakes_per_ip);
    if let (Some(rate), Some(at)) = (handshakes_per_ip, &written.handshakes_per_ip) {
        uncountable(rate, rate.requests, &at.span).into_iter().for_each(|problem| problems.add(problem));
    }
    if let Some(hsts) = &written.hsts {
        check_hsts(hsts, problems);
    }
    Tls {
        name: written.name.value.clone(),
        certificates: certificates(written, problems),
        wait_for_certificate: or(&written.wait_for_certificate, default.wait_for_certificate),
        min_version: or(&written.min_version, default.min_version),
        client_auth: written
            .client_auth
            .as_ref()
            .map_or(default.client_auth, |client_auth| resolve_client_auth(client_auth, problems)),
        session_resumption: or(&written.session_resumption, default.session_resumption),
        unknown_server_name: or(&written.unknown_server_name, default.unknown_server_name),
        handshake_timeout: or(&written.handshake_timeout, default.handshake_timeout),
        handshakes_per_ip,
        hsts: written.hsts.as_ref().map(|at| at.value.clone()),
    }
}

fn certificates(written: &written::Tls, problems: &Problems) -> Vec<CertificateFiles> {
    let name = &written.name.value;
    let is_single = written.pair.has.contains(&true);
    match &written.list {
        Some(list) if is_single => {
            let message = format!("tls table `{name}` has both `cert` and `certificates`");
            problems
                .add(Problem::error("contradiction", list.clone(), message).help(
                    "put all pairs into `certificates`; the first is for clients that ask for no name",
                ));
        }
        Some(_) => {}
        None if is_single => {}
        None => {
            let message = format!("tls table `{name}` has no certificate");
            problems.add(Problem::error("missing-key", written.header.clone(), message).help(
                "add `cert = \"/etc/doorbell/tls/tls.crt\"` and `key = \"/etc/doorbell/tls/tls.key\"`",
            ));
        }
    }
    let pairs = written.certificates.iter().chain(is_single.then_some(&written.pair));
    pairs.filter_map(|pair| resolve_pair(pair, problems)).collect()
}

fn resolve_pair(pair: &written::Pair, problems: &Problems) -> Option<CertificateFiles> {
    let missing = |key: &str, of: &str, help: &str, span: Range<usize>| {
        let message = format!("a {of} without its `{key}`");
        problems.add(Problem::error("missing-key", span, message).help(help));
    };
    match pair.has {
        [true, true] => {}
        [true, false] => {
            missing("key", "certificate", "add `key = ` with its private key", pair.span.clone())
        }
        [false, true] => {
            missing("cert", "key", "add `cert = ` with its certificate chain", pair.span.clone())
        }
        [false, false] => {
            let help = "add `cert = ` and `key = ` with the two files";
            missing("cert", "pair", help, pair.span.clone());
        }
    }
    let (Some(cert), Some(key)) = (&pair.cert, &pair.key) else { return None };
    Some(CertificateFiles { cert: cert.value.clone(), key: key.value.clone() })
}

/// A listener can wait for its certificate where closed means closed, and where another one answers meanwhile.
pub(super) fn check_waits(file: &written::File, config: &Config, problems: &Problems) {
    let waits = |listener: usize| config.tls_of(listener).is_some_and(|tls| tls.wait_for_certificate);
    for (position, listener) in file.listeners.iter().enumerate().filter(|(position, _)| waits(*position)) {
        let open = listener.binds.iter().find(|bind| matches!(bind.value, Bind::Fd(_) | Bind::Systemd(_)));
        if let Some(bind) = open {
            let name = config.tls_of(position).map_or("", |tls| &tls.name);
            let message = format!(
                "`wait_for_certificate` of [tls.{name}] keeps listeners closed, but this socket is open before doorbell starts"
            );
            problems.add(
                Problem::error("contradiction", bind.span.clone(), message)
                    .label("clients would connect and wait")
                    .help("bind an address and a port, or remove `wait_for_certificate`"),
            );
        }
    }
    let mut written = file.tls.iter().filter_map(|tls| tls.wait_for_certificate.as_ref());
    if let Some(at) = written.find(|at| at.value)
        && (0..config.listeners.len()).all(waits)
    {
        let message = "every listener may wait for its certificate, so none would be open";
        problems.add(
            Problem::error("contradiction", at.span.clone(), message)
                .help("add a [listener.NAME] without `tls`, for example on port 80 for ACME HTTP-01"),
        );
    }
}

/// Without a mode that asks, the rest has no effect and is dropped.
fn resolve_client_auth(written: &written::ClientAuth, problems: &Problems) -> ClientAuth {
    let mode = or(&written.mode, ClientAuthMode::None);
    let first = written.ca.iter().chain(&written.crls).next();
    if mode == ClientAuthMode::None {
        if let Some(At { span, .. }) = first {
            let message = "no client is asked for a certificate, so nothing is checked against this";
            problems.add(
                Problem::warning("no-effect", span.clone(), message)
                    .help("set `mode = \"require\"` or `\"request\"`"),
            );
        }
        return Tls::default().client_auth;
    }
    if !written.has_ca {
        let message = "client certificates cannot be checked without those who sign them";
        problems.add(
            Problem::error("missing-key", written.span.clone(), message)
                .help("add `ca = \"/etc/doorbell/tls/clients-ca.crt\"`"),
        );
    }
    if let (Some(at), true) = (&written.expired_crls_hold, written.crls.is_empty()) {
        let message = "there is no revocation list that could expire";
        problems.add(
            Problem::warning("no-effect", at.span.clone(), message)
                .help("add `crl = \"CLIENTS.crl\"`, or remove it"),
        );
    }
    ClientAuth {
        mode,
        expired_crls_hold: or(&written.expired_crls_hold, false),
        ca: written.ca.as_ref().map(|at| at.value.clone()),
        crls: written.crls.iter().map(|at| at.value.clone()).collect(),
    }
}

/// RFC 6797 6.1: `max-age` is required, everything is separated by `;`.
fn check_hsts(hsts: &At<String>, problems: &Problems) {
    let max_age = |directive: &str| {
        let (name, value) = directive.split_once('=')?;
        let value = value.trim().trim_matches('"');
        let good = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        (name.trim().eq_ignore_ascii_case("max-age") && good).then_some(())
    };
    if !is_field_value(&hsts.value) || !hsts.value.split(';').any(|directive| max_age(directive).is_some()) {
        let message = format!("{:?} is not a value of Strict-Transport-Security", hsts.value);
        problems.add(
            Problem::error("bad-value", hsts.span.clone(), message)
                .help("write \"max-age=63072000\" or \"max-age=63072000; includeSubDomains\""),
        );
    }
}
