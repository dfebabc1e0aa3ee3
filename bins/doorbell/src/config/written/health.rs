//! `[health.NAME]` as it was written.
//!
//! Does not know about: checks, of which it has only names.

use super::super::model::{DegradedVia, HealthState, OnDrain, OnStale, Quorum};
use doorbell_config::{At, Problem, Section};
use std::ops::{Range, RangeInclusive};
use std::time::Duration;
use toml::de::DeValue;

#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) name: At<String>,
    pub(crate) initial: Option<At<HealthState>>,
    pub(crate) require: Option<At<Vec<At<String>>>>,
    pub(crate) degrading: Option<At<Vec<At<String>>>>,
    pub(crate) info: Option<At<Vec<At<String>>>>,
    pub(crate) quorum: Option<QuorumOf>,
    pub(crate) weight: Vec<(At<String>, At<u32>)>,
    pub(crate) fail_open: Option<At<Duration>>,
    pub(crate) latch: Option<At<bool>>,
    pub(crate) on_stale: Option<At<OnStale>>,
    pub(crate) on_drain: DrainAnswers,
    pub(crate) degraded_via: Option<At<DegradedVia>>,
    pub(crate) status: Statuses,
    pub(crate) retry_after: Option<At<Duration>>,
    pub(crate) envoy_degraded: Option<At<bool>>,
    pub(crate) endpoint_weight: Option<At<bool>>,
    pub(crate) body_bytes: Option<At<u32>>,
}

#[derive(Debug)]
pub(crate) struct QuorumOf {
    pub(crate) span: Range<usize>,
    /// Whether `of` names any, right or wrong.
    pub(crate) has_of: bool,
    pub(crate) of: Option<At<Vec<At<String>>>>,
    /// Whether `min` is written, right or wrong.
    pub(crate) has_min: bool,
    pub(crate) min: Option<At<Quorum>>,
}

/// `on_drain`, by who asks.
#[derive(Debug, Default)]
pub(crate) struct DrainAnswers {
    pub(crate) default: Option<At<OnDrain>>,
    pub(crate) kubelet: Option<At<OnDrain>>,
    pub(crate) load_balancer: Option<At<OnDrain>>,
}

/// `status`, by state.
#[derive(Debug, Default)]
pub(crate) struct Statuses {
    pub(crate) up: Option<At<u32>>,
    pub(crate) degraded: Option<At<u32>>,
    pub(crate) down: Option<At<u32>>,
    pub(crate) drain: Option<At<u32>>,
    pub(crate) maintenance: Option<At<u32>>,
    pub(crate) by_check: Vec<(At<String>, At<u32>)>,
}

pub(crate) const ON_STALE: [(&str, OnStale); 4] = [
    ("degraded", OnStale::Degraded),
    ("down", OnStale::Down),
    ("keep", OnStale::Keep),
    ("unknown", OnStale::Unknown),
];

pub(crate) const DEGRADED_VIA: [(&str, DegradedVia); 2] =
    [("kube-warning", DegradedVia::KubeWarning), ("status", DegradedVia::Status)];

const CODES: RangeInclusive<u32> = 200..=599;
const AGE_RANGE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(30 * 86_400);
const RETRY_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
const BODY_RANGE: RangeInclusive<u32> = 256..=64 << 10;
const _: () = assert!(*BODY_RANGE.start() as usize == doorbell_health::limits::BODY_LEN_MIN);
const _: () = assert!(*BODY_RANGE.end() as usize == doorbell_health::limits::BODY_LEN_MAX);

