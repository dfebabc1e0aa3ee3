//! Decides which instance runs a shared check, and which results are valid.
//!
//! One instance holds the lease of the check. It extends the lease four times per interval and
//! notifies the others, so that a failure of the holder is detected within three quarters of an
//! interval. The others request the lease at the start, when no message arrives, and when the
//! message with a result was lost; the reply contains the last result.
//!
//! An instance without the lease runs the check for itself if the store is unavailable, or if the
//! last result would otherwise exceed its maximum age. Such a result is not shared.

use super::message::{Message, SharedResult, micros};
use crate::store::{Lease, LeaseRequest, Notification, Publication, Stamp};
use doorbell_link::Jitter;
use std::collections::VecDeque;
use std::time::Duration;

/// Number of lease extensions per interval.
const EXTENDS_PER_INTERVAL: u32 = 4;

/// Longest wait for the store at the start, before the check is run without it.
const START_PATIENCE: Duration = Duration::from_secs(1);

/// Maximum number of queued actions.
const ACTIONS_MAX: usize = 64;

/// The options of a shared check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareOptions {
    /// Name of the check. Its counters continue if its other options change.
    pub name: String,
    /// Identifies the check and its options in the store.
    pub check: String,
    /// Name of this instance.
    pub instance: String,
    /// Identifies this process; differs after a restart, unlike [`Self::instance`].
    pub holder: String,
    /// Time between two runs.
    pub interval: Duration,
    /// Maximum time of a run.
    pub timeout: Duration,
    /// Maximum age of a result.
    pub max_age: Duration,
    /// Any number that differs between instances, for random delays.
    pub seed: u64,
}

/// An action for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Request the lease, then call [`ShareMachine::leased`].
    Lease(LeaseRequest),
    /// Store a result, then call [`ShareMachine::published`].
    Publish(Publication),
    /// Run the check, then call [`ShareMachine::ran`].
    Run,
    /// Apply the result of another instance.
    Take(Message),
    /// Send a message to the followers.
    Notify(Notification),
}

/// Counters of a shared check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareCounters {
    /// Runs of this instance as the holder of the lease, for all instances.
    pub runs: u64,
    /// Runs of this instance for itself.
    pub own_runs: u64,
    /// Results of other instances that were applied.
    pub taken: u64,
    /// Results that were refused because of their stamp or a lost lease: own ones by the store,
    /// others by this instance.
    pub fenced: u64,
    /// Messages of other versions, and invalid ones.
    pub ignored: u64,
    /// Leases that this instance acquired.
    pub leases: u64,
}

/// One shared check at one instance.
#[derive(Debug)]
pub struct ShareMachine {
    options: ShareOptions,
    role: Role,
    /// The newest result, own or of another instance: older ones are refused.
    newest: Stamp,
    newest_at: Duration,
    /// The newest result of the [`ShareMachine`] whose work this one continues. It is not applied
    /// again.
    applied: Stamp,
    /// Time of the last result, from any instance.
    found_at: Option<Duration>,
    /// Time of the next run.
    next_run: Duration,
    started_at: Duration,
    /// Time of the next lease request; `None` while a reply is awaited.
    ask_at: Option<Duration>,
    asked_at: Duration,
    /// Whether the store replied to the last request.
    is_usable: bool,
    /// Time at which a run in progress counts as lost, for example one that a reload has ended.
    running_until: Option<Duration>,
    actions: VecDeque<Action>,
    counters: ShareCounters,
    jitter: Jitter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Follower,
    Holder {
        token: u64,
        /// Number of the last run.
        round: u64,
        until: Duration,
    },
}

impl ShareMachine {
    /// Creates a check without results. All times have the same arbitrary origin.
    #[must_use]
    pub fn new(options: ShareOptions, now: Duration) -> Self {
        Self {
            role: Role::Follower,
            newest: Stamp::default(),
            newest_at: now,
            applied: Stamp::default(),
            found_at: None,
            next_run: now,
            started_at: now,
            ask_at: Some(now),
            asked_at: now,
            is_usable: false,
            running_until: None,
            actions: VecDeque::new(),
            counters: ShareCounters::default(),
            jitter: Jitter::new(options.seed),
            options,
        }
    }

    /// Creates a check that continues the work and the counters of an earlier [`ShareMachine`],
    /// whose newest result was `applied`.
    #[must_use]
    pub fn after(options: ShareOptions, applied: Stamp, counters: ShareCounters, now: Duration) -> Self {
        Self { applied, counters, ..Self::new(options, now) }
    }

