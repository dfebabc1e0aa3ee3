//! What a set of checks means for one endpoint, and with which codes it answers.
//!
//! Does not know about: routes or listeners.

use std::time::Duration;

use crate::board::CheckIndex;
use crate::error::ConfigError;
use crate::limits::{BODY_LEN_MAX, BODY_LEN_MIN, NAME_LEN_MAX};

/// What a check that is down does to the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The endpoint is at most degraded. For what other replicas share.
    Degrading,
    /// Nothing; it is only shown.
    Info,
    /// The endpoint is down.
    Required,
}

impl Severity {
    /// The word for bodies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Degrading => "degrading",
            Self::Info => "info",
            Self::Required => "required",
        }
    }
}

/// One check in one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Which check.
    pub check: CheckIndex,
    /// What it does when it is down.
    pub severity: Severity,
    /// Whether it is one of those the quorum counts, whatever its severity.
    pub in_quorum: bool,
    /// What it adds to the endpoint's weight while it is up or degraded.
    pub weight: u32,
    /// The code of the endpoint when it is down because of this check; of several the first one with a code decides.
    pub code: Option<u16>,
}

impl Use {
    /// A use with this severity, outside the quorum, of no weight.
    pub const fn new(check: CheckIndex, severity: Severity) -> Self {
        Self { check, severity, in_quorum: false, weight: 0, code: None }
    }

    /// False for one that is only shown.
    pub(crate) fn counts(&self) -> bool {
        self.severity != Severity::Info || self.in_quorum || self.weight > 0
    }
}

/// How many of the quorum's checks must be up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quorum {
    /// This many.
    Count(u32),
    /// This part of them, 1 to 100, rounded up.
    Percent(u8),
}

impl Quorum {
    /// How many of `of` must be up.
    pub const fn min(self, of: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => {
                // At most `of` while the percentage is at most 100.
                let exact = of as u64 * percent as u64;
                let min = exact.div_ceil(100);
                if min > u32::MAX as u64 { u32::MAX } else { low_half(min) }
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the caller has compared with u32::MAX")]
const fn low_half(value: u64) -> u32 {
    value as u32
}

/// What a stale check counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStale {
    /// Degraded, whatever it was.
    Degraded,
    /// Down.
    #[default]
    Down,
    /// What it was.
    Keep,
    /// Unknown.
    Unknown,
}

/// Stays open when the whole group is down at once: then it is likelier what they share than each of them.
///
/// The group is the quorum's checks, without a quorum the required ones. It is open only once the endpoint has been up or degraded, so
/// that a replica that never worked does not join; and only while every member is down by its results, not unknown or in maintenance.
/// Envoy's panic threshold and the load balancers of AWS do the same without a limit in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailOpen {
    /// How long it stays open from the moment all went down.
    pub max_age: Duration,
}

/// What unknown checks count as at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// For how long from the start unknown checks count as up.
    pub duration: Duration,
}

/// Who asks; what a drain looks like may differ for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Audience {
    /// The kubelet: what it is told decides about restarts and alarms.
    Kubelet,
    /// A load balancer: what it is told decides about new connections.
    LoadBalancer,
    /// Everybody else.
    Other,
}

impl Audience {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Self; 3] = [Self::Kubelet, Self::LoadBalancer, Self::Other];
}

/// Who sees more than the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Details {
    /// Everybody.
    Always,
    /// Whoever has shown who he is.
    #[default]
    Authenticated,
    /// Nobody.
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

/// What one audience is told during a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDrain {
    /// "drain" with this code.
    Code(u16),
    /// What it would be told without a drain.
    Ignore,
    /// "drain" with the code of [`Codes::drain`].
    #[default]
    Report,
}

/// The status code of each state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codes {
    /// 200.
    pub degraded: u16,
    /// 503.
    pub down: u16,
    /// 503.
    pub drain: u16,
    /// 503.
    pub maintenance: u16,
    /// 200.
    pub up: u16,
}

impl Default for Codes {
    fn default() -> Self {
        Self { degraded: 200, down: 503, drain: 503, maintenance: 503, up: 200 }
    }
}

/// What an endpoint answers and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointConfig {
    /// Its name, unique among endpoints.
    pub name: String,
    /// The checks it uses, each once, in the order in which bodies list them.
    pub uses: Vec<Use>,
    /// How many of the uses with `in_quorum` must be up.
    pub quorum: Option<Quorum>,
    /// Whether it stays open when all are down.
    pub fail_open: Option<FailOpen>,
    /// Whether it stays up once it was up or degraded: for startup probes.
    pub latch: bool,
    /// What a stale check counts as. Down.
    pub on_stale: OnStale,
    /// Whether unknown checks count as up at first. An endpoint with a latch has none.
    pub grace: Option<Grace>,
    /// The status codes.
    pub codes: Codes,
    /// What each audience is told during a drain, in the order of [`Audience::ALL`].
    pub on_drain: [OnDrain; 3],
    /// Who sees the checks.
    pub details: Details,
    /// The longest body in bytes. 1,024: what Google's probers look at.
    pub body_len_max: usize,
}

impl EndpointConfig {
    /// An endpoint that is always up.
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

    /// With one more check.
    #[must_use]
    pub fn with(mut self, check: CheckIndex, severity: Severity) -> Self {
        self.uses.push(Use::new(check, severity));
        self
    }

    /// With one more check that the quorum counts.
    #[must_use]
    pub fn with_member(mut self, check: CheckIndex, severity: Severity) -> Self {
        self.uses.push(Use { in_quorum: true, ..Use::new(check, severity) });
        self
    }

    /// Whether any check has a weight.
    pub fn is_weighted(&self) -> bool {
        self.uses.iter().any(|one| one.weight > 0)
    }

    /// Everything but the checks, which only the board knows.
    ///
    /// # Errors
    /// The first rule that is broken.
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
