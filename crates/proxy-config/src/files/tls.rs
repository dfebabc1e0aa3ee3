//! Validation of certificates, keys and CA bundles: whether they load, match, and are still valid.
//!
//! Does not know about: the format of certificates (see the engine's TLS).

use super::super::model::{ClientAuthMode, Links, Tls};
use super::{cannot_read, read_whole};
use doorbell::tls::{CertFiles, TlsError, TlsWarning, read_client_ca};
use doorbell_checks::options::ClientTls;
use doorbell_config::{At, Problem, Problems, Severity, format_duration};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum size of a file; any reasonable chain, bundle or revocation list is smaller.
const FILE_LEN_MAX: u64 = 16 << 20;

pub(super) fn check(tls: &Tls, unix_secs: i64, problems: &Problems) {
    for [cert, key] in tls.pairs() {
        match tls.wait_for_certificate {
            true => check_awaited(cert, key, unix_secs, problems),
            false => check_pair(cert, key, unix_secs, problems),
        }
    }
    let client_auth = &tls.client_auth;
    if let (Some(ca), true) = (&client_auth.ca, client_auth.mode != ClientAuthMode::None) {
        let paths: Vec<&At<PathBuf>> = client_auth.crls.iter().chain([ca]).collect();
        if !are_regular_files(&paths, problems) {
            return;
        }
        let crls: Vec<PathBuf> = client_auth.crls.iter().map(|crl| crl.value.clone()).collect();
        match read_client_ca(&ca.value, &crls) {
            Ok(ca) => {
                let ca = ca.expired_crls_hold(client_auth.expired_crls_hold);
                check_crls(&client_auth.crls, &ca.warnings(unix_secs), problems)
            }
            Err(error) => problems.add(problem_of(&error, &paths, ca)),
        }
    }
}

/// Validates the certificate of this instance for links, and the CA of its peers.
pub(super) fn check_links(links: &Links, unix_secs: i64, problems: &Problems) {
    check_pair(&links.cert, &links.key, unix_secs, problems);
    let ca = &links.ca;
    if are_regular_files(&[ca], problems)
        && let Err(error) = read_client_ca(&ca.value, &[])
    {
        problems.add(problem_of(&error, &[ca], ca));
    }
}

fn check_crls(crls: &[At<PathBuf>], warnings: &[TlsWarning], problems: &Problems) {
    for warning in warnings {
        let TlsWarning::CrlExpired { origin, ago_secs, holds } = warning else { continue };
        let Some(crl) = crls.iter().find(|crl| crl.value.display().to_string() == *origin) else { continue };
        let then = if *holds {
            "certificates that were revoked later are accepted"
        } else {
            "clients with a certificate are refused"
        };
        let message = format!(
            "the revocation list in {:?} expired {} ago: {then}",
            crl.value,
            format_rounded(*ago_secs)
        );
        let help = match holds {
            true => "install a new list",
            false => "install a new list, or accept old ones with `expired_crls_hold = true`",
        };
        problems.add(Problem::warning("crl-expired", crl.span.clone(), message).help(help));
    }
}

/// Validates the CA bundle and client certificate of an outgoing connection.
pub(super) fn check_client(
    tls: &ClientTls,
    place: impl Fn(&str) -> Option<Range<usize>>,
    unix_secs: i64,
    problems: &Problems,
) {
    let file = |key, path: &Option<PathBuf>| Some(At { value: path.clone()?, span: place(key)? });
    if let (Some(cert), Some(key)) = (file("cert", &tls.cert), file("key", &tls.key)) {
        check_pair(&cert, &key, unix_secs, problems);
    }
    if let Some(ca) = file("ca", &tls.ca).filter(|ca| are_regular_files(&[ca], problems))
        && let Err(error) = read_client_ca(&ca.value, &[])
    {
        problems.add(problem_of(&error, &[&ca], &ca));
    }
}

/// Validates a certificate and key that listeners wait for. Errors become warnings, because they do
/// not prevent the start.
fn check_awaited(cert: &At<PathBuf>, key: &At<PathBuf>, unix_secs: i64, problems: &Problems) {
    let found = Problems::default();
    check_pair(cert, key, unix_secs, &found);
    for mut problem in found.into_sorted() {
        if problem.severity == Severity::Error {
            problem.severity = Severity::Warning;
            problem =
                problem.label("the listeners of this table are closed until the certificate can be used");
        }
        problems.add(problem);
    }
}

