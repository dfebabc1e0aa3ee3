//! Determines the lease requests of an instance, as a state machine without I/O: usage and replies
//! go in, charges for the store come out.
//!
//! A *round* reads the demand of all keys with requests since the last round. The target of a key
//! is the number of tokens that it is expected to use in three rounds, at least one. If at most
//! half of the target is held, the round requests the difference. So idle keys cause no calls, and
//! few tokens remain unused. No tokens are requested for an exhausted key before the store can
//! grant one.

use super::gcra::{Charge, Gcra, Granted};
use doorbell_http::Time;
use doorbell_http::limit::{Grant, LIFETIME_MIN, Leases, Usage};
use std::sync::Arc;
use std::time::Duration;

/// Minimum time between the starts of two rounds.
pub const ROUND_EVERY: Duration = Duration::from_millis(16);

/// Maximum number of keys in one call.
pub const KEYS_PER_CALL: usize = 512;

/// Maximum number of keys in one round; further ones wait for the next.
const ASKS_MAX: usize = 4 * KEYS_PER_CALL;

/// Rounds between two searches for slots that can be freed.
const FREE_EVERY: u32 = 64;

/// Minimum time for which a slot is kept after its last request.
const KEPT: Duration = Duration::from_secs(1);

/// Time over which the rate of requests is averaged.
const AVERAGED: Duration = Duration::from_millis(50);

/// Determines the lease requests of one instance.
#[derive(Debug)]
pub struct Leaser {
    leases: Arc<Leases>,
    gcra: Gcra,
    records: Box<[Record]>,
    /// Slots with demand that has not been considered yet.
    waiting: Vec<usize>,
    began: Time,
    /// Average time between rounds.
    interval: Duration,
    rounds: u32,
    is_healthy: bool,
}

/// A request to the store for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The keyed hash that identifies the client.
    pub hash: u64,
    /// The charge.
    pub charge: Charge,
    slot: usize,
}

/// State of the key in a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    is_used: bool,
    /// Whether the slot is in [`Leaser::waiting`].
    is_waiting: bool,
    /// Requests per second, allowed or not.
    rate: f64,
    /// Time of the last reading of the demand.
    read_at: Time,
    /// Number of requests on credit that the store has charged, wrapping around.
    charged: u32,
    /// Time before which the store cannot grant a token.
    free_at: Time,
    /// Time at which the whole burst is available again.
    full_at: Time,
}

impl Leaser {
    /// Creates a leaser for these leases. Credit that clients have already used is treated as
    /// charged by an earlier leaser.
    #[must_use]
    pub fn new(leases: Arc<Leases>, gcra: Gcra, now: Time) -> Self {
        let record = |slot| match leases.usage(slot, now) {
            None => Record::default(),
            Some(usage) => {
                Record { is_used: true, read_at: now, charged: usage.credited, ..Record::default() }
            }
        };
        Self {
            records: (0..leases.keys_max()).map(record).collect(),
            waiting: Vec::new(),
            leases,
            gcra,
            began: Time::ZERO,
            interval: ROUND_EVERY,
            rounds: 0,
            // A store that has not failed is expected to reply.
            is_healthy: true,
        }
    }

    /// Starts a round, and returns its requests, which are sent in calls of at most
    /// [`KEYS_PER_CALL`]. The previous round must have [finished](Self::finished) or
    /// [failed](Self::failed).
    pub fn begin(&mut self, now: Time) -> Vec<Ask> {
        if self.is_healthy {
            self.leases.set_valid_until(now.after(LIFETIME_MIN));
        }
        let passed = now.since(self.began).clamp(ROUND_EVERY, LIFETIME_MIN);
        self.interval = (self.interval * 3 + passed) / 4;
        self.began = now;
        let Self { leases, records, waiting, .. } = self;
        leases.take_active(|slot| {
            if let Some(record) = records.get_mut(slot)
                && !std::mem::replace(&mut record.is_waiting, true)
            {
                waiting.push(slot);
            }
        });
        if self.rounds.is_multiple_of(FREE_EVERY) {
            self.free_unused(now);
        }
        self.rounds = self.rounds.wrapping_add(1);
        let mut asks = Vec::new();
        // The slots that have waited longest are at the front.
        let count = self.waiting.len().min(ASKS_MAX);
        for slot in self.waiting.drain(..count).collect::<Vec<_>>() {
            asks.extend(self.ask(slot, now));
        }
        asks
    }

