//! `[health.NAME]`: endpoints, their checks, and the status code of each state.

use doorbell_config::{At, Entry, Json, Key, Link, Map, Table, Words};
use doorbell_health::Severity;
use doorbell_health::limits::{BODY_LEN_MAX, BODY_LEN_MIN};
pub use doorbell_health::{Codes, OnDrain, OnStale, Quorum};
use doorbell_probes::StateFields;
use serde_json::json;
use std::ops::RangeInclusive;
use std::time::Duration;
use toml::de::DeValue;

const ON_STALE: [(&str, OnStale); 4] = [
    ("degraded", OnStale::Degraded),
    ("down", OnStale::Down),
    ("keep", OnStale::Keep),
    ("unknown", OnStale::Unknown),
];

const ON_DRAIN: [(&str, OnDrain); 2] = [("ignore", OnDrain::Ignore), ("report", OnDrain::Report)];

/// One endpoint. readyz without lists of checks contains all checks, each with its severity.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Health {
    /// Referred to by routes.
    #[key(table_name)]
    pub name: String,
    /// State of an endpoint without checks.
    #[key(default = "up")]
    pub initial: HealthState,
    /// Checks that make the endpoint down when one of them is down.
    #[key(shown)]
    pub require: Option<Vec<At<Link>>>,
    /// Checks that make the endpoint degraded when one of them is not up.
    #[key(shown)]
    pub degrading: Option<Vec<At<Link>>>,
    /// Checks that are shown and do not affect the state.
    #[key(shown)]
    pub info: Option<Vec<At<Link>>>,
    /// Checks of which a minimum must be up or degraded. A member that is in no other list counts
    /// as degrading, or as informational if its `severity` is info.
    pub quorum: Option<QuorumOf>,
    /// Weight of each check: its share of the capacity, for `endpoint_weight` and agents.
    #[key(range = 0..=1_000_000)]
    pub weight: Map<u32>,
    /// Keeps the endpoint degraded instead of down while at most `max_healthy` of the checks of the
    /// quorum (without a quorum: of the required checks) are healthy. Default: the endpoint is
    /// down.
    pub fail_open: Option<FailOpen>,
    /// Keeps the endpoint up once it has been up or degraded.
    #[key(default = false)]
    pub latch: bool,
    /// State of a check whose result is older than the check's `max_age`.
    #[key(default = "down", words = ON_STALE)]
    pub on_stale: OnStale,
    /// Replies to each audience during a drain of the process or of this endpoint: report
    /// (`status.drain`), ignore (as without a drain), or a status code. Default: report; for
    /// liveness and startup endpoints: ignore.
    pub on_drain: DrainReplies,
    /// Reply while degraded. With kube-warning, a kubelet gets 302 and records an event, with the
    /// reasons if the route shows it `details`; other clients get `status.degraded`.
    #[key(default = "status")]
    pub degraded_via: DegradedVia,
    /// Status codes by state.
    pub status: Statuses,
    /// `Retry-After` of every 503. Default: none.
    #[key(range = "1s..=1d")]
    pub retry_after: Option<Duration>,
    /// Sends `x-envoy-degraded: true` while the endpoint is degraded and serves.
    #[key(default = false)]
    pub envoy_degraded: bool,
    /// Sends `X-Load-Balancing-Endpoint-Weight`: the sum of `weight` of the checks that are up or
    /// degraded, or of all checks if the endpoint serves although its checks fail; 0 if the
    /// endpoint does not serve.
    #[key(default = false)]
    pub endpoint_weight: bool,
    /// Maximum size of a reply's body; some load balancers read only 1KiB.
    #[key(default = "1KiB", range = BODY_LEN_MIN..=BODY_LEN_MAX, size)]
    pub max_body: u32,
    /// The checks of the endpoint without duplicates, in the order of their lists: `require`,
    /// `degrading`, `info`, `quorum`.
    #[key(skip)]
    pub uses: Vec<CheckUse>,
}

/// Checks of which a minimum must be up or degraded.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct QuorumOf {
    /// Checks of the quorum. Required.
    #[key(required = "[\"NAME\", ..]", filled)]
    pub of: Vec<At<Link>>,
    /// Minimum number of checks that must be up or degraded, or a percentage such as "60%".
    /// Required.
    #[key(required = "1", with = quorum_min)]
    pub min: Option<At<Quorum>>,
}

/// Keeps the endpoint degraded instead of down while at most `max_healthy` of the checks of the
/// quorum (without a quorum: of the required checks) are healthy.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct FailOpen {
    /// Maximum time that the endpoint fails open; then it is down. Required.
    #[key(required = "\"2m\"", range = "100ms..=30d")]
    pub max_age: Duration,
    /// Maximum share of the checks of the quorum (without a quorum: of the required checks) that
    /// may be healthy, such as "50%", like the panic threshold of Envoy. If more are healthy, the
    /// endpoint does not fail open. Every check that is not down counts as healthy.
    #[key(default = "0%", with = healthy_share)]
    pub max_healthy: u8,
}

