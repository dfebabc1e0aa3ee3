//! `[agent.NAME]` and `[tcp_gate.NAME]` as they are written in a file.
//!
//! Does not know about: what is the default.

use super::super::model::{Agent, Config, TcpGate};
use super::super::written::WHEN_DOWN;
use super::{literal, name_of};
use serde_json::{Value, json};

/// All agents by name.
pub(super) fn agents_value(config: &Config, with_defaults: bool) -> Value {
    let agents = config.agents.iter();
    Value::Object(
        agents.map(|agent| (agent.name.clone(), agent_value(agent, config, with_defaults))).collect(),
    )
}

/// All gates by name.
pub(super) fn gates_value(config: &Config, with_defaults: bool) -> Value {
    let gates = config.tcp_gates.iter();
    Value::Object(gates.map(|gate| (gate.name.clone(), gate_value(gate, config, with_defaults))).collect())
}

fn agent_value(agent: &Agent, config: &Config, with_defaults: bool) -> Value {
    let binds: Vec<String> = agent.binds.iter().map(ToString::to_string).collect();
    let mut value = json!({ "bind": literal(&binds), "health": endpoint(agent.endpoint, config) });
    if with_defaults || agent.select_by_send {
        value["select_by_send"] = json!(agent.select_by_send);
    }
    if let Some(maxconn) = agent.maxconn {
        value["maxconn"] = json!(maxconn);
    }
    value
}

fn gate_value(gate: &TcpGate, config: &Config, with_defaults: bool) -> Value {
    let binds: Vec<String> = gate.binds.iter().map(ToString::to_string).collect();
    let mut value = json!({ "bind": binds, "health": endpoint(gate.endpoint, config) });
    if with_defaults || gate.when_down != Default::default() {
        value["when_down"] = json!(name_of(&WHEN_DOWN, gate.when_down));
    }
    value
}

fn endpoint(position: usize, config: &Config) -> Option<&str> {
    config.health.get(position).map(|health| health.name.as_str())
}