    /// Handles the replies to one call of the round.
    pub fn granted(&mut self, asks: &[Ask], replies: &[Granted]) {
        let asked = self.began;
        for (ask, reply) in asks.iter().zip(replies) {
            let Some(record) = self.records.get_mut(ask.slot) else { continue };
            record.charged = record.charged.wrapping_add(ask.charge.credited);
            record.full_at = asked.after(reply.full_in);
            let is_short = reply.tokens < ask.charge.wanted;
            record.free_at = if is_short { asked.after(self.gcra.free_in(reply.full_in)) } else { asked };
            let Record { full_at, charged, .. } = *record;
            self.leases.grant(ask.slot, Grant { tokens: reply.tokens, asked, full_at, charged });
        }
    }

    /// Records that all calls of the round have succeeded: leases are valid. Returns true if they
    /// were invalid before.
    pub fn finished(&mut self) -> bool {
        self.leases.set_valid_until(self.began.after(LIFETIME_MIN));
        !std::mem::replace(&mut self.is_healthy, true)
    }

    /// Records that a call has failed: leases are invalid until a round succeeds. Returns true if
    /// they were valid before.
    pub fn failed(&mut self) -> bool {
        self.leases.set_valid_until(Time::ZERO);
        std::mem::take(&mut self.is_healthy)
    }

    /// Whether the last round succeeded; true before the end of the first round.
    #[must_use]
    pub const fn is_healthy(&self) -> bool {
        self.is_healthy
    }

    fn ask(&mut self, slot: usize, now: Time) -> Option<Ask> {
        let record = self.records.get_mut(slot)?;
        record.is_waiting = false;
        let usage = self.leases.usage(slot, now)?;
        record.read(&usage, now, self.interval);
        let credited = usage.credited.wrapping_sub(record.charged);
        let wanted = if now < record.free_at { 0 } else { wanted(record.rate, &usage, self.interval) };
        let charge = Charge { credited, wanted };
        (credited > 0 || wanted > 0).then_some(Ask { hash: usage.hash, charge, slot })
    }

    /// Frees slots that have no recent requests and whose whole burst is available.
    fn free_unused(&mut self, now: Time) {
        for (slot, record) in self.records.iter_mut().enumerate() {
            let is_old = now.since(record.read_at) > KEPT && now > record.full_at;
            if !record.is_used || record.is_waiting || !is_old {
                continue;
            }
            let Some(usage) = self.leases.usage(slot, now) else { continue };
            if usage.credited != record.charged {
                // The call that should have charged the credit has failed.
                record.is_waiting = true;
                self.waiting.push(slot);
            } else if usage.demand == 0 {
                *record = Record::default();
                self.leases.free(slot);
            }
        }
    }
}

impl Record {
    fn read(&mut self, usage: &Usage, now: Time, interval: Duration) {
        let passed = if self.is_used { now.since(self.read_at) } else { interval };
        let passed = passed.max(ROUND_EVERY).as_secs_f64();
        // The first request of a client does not predict further ones.
        let demand = if self.is_used { usage.demand } else { usage.demand.saturating_sub(1) };
        let weight = passed / (passed + AVERAGED.as_secs_f64());
        let rate = demand as f64 / passed;
        self.rate = if self.is_used { self.rate + (rate - self.rate) * weight } else { rate };
        (self.is_used, self.read_at) = (true, now);
    }
}

/// Number of tokens to request: the target minus the tokens that are held, or 0 while more than
/// half of the target is held.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn wanted(rate: f64, usage: &Usage, interval: Duration) -> u32 {
    let target = (rate * 3.0 * interval.as_secs_f64()).ceil().max(1.0) as u32;
    let held = u32::try_from(usage.held).unwrap_or(u32::MAX);
    if held > target / 2 { 0 } else { target - held }
}
