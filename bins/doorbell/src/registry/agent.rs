//! HAProxy's agent-check: one line for each endpoint, rendered when its state changes and sent on each connection.
//!
//! Does not know about: connections, what makes a state.
//!
//! Where what HAProxy sends selects the endpoint, one that sends nothing (a `server` without `agent-send`) is told of the agent's own.
//!
//! A line always says everything: only the agent itself can take back what it said before, so `up` goes with `ready` and a weight
//! (HAProxy configuration manual, `agent-check`).

use super::{HealthRegistry, Published, Serving};
use crate::config::model::Config;
use crate::exit::Failure;
use crate::http::Time;
use crate::http::prober::Prober;
use crate::sockets::listener::listens;
use doorbell::{RawHandler, RawNext, ServerBuilder};
use doorbell_checks::RunRequest;
use doorbell_health::{Audience, EndpointState};
use doorbell_probes::ProbeCounters;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of what HAProxy sends first.
const SENT_LEN_MAX: usize = 256;

/// Bytes of a line. What follows `#` goes into HAProxy's log and its page.
const LINE_LEN_MAX: usize = 200;

/// How long HAProxy may take to say which endpoint it means, once it has begun.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// When HAProxy says nothing of its own accord, it is told of the agent's own endpoint. Longer than it takes until a lost segment is sent again
/// on a local network (200 ms and two round trips, `net/ipv4/tcp_output.c`), shorter than an interval.
const SILENCE: Duration = Duration::from_millis(300);

/// The lines of all endpoints.
#[derive(Debug)]
struct Lines {
    places: Vec<Place>,
    published: Arc<Published>,
    /// Where the lines are among the texts of a set.
    texts: usize,
    /// Said in every line, where it is said.
    maxconn: Option<u32>,
}

/// One endpoint.
#[derive(Debug)]
struct Place {
    /// What runs when somebody asks.
    demands: Box<[RunRequest]>,
    /// Where who asks is counted.
    probe_counters: Option<Arc<ProbeCounters>>,
}

/// One agent.
#[derive(Debug)]
struct Agent {
    lines: Arc<Lines>,
    endpoint: usize,
    /// Endpoints by name, where what is sent selects one.
    names: Option<HashMap<Box<[u8]>, usize>>,
}

/// Adds the listeners of `[agent.NAME]`. The name of each is told to `listening` before it is added.
///
/// # Errors
/// When a socket that was handed to us is none.
pub(crate) fn add(
    mut builder: ServerBuilder,
    config: &Config,
    registry: &HealthRegistry,
    mut listening: impl FnMut(&str),
) -> Result<ServerBuilder, Failure> {
    if config.agents.is_empty() {
        return Ok(builder);
    }
    let mut known: Vec<Arc<Lines>> = Vec::new();
    for agent in &config.agents {
        let same = known.iter().find(|lines| lines.maxconn == agent.maxconn).map(Arc::clone);
        let lines = same.unwrap_or_else(|| {
            let lines = Lines::follow(config, registry, agent.maxconn);
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
                // A HAProxy that sends nothing is not to wait until the kernel lets us accept it.
                let listen = listen.defer_accept(None).label(&format!("agent.{}", agent.name));
                builder = builder.listen(listen, raw.silence(SILENCE));
            }
        }
    }
    Ok(builder)
}

impl Lines {
    /// Those of a configuration, each as its endpoint is and will be.
    fn follow(config: &Config, registry: &HealthRegistry, maxconn: Option<u32>) -> Arc<Self> {
        let place = |endpoint| Place {
            demands: registry.demands_of(endpoint),
            probe_counters: registry.prober_stats().probe_counters(endpoint).cloned(),
        };
        let texts = registry.render(move |serving, position| line(serving, position, maxconn).into_bytes());
        let published = Arc::clone(registry.published());
        Arc::new(Self { places: (0..config.health.len()).map(place).collect(), published, texts, maxconn })
    }

    /// Writes the line of an endpoint for a HAProxy that is there `now`, and counts it.
    fn write(&self, endpoint: usize, now: Option<Time>, reply: &mut Vec<u8>) {
        let Some(place) = self.places.get(endpoint) else { return };
        let set = self.published.load();
        reply.extend_from_slice(set.text(self.texts, endpoint));
        let Some(now) = now else { return };
        place.demands.iter().for_each(RunRequest::ask);
        if let Some(probe_counters) = &place.probe_counters {
            let (state, _) = set.told(endpoint)[Audience::LoadBalancer as usize];
            probe_counters.own().count(Some(Prober::Haproxy), state, now);
        }
    }
}

