//! Ports that are open beside the rings: TCP gates, and probes for whoever asks.
//!
//! Does not know about: what is said there.

use crate::config::model::{Config, TcpGate};
use crate::exit::Failure;
use crate::serve::blackbox::Probes;
use crate::serve::board::Keeper;
use crate::serve::gate::Gates;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Those of a generation.
#[derive(Debug, Default)]
pub(super) struct Ports {
    gates: Option<Gates>,
    probes: Option<Probes>,
}

impl Ports {
    /// Opens them all.
    ///
    /// # Errors
    /// When somebody else listens there, or nobody may.
    pub(super) fn open(config: &Config, keeper: &Keeper) -> Result<Self, Failure> {
        Ok(Self { gates: Gates::open(config, keeper)?, probes: Probes::open(config)? })
    }

    /// Those of the generation before. What stays open stays as it is; what is another one is closed and opened anew, and where that fails
    /// it stays closed, which is said: the generation serves already.
    pub(super) fn inherit(before: Self, old: &Config, config: &Config, keeper: &Keeper) -> Self {
        let Self { gates, probes } = before;
        let gates = match gates {
            Some(gates) if has_same_gates(old, config) => {
                gates.follow(config, keeper);
                Some(gates)
            }
            gates => {
                drop(gates);
                opened(Gates::open(config, keeper))
            }
        };
        let is_same = old.blackbox == config.blackbox && old.egress == config.egress;
        let probes = match probes {
            Some(probes) if is_same => Some(probes),
            probes => {
                drop(probes);
                opened(Probes::open(config))
            }
        };
        Self { gates, probes }
    }

    /// Where they are, by what for. Those that are yet to be taken over are where the configuration has them.
    pub(super) fn addresses(&self, config: &Config) -> BTreeMap<String, Vec<String>> {
        let shown = |binds: &[SocketAddr]| binds.iter().map(ToString::to_string).collect::<Vec<_>>();
        let gate = |gate: &TcpGate| (format!("tcp_gate.{}", gate.name), shown(&gate.binds));
        let probes = config.blackbox.iter().map(|blackbox| {
            let open = self.probes.as_ref().map(|probes| probes.addrs().to_vec());
            ("blackbox".to_owned(), open.unwrap_or_else(|| shown(&blackbox.binds)))
        });
        config.tcp_gates.iter().map(gate).chain(probes).collect()
    }

    /// Descriptors that may be open at once.
    pub(super) fn descriptors(config: &Config) -> u32 {
        Gates::descriptors(config).saturating_add(Probes::descriptors(config))
    }
}

fn opened<T>(port: Result<Option<T>, Failure>) -> Option<T> {
    port.inspect_err(|failure| tracing::error!("{failure}")).ok().flatten()
}

/// Whether the same addresses are open in the same manner, whatever for.
fn has_same_gates(old: &Config, config: &Config) -> bool {
    let ports = |config: &Config| {
        let port = |gate: &TcpGate| (gate.name.clone(), gate.binds.clone(), gate.when_down);
        config.tcp_gates.iter().map(port).collect::<Vec<_>>()
    };
    ports(old) == ports(config)
}
