//! `[blackbox]` as it was written.
//!
//! Does not know about: defaults.

use super::super::bind::Bind;
use super::super::model::Module;
use super::super::networks::read_networks;
use super::listener::read_binds;
use crate::http::forwarded::Network;
use doorbell_config::{At, Section};
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Blackbox {
    pub(crate) header: Range<usize>,
    pub(crate) has_bind: bool,
    pub(crate) binds: Vec<At<Bind>>,
    pub(crate) targets: Option<At<Vec<At<Network>>>>,
    pub(crate) modules: Option<At<Vec<Module>>>,
    pub(crate) cache: Option<At<Duration>>,
    pub(crate) timeout: Option<At<Duration>>,
}

const CACHE_RANGE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3600);
const TIMEOUT_RANGE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(120);

impl Blackbox {
    pub(super) fn read(mut at: Section<'_>) -> Self {
        let blackbox = Self {
            header: at.span.clone(),
            has_bind: at.value("bind").is_some(),
            binds: read_binds(&mut at),
            targets: read_networks(&mut at, "targets"),
            modules: at.choices("modules", &Module::NAMES),
            cache: at.duration("cache", CACHE_RANGE),
            timeout: at.duration("timeout", TIMEOUT_RANGE),
        };
        at.finish();
        blackbox
    }
}