impl Agent {
    fn say_first(&self, now: Option<Time>, reply: &mut Vec<u8>) -> Option<RawNext> {
        if self.names.is_some() {
            return None;
        }
        self.lines.write(self.endpoint, now, reply);
        Some(RawNext::Close)
    }

    fn say(&self, now: Option<Time>, received: &[u8], reply: &mut Vec<u8>) -> RawNext {
        let Some(end) = received.iter().position(|byte| *byte == b'\n') else { return RawNext::NeedMore };
        let name = received[..end].trim_ascii();
        match self.names.as_ref().and_then(|names| names.get(name)) {
            Some(endpoint) => self.lines.write(*endpoint, now, reply),
            None if name.is_empty() => self.lines.write(self.endpoint, now, reply),
            // Somebody who misspelled it must see that, and not some other endpoint's state.
            None => reply.extend_from_slice(b"down # there is no such health endpoint\n"),
        }
        RawNext::Close
    }
}

impl RawHandler for Agent {
    fn greet(&self, reply: &mut Vec<u8>) -> Option<RawNext> {
        self.say_first(None, reply)
    }

    fn handle(&self, received: &[u8], reply: &mut Vec<u8>) -> RawNext {
        self.say(None, received, reply)
    }

    fn answer_silent(&self, now: Time, reply: &mut Vec<u8>) -> bool {
        self.lines.write(self.endpoint, Some(now), reply);
        true
    }

    fn greet_at(&self, now: Time, reply: &mut Vec<u8>) -> Option<RawNext> {
        self.say_first(Some(now), reply)
    }

    fn handle_at(&self, now: Time, received: &[u8], reply: &mut Vec<u8>) -> RawNext {
        self.say(Some(now), received, reply)
    }
}

/// Everything about an endpoint, as a load balancer is told.
fn line(serving: &Serving<'_>, position: usize, maxconn: Option<u32>) -> String {
    let Some(endpoint) = serving.endpoint(position) else { return String::new() };
    let (verdict, code) = endpoint.answer(Audience::LoadBalancer);
    let share = share_of(endpoint.weight(), endpoint.config().uses.iter().map(|one| one.weight));
    let note = endpoint.note(verdict);
    let names = || {
        let mut names = String::new();
        for name in endpoint.deciding(verdict).filter_map(|one| serving.check_name(one.check)) {
            // More than fits is cut off anyway, and there may be thousands.
            if names.len() > LINE_LEN_MAX {
                break;
            }
            names.push_str(if names.is_empty() { "" } else { " " });
            names.push_str(name);
        }
        names
    };
    let (mut words, why) = match verdict.state {
        EndpointState::Up if code < 400 => (format!("up ready {share}%"), String::new()),
        EndpointState::Degraded if code < 400 => {
            (format!("up ready {share}%"), format!("degraded {}", names()))
        }
        EndpointState::Degraded | EndpointState::Down | EndpointState::Up => {
            ("down ready".to_owned(), names())
        }
        EndpointState::Drain => {
            let beneath = endpoint.verdict_without_drain().state;
            let operation = if beneath == EndpointState::Down { "down" } else { "up" };
            (format!("{operation} drain {share}%"), "draining".to_owned())
        }
        EndpointState::Maintenance => ("maint".to_owned(), "maintenance".to_owned()),
    };
    if let Some(maxconn) = maxconn {
        let _infallible = write!(words, " maxconn:{maxconn}");
    }
    written(words, if note.is_empty() { &why } else { note })
}

/// How much of all weight serves, in percent; all of it where nothing has a weight. Only nothing is 0, with which HAProxy sends no more.
fn share_of(serving: Option<u32>, all: impl Iterator<Item = u32>) -> u64 {
    let all: u64 = all.map(u64::from).sum();
    let share = |serving: u32| {
        let percent = (u64::from(serving) * 100).checked_div(all).unwrap_or(100);
        percent.max(u64::from(serving > 0))
    };
    serving.map_or(100, share)
}

