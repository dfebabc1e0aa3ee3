//! The shared checks of a configuration: their options, and the exchange of results with the check
//! thread.

use super::{Settings, instance};
use doorbell_checks::{Finding, Push, RunStart};
use doorbell_health::Outcome;
use doorbell_link as link;
use doorbell_proxy_config::model::Config;
use doorbell_proxy_config::to_json;
use doorbell_shared::{Local, ShareOptions, ShareView, SharedResult, SharedStore, Shares, Status};
use parking_lot::Mutex;
use siphasher::sip::SipHasher13;
use std::collections::HashMap;
use std::hash::Hasher as _;
use std::sync::Arc;
use std::time::Duration;

/// The shared checks, and the status of the connection to the store.
#[derive(Debug)]
pub(super) struct ShareContext {
    shares: Arc<Shares>,
    status: Arc<Status>,
    zone: String,
}

impl ShareContext {
    pub(super) fn new(options: Vec<ShareOptions>, settings: &Settings, status: &Arc<Status>) -> Arc<Self> {
        let (status, zone) = (Arc::clone(status), settings.zone.clone().unwrap_or_default());
        Arc::new(Self { shares: Shares::new(options), status, zone })
    }

    /// Continues the work of an earlier thread, which has ended.
    pub(super) fn continue_from(&self, earlier: &Self) {
        self.shares.continue_from(&earlier.shares);
    }

    /// Shares the checks; never completes.
    pub(super) async fn run(self: Arc<Self>, store: impl SharedStore, local: Arc<LocalChecks>) {
        Arc::clone(&self.shares).run(store, local).await;
        // Reached only by a second call, which has nothing to do.
        std::future::pending().await
    }
}

/// The shared checks of one configuration.
#[derive(Clone, Debug)]
pub(crate) struct SharedChecks {
    shared: Arc<ShareContext>,
    /// Positions of the checks in the configuration, in the order of the shared checks.
    positions: Arc<[usize]>,
}

impl SharedChecks {
    pub(super) fn new(shared: Arc<ShareContext>, positions: &[usize]) -> Self {
        Self { shared, positions: positions.into() }
    }

    /// Status of the connection to the store.
    pub(crate) fn status(&self) -> &Status {
        &self.shared.status
    }

    /// Zone of this instance; may be empty.
    pub(crate) fn zone(&self) -> &str {
        &self.shared.zone
    }

    /// Number of dropped messages of the store, plus dropped reports of runs.
    pub(crate) fn dropped(&self) -> u64 {
        self.shared.shares.dropped()
    }

    /// State of a check, by its position; `None` if it is not shared.
    pub(crate) fn view(&self, position: usize) -> Option<ShareView> {
        self.shared.shares.view(self.place(position)?)
    }

    /// Publishes the result of a run, if the check is shared. `interval` is the time from the start
    /// of this run to the start of the next.
    pub(crate) fn ran(&self, position: usize, finding: &Finding, interval: Duration) {
        let Some(place) = self.place(position) else { return };
        let next = interval.saturating_sub(finding.latency);
        let result = stated(finding.outcome)
            .map(|outcome| SharedResult::new(outcome, finding.latency, &finding.reason, next));
        self.shared.shares.ran(place, next, result);
    }

    /// Returns the position of a check among the shared checks. `positions` is in ascending order.
    fn place(&self, position: usize) -> Option<usize> {
        self.positions.binary_search(&position).ok()
    }
}

/// Options of the shared checks of a configuration, and their positions.
pub(super) fn options(config: &Config, settings: &Settings, run: u64) -> (Vec<usize>, Vec<ShareOptions>) {
    let json = to_json(config, true);
    let instance = instance(settings);
    let checks = config.checks.iter().enumerate().filter(|(_, check)| check.share);
    let options = checks.map(|(at, check)| {
        let fingerprint = fingerprint(&json["check"][&check.name]);
        let options = ShareOptions {
            name: check.name.clone(),
            check: format!("{}:{fingerprint:016x}", check.name),
            instance: instance.clone(),
            holder: format!("{instance} {run:016x}"),
            interval: check.pace.interval,
            timeout: check.pace.timeout,
            max_age: check.pace.max_age,
            seed: run ^ fingerprint,
        };
        (at, options)
    });
    options.unzip()
}

/// Hash of the options of a check, the same on every machine. Instances share a check only if all
/// its options are equal, except secrets.
fn fingerprint(options: &serde_json::Value) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(options.to_string().as_bytes());
    hasher.finish()
}

/// Access to the checks of the configuration in use.
#[derive(Debug, Default)]
pub(super) struct LocalChecks(Mutex<Targets>);

#[derive(Debug, Default)]
struct Targets {
    /// Position of each shared check, and the handle that starts its runs.
    checks: Vec<(usize, Option<RunStart>)>,
    push: Option<Push>,
}

impl LocalChecks {
    pub(super) fn follow(
        &self,
        checks: Option<&SharedChecks>,
        mut starts: HashMap<usize, RunStart>,
        push: Option<Push>,
    ) {
        let positions = checks.iter().flat_map(|checks| checks.positions.iter());
        let checks = positions.map(|at| (*at, starts.remove(at))).collect();
        *self.0.lock() = Targets { checks, push };
    }
}

impl Local for LocalChecks {
    fn run(&self, check: usize) {
        let targets = self.0.lock();
        if let Some((_, Some(start))) = targets.checks.get(check) {
            start.start();
        }
    }

    fn take(&self, check: usize, result: &SharedResult) {
        let targets = self.0.lock();
        let (Some((position, _)), Some(push)) = (targets.checks.get(check), &targets.push) else { return };
        let (outcome, latency) = (outcome(result.outcome), Duration::from_micros(result.latency_us));
        // A refusal is counted.
        let _refused = push.leave(*position, Finding { outcome, latency, reason: result.reason.clone() });
    }
}

const fn outcome(outcome: link::Outcome) -> Outcome {
    match outcome {
        link::Outcome::Degraded => Outcome::Degraded,
        link::Outcome::Error => Outcome::Error,
        link::Outcome::Failure => Outcome::Failure,
        link::Outcome::Maintenance => Outcome::Maintenance,
        link::Outcome::Success => Outcome::Success,
        link::Outcome::Timeout => Outcome::Timeout,
    }
}

/// The outcome to publish; `None` for a run without a result.
const fn stated(outcome: Outcome) -> Option<link::Outcome> {
    Some(match outcome {
        Outcome::Degraded => link::Outcome::Degraded,
        Outcome::Error => link::Outcome::Error,
        Outcome::Failure => link::Outcome::Failure,
        Outcome::Maintenance => link::Outcome::Maintenance,
        Outcome::Success => link::Outcome::Success,
        Outcome::Timeout => link::Outcome::Timeout,
        Outcome::Unknown => return None,
    })
}
