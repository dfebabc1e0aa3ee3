//! Ports that are not served by workers: TCP gates, blackbox probes and links.

use super::SharedState;
use crate::blackbox::Probes;
use crate::exit::Failure;
use crate::links::{LinkPeers, Links};
use crate::registry::HealthRegistry;
use crate::sockets::gate::{self, Gates};
use doorbell_config::At;
use doorbell_proxy_config::model::{Config, TcpGate};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The ports of a generation.
#[derive(Debug, Default)]
pub(super) struct Ports {
    gates: Option<Gates>,
    probes: Option<Probes>,
    links: Option<Links>,
}

/// The ports of a generation that is being built: each address is newly bound, or taken over from
/// the previous generation.
#[derive(Debug)]
pub(super) struct Unopened {
    gates: Next<gate::Unopened>,
    probes: Next<Probes>,
    links: Next<Links>,
}

#[derive(Debug)]
enum Next<T> {
    New(T),
    None,
    /// The ports are unchanged.
    Same,
}

impl<T> From<Option<T>> for Next<T> {
    fn from(next: Option<T>) -> Self {
        next.map_or(Self::None, Self::New)
    }
}

impl Ports {
    /// Binds the addresses that are not in the previous generation.
    ///
    /// # Errors
    /// If an address cannot be bound, a file cannot be used, or a thread cannot start. Nothing has
    /// changed in these cases.
    pub(super) fn prepare(
        config: &Config,
        before: Option<(&Self, &Config)>,
        SharedState { process_stats, links: peers, operator, .. }: &SharedState,
    ) -> Result<Unopened, Failure> {
        let gates = match before {
            Some((Self { gates: Some(_), .. }, old)) if has_same_gates(old, config) => Next::Same,
            Some((Self { gates: Some(gates), .. }, _)) => {
                Gates::prepare(config, gates.addrs(), process_stats)?.into()
            }
            _ => Gates::prepare(config, &[], process_stats)?.into(),
        };
        let has_same_probes = |old: &Config| {
            // Certificates are read again, because their files may have changed.
            let has_files = config.blackbox.iter().any(|blackbox| blackbox.reads_files());
            !has_files
                && old.blackbox == config.blackbox
                && old.check_defaults.egress == config.check_defaults.egress
        };
        let probes = match before {
            Some((Self { probes: Some(_), .. }, old)) if has_same_probes(old) => Next::Same,
            Some((Self { probes, .. }, _)) => Probes::prepare(config, probes.as_ref(), process_stats)?.into(),
            None => Probes::prepare(config, None, process_stats)?.into(),
        };
        let links = match before.and_then(|(before, _)| before.links.as_ref()) {
            Some(links) if links.is_same(config) => Next::Same,
            links => Links::prepare(config, links, peers, operator)?.into(),
        };
        Ok(Unopened { gates, probes, links })
    }

    /// Returns the addresses by purpose.
    pub(super) fn addresses(&self, config: &Config) -> BTreeMap<String, Vec<String>> {
        let shown = |binds: &[At<SocketAddr>]| binds.iter().map(|bind| bind.to_string()).collect::<Vec<_>>();
        let gate = |gate: &TcpGate| (format!("tcp_gate.{}", gate.name), shown(&gate.binds));
        let probes = self.probes.iter().map(|probes| ("blackbox".to_owned(), probes.addrs()));
        let links = self.links.iter().map(|links| ("links".to_owned(), links.addrs()));
        let links = links.filter(|(_, addrs)| !addrs.is_empty());
        config.tcp_gates.iter().map(gate).chain(probes).chain(links).collect()
    }

    /// Upper bound on open descriptors.
    pub(super) fn descriptors(config: &Config) -> u32 {
        let all = [Gates::descriptors(config), Probes::descriptors(config), Links::descriptors(config)];
        all.into_iter().fold(0, u32::saturating_add)
    }
}

impl Unopened {
    /// Opens new ports, and closes removed ones. Unchanged ports stay open all the time. TCP gates
    /// follow endpoints of this registry.
    pub(super) fn open(
        self,
        before: Ports,
        config: &Config,
        registry: &HealthRegistry,
        peers: &LinkPeers,
    ) -> Ports {
        let Ports { gates, probes, links } = before;
        let gates = match self.gates {
            Next::New(next) => {
                let held = gates.map(Gates::into_listeners).unwrap_or_default();
                Some(next.open(config, registry, held))
            }
            Next::None => None,
            Next::Same => gates.inspect(|gates| gates.follow(config, registry)),
        };
        let probes = match self.probes {
            Next::New(next) => {
                next.open();
                probes.into_iter().for_each(Probes::leave);
                Some(next)
            }
            Next::None => {
                probes.into_iter().for_each(Probes::leave);
                None
            }
            Next::Same => probes,
        };
        peers.follow(config);
        let links = match self.links {
            Next::New(next) => {
                links.into_iter().for_each(Links::leave);
                next.open();
                Some(next)
            }
            Next::None => {
                drop(links);
                peers.forget();
                None
            }
            Next::Same => links,
        };
        Ports { gates, probes, links }
    }
}

/// Whether both configurations have gates with the same addresses and settings. The endpoints may
/// differ.
fn has_same_gates(old: &Config, config: &Config) -> bool {
    let ports = |config: &Config| {
        let port = |gate: &TcpGate| (gate.name.clone(), gate.binds.clone(), gate.when_down);
        config.tcp_gates.iter().map(port).collect::<Vec<_>>()
    };
    ports(old) == ports(config)
}
