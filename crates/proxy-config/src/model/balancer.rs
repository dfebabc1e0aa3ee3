//! `[agent.NAME]` and `[tcp_gate.NAME]`: health for load balancers whose checks do not use HTTP.

use super::super::bind::{Bind, fixed_addresses};
use doorbell_config::{At, Link, Table, Words};
use std::net::SocketAddr;

/// One agent. Every client sees the checks that are down and the operator's reason.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Agent {
    /// Named in logs and errors.
    #[key(table_name)]
    pub name: String,
    /// Addresses to listen on: an address and a port, unix:PATH, systemd:NAME or fd:NUMBER; one or
    /// a list. Required.
    #[key(name = "bind", required = "\"127.0.0.1:9131\"", filled)]
    pub binds: Vec<At<Bind>>,
    /// Endpoint to report.
    #[key(default = "readyz", shown)]
    pub health: At<Link>,
    /// Lets `agent-send "NAME\n"` of HAProxy select another endpoint.
    #[key(default = false)]
    pub select_by_send: bool,
    /// Maximum number of connections from HAProxy to the server, sent as `maxconn:N`. Default: not
    /// sent.
    #[key(range = 1..=1_000_000)]
    pub maxconn: Option<u32>,
}

/// One gate.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct TcpGate {
    /// Named in logs and errors.
    #[key(table_name)]
    pub name: String,
    // Addresses only: a socket that was passed to the process cannot be opened again once closed.
    /// Addresses and ports to listen on; one or a list. Required.
    #[key(name = "bind", required = "\"127.0.0.1:9132\"", filled, read = fixed_addresses)]
    pub binds: Vec<At<SocketAddr>>,
    /// Endpoint to follow.
    #[key(default = "readyz", shown)]
    pub health: At<Link>,
    /// Connections while the endpoint does not serve: close refuses them (the listening socket is
    /// closed), reset and accept-and-fin accept them and end them with RST or FIN.
    #[key(default = "close")]
    pub when_down: WhenDown,
}

/// Treatment of connections while the endpoint does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum WhenDown {
    /// Accepted and ended with FIN.
    AcceptAndFin,
    /// Refused: the listening socket is closed.
    Close,
    /// Accepted and reset.
    Reset,
}
