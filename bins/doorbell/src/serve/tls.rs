//! Acceptors from `[tls.NAME]`, and their new certificates while the server runs.
//!
//! Does not know about: handshakes, watching.

use super::guards::seed;
use super::watch::{Look, Stamps, Watched, directories_of};
use crate::config::model::{ClientAuthMode, Rate, Tls, TlsVersion, UnknownServerName};
use crate::http::limit::{Limiter, Quota, QuotaError};
use doorbell::tls::{
    Acceptor, CertFiles, ClientAuth, HandshakeGate, TlsConfig, TlsError, TlsLimits, UnknownName,
    read_client_ca,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Addresses whose handshakes are counted.
const GATE_KEYS_MAX: usize = 65_536;

/// Who may begin a handshake, by address.
pub(super) type Gate = Arc<Limiter>;

/// The files behind an acceptor.
#[derive(Debug)]
pub(super) struct TlsReader {
    tls: Tls,
    asks: ClientAuthMode,
    http2: bool,
    acceptor: Acceptor,
    stamps: Stamps,
}

/// The acceptor of one listener. `asks` is what its handshakes demand: less than the table says where routes are exempt. With `http2` the
/// Tokio lane gets whoever prefers that.
pub(super) fn open(
    tls: &Tls,
    asks: ClientAuthMode,
    http2: bool,
    gate: Option<&Gate>,
) -> Result<(Acceptor, TlsReader), TlsError> {
    let stamps = Stamps::of(paths(tls));
    let limits = TlsLimits { handshake_timeout: tls.handshake_timeout, ..TlsLimits::default() };
    let gate = gate.map(|gate| Box::new(Arc::clone(gate)) as Box<dyn HandshakeGate>);
    let acceptor = Acceptor::with_limits(&read(tls, asks, http2)?, limits, gate)?;
    Ok((acceptor.clone(), TlsReader { tls: tls.clone(), asks, http2, acceptor, stamps }))
}

/// The gate of a table, which all its listeners have together: an address has one rate however many there are.
pub(super) fn gate(tls: &Tls) -> Result<Option<Gate>, QuotaError> {
    let Some(Rate { requests, period }) = tls.handshakes_per_ip else { return Ok(None) };
    let limiter = Limiter::new(Quota::new(requests, requests, period)?, GATE_KEYS_MAX, seed());
    Ok(Some(Arc::new(limiter)))
}

#[expect(
    clippy::disallowed_methods,
    reason = "certificates end by the calendar; read at the start and at a change"
)]
/// Reads every file; a warning is told once here.
fn read(tls: &Tls, asks: ClientAuthMode, http2: bool) -> Result<TlsConfig, TlsError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut config: Option<TlsConfig> = None;
    for files in &tls.certificates {
        let pair = CertFiles::new(&files.cert, &files.key).load()?;
        for warning in pair.warnings(i64::try_from(now).unwrap_or(i64::MAX)) {
            tracing::warn!("tls {}: {warning}", tls.name);
        }
        config = Some(match config {
            None => TlsConfig::new(pair),
            Some(config) => config.pair(pair),
        });
    }
    let config = config.ok_or_else(|| TlsError::NoCertificate {
        origin: format!("tls.{}", tls.name),
        hint: "name one with `cert` and `key`",
    })?;
    Ok(config
        .min_version(match tls.min_version {
            TlsVersion::V1_2 => crate::http::TlsVersion::Tls12,
            TlsVersion::V1_3 => crate::http::TlsVersion::Tls13,
        })
        .unknown_name(match tls.unknown_server_name {
            UnknownServerName::Default => UnknownName::Default,
            UnknownServerName::Refuse => UnknownName::Refuse,
        })
        .resumption(tls.session_resumption)
        .alpn_handed(http2.then_some("h2"))
        .client_auth(client_auth(tls, asks)?))
}

fn client_auth(tls: &Tls, asks: ClientAuthMode) -> Result<ClientAuth, TlsError> {
    let Some(bundle) = tls.client_auth.ca.as_deref().filter(|_| asks != ClientAuthMode::None) else {
        return Ok(ClientAuth::None);
    };
    let ca = read_client_ca(bundle, &tls.client_auth.crls)?;
    Ok(match asks {
        ClientAuthMode::None => ClientAuth::None,
        ClientAuthMode::Request => ClientAuth::Request(ca),
        ClientAuthMode::Require => ClientAuth::Require(ca),
    })
}

fn paths(tls: &Tls) -> impl Iterator<Item = &Path> {
    let pairs = tls.certificates.iter().flat_map(|files| [files.cert.as_path(), files.key.as_path()]);
    let ca = tls.client_auth.ca.as_deref();
    pairs.chain(ca).chain(tls.client_auth.crls.iter().map(PathBuf::as_path))
}

impl Watched for TlsReader {
    fn name(&self) -> String {
        format!("tls {}", self.tls.name)
    }

    fn directories(&self) -> Vec<PathBuf> {
        paths(&self.tls).flat_map(directories_of).collect()
    }

    fn look(&mut self) -> Look {
        let stamps = Stamps::of(paths(&self.tls));
        if stamps == self.stamps {
            return Look::Same;
        }
        let replaced =
            read(&self.tls, self.asks, self.http2).and_then(|config| self.acceptor.replace(&config));
        match replaced {
            Ok(changed) => {
                self.stamps = stamps;
                if changed { Look::Changed("new certificates are in use".to_owned()) } else { Look::Same }
            }
            // The stamps stay: half of a pair may have been written, and the next look tries again.
            Err(error) => Look::Refused(error.to_string()),
        }
    }
}
