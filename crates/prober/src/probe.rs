//! The parameters of a probe.

use super::prober::Prober;
use super::target::Target;
use doorbell_checks::options::{ClientTls, ProxyHeader};
use doorbell_config::is_credential;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Parameters of a probe, which can be run any number of times.
#[derive(Clone, Debug)]
pub struct Probe {
    /// What is probed.
    pub target: Target,
    /// The prober to imitate.
    pub prober: Prober,
    /// Healthy status codes; `None` for those of the prober.
    pub statuses: Option<Vec<RangeInclusive<u16>>>,
    /// Header fields that are added, or that replace those of the prober.
    pub headers: Vec<(String, String)>,
    /// Host field; `None` for the one of the prober.
    pub host: Option<String>,
    /// TLS: server name, trust, own certificate.
    pub tls: ClientTls,
    /// PROXY header to send first.
    pub proxy_header: Option<ProxyHeader>,
    /// Whether to send HAProxy's state of the server (`http-check send-state`).
    pub send_state: bool,
    /// Maximum time from the name lookup to the last byte.
    pub timeout: Duration,
}

impl Probe {
    /// Returns the same probe without credentials, for another origin.
    pub(crate) fn without_credentials(&self) -> Self {
        let headers = self.headers.iter().filter(|(name, _)| !is_credential(name)).cloned().collect();
        let tls = ClientTls { cert: None, key: None, ..self.tls.clone() };
        Self { headers, host: None, tls, ..self.clone() }
    }

    /// Creates the default probe of a target by a prober.
    #[must_use]
    pub fn of(target: Target, prober: Prober) -> Self {
        let tls = ClientTls { verify: prober.verifies(), ..ClientTls::default() };
        let timeout = prober.timeout();
        Self {
            target,
            prober,
            statuses: None,
            headers: Vec::new(),
            host: None,
            tls,
            proxy_header: None,
            send_state: false,
            timeout,
        }
    }

    /// Returns an error if a status is not healthy.
    pub(crate) fn judge(&self, status: u16) -> Result<(), String> {
        let is_well = match &self.statuses {
            Some(ranges) => ranges.iter().any(|range| range.contains(&status)),
            None => self.prober.accepts(status),
        };
        if is_well { Ok(()) } else { Err(format!("status {status}")) }
    }
}