impl Health {
    pub(super) fn read(name: At<String>, mut at: Section<'_>) -> Self {
        let health = Self {
            name,
            initial: at.choice("initial", &[("down", HealthState::Down), ("up", HealthState::Up)]),
            require: at.strings("require"),
            degrading: at.strings("degrading"),
            info: at.strings("info"),
            quorum: at.section("quorum").map(QuorumOf::read),
            weight: at.section("weight").map(|table| table.all_integers(0..=1_000_000)).unwrap_or_default(),
            fail_open: at.section("fail_open").and_then(read_fail_open),
            latch: at.bool("latch"),
            on_stale: at.choice("on_stale", &ON_STALE),
            on_drain: at.section("on_drain").map(DrainAnswers::read).unwrap_or_default(),
            degraded_via: at.choice("degraded_via", &DEGRADED_VIA),
            status: at.section("status").map(Statuses::read).unwrap_or_default(),
            retry_after: at.duration("retry_after", RETRY_RANGE),
            envoy_degraded: at.bool("envoy_degraded"),
            endpoint_weight: at.bool("endpoint_weight"),
            body_bytes: at.size("max_body", BODY_RANGE),
        };
        at.finish();
        health
    }
}

fn read_fail_open(mut at: Section<'_>) -> Option<At<Duration>> {
    if at.value("max_age").is_none() {
        let problem = Problem::error("missing-key", at.span.clone(), "open for how long?");
        at.problem(problem.help("add `max_age = \"2m\"`"));
    }
    let max_age = at.duration("max_age", AGE_RANGE);
    at.finish();
    max_age
}

impl QuorumOf {
    fn read(mut at: Section<'_>) -> Self {
        let quorum = Self {
            span: at.span.clone(),
            has_of: at.value("of").is_some_and(|of| of.get_ref().as_array().is_none_or(|of| !of.is_empty())),
            of: at.strings("of"),
            has_min: at.value("min").is_some(),
            min: read_min(&mut at),
        };
        at.finish();
        quorum
    }
}

/// A count, or a part such as `"60%"`.
fn read_min(at: &mut Section<'_>) -> Option<At<Quorum>> {
    let value = at.value("min")?;
    match value.get_ref() {
        DeValue::Integer(_) => {
            let count = at.integer("min", 1..=10_000)?;
            Some(At { value: Quorum::Count(count.value), span: count.span })
        }
        DeValue::String(_) => {
            let text = at.string("min")?;
            let percent = text.value.strip_suffix('%').and_then(|number| number.parse().ok());
            let Some(percent) = percent.filter(|percent| (1..=100).contains(percent)) else {
                let message = format!("{:?} is not a part of the checks", text.value);
                let problem = Problem::error("bad-value", text.span, message);
                at.problem(problem.help("write a number of checks, or a part such as \"60%\""));
                return None;
            };
            Some(At { value: Quorum::Percent(percent), span: text.span })
        }
        _ => at.wrong_type(value, "a whole number, or a part such as \"60%\""),
    }
}

impl DrainAnswers {
    fn read(mut at: Section<'_>) -> Self {
        let answers = Self {
            default: read_on_drain(&mut at, "default"),
            kubelet: read_on_drain(&mut at, "kubelet"),
            load_balancer: read_on_drain(&mut at, "load_balancer"),
        };
        at.finish();
        answers
    }
}

/// A code, or a word.
fn read_on_drain(at: &mut Section<'_>, key: &'static str) -> Option<At<OnDrain>> {
    let value = at.value(key)?;
    match value.get_ref() {
        DeValue::Integer(_) => {
            let code = at.integer(key, CODES)?;
            Some(At { value: OnDrain::Code(u16::try_from(code.value).ok()?), span: code.span })
        }
        DeValue::String(_) => at.choice(key, &[("ignore", OnDrain::Ignore), ("report", OnDrain::Report)]),
        _ => at.wrong_type(value, "a status, \"ignore\" or \"report\""),
    }
}

impl Statuses {
    fn read(mut at: Section<'_>) -> Self {
        let statuses = Self {
            up: at.integer("up", 200..=399),
            degraded: at.integer("degraded", CODES),
            down: at.integer("down", CODES),
            drain: at.integer("drain", CODES),
            maintenance: at.integer("maintenance", CODES),
            by_check: at.section("by_check").map(|table| table.all_integers(CODES)).unwrap_or_default(),
        };
        at.finish();
        statuses
    }
}
