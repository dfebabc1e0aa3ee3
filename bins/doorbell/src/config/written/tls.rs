//! `[tls.NAME]` as it was written.
//!
//! Does not know about: listeners, what is in the files.

use super::super::model::{ClientAuthMode, Rate, TlsVersion, UnknownServerName};
use super::listener::DEADLINE_RANGE;
use doorbell_config::{At, Section};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Tls {
    pub(crate) name: At<String>,
    pub(crate) header: Range<usize>,
    /// `cert` and `key` of the table itself.
    pub(crate) pair: Pair,
    /// Where `certificates` stands, if it does.
    pub(crate) list: Option<Range<usize>>,
    pub(crate) certificates: Vec<Pair>,
    pub(crate) wait_for_certificate: Option<At<bool>>,
    pub(crate) min_version: Option<At<TlsVersion>>,
    pub(crate) client_auth: Option<ClientAuth>,
    pub(crate) session_resumption: Option<At<bool>>,
    pub(crate) unknown_server_name: Option<At<UnknownServerName>>,
    pub(crate) handshake_timeout: Option<At<Duration>>,
    pub(crate) handshakes_per_ip: Option<At<Option<Rate>>>,
    pub(crate) hsts: Option<At<String>>,
}

#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) span: Range<usize>,
    /// Whether the two keys are written, right or wrong.
    pub(crate) has: [bool; 2],
    pub(crate) cert: Option<At<PathBuf>>,
    pub(crate) key: Option<At<PathBuf>>,
}

#[derive(Debug)]
pub(crate) struct ClientAuth {
    pub(crate) span: Range<usize>,
    pub(crate) mode: Option<At<ClientAuthMode>>,
    pub(crate) has_ca: bool,
    pub(crate) ca: Option<At<PathBuf>>,
    pub(crate) crls: Vec<At<PathBuf>>,
    pub(crate) expired_crls_hold: Option<At<bool>>,
}

pub(crate) const VERSIONS: [(&str, TlsVersion); 2] = [("1.2", TlsVersion::V1_2), ("1.3", TlsVersion::V1_3)];

pub(crate) const MODES: [(&str, ClientAuthMode); 3] = [
    ("none", ClientAuthMode::None),
    ("request", ClientAuthMode::Request),
    ("require", ClientAuthMode::Require),
];

pub(crate) const UNKNOWN_NAMES: [(&str, UnknownServerName); 2] =
    [("default", UnknownServerName::Default), ("refuse", UnknownServerName::Refuse)];

impl Tls {
    pub(super) fn read(name: At<String>, mut at: Section<'_>) -> Self {
        let tls = Self {
            name,
            header: at.span.clone(),
            pair: Pair::read_keys(&mut at),
            list: at.value("certificates").map(|value| value.span()),
            certificates: at.tables("certificates").into_iter().map(Pair::read).collect(),
            wait_for_certificate: at.bool("wait_for_certificate"),
            min_version: at.choice("min_version", &VERSIONS),
            client_auth: at.section("client_auth").map(ClientAuth::read),
            session_resumption: at.bool("session_resumption"),
            unknown_server_name: at.choice("unknown_server_name", &UNKNOWN_NAMES),
            handshake_timeout: at.duration("handshake_timeout", DEADLINE_RANGE),
            handshakes_per_ip: at.rate_or_off("handshakes_per_ip"),
            hsts: at.string("hsts"),
        };
        at.finish();
        tls
    }
}

impl Pair {
    fn read(mut at: Section<'_>) -> Self {
        let pair = Self::read_keys(&mut at);
        at.finish();
        pair
    }

    fn read_keys(at: &mut Section<'_>) -> Self {
        Self {
            span: at.span.clone(),
            has: [at.value("cert").is_some(), at.value("key").is_some()],
            cert: at.path("cert"),
            key: at.path("key"),
        }
    }
}

impl ClientAuth {
    fn read(mut at: Section<'_>) -> Self {
        let client_auth = Self {
            span: at.span.clone(),
            mode: at.choice("mode", &MODES),
            has_ca: at.value("ca").is_some(),
            ca: at.path("ca"),
            crls: at.paths("crl"),
            expired_crls_hold: at.bool("expired_crls_hold"),
        };
        at.finish();
        client_auth
    }
}
