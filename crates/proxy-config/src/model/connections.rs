//! `[connections]`: limits of connections, on all listeners.

use doorbell_config::Table;
use std::time::Duration;

/// Limits of connections, on all listeners.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Connections {
    /// Maximum time without write progress.
    #[key(default = "10s", range = "10ms..=1d")]
    pub write_timeout: Duration,
    /// Maximum time to read further input after the last reply.
    #[key(default = "1s", range = "10ms..=1d")]
    pub linger_timeout: Duration,
    // An HTTP connection without TLS usually does not count for `per_ip_max` if it is served and
    // closed in the turn that accepts it.
    /// Maximum number of connections of one client address, or off. HTTP/2 connections are counted
    /// separately from the others.
    #[key(default = 1024, none = "off", range = 1..=4_000_000, nonzero)]
    pub per_ip_max: Option<u32>,
}
