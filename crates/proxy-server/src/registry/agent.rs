//! HAProxy's agent-check: sends the line of an endpoint on each connection.
//!
//! With `select_by_send`, the text from HAProxy selects the endpoint. A HAProxy that sends no text
//! (a `server` without `agent-send`) gets the line of the agent's configured endpoint.

use super::HealthRegistry;
use crate::exit::Failure;
use crate::sockets::listener::listens;
use doorbell::http::Time;
use doorbell::{RawHandler, RawNext, ServerBuilder};
use doorbell_probes::AgentLines;
use doorbell_proxy_config::model::Config;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of the text from HAProxy.
const SENT_LEN_MAX: usize = 256;

/// Maximum time from the first to the last byte of the text from HAProxy.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum wait for the first byte of the text from HAProxy; then the line of the agent's
/// configured endpoint is sent. Longer than the first retransmission on a local network (200 ms and
/// two round trips, `net/ipv4/tcp_output.c`), shorter than HAProxy's check interval.
const SILENCE: Duration = Duration::from_millis(300);

/// One agent.
#[derive(Debug)]
struct Agent {
    lines: Arc<AgentLines>,
    endpoint: usize,
    /// Endpoints by name, if the text from HAProxy selects one.
    names: Option<HashMap<Box<[u8]>, usize>>,
}

/// Adds the listeners of `[agent.NAME]`. `listening` is called with each name before its listener
/// is added.
///
/// # Errors
/// If an inherited socket is missing or is not listening.
pub(crate) fn add(
    mut builder: ServerBuilder,
    config: &Config,
    registry: &HealthRegistry,
    mut listening: impl FnMut(&str),
) -> Result<ServerBuilder, Failure> {
    let mut known: Vec<Arc<AgentLines>> = Vec::new();
    for agent in &config.agents {
        let same = known.iter().find(|lines| lines.maxconn() == agent.maxconn).map(Arc::clone);
        let lines = same.unwrap_or_else(|| {
            let lines = AgentLines::follow(registry, agent.maxconn);
            known.push(Arc::clone(&lines));
            lines
        });
        for bind in &agent.binds {
            for listen in listens(bind, config)? {
                listening(&agent.name);
                let names = config.health.iter().enumerate();
                let names = names.map(|(at, health)| (health.name.as_bytes().into(), at));
                let handler = Agent {
                    lines: Arc::clone(&lines),
                    endpoint: agent.health.position,
                    names: agent.select_by_send.then(|| names.collect()),
                };
                let raw = doorbell::Raw::new(handler).bytes_max(SENT_LEN_MAX).timeout(SEND_TIMEOUT);
                // With TCP_DEFER_ACCEPT, a HAProxy that sends no text would wait until the kernel
                // stops deferring.
                let listen = listen.defer_accept(None).label(&format!("agent.{}", agent.name));
                builder = builder.listen(listen, raw.silence(SILENCE));
            }
        }
    }
    Ok(builder)
}

impl RawHandler for Agent {
    fn speaks_first(&self) -> bool {
        self.names.is_none()
    }

    fn greet(&self, now: Time, reply: &mut Vec<u8>) -> RawNext {
        self.lines.write(self.endpoint, now, reply);
        RawNext::Close
    }

    fn handle(&self, now: Time, received: &[u8], reply: &mut Vec<u8>) -> RawNext {
        let Some(end) = received.iter().position(|byte| *byte == b'\n') else { return RawNext::NeedMore };
        let name = received[..end].trim_ascii();
        match self.names.as_ref().and_then(|names| names.get(name)) {
            Some(endpoint) => self.lines.write(*endpoint, now, reply),
            None if name.is_empty() => self.lines.write(self.endpoint, now, reply),
            // A misspelled name must be visible: the state of another endpoint would hide it.
            None => reply.extend_from_slice(b"down # there is no such health endpoint\n"),
        }
        RawNext::Close
    }

    fn answer_silent(&self, now: Time, reply: &mut Vec<u8>) -> bool {
        self.lines.write(self.endpoint, now, reply);
        true
    }
}
