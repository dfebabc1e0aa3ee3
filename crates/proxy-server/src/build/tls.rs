//! Builds acceptors from `[tls.NAME]` and replaces their certificates while the server runs.

use crate::guards::seed;
use crate::reload::watch::{Scan, Stamps, Watched, directories_of};
use doorbell::http::Time;
use doorbell::http::limit::{Limiter, Quota, QuotaError};
use doorbell::tls::{
    Acceptor, CertFiles, CertPair, ClientAuth, HandshakeGate, TlsConfig, TlsError, TlsLimits, read_client_ca,
};
use doorbell_proxy_config::model::{ClientAuthMode, Rate, Tls};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum number of client addresses that a handshake limit tracks.
const GATE_KEYS_MAX: usize = 65_536;

/// Limit of handshakes by client address, shared by listeners.
pub(crate) type Gate = Arc<HandshakesPerClient>;

/// A rate of handshakes for each client.
#[derive(Debug)]
pub(crate) struct HandshakesPerClient {
    limiter: Limiter,
    /// Prefix length of an IPv6 client.
    v6_len: u8,
}

/// Replaces the certificates of an acceptor when the files of its table change.
#[derive(Debug)]
pub(crate) struct TlsReader {
    tls: Tls,
    auth_mode: ClientAuthMode,
    http2: bool,
    acceptor: Acceptor,
    stamps: Stamps,
    /// Earliest expiry of a revocation list, in seconds since 1970.
    crl_end: Option<i64>,
}

/// The certificates of a table, as read from their files.
#[derive(Debug)]
pub(crate) struct Pairs {
    loaded: Vec<CertPair>,
    /// Stamps of all files of the table.
    stamps: Stamps,
}

/// Creates the acceptor of one listener, and the reader that replaces its certificates. `auth_mode`
/// is the client certificate mode of the listener, which is weaker than that of the table if a
/// route needs no client certificate. With `http2`, connections that negotiate HTTP/2 are handed
/// over to the Tokio lane.
pub(crate) fn open(
    Pairs { loaded, stamps }: Pairs,
    tls: &Tls,
    auth_mode: ClientAuthMode,
    http2: bool,
    gate: Option<&Gate>,
) -> Result<(Acceptor, TlsReader), TlsError> {
    let Material { config, crl_end } = material(loaded, tls, auth_mode, http2)?;
    let limits = TlsLimits { handshake_timeout: tls.handshake_timeout, ..TlsLimits::default() };
    let gate = gate.map(|gate| Box::new(Arc::clone(gate)) as Box<dyn HandshakeGate>);
    let acceptor = Acceptor::with_limits(&config, limits, gate)?;
    Ok((acceptor.clone(), TlsReader { tls: tls.clone(), auth_mode, http2, acceptor, stamps, crl_end }))
}

/// Creates the handshake limit of a table. All listeners with this table share the limit and its
/// counts.
pub(crate) fn gate(Rate { requests, period }: Rate, v6_len: u8) -> Result<Gate, QuotaError> {
    let limiter = Limiter::new(Quota::new(requests, requests, period)?, GATE_KEYS_MAX, seed());
    Ok(Arc::new(HandshakesPerClient { limiter, v6_len }))
}

impl HandshakeGate for HandshakesPerClient {
    fn admits(&self, client: IpAddr, now: Time) -> bool {
        self.limiter.check_ip(client, self.v6_len, now).is_allowed()
    }
}

impl Pairs {
    /// Reads the certificates of a table and their keys. Their warnings are logged later, when an
    /// acceptor gets the certificates.
    pub(crate) fn read(tls: &Tls) -> Result<Self, TlsError> {
        // Recorded before reading, so that the next scan detects a change during reading.
        let stamps = Stamps::of(paths(tls));
        let loaded = tls.pairs().map(|[cert, key]| CertFiles::new(&cert.value, &key.value).load());
        Ok(Self { loaded: loaded.collect::<Result<_, _>>()?, stamps })
    }
}

