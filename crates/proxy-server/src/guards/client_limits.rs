//! Limits and their counters, shared across generations: a reload keeps the counters of an
//! unchanged limit, so clients get no new or additional budget.

use super::{Refusal, seed};
use crate::build::tls::{self, Gate};
use doorbell::http::layer::AtMost;
use doorbell::http::limit::{Limiter, Quota};
use doorbell_proxy_config::model::{Config, Limit, Rate};
use doorbell_shared::limit;
use doorbell_shared::redis::SharedLimit;
use std::sync::Arc;

/// Maximum number of clients for which a shared limit leases requests (tokens) from the store. For
/// further clients, the limit is local.
const LEASES_MAX: usize = 65_536;

/// The limits of a configuration, with their counters.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    limits: Vec<Counting>,
    /// Prefix length of IPv6 clients, for all tables.
    v6_len: u8,
    /// Handshake limits, by name of `[tls.NAME]`.
    gates: Vec<(String, Rate, Gate)>,
    /// Concurrency limits, by name of the route.
    routes: Vec<(String, u32, AtMost)>,
    /// Concurrency limits, by name of the listener.
    listeners: Vec<(String, u32, AtMost)>,
}

/// A limit and its counts.
#[derive(Clone, Debug)]
struct Counting {
    limit: Limit,
    limiter: Arc<Limiter>,
    /// Set if instances share the limit.
    shared: Option<SharedLimit>,
}

/// A counter that several generations may share.
#[derive(Clone, Debug)]
pub(crate) enum Counted {
    AtMost(AtMost),
    Limiter(Arc<Limiter>),
}

impl Tables {
    /// Creates the tables of a configuration; reuses those of its predecessor where possible.
    pub(crate) fn after(before: &Self, config: &Config) -> Result<Self, Refusal> {
        let v6_len = config.runtime.client_ipv6_prefix;
        let mut tables = Self { v6_len, ..Self::default() };
        // Keys with different prefix lengths do not match.
        let none = Self::default();
        let by_address = if before.v6_len == v6_len { before } else { &none };
        for limit in &config.limits {
            let known = by_address.limits.iter().find(|known| counts_the_same(&known.limit, limit));
            tables.limits.push(match known {
                Some(known) => Counting { limit: limit.clone(), ..known.clone() },
                None => Counting::new(limit)?,
            });
        }
        for tls in &config.tls {
            let Some(rate) = tls.handshakes_per_ip else { continue };
            let known = by_address.gates.iter().find(|(name, known, _)| *name == tls.name && *known == rate);
            let gate = match known {
                Some((.., gate)) => Arc::clone(gate),
                None => tls::gate(rate, v6_len).map_err(|error| format!("tls {}: {error}", tls.name))?,
            };
            tables.gates.push((tls.name.clone(), rate, gate));
        }
        for route in &config.routes {
            let max = route.concurrent;
            tables.routes.extend(max.map(|max| caps(&before.routes, &route.name, max)));
        }
        for listener in &config.listeners {
            let max = listener.limits.requests_in_flight.filter(|_| listener.is_http());
            tables.listeners.extend(max.map(|max| caps(&before.listeners, &listener.name, max)));
        }
        Ok(tables)
    }

    /// The rate limiter of a limit, by position.
    pub(crate) fn limiter(&self, limit: usize) -> Option<&Arc<Limiter>> {
        self.limits.get(limit).map(|counting| &counting.limiter)
    }

    /// All limits that instances share.
    pub(crate) fn shared_limits(&self) -> Vec<SharedLimit> {
        self.limits.iter().filter_map(|counting| counting.shared.clone()).collect()
    }

    /// The handshake limit of a `[tls.NAME]`, which all its listeners share.
    pub(crate) fn gate(&self, tls: &str) -> Option<&Gate> {
        self.gates.iter().find(|(name, ..)| name == tls).map(|(.., gate)| gate)
    }

    /// The concurrency limit of a route, which all its listeners share.
    pub(crate) fn of_route(&self, route: &str) -> Option<&AtMost> {
        named(&self.routes, route)
    }

    pub(crate) fn of_listener(&self, listener: &str) -> Option<&AtMost> {
        named(&self.listeners, listener)
    }

    /// All counters of refused requests.
    pub(crate) fn counted(&self) -> impl Iterator<Item = Counted> {
        let limiters = self.limits.iter().map(|counting| Counted::Limiter(Arc::clone(&counting.limiter)));
        let caps = self.routes.iter().chain(&self.listeners);
        limiters.chain(caps.map(|(.., at_most)| Counted::AtMost(at_most.clone())))
    }
}

