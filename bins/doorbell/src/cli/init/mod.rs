//! `doorbell config init`: a first file for each surrounding.
//!
//! Does not know about: what the files say.

use clap::{Args, ValueEnum};

pub(super) const HELP: &str = "\
Examples:
  doorbell config init k8s > doorbell.toml
  doorbell config init redirect | doorbell validate -c -";

/// Options of `config init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Where doorbell is to run
    #[arg(value_name = "PLACE")]
    place: Place,
}

/// Surroundings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Place {
    /// A container with a HEALTHCHECK
    Docker,
    /// Behind HAProxy, with its agent-check
    Haproxy,
    /// A pod, beside the service
    K8s,
    /// From http to https, without checks
    Redirect,
    /// A unit, beside the service
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
