//! `[agent.NAME]` and `[tcp_gate.NAME]` as they were written.
//!
//! Does not know about: which endpoints there are.

use super::super::bind::Bind;
use super::super::model::WhenDown;
use super::listener::read_binds;
use doorbell_config::{At, Section};
use std::ops::Range;

#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) name: At<String>,
    pub(crate) header: Range<usize>,
    pub(crate) has_bind: bool,
    pub(crate) binds: Vec<At<Bind>>,
    pub(crate) health: Option<At<String>>,
    pub(crate) select_by_send: Option<At<bool>>,
    pub(crate) maxconn: Option<At<u32>>,
}

#[derive(Debug)]
pub(crate) struct TcpGate {
    pub(crate) name: At<String>,
    pub(crate) header: Range<usize>,
    pub(crate) has_bind: bool,
    pub(crate) binds: Vec<At<Bind>>,
    pub(crate) health: Option<At<String>>,
    pub(crate) when_down: Option<At<WhenDown>>,
}

pub(crate) const WHEN_DOWN: [(&str, WhenDown); 3] =
    [("accept-and-fin", WhenDown::AcceptAndFin), ("close", WhenDown::Close), ("reset", WhenDown::Reset)];

impl Agent {
    pub(super) fn read(name: At<String>, mut at: Section<'_>) -> Self {
        let agent = Self {
            name,
            header: at.span.clone(),
            has_bind: at.value("bind").is_some(),
            binds: read_binds(&mut at),
            health: at.string("health"),
            select_by_send: at.bool("select_by_send"),
            maxconn: at.integer("maxconn", 1..=1_000_000),
        };
        at.finish();
        agent
    }
}

impl TcpGate {
    pub(super) fn read(name: At<String>, mut at: Section<'_>) -> Self {
        let gate = Self {
            name,
            header: at.span.clone(),
            has_bind: at.value("bind").is_some(),
            binds: read_binds(&mut at),
            health: at.string("health"),
            when_down: at.choice("when_down", &WHEN_DOWN),
        };
        at.finish();
        gate
    }
}
