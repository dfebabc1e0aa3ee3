//! `doorbell config init`: starter configurations for common environments.
//!
//! Does not know about: the content of the files.

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
    place: Place,
}

/// Environments with a starter configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Place {
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
        Place::Docker => include_str!("docker.toml"),
        Place::Haproxy => include_str!("haproxy.toml"),
        Place::K8s => include_str!("k8s.toml"),
        Place::Redirect => include_str!("redirect.toml"),
        Place::Systemd => include_str!("systemd.toml"),
    }
}
