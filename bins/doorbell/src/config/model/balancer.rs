//! `[agent.NAME]` and `[tcp_gate.NAME]`: what load balancers are told without HTTP.
//!
//! Does not know about: how it is told.

use super::super::bind::{Bind, addresses};
use doorbell_config::{At, Link, Table, Words};
use std::net::SocketAddr;

/// One agent. Its line names the checks that are down, and an operator's reason, to whoever connects.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Agent {
    /// Named by messages.
    #[key(table_name)]
    pub name: String,
    /// Where it listens: an address and a port, unix:PATH, systemd:NAME or fd:NUMBER; one or a list.
    #[key(name = "bind", required = "\"127.0.0.1:9131\"", filled)]
    pub binds: Vec<At<Bind>>,
    /// The endpoint whose state it tells.
    #[key(default = "readyz", shown)]
    pub health: At<Link>,
    /// Whether `agent-send "NAME\n"` of HAProxy names another endpoint.
    #[key(default = false)]
    pub select_by_send: bool,
    /// Connections that HAProxy may open to the server, told as `maxconn:N`. Without it nothing is said about them.
    #[key(range = 1..=1_000_000)]
    pub maxconn: Option<u32>,
}

/// One gate.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct TcpGate {
    /// Named by messages.
    #[key(table_name)]
    pub name: String,
    // What opens and closes is an address: a socket that somebody handed to us cannot be opened again.
    /// An address and a port; one or a list. Required.
    #[key(name = "bind", required = "\"127.0.0.1:9132\"", filled, read = addresses)]
    pub binds: Vec<At<SocketAddr>>,
    /// The endpoint that it follows.
    #[key(default = "readyz", shown)]
    pub health: At<Link>,
    /// What happens to connections otherwise: close has nobody listen, reset and accept-and-fin accept and end them so.
    #[key(default = "close")]
    pub when_down: WhenDown,
}

/// What happens to connections while an endpoint is not up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum WhenDown {
    /// They are accepted and ended.
    AcceptAndFin,
    /// Nobody listens: they are refused.
    Close,
    /// They are accepted and reset.
    Reset,
}