    /// The stamp of the newest result, own or of another instance.
    #[must_use]
    pub fn newest(&self) -> Stamp {
        if self.newest == Stamp::default() { self.applied } else { self.newest }
    }

    /// Duration of a lease. Together with the random delay of the next holder, it is less than an
    /// interval.
    #[must_use]
    pub fn lasts(&self) -> Duration {
        self.options.interval * 5 / 8
    }

    /// Returns the next action that is due.
    pub fn poll(&mut self, now: Duration) -> Option<Action> {
        if let Role::Holder { until, .. } = self.role
            && until <= now
        {
            self.role = Role::Follower;
        }
        if let Some(action) = self.actions.pop_front() {
            return Some(action);
        }
        if self.ask_at.is_some_and(|at| at <= now) {
            (self.ask_at, self.asked_at) = (None, now);
            return Some(Action::Lease(LeaseRequest {
                check: self.options.check.clone(),
                holder: self.options.holder.clone(),
                lasts: self.lasts(),
                known: self.newest,
            }));
        }
        if self.running_until.is_none_or(|until| until <= now) && self.run_at() <= now {
            self.running_until = Some(now + self.options.timeout + self.options.interval);
            return Some(Action::Run);
        }
        None
    }

    /// Latest time of the next call of [`Self::poll`].
    #[must_use]
    pub fn deadline(&self) -> Duration {
        let run = self.run_at().max(self.running_until.unwrap_or_default());
        let until = match self.role {
            Role::Holder { until, .. } => until,
            Role::Follower => Duration::MAX,
        };
        self.ask_at.unwrap_or(Duration::MAX).min(run).min(until)
    }

    /// Time at which this instance runs the check if nothing else happens.
    fn run_at(&self) -> Duration {
        let interval = self.options.interval;
        match (self.role, self.found_at) {
            (Role::Holder { .. }, _) => self.next_run,
            // Without a store, all instances run the check. The delay gives the store time to
            // reply.
            (Role::Follower, None) if !self.is_usable => self.started_at + (interval / 2).min(START_PATIENCE),
            (Role::Follower, Some(_)) if !self.is_usable => self.next_run + interval / 8,
            // The result of another instance is late. This instance starts early enough to have its
            // own result in time.
            (Role::Follower, found_at) => {
                let patience = self.options.max_age.saturating_sub(self.options.timeout + interval / 8);
                found_at.unwrap_or(self.started_at) + patience.max(interval)
            }
        }
    }

    /// Handles the reply to a lease request; `None` without a reply.
    pub fn leased(&mut self, now: Duration, lease: Option<Lease>) {
        self.is_usable = lease.is_some();
        let Some(Lease { is_own, token, remaining, latest }) = lease else {
            // At the start, the store is asked again sooner: its connection may still be opening.
            let begins = self.found_at.is_none();
            let most = if begins { self.options.interval.min(START_PATIENCE) } else { self.options.interval };
            self.ask_at = Some(now + self.jitter.part_of(most / 4));
            return;
        };
        // Tokens increase, unless the store lost its data and its clock was set back. A reply does
        // not prove such a loss if its request was sent before the newest result.
        if token < self.newest.token && self.newest_at < self.asked_at {
            self.newest = Stamp { token, round: 0 };
        }
        if let Some(stored) = latest {
            match Message::decode(&stored.value) {
                Some(message) => self.take(now, stored.age, message),
                None => self.counters.ignored += 1,
            }
        }
        if is_own {
            let until = self.asked_at + self.lasts();
            let round = match self.role {
                Role::Holder { token: own, round, .. } if own == token => round,
                _ => {
                    self.counters.leases += 1;
                    if self.newest.token == token { self.newest.round } else { 0 }
                }
            };
            self.role = Role::Holder { token, round, until };
            self.ask_at = Some(self.asked_at + self.options.interval / EXTENDS_PER_INTERVAL);
            self.notify(token, round);
        } else {
            self.role = Role::Follower;
            self.ask_at = Some(now + remaining + self.jitter.part_of(self.options.interval / 8));
        }
    }

