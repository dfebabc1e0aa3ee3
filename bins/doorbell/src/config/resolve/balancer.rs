//! `[agent.NAME]` and `[tcp_gate.NAME]` resolved: endpoints by position, what is missing.
//!
//! Does not know about: sockets.

use super::super::bind::Bind;
use super::super::model::{Agent, TcpGate};
use super::super::written;
use super::or;
use doorbell_config::{At, Names, Problem, Problems};
use std::net::SocketAddr;
use std::ops::Range;

pub(super) fn agents(written: &[written::Agent], endpoints: &Names<'_>, problems: &Problems) -> Vec<Agent> {
    let one = |written: &written::Agent| {
        check_bind(("agent", "9131"), written.has_bind, &written.header, problems);
        Agent {
            name: written.name.value.clone(),
            binds: written.binds.iter().map(|at| at.value.clone()).collect(),
            endpoint: endpoint(&written.health, &written.header, endpoints),
            select_by_send: or(&written.select_by_send, false),
            maxconn: written.maxconn.as_ref().map(|at| at.value),
        }
    };
    written.iter().map(one).collect()
}

pub(super) fn gates(
    written: &[written::TcpGate],
    endpoints: &Names<'_>,
    problems: &Problems,
) -> Vec<TcpGate> {
    let one = |written: &written::TcpGate| {
        check_bind(("TCP gate", "9132"), written.has_bind, &written.header, problems);
        TcpGate {
            name: written.name.value.clone(),
            binds: written.binds.iter().filter_map(|at| address(at, "a TCP gate", problems)).collect(),
            endpoint: endpoint(&written.health, &written.header, endpoints),
            when_down: or(&written.when_down, Default::default()),
        }
    };
    written.iter().map(one).collect()
}

fn check_bind((what, port): (&str, &str), is_written: bool, header: &Range<usize>, problems: &Problems) {
    if !is_written {
        let problem = Problem::error("missing-key", header.clone(), format!("this {what} listens nowhere"));
        problems.add(problem.help(format!("add `bind = \"127.0.0.1:{port}\"`")));
    }
}

/// `readyz` where nothing is said: that is what load balancers are about.
fn endpoint(name: &Option<At<String>>, header: &Range<usize>, endpoints: &Names<'_>) -> usize {
    let default = At { value: "readyz".to_owned(), span: header.clone() };
    endpoints.position(name.as_ref().unwrap_or(&default)).unwrap_or(0)
}

/// What opens and closes is an address: a socket that somebody handed to us cannot be opened again.
pub(super) fn address(at: &At<Bind>, what: &str, problems: &Problems) -> Option<SocketAddr> {
    match &at.value {
        Bind::Tcp(addr) => Some(*addr),
        Bind::Fd(_) | Bind::Systemd(_) | Bind::Unix(_) => {
            let message = format!("{what} cannot listen on {}", at.value);
            let problem = Problem::error("bad-address", at.span.clone(), message);
            problems.add(problem.help("write an address and a port, as in \"0.0.0.0:9132\""));
            None
        }
    }
}