/// Replies to each audience during a drain.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct DrainReplies {
    /// Reply to other clients, and default of `kubelet` and `load_balancer`.
    #[key(with = on_drain)]
    pub default: Option<OnDrain>,
    /// Reply to kubelets.
    #[key(with = on_drain)]
    pub kubelet: Option<OnDrain>,
    /// Reply to load balancers, which are recognized by their requests.
    #[key(with = on_drain)]
    pub load_balancer: Option<OnDrain>,
}

/// Status codes by state.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Statuses {
    /// Status code of up.
    #[key(default = 200, range = 200..=399)]
    pub up: u16,
    /// Status code of degraded.
    #[key(default = 200, range = 200..=599)]
    pub degraded: u16,
    /// Status code of down.
    #[key(default = 503, range = 200..=599)]
    pub down: u16,
    /// Status code during a drain.
    #[key(default = 503, range = 200..=599)]
    pub drain: u16,
    /// Status code of maintenance.
    #[key(default = 503, range = 200..=599)]
    pub maintenance: u16,
    /// Status codes by check, used while the endpoint is down because of that check. A kubelet
    /// reports only the code, not the body.
    #[key(range = 200..=599)]
    pub by_check: Map<u16>,
}

/// One check of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckUse {
    /// The position in [`super::Config::checks`].
    pub check: usize,
    /// Effect on the endpoint when the check is down.
    pub severity: Severity,
    /// Whether the check is a member of the quorum.
    pub in_quorum: bool,
    /// Weight of the check: its share of the capacity.
    pub weight: u32,
    /// Status code of the endpoint when it is down because of this check.
    pub code: Option<u16>,
}

/// Reply of a degraded endpoint to a kubelet. Other clients get the status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum DegradedVia {
    /// A redirect. A kubelet does not follow the redirect, treats it as success, and records an
    /// event of type `Warning` with the reason.
    KubeWarning,
    /// The status code, as for other clients.
    Status,
}

/// The state of a health endpoint without checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum HealthState {
    /// Replies with `status.down`, by default 503.
    Down,
    /// Replies with `status.up`, by default 200.
    Up,
}

/// Purpose of probes, derived from the name of their endpoint or from their path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Whether the process is alive; a prober restarts a process that is down.
    Liveness,
    /// Whether the process accepts traffic.
    Readiness,
    /// Whether the process has started. Other probes begin after the start; a prober restarts the
    /// process if the start takes too long.
    Startup,
}

impl Role {
    /// Returns the role by the last word of `name`: the name of an endpoint, such as `app_livez`,
    /// or the last part of a path.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let last = name.rsplit(['_', '-']).next().unwrap_or(name);
        let is_any = |words: &[&str]| words.iter().any(|word| last.eq_ignore_ascii_case(word));
        if is_any(&["livez", "live", "liveness", "alive"]) {
            Self::Liveness
        } else if is_any(&["startupz", "startup", "started"]) {
            Self::Startup
        } else {
            Self::Readiness
        }
    }
}

impl Health {
    /// An endpoint with this name and default values.
    pub(crate) fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Minimum number or percentage of checks with `in_quorum` that must be up or degraded.
    #[must_use]
    pub fn quorum(&self) -> Option<Quorum> {
        Some(self.quorum.as_ref()?.min.as_ref()?.value)
    }

    /// The status code of each state.
    #[must_use]
    pub fn codes(&self) -> Codes {
        let Statuses { up, degraded, down, drain, maintenance, .. } = self.status;
        Codes { degraded, down, drain, maintenance, up }
    }

    /// Replies to kubelets, load balancers and other clients during a drain. Liveness and startup
    /// endpoints ignore the drain by default.
    #[must_use]
    pub fn on_drain(&self) -> [OnDrain; 3] {
        let by_role = if Self::is_readiness(&self.name) { OnDrain::Report } else { OnDrain::Ignore };
        let DrainReplies { default, kubelet, load_balancer } = self.on_drain;
        [kubelet, load_balancer, None].map(|reply| reply.or(default).unwrap_or(by_role))
    }

    /// Header fields that depend on the state; times are rounded up to whole seconds.
    #[must_use]
    pub fn fields(&self) -> StateFields {
        let secs = |time: Duration| time.as_secs() + u64::from(time.subsec_nanos() > 0);
        StateFields {
            retry_after_secs: self.retry_after.and_then(|time| u32::try_from(secs(time)).ok()),
            envoy_degraded: self.envoy_degraded,
            endpoint_weight: self.endpoint_weight,
        }
    }

