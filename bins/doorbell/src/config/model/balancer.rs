//! `[agent.NAME]` and `[tcp_gate.NAME]`: what load balancers are told without HTTP.
//!
//! Does not know about: how it is told.

use super::super::bind::Bind;
use std::net::SocketAddr;

/// `[agent.NAME]`: HAProxy's agent-check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Named by messages.
    pub name: String,
    /// Where it listens.
    pub binds: Vec<Bind>,
    /// The health endpoint by its position.
    pub endpoint: usize,
    /// Whether what HAProxy sends (`agent-send`) names the endpoint.
    pub select_by_send: bool,
    /// How many connections HAProxy is told to open to the server at most.
    pub maxconn: Option<u32>,
}

/// `[tcp_gate.NAME]`: a port that says by being open that an endpoint is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpGate {
    /// Named by messages.
    pub name: String,
    /// Where it listens.
    pub binds: Vec<SocketAddr>,
    /// The health endpoint by its position.
    pub endpoint: usize,
    /// What happens to connections while it is not up.
    pub when_down: WhenDown,
}

/// What happens to connections while an endpoint is not up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenDown {
    /// They are accepted and ended.
    AcceptAndFin,
    /// Nobody listens: they are refused.
    #[default]
    Close,
    /// They are accepted and reset.
    Reset,
}
