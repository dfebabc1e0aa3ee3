//! `[tls.NAME]`: certificates of a TLS listener, and its requirements for clients.

use super::unrepresentable;
use doorbell::http::TlsVersion;
use doorbell::tls::UnknownName;
use doorbell_config::{At, Entry, Problem, Rate, Section, Table, Words};
use std::path::PathBuf;
use std::time::Duration;

/// Certificates and requirements of TLS listeners.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct Tls {
    /// Referred to by listeners.
    #[key(table_name)]
    pub name: String,
    /// PEM file with the certificate and its chain; reloaded when it changes.
    pub cert: Option<At<PathBuf>>,
    /// PEM file with the key of `cert`.
    pub key: Option<At<PathBuf>>,
    /// Pairs of certificate and key, instead of `cert` and `key`. The server name of the client
    /// selects the pair; the first pair is for clients without a server name.
    #[key(filled)]
    pub certificates: Vec<CertificateFiles>,
    /// Starts without a usable certificate and key, and binds the addresses of the TLS listeners of
    /// this table only when both are usable. For the first certificate by ACME HTTP-01: a listener
    /// without TLS serves the challenge.
    #[key(default = false)]
    pub wait_for_certificate: bool,
    /// Minimum version of TLS.
    #[key(default = "1.2", words = VERSIONS)]
    pub min_version: TlsVersion,
    /// Certificates of clients.
    pub client_auth: ClientAuth,
    /// Lets returning clients resume a session.
    #[key(default = true)]
    pub session_resumption: bool,
    /// Handshakes for an unknown server name: default presents the first certificate, refuse ends
    /// the handshake.
    #[key(default = "default", words = UNKNOWN_NAMES)]
    pub unknown_server_name: UnknownName,
    /// Maximum time from the accept to the end of the handshake.
    #[key(default = "5s", range = "10ms..=1d")]
    pub handshake_timeout: Duration,
    /// Maximum rate of handshakes per client address, such as "600/m", or off. Behind a load
    /// balancer without PROXY headers, all clients have the address of the balancer.
    #[key(default = "50/s", none = "off")]
    pub handshakes_per_ip: Option<Rate>,
    /// `Strict-Transport-Security` of every reply, including refusals and errors; `headers` of a
    /// route takes precedence. A change applies to new connections. Default: none.
    #[key(read = hsts)]
    pub hsts: Option<String>,
}

/// A certificate chain and its private key.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct CertificateFiles {
    /// PEM file with the certificate and its chain; reloaded when it changes. Required.
    #[key(required = "\"/etc/doorbell/tls/tls.crt\"")]
    pub cert: At<PathBuf>,
    /// PEM file with the key of `cert`. Required.
    #[key(required = "\"/etc/doorbell/tls/tls.key\"")]
    pub key: At<PathBuf>,
}

const VERSIONS: [(&str, TlsVersion); 2] = [("1.2", TlsVersion::Tls12), ("1.3", TlsVersion::Tls13)];

/// Certificates of clients.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct ClientAuth {
    /// Client certificates: none, request, or require.
    #[key(default = "none")]
    pub mode: ClientAuthMode,
    /// PEM file with the CA certificates of clients. Required unless `mode` is none.
    pub ca: Option<At<PathBuf>>,
    /// PEM files with revocation lists; one or a list.
    #[key(name = "crl")]
    pub crls: Vec<At<PathBuf>>,
    // An expired list may lack certificates that were revoked after its creation (RFC 5280 6.3.3).
    /// Applies revocation lists past their nextUpdate. With `false`, an expired list causes all
    /// client certificates to be refused, including those of resumed sessions.
    #[key(default = false)]
    pub expired_crls_hold: bool,
}

/// Whether client certificates are requested or required.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum ClientAuthMode {
    /// Not requested.
    None,
    /// Requested; clients without a certificate are accepted.
    Request,
    /// Requested; clients without a certificate are refused.
    Require,
}

const UNKNOWN_NAMES: [(&str, UnknownName); 2] =
    [("default", UnknownName::Default), ("refuse", UnknownName::Refuse)];

