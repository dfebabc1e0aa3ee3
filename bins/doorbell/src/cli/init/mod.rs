//! `doorbell config init`: starter configurations for common environments.

use clap::{Args, ValueEnum};

pub(super) const HELP: &str = "\
Examples:
  doorbell config init k8s > doorbell.toml
  doorbell config init redirect | doorbell validate -c -";

/// Options of `config init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Environment that doorbell will run in
    #[arg(value_name = "ENVIRONMENT")]
    place: TargetEnvironment,
}

/// Environments with a starter configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TargetEnvironment {
    /// Container with a HEALTHCHECK
    Docker,
    /// Server behind HAProxy, with agent-check
    Haproxy,
    /// Sidecar in a Kubernetes pod
    K8s,
    /// Redirects from http to https, without checks
    Redirect,
    /// systemd unit next to a service
    Systemd,
}

pub(super) const fn text(args: &InitArgs) -> &'static str {
    match args.place {
        TargetEnvironment::Docker => include_str!("docker.toml"),
        TargetEnvironment::Haproxy => include_str!("haproxy.toml"),
        TargetEnvironment::K8s => include_str!("k8s.toml"),
        TargetEnvironment::Redirect => include_str!("redirect.toml"),
        TargetEnvironment::Systemd => include_str!("systemd.toml"),
    }
}
