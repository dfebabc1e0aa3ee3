//! The builder of a board: validates the configuration, and reserves memory for the changes that a
//! call reports.

use std::collections::HashMap;
use std::time::Duration;

use super::index::{CheckIndex, EndpointIndex};
use super::{Board, Counters, Deadlines, Slot};
use crate::check::{Check, CheckConfig};
use crate::endpoint::{Endpoint, EndpointConfig};
use crate::error::ConfigError;
use crate::limits::{CHECKS_MAX, ENDPOINTS_MAX, NAME_LEN_MAX, USES_MAX};
use crate::time::Time;

/// A board under construction.
#[derive(Debug)]
pub struct BoardBuilder {
    start: Time,
    slots: Vec<Slot>,
    endpoints: Vec<Endpoint>,
    checks_by_name: HashMap<Box<str>, u32>,
    endpoints_by_name: HashMap<Box<str>, u32>,
    uses: usize,
    unix_at_zero: Option<Duration>,
}

impl BoardBuilder {
    pub(super) fn new(start: Time) -> Self {
        Self {
            start,
            slots: Vec::new(),
            endpoints: Vec::new(),
            checks_by_name: HashMap::new(),
            endpoints_by_name: HashMap::new(),
            uses: 0,
            unix_at_zero: None,
        }
    }

    /// Sets the Unix time of the origin of [`Time`], from which health+json replies compute when a
    /// result arrived.
    #[must_use]
    pub fn unix_at_zero(mut self, unix: Duration) -> Self {
        self.unix_at_zero = Some(unix);
        self
    }

    /// Adds a check.
    ///
    /// # Errors
    /// The configuration is invalid, the name is already used or the board is full.
    pub fn check(&mut self, name: &str, config: CheckConfig) -> Result<CheckIndex, ConfigError> {
        if self.slots.len() == CHECKS_MAX {
            return Err(ConfigError::TooManyChecks);
        }
        if !(1..=NAME_LEN_MAX).contains(&name.len()) {
            return Err(ConfigError::NameLen);
        }
        if self.checks_by_name.contains_key(name) {
            return Err(ConfigError::NameTaken);
        }
        let check = Check::new(config, self.start)?;
        let index = next_index(self.slots.len());
        self.checks_by_name.insert(name.into(), index);
        self.slots.push(Slot::new(name, check));
        Ok(CheckIndex(index))
    }

    /// Adds an endpoint.
    ///
    /// # Errors
    /// The configuration is invalid, the name is already used, the board is full, or a check is
    /// used twice or is not on this board.
    pub fn endpoint(&mut self, config: EndpointConfig) -> Result<EndpointIndex, ConfigError> {
        if self.endpoints.len() == ENDPOINTS_MAX {
            return Err(ConfigError::TooManyEndpoints);
        }
        config.validate()?;
        if self.endpoints_by_name.contains_key(config.name.as_str()) {
            return Err(ConfigError::NameTaken);
        }
        let index = next_index(self.endpoints.len());
        let mut used = vec![false; self.slots.len()];
        for one in &config.uses {
            let seen = used.get_mut(one.check.as_usize()).ok_or(ConfigError::UnknownCheck)?;
            if std::mem::replace(seen, true) {
                return Err(ConfigError::UsedTwice);
            }
        }
        if self.uses + config.uses.len() > USES_MAX {
            return Err(ConfigError::TooManyUses);
        }
        self.uses += config.uses.len();
        for (at, one) in config.uses.iter().enumerate() {
            self.slots[one.check.as_usize()].users.push((index, next_index(at)));
        }
        self.endpoints_by_name.insert(config.name.as_str().into(), index);
        self.endpoints.push(Endpoint::new(config, self.start));
        Ok(EndpointIndex(index))
    }

    /// Finishes the board and renders every reply.
    pub fn build(self) -> Board {
        let (checks, endpoints) = (self.slots.len(), self.endpoints.len());
        let mut board = Board {
            now: self.start,
            slots: self.slots,
            endpoints: self.endpoints,
            checks_by_name: self.checks_by_name,
            endpoints_by_name: self.endpoints_by_name,
            unix_at_zero: self.unix_at_zero,
            drain_of_all: None,
            has_inherited: false,
            deadlines: Deadlines::new(checks + endpoints),
            // One result causes at most two transitions of its check and one of each endpoint. Only
            // `tick` can cause more in one call.
            events: Vec::with_capacity(endpoints + 2),
            rendered: Vec::with_capacity(endpoints),
            checks_changed: Vec::with_capacity(1),
            dirty: Vec::with_capacity(endpoints),
            is_dirty: vec![false; endpoints].into(),
            counters: Counters::default(),
        };
        board.begin();
        board
    }
}

fn next_index(len: usize) -> u32 {
    u32::try_from(len).expect("every cap is far below u32::MAX")
}