impl Tls {
    /// Chain and key of every complete pair.
    pub fn pairs(&self) -> impl Iterator<Item = [&At<PathBuf>; 2]> {
        let own = self.cert.as_ref().zip(self.key.as_ref()).map(|(cert, key)| [cert, key]);
        let pairs = self.certificates.iter().map(|pair| [&pair.cert, &pair.key]).chain(own);
        pairs.filter(|pair| pair.iter().all(|path| !path.as_os_str().is_empty()))
    }

    fn check(&self, at: &Section<'_>) {
        if let (Some(rate), Some(place)) = (self.handshakes_per_ip, at.right_place("handshakes_per_ip")) {
            unrepresentable(rate, rate.requests, &place).into_iter().for_each(|problem| at.problem(problem));
        }
        let missing = |message: String, help: &str| {
            at.problem(Problem::error("missing-key", at.span.clone(), message).help(help));
        };
        let name = &self.name;
        match (at.place("cert").is_some(), at.place("key").is_some(), at.place("certificates")) {
            (false, false, None) => missing(
                format!("tls table `{name}` has no certificate"),
                "add `cert = \"/etc/doorbell/tls/tls.crt\"` and `key = \"/etc/doorbell/tls/tls.key\"`",
            ),
            (false, false, Some(_)) => {}
            (_, _, Some(list)) => at.problem(
                Problem::error(
                    "contradiction",
                    list,
                    format!("tls table `{name}` has both `cert` and `certificates`"),
                )
                .help("put all pairs into `certificates`; the first is for clients without a server name"),
            ),
            (true, false, None) => {
                missing("a certificate without its `key`".into(), "add `key = ` with its private key")
            }
            (false, true, None) => {
                missing("a key without its `cert`".into(), "add `cert = ` with its certificate chain")
            }
            (true, true, None) => {}
        }
    }
}

impl ClientAuth {
    /// With `mode = "none"` the other keys have no effect and are dropped.
    fn check(&mut self, at: &Section<'_>) {
        let useless = |place, message: &str, help: &str| {
            at.problem(Problem::warning("no-effect", place, message).help(help));
        };
        if self.mode == ClientAuthMode::None {
            if let Some(place) = at.right_place("ca").or_else(|| at.right_place("crl")) {
                let message = "no client certificate is requested, so this has no effect";
                useless(place, message, "set `mode = \"require\"` or `\"request\"`");
            }
            *self = Self::default();
            return;
        }
        if at.place("ca").is_none() {
            let message = "client certificates cannot be verified without the CA certificates";
            at.problem(
                Problem::error("missing-key", at.span.clone(), message)
                    .help("add `ca = \"/etc/doorbell/tls/clients-ca.crt\"`"),
            );
        }
        if let (Some(place), true) = (at.right_place("expired_crls_hold"), self.crls.is_empty()) {
            let message = "there is no revocation list that could expire";
            useless(place, message, "add `crl = \"CLIENTS.crl\"`, or remove it");
        }
    }
}

/// Reads `Strict-Transport-Security`: `max-age` is required, and `;` separates the directives (RFC
/// 6797 6.1).
fn hsts(entry: &Entry<'_>) -> Option<Option<String>> {
    let text = entry.string()?;
    let max_age = |directive: &str| {
        let (name, value) = directive.split_once('=')?;
        let value = value.trim().trim_matches('"');
        let good = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        (name.trim().eq_ignore_ascii_case("max-age") && good).then_some(())
    };
    if is_field_value(&text) && text.split(';').any(|directive| max_age(directive).is_some()) {
        return Some(Some(text));
    }
    let help = "write \"max-age=63072000\" or \"max-age=63072000; includeSubDomains\"";
    entry.refuse("bad-value", format!("{text:?} is not a value of Strict-Transport-Security"), help)
}

/// Whether a header field can have this value (RFC 9110 5.5).
pub(crate) fn is_field_value(text: &str) -> bool {
    let allowed = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    text.bytes().all(allowed) && text.as_bytes().trim_ascii() == text.as_bytes()
}
