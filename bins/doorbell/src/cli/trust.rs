//! Options of TLS as a client, with the names that grpc_health_probe gives them.
//!
//! Does not know about: what is asked for.

use crate::probe::{Prober, Target};
use clap::Args;
use doorbell_checks::options::ClientTls;
use std::path::PathBuf;

/// How to talk TLS to whoever is asked.
#[derive(Clone, Debug, Args)]
pub(super) struct TrustArgs {
    /// By TLS, where grpc:// is written: as grpcs://
    #[arg(long)]
    tls: bool,

    /// Who signs the server's certificate, as PEM; by default those that this system trusts, except that the kubelet and load balancers do not look
    #[arg(long, value_name = "FILE")]
    tls_ca_cert: Option<PathBuf>,

    /// Our certificate, as PEM, where the server wants to see one
    #[arg(long, value_name = "FILE", requires = "tls_client_key")]
    tls_client_cert: Option<PathBuf>,

    /// Its key, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_client_cert")]
    tls_client_key: Option<PathBuf>,

    /// Do not look at the certificate
    #[arg(long, conflicts_with = "tls_ca_cert")]
    tls_no_verify: bool,

    /// The name that the certificate is for, where it is not that of the target
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
}

impl TrustArgs {
    /// `verifies`: whether the prober looks at certificates unless it is told to.
    pub(super) fn client(&self, verifies: bool) -> ClientTls {
        ClientTls {
            verify: (verifies || self.tls_ca_cert.is_some()) && !self.tls_no_verify,
            ca: self.tls_ca_cert.clone(),
            server_name: self.tls_server_name.clone(),
            cert: self.tls_client_cert.clone(),
            key: self.tls_client_key.clone(),
        }
    }

    /// What `--tls` makes of a target.
    pub(super) fn secured(&self, target: Target) -> Target {
        match target {
            Target::Grpc { at, service, is_tls } => Target::Grpc { at, service, is_tls: is_tls || self.tls },
            other => other,
        }
    }

    /// Why an option means nothing, if it does not for any of these targets, as they are with [`Self::secured`].
    pub(super) fn idle(&self, targets: &[Target], prober: Prober) -> Option<String> {
        if self.tls && !targets.iter().any(|target| matches!(target, Target::Grpc { .. })) {
            return Some("--tls is for grpc://: write https:// or tls:// for the others".into());
        }
        let given = [
            ("--tls-ca-cert", self.tls_ca_cert.is_some()),
            ("--tls-client-cert", self.tls_client_cert.is_some()),
            ("--tls-no-verify", self.tls_no_verify),
            ("--tls-server-name", self.tls_server_name.is_some()),
        ];
        let (option, _) = given.into_iter().find(|(_, is_given)| *is_given)?;
        match targets {
            all if all.iter().any(|target| target.may_be_tls(prober)) => None,
            [Target::Grpc { .. }] => {
                Some(format!("{option} means nothing without TLS: write grpcs:// or --tls"))
            }
            [target] => Some(format!("{option} means nothing for {target}: it is not asked by TLS")),
            _ => Some(format!("{option} means nothing here: none of the targets is asked by TLS")),
        }
    }
}
