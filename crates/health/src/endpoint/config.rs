//! Configuration of one endpoint: how its checks count, and its status codes.

use std::time::Duration;

use crate::board::CheckIndex;
use crate::error::ConfigError;
use crate::limits::{BODY_LEN_MAX, BODY_LEN_MIN, NAME_LEN_MAX};

/// Effect of a check that is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The endpoint becomes degraded, but not down. Suits dependencies that all replicas share.
    Degrading,
    /// No effect; the check is only shown.
    Info,
    /// The endpoint is down.
    Required,
}

impl Severity {
    /// The name in bodies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Degrading => "degrading",
            Self::Info => "info",
            Self::Required => "required",
        }
    }
}

/// The use of one check by one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The check.
    pub check: CheckIndex,
    /// The effect of the check when it is down.
    pub severity: Severity,
    /// Whether the check counts for the quorum, whatever its severity.
    pub in_quorum: bool,
    /// The check's share of the endpoint's weight while the check is up or degraded.
    pub weight: u32,
    /// The endpoint's status code when it is down because of this check. If the endpoint is down
    /// because of several checks with a code, the code of the first such check applies.
    pub code: Option<u16>,
}

impl Use {
    /// A use with this severity, outside the quorum, without weight.
    pub const fn new(check: CheckIndex, severity: Severity) -> Self {
        Self { check, severity, in_quorum: false, weight: 0, code: None }
    }

    /// Whether the check affects the endpoint; false if it is only shown.
    pub(crate) fn counts(&self) -> bool {
        self.severity != Severity::Info || self.in_quorum || self.weight > 0
    }
}

/// Minimum number of the quorum's checks that must be up or degraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quorum {
    /// An absolute number.
    Count(u32),
    /// A percentage of the group, 1 to 100. The resulting number is rounded up.
    Percent(u8),
}

impl Quorum {
    /// The number of checks that must be up or degraded in a group of `of` checks.
    pub const fn min(self, of: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => {
                // `min` is at most `of`, because the percentage is at most 100.
                let exact = of as u64 * percent as u64;
                let min = exact.div_ceil(100);
                if min > u32::MAX as u64 { u32::MAX } else { low_half(min) }
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the caller compares the value with u32::MAX")]
const fn low_half(value: u64) -> u32 {
    value as u32
}

/// How an endpoint counts a stale check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStale {
    /// As degraded, regardless of the state before.
    Degraded,
    /// As down.
    #[default]
    Down,
    /// As before the check became stale: maintenance or unknown if the last result reported it,
    /// otherwise up, degraded or down. A hold for flapping is ignored.
    Keep,
    /// As unknown.
    Unknown,
}

/// Keeps the endpoint degraded instead of down while at most `max_healthy` percent of the group are
/// healthy: if many members fail at the same time, a failed shared dependency is more likely than a
/// failure of each member.
///
/// The group is the quorum's checks or, without a quorum, the required ones. At least one member
/// must be down. The endpoint must have been up or degraded before, which excludes a replica that
/// never worked. A member counts as healthy unless it is down, or stale and counted as down
/// ([`OnStale`]), so unknown members and members in maintenance count as healthy. Envoy's panic
/// threshold and the load balancers of AWS also fail open, but without a time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailOpen {
    /// Maximum duration of fail-open, from the time at which few enough members are healthy.
    pub max_age: Duration,
    /// Maximum percentage of healthy members, 0 to 99. With 0, every member must be down.
    pub max_healthy: u8,
}

impl FailOpen {
    /// Whether at most `max_healthy` percent of a group's members are healthy. Every member that is
    /// not down counts as healthy. False for a group without a member that is down.
    pub const fn covers(max_healthy: u8, down: u32, members: u32) -> bool {
        let healthy = members.saturating_sub(down) as u64;
        down > 0 && healthy * 100 <= members as u64 * max_healthy as u64
    }
}

/// Grace period: unknown checks count as up for a time after the endpoint was first built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// Duration of the grace period; a reload does not restart it.
    pub duration: Duration,
}

/// The kind of client. The reply during a drain is configured for each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Audience {
    /// The kubelet: a reply can cause restarts and alarms.
    Kubelet,
    /// A load balancer: a reply determines whether the balancer sends new connections.
    LoadBalancer,
    /// Any other client.
    Other,
}

impl Audience {
    /// All audiences, in the order of their discriminants.
    pub const ALL: [Self; 3] = [Self::Kubelet, Self::LoadBalancer, Self::Other];
}