/// Directories of all files of a table.
pub(crate) fn directories(tls: &Tls) -> impl Iterator<Item = PathBuf> {
    paths(tls).flat_map(directories_of)
}

/// The content of the files of a table.
struct Material {
    config: TlsConfig,
    crl_end: Option<i64>,
}

#[expect(clippy::disallowed_methods, reason = "certificates and revocation lists expire by the calendar")]
fn unix_secs() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Builds a TLS configuration from `pairs` and the other files of a table, and logs the warnings of
/// all these files.
fn material(
    pairs: Vec<CertPair>,
    tls: &Tls,
    auth_mode: ClientAuthMode,
    http2: bool,
) -> Result<Material, TlsError> {
    let now = unix_secs();
    let mut config: Option<TlsConfig> = None;
    for pair in pairs {
        for warning in pair.warnings(now) {
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
    let (client_auth, crl_end) = client_auth(tls, auth_mode, now)?;
    let config = config
        .min_version(tls.min_version)
        .unknown_name(tls.unknown_server_name)
        .resumption(tls.session_resumption)
        .alpn_handed(http2.then_some("h2"))
        .client_auth(client_auth);
    Ok(Material { config, crl_end })
}

fn client_auth(
    tls: &Tls,
    auth_mode: ClientAuthMode,
    now: i64,
) -> Result<(ClientAuth, Option<i64>), TlsError> {
    let Some(bundle) = tls.client_auth.ca.as_ref().filter(|_| auth_mode != ClientAuthMode::None) else {
        return Ok((ClientAuth::None, None));
    };
    let crls: Vec<PathBuf> = tls.client_auth.crls.iter().map(|crl| crl.value.clone()).collect();
    let ca = read_client_ca(&bundle.value, &crls)?.expired_crls_hold(tls.client_auth.expired_crls_hold);
    for warning in ca.warnings(now) {
        tracing::warn!("tls {}: {warning}", tls.name);
    }
    let crl_end = ca.next_crl_end(now);
    let client_auth = match auth_mode {
        ClientAuthMode::None => ClientAuth::None,
        ClientAuthMode::Request => ClientAuth::Request(ca),
        ClientAuthMode::Require => ClientAuth::Require(ca),
    };
    Ok((client_auth, crl_end))
}

fn paths(tls: &Tls) -> impl Iterator<Item = &Path> {
    let clients = tls.client_auth.ca.iter().chain(&tls.client_auth.crls);
    tls.pairs().flatten().chain(clients).map(|path| path.as_path())
}

impl TlsReader {
    /// Reads the files again, and replaces the certificates if they differ. Returns whether they
    /// differ.
    fn replace(&mut self) -> Result<bool, TlsError> {
        let Pairs { loaded, stamps } = Pairs::read(&self.tls)?;
        let Material { config, crl_end } = material(loaded, &self.tls, self.auth_mode, self.http2)?;
        let changed = self.acceptor.replace(&config)?;
        (self.stamps, self.crl_end) = (stamps, crl_end);
        Ok(changed)
    }
}

impl Watched for TlsReader {
    fn name(&self) -> String {
        format!("tls {}", self.tls.name)
    }

    fn directories(&self) -> Vec<PathBuf> {
        directories(&self.tls).collect()
    }

    fn scan(&mut self) -> Scan {
        let stamps = Stamps::of(paths(&self.tls));
        // Reading the files again logs a warning if a revocation list has expired and was not
        // replaced.
        let ended = self.crl_end.is_some_and(|end| end < unix_secs());
        if stamps == self.stamps && !ended {
            return Scan::Same;
        }
        if ended {
            self.crl_end = None;
        }
        match self.replace() {
            Ok(changed) => {
                if changed {
                    Scan::Changed("new certificates in use".to_owned())
                } else {
                    Scan::Same
                }
            }
            // The stamps are not updated, so that the next scan tries again: only one file of a
            // pair may have been written.
            Err(error) => Scan::Refused(error.to_string()),
        }
    }
}
