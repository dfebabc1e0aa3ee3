//! TLS client options, named as in grpc_health_probe.

use clap::Args;
use doorbell_checks::options::ClientTls;
use doorbell_prober::{Prober, Target};
use std::path::PathBuf;

/// TLS options of a probe.
#[derive(Clone, Debug, Args)]
pub(super) struct TrustArgs {
    /// Use TLS for grpc:// targets, as grpcs:// does
    #[arg(long)]
    tls: bool,

    /// CA certificates for verifying the server's certificate, as PEM; default: those of the
    /// system. The probers doorbell, blackbox, consul and grpc-health-probe verify certificates;
    /// others only with this option
    #[arg(long, value_name = "FILE")]
    tls_ca_cert: Option<PathBuf>,

    /// Client certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_client_key")]
    tls_client_cert: Option<PathBuf>,

    /// Private key of the client certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_client_cert")]
    tls_client_key: Option<PathBuf>,

    /// Do not verify the server's certificate
    #[arg(long, conflicts_with = "tls_ca_cert")]
    tls_no_verify: bool,

    /// Server name to verify and to send as SNI; default: the host of the target
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
}

impl TrustArgs {
    /// Options of the TLS client; `verifies` is the prober's default for verifying certificates.
    pub(super) fn client(&self, verifies: bool) -> ClientTls {
        ClientTls {
            verify: (verifies || self.tls_ca_cert.is_some()) && !self.tls_no_verify,
            ca: self.tls_ca_cert.clone(),
            server_name: self.tls_server_name.clone(),
            cert: self.tls_client_cert.clone(),
            key: self.tls_client_key.clone(),
        }
    }

    /// Applies `--tls` to a target.
    pub(super) fn with_tls(&self, target: Target) -> Target {
        match target {
            Target::Grpc { at, service, is_tls } => Target::Grpc { at, service, is_tls: is_tls || self.tls },
            other => other,
        }
    }

    /// Returns an error for an option that applies to none of these targets. The targets must be
    /// results of [`Self::with_tls`].
    pub(super) fn unused_option(&self, targets: &[Target], prober: Prober) -> Option<String> {
        if self.tls && !targets.iter().any(|target| matches!(target, Target::Grpc { .. })) {
            return Some("--tls applies to grpc:// only: use https:// or tls:// for other targets".into());
        }
        let given = [
            ("--tls-ca-cert", self.tls_ca_cert.is_some()),
            ("--tls-client-cert", self.tls_client_cert.is_some()),
            ("--tls-no-verify", self.tls_no_verify),
            ("--tls-server-name", self.tls_server_name.is_some()),
        ];
        let (option, _) = given.into_iter().find(|(_, is_given)| *is_given)?;
        match targets {
            all if all.iter().any(|target| prober.may_use_tls(target)) => None,
            [Target::Grpc { .. }] => {
                Some(format!("{option} has no effect without TLS: use grpcs:// or --tls"))
            }
            [target] => Some(format!("{option} has no effect on {target}: it does not use TLS")),
            _ => Some(format!("{option} has no effect: none of the targets uses TLS")),
        }
    }
}