/// The clients that see the checks and their reasons in replies to probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Details {
    /// All clients.
    Always,
    /// Authenticated clients.
    #[default]
    Authenticated,
    /// No client.
    Never,
}

impl Details {
    pub(crate) const fn shown_to(self, authenticated: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Authenticated => authenticated,
            Self::Never => false,
        }
    }
}

/// The reply to an audience during a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDrain {
    /// State "drain" with this code.
    Code(u16),
    /// The same reply as without a drain.
    Ignore,
    /// State "drain" with the code of [`Codes::drain`].
    #[default]
    Report,
}

/// The status code of each state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codes {
    /// Default 200.
    pub degraded: u16,
    /// Default 503.
    pub down: u16,
    /// Default 503.
    pub drain: u16,
    /// Default 503.
    pub maintenance: u16,
    /// Default 200.
    pub up: u16,
}

impl Default for Codes {
    fn default() -> Self {
        Self { degraded: 200, down: 503, drain: 503, maintenance: 503, up: 200 }
    }
}

/// Configuration of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointConfig {
    /// The name, unique among endpoints.
    pub name: String,
    /// The checks of the endpoint, each once. A body shows first the checks that decided the
    /// verdict, then others that are not up, then the rest; within each of the three groups, the
    /// order is that of this list.
    pub uses: Vec<Use>,
    /// Minimum number of uses with `in_quorum` whose checks must be up or degraded.
    pub quorum: Option<Quorum>,
    /// The rule for fail-open. `None`: the endpoint never fails open.
    pub fail_open: Option<FailOpen>,
    /// Whether the endpoint stays up once it was up or degraded, as startup probes require.
    pub latch: bool,
    /// How stale checks count. Default down.
    pub on_stale: OnStale,
    /// Grace period for unknown checks. Ignored for an endpoint with a latch.
    pub grace: Option<Grace>,
    /// The status codes.
    pub codes: Codes,
    /// The reply to each audience during a drain, in the order of [`Audience::ALL`].
    pub on_drain: [OnDrain; 3],
    /// The clients that see the checks.
    pub details: Details,
    /// Maximum length of a body in bytes. Default 1,024, because Google's probers read no more.
    pub body_len_max: usize,
}

impl EndpointConfig {
    /// An endpoint without checks, which is always up.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            uses: Vec::new(),
            quorum: None,
            fail_open: None,
            latch: false,
            on_stale: OnStale::default(),
            grace: None,
            codes: Codes::default(),
            on_drain: [OnDrain::default(); 3],
            details: Details::default(),
            body_len_max: 1024,
        }
    }

    /// Adds a check.
    #[must_use]
    pub fn with(mut self, check: CheckIndex, severity: Severity) -> Self {
        self.uses.push(Use::new(check, severity));
        self
    }

    /// Adds a check that counts for the quorum.
    #[must_use]
    pub fn with_member(mut self, check: CheckIndex, severity: Severity) -> Self {
        self.uses.push(Use { in_quorum: true, ..Use::new(check, severity) });
        self
    }

    /// Whether any check has a weight.
    pub fn is_weighted(&self) -> bool {
        self.uses.iter().any(|one| one.weight > 0)
    }

    /// Validates the values. The board validates that the name is unique, and that each check
    /// exists and is used once.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(1..=NAME_LEN_MAX).contains(&self.name.len()) {
            return Err(ConfigError::NameLen);
        }
        if !(BODY_LEN_MIN..=BODY_LEN_MAX).contains(&self.body_len_max) {
            return Err(ConfigError::BodyLen);
        }
        let members = self.uses.iter().filter(|one| one.in_quorum).count();
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        let sound = match self.quorum {
            Some(quorum) => (1..=members).contains(&quorum.min(members)),
            None => members == 0,
        };
        if !sound {
            return Err(ConfigError::Quorum);
        }
        if self.fail_open.is_some_and(|rule| rule.max_healthy >= 100) {
            return Err(ConfigError::FailOpen);
        }
        let drains = self.on_drain.iter().filter_map(|answer| match answer {
            OnDrain::Code(code) => Some(*code),
            OnDrain::Ignore | OnDrain::Report => None,
        });
        let codes = [self.codes.degraded, self.codes.down, self.codes.drain, self.codes.maintenance];
        let mut codes = codes.into_iter().chain(drains).chain(self.uses.iter().filter_map(|one| one.code));
        if !(200..400).contains(&self.codes.up) || codes.any(|code| !(200..600).contains(&code)) {
            return Err(ConfigError::Code);
        }
        Ok(())
    }
}