/// A line without anything that would end it early.
fn written(words: String, why: &str) -> String {
    let mut line = words;
    let why: String = why.chars().map(|c| if c.is_ascii_graphic() { c } else { ' ' }).collect();
    if !why.trim().is_empty() {
        let _infallible = write!(line, " # {}", why.trim());
    }
    line.truncate(LINE_LEN_MAX - 1);
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Source, parse};
    use doorbell_checks::{Finding, ResultSink as _};
    use doorbell_health::Outcome;

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(written("down ready".into(), "a\r\nup"), "down ready # a  up\n");
        assert_eq!(written("up ready 100%".into(), " \n"), "up ready 100%\n");
        let long = written("maint".into(), &"é\n".repeat(500));
        assert_eq!(long, "maint\n");
        let long = written("maint".into(), &"x".repeat(500));
        assert!(long.len() == LINE_LEN_MAX && long.ends_with("x\n"));
    }

    #[test]
    fn shares() {
        assert_eq!(share_of(None, [].into_iter()), 100);
        assert_eq!(share_of(Some(0), [0, 0].into_iter()), 100);
        assert_eq!(share_of(Some(60), [60, 40].into_iter()), 60);
        assert_eq!(share_of(Some(2), [1, 1, 1].into_iter()), 66);
        assert_eq!(share_of(Some(1), [1; 200].into_iter()), 1);
        assert_eq!(share_of(Some(0), [1; 200].into_iter()), 0);
        assert_eq!(share_of(Some(u32::MAX), [u32::MAX, u32::MAX].into_iter()), 50);
    }

    #[test]
    fn lines_say_everything_and_follow_the_board() {
        let text = "version = 1\n[check.db]\ntype = \"ttl\"\nttl = \"1m\"\n[check.cache]\ntype = \"ttl\"\nttl = \"1m\"\n\
                    [health.readyz]\nrequire = [\"db\"]\ndegrading = [\"cache\"]\nweight = { db = 60, cache = 40 }\n";
        let config = parse(&Source { name: "f".into(), text: text.into() }, &|_| None).config.unwrap();
        let registry = HealthRegistry::build(&config).unwrap();
        let lines = Lines::follow(&config, &registry, None);
        let limited = Lines::follow(&config, &registry, Some(30));
        let readyz = config.health.iter().position(|health| health.name == "readyz").unwrap();
        let now = || {
            let mut line = Vec::new();
            lines.write(readyz, None, &mut line);
            String::from_utf8(line).unwrap()
        };
        let now_limited = || {
            let mut line = Vec::new();
            limited.write(readyz, None, &mut line);
            String::from_utf8(line).unwrap()
        };
        let tell = |check: usize, outcome: Outcome| {
            let finding = Finding { outcome, latency: Duration::ZERO, reason: "x".to_owned() };
            let _next = registry.found(check, &finding);
        };
        assert_eq!(now(), "down ready # db\n");
        tell(0, Outcome::Success);
        assert_eq!(now(), "up ready 60% # degraded cache\n");
        assert_eq!(now_limited(), "up ready 60% maxconn:30 # degraded cache\n");
        tell(1, Outcome::Success);
        assert_eq!(now(), "up ready 100%\n");
        tell(0, Outcome::Failure);
        assert_eq!(now(), "down ready # db\n");
        registry.drain(true);
        assert_eq!(now(), "down drain 40% # draining\n");
        tell(0, Outcome::Success);
        assert_eq!(now(), "up drain 100% # draining\n");
        registry.drain(false);
        let subject = registry.subject("readyz").unwrap();
        registry.maintain([(subject, Some(("patching\nnow", None)))]);
        assert_eq!(now(), "maint # patching now\n");
        registry.maintain([(subject, None)]);
        assert_eq!(now(), "up ready 100%\n");
    }

    #[test]
    fn what_stays_open_has_all_its_weight() {
        let text = "version = 1\n[check.db]\ntype = \"ttl\"\nttl = \"1m\"\nrise = 1\nfall = 1\n\
                    [check.cache]\ntype = \"ttl\"\nttl = \"1m\"\nrise = 1\nfall = 1\n\
                    [health.readyz]\nquorum = { of = [\"db\", \"cache\"], min = 1 }\nfail_open = { max_age = \"2m\" }\n\
                    weight = { db = 60, cache = 40 }\nendpoint_weight = true\n";
        let config = parse(&Source { name: "f".into(), text: text.into() }, &|_| None).config.unwrap();
        let registry = HealthRegistry::build(&config).unwrap();
        let lines = Lines::follow(&config, &registry, None);
        let readyz = config.health.iter().position(|health| health.name == "readyz").unwrap();
        let now = || {
            let mut line = Vec::new();
            lines.write(readyz, None, &mut line);
            String::from_utf8(line).unwrap()
        };
        let tell = |outcome: Outcome| {
            for check in 0..2 {
                let finding = Finding { outcome, latency: Duration::ZERO, reason: "x".to_owned() };
                let _next = registry.found(check, &finding);
            }
        };
        tell(Outcome::Success);
        assert_eq!(now(), "up ready 100%\n");
        tell(Outcome::Failure);
        let line = now();
        assert!(line.starts_with("up ready 100% # degraded "), "{line}");
    }
}