fn check_pair(cert: &At<PathBuf>, key: &At<PathBuf>, unix_secs: i64, problems: &Problems) {
    if !are_regular_files(&[cert, key], problems) {
        return;
    }
    let pair = match CertFiles::new(&cert.value, &key.value).load() {
        Ok(pair) => pair,
        Err(error) => {
            let problem = problem_of(&error, &[cert, key], cert);
            problems.add(match error {
                TlsError::KeyMismatch { .. } => problem.also(cert.span.clone(), "of this certificate"),
                _ => problem,
            });
            return;
        }
    };
    for warning in pair.warnings(unix_secs) {
        problems.add(match warning {
            TlsWarning::ChainExpired { position, ago_secs, .. } => {
                let message = format!(
                    "certificate {position} of the chain in {:?} expired {} ago",
                    cert.value,
                    format_rounded(ago_secs)
                );
                Problem::warning("certificate-expired", cert.span.clone(), message).help("renew the chain")
            }
            TlsWarning::Expired { ago_secs, .. } => {
                let message =
                    format!("the certificate in {:?} expired {} ago", cert.value, format_rounded(ago_secs));
                Problem::warning("certificate-expired", cert.span.clone(), message).help("renew it")
            }
            TlsWarning::KeyReadableByOthers { mode, .. } => {
                let message = format!("every user of this machine can read {:?} (mode {mode:o})", key.value);
                Problem::warning("key-readable", key.span.clone(), message)
                    .help(format!("`chmod o-rwx {}`", key.value.display()))
            }
            TlsWarning::NotYetValid { in_secs, .. } => {
                let message = format!(
                    "the certificate in {:?} is not valid for another {}",
                    cert.value,
                    format_rounded(in_secs)
                );
                Problem::warning("certificate-not-yet-valid", cert.span.clone(), message)
                    .help("check the clock of this machine")
            }
            // The enum is non-exhaustive.
            other => Problem::warning("certificate", cert.span.clone(), other.to_string()),
        });
    }
}

/// Whether all paths are readable regular files of acceptable size; reports the others, except
/// paths that the configuration lacks, which are reported before. The files are checked before the
/// engine opens them, because opening a pipe would block.
fn are_regular_files(paths: &[&At<PathBuf>], problems: &Problems) -> bool {
    let mut all = true;
    for path in paths {
        let why = match read_whole(&path.value, FILE_LEN_MAX) {
            Ok(bytes) if bytes.len() as u64 <= FILE_LEN_MAX => continue,
            Ok(_) => "it is longer than 16 MiB".to_owned(),
            Err(error) => error.to_string(),
        };
        if !path.span.is_empty() {
            problems.add(cannot_read(path, &why));
        }
        all = false;
    }
    all
}

/// Converts a TLS error into a problem at the configuration key of the file that the error names.
/// The text after the last semicolon of the error becomes the help.
fn problem_of(error: &TlsError, paths: &[&At<PathBuf>], otherwise: &At<PathBuf>) -> Problem {
    let text = error.to_string();
    let is_named = |path: &&&At<PathBuf>| text.starts_with(&format!("{}: ", path.value.display()));
    let place = paths.iter().find(is_named).map_or(otherwise, |path| path);
    let code = match error {
        TlsError::KeyMismatch { .. } => "key-mismatch",
        TlsError::BadKey { .. } | TlsError::EncryptedKey { .. } | TlsError::NoKey { .. } => "bad-key",
        TlsError::BadCrl { .. } => "bad-crl",
        _ => "bad-certificate",
    };
    match text.rsplit_once("; ") {
        Some((message, help)) => Problem::error(code, place.span.clone(), message).help(help),
        None => Problem::error(code, place.span.clone(), text),
    }
}

/// Formats a duration: two days and more in whole days, shorter ones exactly.
fn format_rounded(secs: u64) -> String {
    match secs / 86_400 {
        0 | 1 => format_duration(Duration::from_secs(secs)),
        days => format!("{days} days"),
    }
}