    /// Handles a message that was sent to all followers.
    pub fn received(&mut self, now: Duration, bytes: &[u8]) {
        let Some(message) = Message::decode(bytes) else {
            self.counters.ignored += 1;
            return;
        };
        let own = match self.role {
            Role::Holder { token, .. } => Some(token),
            Role::Follower => None,
        };
        if own == Some(message.token) {
            return;
        }
        // Until the first result of this instance, the newest one is that of the former holder, which
        // may have sent this message before its lease ended.
        if message.token < self.newest.token.max(own.unwrap_or_default()) {
            self.counters.fenced += u64::from(message.result.is_some());
            return;
        }
        self.role = Role::Follower;
        let (stamp, is_result) = (message.stamp(), message.result.is_some());
        if self.ask_at.is_some() {
            self.ask_at = Some(now + self.lasts() + self.jitter.part_of(self.options.interval / 8));
        }
        if is_result {
            self.take(now, Duration::ZERO, message);
        } else if stamp.round > 0 && stamp > self.newest && self.ask_at.is_some() {
            // The message with this result was lost.
            self.ask_at = Some(now);
        }
    }

    /// Applies a result of another instance if it is newer than all previous ones.
    fn take(&mut self, now: Duration, age: Duration, mut message: Message) {
        let stamp = message.stamp();
        let Some(result) = &mut message.result else {
            self.counters.ignored += 1;
            return;
        };
        if stamp <= self.newest {
            self.counters.fenced += 1;
            return;
        }
        (self.newest, self.newest_at) = (stamp, now);
        let found_at = now.saturating_sub(age);
        if self.found_at.is_some_and(|last| last >= found_at) {
            return;
        }
        // Times in a message have no upper bound.
        let next = Duration::from_millis(result.next_ms).min(self.options.max_age);
        result.latency_us = result.latency_us.min(micros(self.options.max_age));
        (self.found_at, self.next_run) = (Some(found_at), found_at + next);
        // A stale result is not applied, but determines the time of the next run.
        let is_current = age <= next.max(self.options.interval);
        if is_current && stamp != self.applied && self.actions.len() < ACTIONS_MAX {
            self.counters.taken += 1;
            self.actions.push_back(Action::Take(message));
        }
    }

    /// Handles the end of a run, including a run that an operator started. `next` is the time until
    /// the next run. `result` is `None` if the run produced no result.
    pub fn ran(&mut self, now: Duration, next: Duration, result: Option<SharedResult>) {
        self.running_until = None;
        (self.found_at, self.next_run) = (Some(now), now + next);
        let Role::Holder { token, round, until } = self.role else {
            self.counters.own_runs += 1;
            return;
        };
        self.counters.runs += 1;
        let stamp = Stamp { token, round: round.saturating_add(1) };
        self.role = Role::Holder { token, round: stamp.round, until };
        (self.newest, self.newest_at) = (self.newest.max(stamp), now);
        let Some(result) = result else { return };
        let from = self.options.instance.clone();
        let message = Message { token, round: stamp.round, from, result: Some(result) };
        self.push(Action::Publish(Publication {
            check: self.options.check.clone(),
            holder: self.options.holder.clone(),
            stamp,
            value: message.encode(),
            keep: self.options.max_age.max(self.options.interval),
        }));
    }

    /// Handles the reply to a publication: whether the store accepted the result; `None` without a
    /// reply.
    pub fn published(&mut self, now: Duration, stamp: Stamp, accepted: Option<bool>) {
        match accepted {
            Some(true) => {}
            Some(false) => {
                self.counters.fenced += 1;
                if matches!(self.role, Role::Holder { token, .. } if token == stamp.token) {
                    self.role = Role::Follower;
                    self.ask_at = self.ask_at.map(|_| now);
                }
            }
            // The next lease request is sent at once, to find out whether the store is available.
            None => self.ask_at = self.ask_at.map(|_| now),
        }
    }

    fn notify(&mut self, token: u64, round: u64) {
        let message = Message { token, round, from: self.options.instance.clone(), result: None };
        self.push(Action::Notify(Notification {
            check: self.options.check.clone(),
            holder: self.options.holder.clone(),
            token,
            message: message.encode(),
        }));
    }

    fn push(&mut self, action: Action) {
        if self.actions.len() < ACTIONS_MAX {
            self.actions.push_back(action);
        }
    }

    /// Whether this instance runs the check for all.
    #[must_use]
    pub const fn is_holder(&self) -> bool {
        matches!(self.role, Role::Holder { .. })
    }

    /// Returns the counters, including those of earlier machines whose work this one continues.
    #[must_use]
    pub const fn counters(&self) -> ShareCounters {
        self.counters
    }
}