impl Counted {
    /// Whether both refer to the same counter.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::AtMost(one), Self::AtMost(other)) => one.is(other),
            (Self::Limiter(one), Self::Limiter(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// The number of refusals, with their reason.
    pub(crate) fn refused(&self) -> (&'static str, u64) {
        match self {
            Self::AtMost(at_most) => ("busy", at_most.refused()),
            Self::Limiter(limiter) => ("rate_limited", limiter.counts().denied),
        }
    }
}

fn caps(before: &[(String, u32, AtMost)], name: &str, max: u32) -> (String, u32, AtMost) {
    let known = before.iter().find(|(known, of, _)| known == name && *of == max);
    let at_most = known.map_or_else(|| AtMost::new(max), |(.., at_most)| at_most.clone());
    (name.to_owned(), max, at_most)
}

fn named<'a>(caps: &'a [(String, u32, AtMost)], name: &str) -> Option<&'a AtMost> {
    caps.iter().find(|(known, ..)| known == name).map(|(.., at_most)| at_most)
}

/// Whether both limits count in the same way. Exemptions and reply headers may differ.
fn counts_the_same(known: &Limit, limit: &Limit) -> bool {
    let is_same_key = (&known.name, &known.key, &known.shared) == (&limit.name, &limit.key, &limit.shared);
    is_same_key && (known.rate, known.burst, known.table) == (limit.rate, limit.burst, limit.table)
}

impl Counting {
    fn new(limit: &Limit) -> Result<Self, Refusal> {
        let refused = |error: String| format!("limit {}: {error}", limit.name);
        let quota = Quota::new(limit.burst, limit.rate.requests, limit.rate.period)
            .map_err(|error| refused(error.to_string()))?;
        let gcra = limit.in_store().transpose().map_err(refused)?;
        let table = limit.table as usize;
        let (limiter, shared) = match limit.shared.as_ref().zip(gcra) {
            None => (Limiter::new(quota, table, seed()), None),
            Some((keys, gcra)) => {
                let leases = Arc::new(gcra.leases(table.min(LEASES_MAX), keys.on_error));
                let seed = limit::seed(keys.secret.reveal().as_bytes(), &limit.name);
                let limiter = Limiter::leased(quota, table, seed, Arc::clone(&leases));
                (limiter, Some(SharedLimit { name: limit.name.clone(), gcra, leases }))
            }
        };
        let limiter = Arc::new(limiter);
        Ok(Self { limit: limit.clone(), limiter, shared })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_proxy_config::{Source, parse};

    fn tables(before: &Tables, text: &str) -> Tables {
        let text = format!(
            "version = 1\n[listener.web]\nbind = \":8080\"\n{text}[route.r]\npath = \"/r\"\nlimit = \"a\"\nconcurrent = 3\nreply = {{}}\n"
        );
        let source = Source { name: "f".to_owned(), text };
        let parsed = parse(&source, &|_| None);
        let config = parsed.config.unwrap_or_else(|| panic!("{:?}", parsed.problems));
        Tables::after(before, &config).unwrap()
    }

    #[test]
    fn unchanged_limits_keep_their_counts_and_changed_ones_start_again() {
        const LIMIT: &str = "rate = \"10/s\"\nburst = 20\n";
        const SHARED: &str = "shared = { secret = \"0123456789abcdef\" }\n";
        let first = tables(&Tables::default(), &format!("[limit.a]\n{LIMIT}"));
        let same = |text: &str| {
            let next = tables(&first, text);
            Arc::ptr_eq(first.limiter(0).unwrap(), next.limiter(next.limits.len() - 1).unwrap())
        };
        for (text, expected) in [
            (format!("[limit.a]\n{LIMIT}"), true),
            (format!("[limit.a]\n{LIMIT}headers = false\nexempt_probes = true\n"), true),
            (format!("[limit.b]\n{LIMIT}[limit.a]\n{LIMIT}"), true),
            (format!("[limit.a]\n{LIMIT}key = \"token\"\n"), false),
            (format!("[limit.a]\n{LIMIT}table = 4096\n"), false),
            (format!("[limit.a]\n{LIMIT}{SHARED}[shared]\nredis = \"redis://a\"\n"), false),
            ("[limit.a]\nrate = \"10/s\"\nburst = 21\n".to_owned(), false),
            ("[limit.a]\nrate = \"10/m\"\nburst = 20\n".to_owned(), false),
        ] {
            assert_eq!(same(&text), expected, "{text}");
        }
    }

    #[test]
    fn concurrency_limits_are_kept_and_counted_once() {
        let text = "[limit.a]\nrate = \"10/s\"\n";
        let first = tables(&Tables::default(), text);
        let next = tables(&first, text);
        let cap = first.of_route("r").unwrap();
        assert!(cap.is(next.of_route("r").unwrap()) && first.of_listener("web").is_none());
        let all: Vec<Counted> = first.counted().chain(next.counted()).collect();
        let is_first = |at: usize| !all[..at].iter().any(|known| known.is(&all[at]));
        assert_eq!((0..all.len()).filter(|&at| is_first(at)).count(), 2, "a limiter and a cap");
    }
}
