//! Builder of the registry: checks, endpoints, and the number of threads that serve probes.

use super::{EndpointPlace, Registry, RegistryInner, Serving};
use crate::prober_stats::ProberStats;
use crate::replies::{Published, ReplySet, StateFields};
use doorbell_health::{
    Audience, Board, BoardBuilder, CheckConfig, CheckIndex, Command, ConfigError, EndpointConfig,
    EndpointIndex, Forced, ForcedState, Reason, Target, Time,
};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

/// Builds a [`Registry`]. Positions of checks and endpoints count from 0 in the order in which they
/// are added.
#[derive(Debug)]
pub struct RegistryBuilder {
    board: BoardBuilder,
    now: Time,
    unix: Duration,
    checks: Vec<CheckIndex>,
    endpoints: Vec<EndpointPlace>,
    names: Vec<String>,
    threads: usize,
    before: Option<ProberStats>,
}

/// Options of an endpoint in addition to its [`EndpointConfig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointOptions {
    /// Whether the endpoint controls traffic. [`Registry::fail`] and maintenance of
    /// [`Subject::All`] skip other endpoints, because their probers restart the process. Default
    /// true.
    ///
    /// [`Subject::All`]: super::Subject::All
    pub is_readiness: bool,
    /// Whether a kubelet gets a redirect while the endpoint is degraded. The kubelet reports the
    /// reason, which is the body of the redirect, as an event. Default false.
    pub warns_kubelets: bool,
    /// Whether the endpoint is down from the start; for endpoints without checks. Default false.
    pub is_down: bool,
    /// Header fields that depend on the state. Default none.
    pub fields: StateFields,
}

impl Default for EndpointOptions {
    fn default() -> Self {
        Self { is_readiness: true, warns_kubelets: false, is_down: false, fields: StateFields::default() }
    }
}

impl RegistryBuilder {
    pub(super) fn new(now: Time, unix: Duration) -> Self {
        Self {
            board: Board::builder(now).unix_at_zero(unix),
            now,
            unix,
            checks: Vec::new(),
            endpoints: Vec::new(),
            names: Vec::new(),
            threads: 1,
            before: None,
        }
    }

    pub(super) fn after(self, before: ProberStats) -> Self {
        Self { before: Some(before), ..self }
    }

    /// Number of threads that serve probes. Default 1. If more threads serve probes, prober
    /// statistics may lose counts.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Adds a check.
    ///
    /// # Errors
    /// The configuration is invalid, the name is taken, or the registry is full.
    pub fn check(&mut self, name: &str, config: CheckConfig) -> Result<CheckIndex, ConfigError> {
        let index = self.board.check(name, config)?;
        self.checks.push(index);
        Ok(index)
    }

    /// Adds an endpoint.
    ///
    /// # Errors
    /// The configuration is invalid, the name is taken, the registry is full, or a check is not
    /// part of the registry.
    pub fn endpoint(
        &mut self,
        config: EndpointConfig,
        options: EndpointOptions,
    ) -> Result<EndpointIndex, ConfigError> {
        let name = config.name.clone();
        let index = self.board.endpoint(config)?;
        self.endpoints.push(EndpointPlace { index, options });
        self.names.push(name);
        Ok(index)
    }

    /// Builds the registry and publishes the initial states of all endpoints.
    #[must_use]
    pub fn build(self) -> Arc<Registry> {
        let Self { board, now, unix, checks, endpoints, names, threads, before } = self;
        let mut board = board.build();
        for place in endpoints.iter().filter(|place| place.options.is_down) {
            let forced = Forced { state: ForcedState::Down, reason: Reason::default(), until: None };
            board.command(Command::Force { target: Target::One(place.index), forced: Some(forced) }, now);
        }
        let serving = Serving { board: &board, endpoints: &endpoints, rendered: None };
        let states = (0..endpoints.len()).map(|at| Audience::ALL.map(|to| serving.state(at, to)));
        let published = Published::new(ReplySet::of(states));
        let mut prober_stats = ProberStats::new(names.iter().map(String::as_str), threads);
        before.iter().for_each(|before| prober_stats.continue_from(before));
        let singles = vec![Vec::new(); checks.len()];
        Arc::new(Registry {
            checks,
            endpoints,
            prober_stats,
            published,
            inner: Mutex::new(RegistryInner {
                board,
                unix,
                caches: Vec::new(),
                singles,
                renderers: Vec::new(),
                followers: Vec::new(),
                triggers: HashMap::new(),
                followed: HashMap::new(),
                sinks: Vec::new(),
            }),
            found: Condvar::new(),
            reports: AtomicBool::new(before.is_none()),
            predecessors: OnceLock::new(),
        })
    }
}