    /// Whether an endpoint with this name is for readiness (see [`Role::of`]). By default, drains
    /// and maintenance do not affect liveness and startup endpoints, whose probers would restart
    /// the process.
    #[must_use]
    pub fn is_readiness(name: &str) -> bool {
        Role::of(name) == Role::Readiness
    }
}

impl CheckUse {
    /// Creates the use of a check with this severity, outside the quorum and without weight.
    #[must_use]
    pub const fn new(check: usize, severity: Severity) -> Self {
        Self { check, severity, in_quorum: false, weight: 0, code: None }
    }
}

/// Reads a percentage such as `"60%"`.
fn percent_of(entry: &Entry<'_>, range: &RangeInclusive<u8>, help: &str) -> Option<u8> {
    let text = entry.string()?;
    let percent = text.strip_suffix('%').and_then(|number| number.parse().ok());
    let percent = percent.filter(|percent| range.contains(percent));
    percent.or_else(|| {
        let message = format!("{text:?} is not a percentage of the checks");
        entry.refuse("bad-value", message, help)
    })
}

/// Reader of `max_healthy`: a percentage.
mod healthy_share {
    use super::{Entry, Json, Key, json, percent_of};

    pub(super) fn read(entry: &Entry<'_>) -> Option<u8> {
        percent_of(entry, &(0..=99), "write a percentage from \"0%\" to \"99%\"")
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by the `Table` derive")]
    pub(super) fn dump(percent: &u8) -> Option<Json> {
        Some(json!(format!("{percent}%")))
    }

    pub(super) fn form(_: &Key) -> Json {
        json!({ "type": "string", "pattern": "%$|\\$\\{" })
    }
}

/// Reader of a quorum's `min`: a count, or a percentage such as `"60%"`.
mod quorum_min {
    use super::{At, DeValue, Entry, Json, Key, Quorum, json, percent_of};

    pub(super) fn read(entry: &Entry<'_>) -> Option<Option<At<Quorum>>> {
        let quorum = entry.number_or_text(|entry| match entry.raw() {
            DeValue::Integer(_) => u32::try_from(entry.integer(&(1..=10_000))?).ok().map(Quorum::Count),
            DeValue::String(_) => {
                let help = "write a number of checks, or a percentage such as \"60%\"";
                percent_of(entry, &(1..=100), help).map(Quorum::Percent)
            }
            _ => entry.wrong_type("a whole number, or a percentage such as \"60%\""),
        });
        Some(Some(At { value: quorum?, span: entry.span() }))
    }

    #[expect(clippy::ref_option, reason = "signature required by the `Table` derive")]
    pub(super) fn dump(quorum: &Option<At<Quorum>>) -> Option<Json> {
        Some(match quorum.as_ref()?.value {
            Quorum::Count(count) => json!(count),
            Quorum::Percent(percent) => json!(format!("{percent}%")),
        })
    }

    pub(super) fn form(_: &Key) -> Json {
        json!({ "anyOf": [{ "type": "integer", "minimum": 1 }, { "type": "string", "pattern": "%$|\\$\\{" }] })
    }
}

/// Reader of a drain reply: a status code, `ignore` or `report`.
mod on_drain {
    use super::{DeValue, Entry, Json, Key, ON_DRAIN, OnDrain, json};
    use doorbell_config::{form, word_of};

    pub(super) fn read(entry: &Entry<'_>) -> Option<Option<OnDrain>> {
        entry.number_or_text(|entry| match entry.raw() {
            DeValue::Integer(_) => {
                let code = entry.integer(&(200..=599))?;
                Some(Some(OnDrain::Code(u16::try_from(code).ok()?)))
            }
            DeValue::String(_) => entry.word(&ON_DRAIN).map(Some),
            _ => entry.wrong_type("a status, \"ignore\" or \"report\""),
        })
    }

    #[expect(clippy::ref_option, reason = "signature required by the `Table` derive")]
    pub(super) fn dump(reply: &Option<OnDrain>) -> Option<Json> {
        Some(match (*reply)? {
            OnDrain::Code(code) => json!(code),
            word => word_of(&ON_DRAIN, word).into(),
        })
    }

    pub(super) fn form(_: &Key) -> Json {
        json!({ "anyOf": [{ "type": "integer", "minimum": 200, "maximum": 599 }, form::words(&["ignore", "report"])] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_what_is_restarted() {
        for (name, expected) in [
            ("livez", false),
            ("startupz", false),
            ("app_livez", false),
            ("app-1-startupz", false),
            ("live", false),
            ("liveness", false),
            ("app_alive", false),
            ("Alive", false),
            ("startup", false),
            ("app-started", false),
            ("starting", true),
            ("live_orders", true),
            ("readyz", true),
            ("app", true),
            ("livez_app", true),
            ("alivez", true),
        ] {
            assert_eq!(Health::is_readiness(name), expected, "{name}");
        }
    }
}
