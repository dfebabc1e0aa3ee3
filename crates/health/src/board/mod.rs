//! All checks and endpoints. Input: results, commands and the time. Output: transitions and
//! rendered replies.
//!
//! Entry: [`Board::builder`].
//!
//! The cost of a result is that of its check plus one visit to each endpoint that uses the check.
//! This cost does not depend on the total number of checks. Allocations and rendering happen only
//! if a state or reason changed, or if the replies, which contain latencies, are 10 s old. After a
//! change of state, the endpoints that use the check are judged from their counts and rendered
//! again.
//!
//! Time never runs backward on a board: an earlier `now` counts as the latest time seen.

mod build;
mod command;
mod deadlines;
mod event;
mod index;
mod inherit;
#[cfg(test)]
mod inherit_tests;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

pub use build::BoardBuilder;
pub use command::{Command, Target};
pub use event::{Changes, Event};
pub use index::{CheckIndex, EndpointIndex};
pub use inherit::Inheritance;

use crate::check::{Check, CheckResult, Move};
use crate::endpoint::{Audience, Class, Endpoint};
use crate::format::{Format, LINE_LEN_MIN, Line, Page, Reply, write_single};
use crate::reason::Reason;
use crate::snapshot::Snapshot;
use crate::time::Time;
use deadlines::Deadlines;

/// Age at which replies are rendered again at the next result even without a change, because bodies
/// contain the times and latencies of results.
const RENDER_AGE_MAX: Duration = Duration::from_secs(10);

/// Statistics of a board since it was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Results accepted.
    pub results: u64,
    /// Transitions of checks.
    pub check_transitions: u64,
    /// Transitions of endpoints.
    pub endpoint_transitions: u64,
    /// Number of times that an endpoint was rendered.
    pub renders: u64,
    /// Number of results and commands for a check or endpoint that is not on the board.
    pub ignored: u64,
}

#[derive(Debug)]
struct Slot {
    name: Box<str>,
    check: Check,
    /// The endpoints that use the check, each with the position of the use.
    users: Vec<(u32, u32)>,
}

impl Slot {
    fn new(name: &str, check: Check) -> Self {
        Self { name: name.into(), check, users: Vec::new() }
    }
}

/// The checks and endpoints of a process, with their rendered replies.
#[derive(Debug)]
pub struct Board {
    /// The latest time seen.
    now: Time,
    slots: Vec<Slot>,
    endpoints: Vec<Endpoint>,
    checks_by_name: HashMap<Box<str>, u32>,
    endpoints_by_name: HashMap<Box<str>, u32>,
    unix_at_zero: Option<Duration>,
    /// The reason of the current drain of all endpoints.
    drain_of_all: Option<Reason>,
    /// True once the board has taken over checks of a predecessor.
    has_inherited: bool,
    /// Deadlines of all checks and endpoints. Items are numbered: first the checks, then the
    /// endpoints.
    deadlines: Deadlines,
    // Changes of the current call.
    events: Vec<Event>,
    rendered: Vec<EndpointIndex>,
    checks_changed: Vec<CheckIndex>,
    /// Endpoints to judge and render at the end of the current call, each once.
    dirty: Vec<u32>,
    is_dirty: Box<[bool]>,
    counters: Counters,
}

impl Board {
    /// Creates the builder of a board whose time begins at `now`.
    pub fn builder(now: Time) -> BoardBuilder {
        BoardBuilder::new(now)
    }

    /// Handles the result of a run that has just ended. A result for a check that is not on this
    /// board is counted and ignored.
    pub fn apply(&mut self, check: CheckIndex, result: &CheckResult<'_>, now: Time) -> Changes<'_> {
        let now = self.advance(now);
        if let Some(slot) = self.slots.get_mut(check.as_usize()) {
            self.counters.results += 1;
            let (reasons, was_awaited) = (slot.check.reasons(), slot.check.awaited_until().is_some());
            let moved = slot.check.handle_result(result, now);
            // If a check stays down but the reason changes, the bodies change as well.
            let renew = slot.check.reasons() != reasons || was_awaited;
            self.follow(check, moved, renew, now);
            self.settle(now);
        } else {
            self.counters.ignored += 1;
        }
        self.changes()
    }

    /// Handles the passing of time. Must be called at [`deadline`](Self::deadline); harmless at any
    /// other time.
    pub fn tick(&mut self, now: Time) -> Changes<'_> {
        let now = self.advance(now);
        while let Some(item) = self.deadlines.pop(now) {
            let at = item as usize;
            if let Some(slot) = self.slots.get_mut(at) {
                let was_awaited = slot.check.awaited_until().is_some();
                let moved = slot.check.handle_time(now);
                let renew = was_awaited && slot.check.awaited_until().is_none();
                self.follow(CheckIndex(item), [moved, None], renew, now);
            } else {
                self.mark(at - self.slots.len());
            }
        }
        self.settle(now);
        self.changes()
    }

    /// The time for the next call of [`tick`](Self::tick). The time may be too early; the call then
    /// changes nothing.
    pub fn deadline(&self) -> Time {
        self.deadlines.first()
    }

    /// The time of the next run of a check; [`Time::MAX`] for a passive check, or one that is not
    /// on this board.
    pub fn next_due(&self, check: CheckIndex) -> Time {
        self.check(check).map_or(Time::MAX, Check::next_due)
    }

    /// Sets the Unix time of the origin of [`Time`] after a step of the system clock. All replies
    /// are rendered again, because bodies may contain times of day.
    pub fn set_unix_at_zero(&mut self, unix: Option<Duration>, now: Time) -> Changes<'_> {
        let now = self.advance(now);
        self.unix_at_zero = unix;
        (0..self.endpoints.len()).for_each(|at| self.mark(at));
        self.settle(now);
        self.changes()
    }

    /// Returns a check.
    pub fn check(&self, check: CheckIndex) -> Option<&Check> {
        self.slots.get(check.as_usize()).map(|slot| &slot.check)
    }

    /// Returns an endpoint.
    pub fn endpoint(&self, endpoint: EndpointIndex) -> Option<&Endpoint> {
        self.endpoints.get(endpoint.as_usize())
    }

    /// The name of a check.
    pub fn check_name(&self, check: CheckIndex) -> Option<&str> {
        self.slots.get(check.as_usize()).map(|slot| &*slot.name)
    }

    /// The check with this name.
    pub fn check_named(&self, name: &str) -> Option<CheckIndex> {
        self.checks_by_name.get(name).copied().map(CheckIndex)
    }

    /// The endpoint with this name.
    pub fn endpoint_named(&self, name: &str) -> Option<EndpointIndex> {
        self.endpoints_by_name.get(name).copied().map(EndpointIndex)
    }

    /// All checks, in the order in which they were added.
    pub fn checks(&self) -> impl ExactSizeIterator<Item = (CheckIndex, &str, &Check)> {
        self.slots.iter().enumerate().map(|(at, slot)| (index_of(at), &*slot.name, &slot.check))
    }

    /// All endpoints, in the order in which they were added.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Statistics since the board was built.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// The reply to a probe of an endpoint.
    pub fn reply(
        &self,
        endpoint: EndpointIndex,
        audience: Audience,
        format: Format,
        authenticated: bool,
    ) -> Option<Reply<'_>> {
        Some(self.endpoint(endpoint)?.rendered().reply(audience, format, authenticated))
    }

    /// The reply to a probe of one check of an endpoint (`/readyz/NAME`) by a client that may see
    /// details. The body contains the check's state; the status code comes from the endpoint's
    /// configuration. `out` is cleared, then the body is written into it.
    ///
    /// `place` is the position of the check among the endpoint's uses.
    pub fn check_reply<'o>(
        &self,
        endpoint: EndpointIndex,
        place: usize,
        format: Format,
        out: &'o mut Vec<u8>,
    ) -> Option<Reply<'o>> {
        let endpoint = self.endpoint(endpoint)?;
        let one = endpoint.config().uses.get(place)?;
        let codes = &endpoint.config().codes;
        let line = Line { last: None, ..self.line(endpoint, place) };
        let code = match line.class {
            Class::Degraded => codes.degraded,
            Class::Down | Class::Unknown => one.code.unwrap_or(codes.down),
            Class::Maintenance => codes.maintenance,
            Class::Up => codes.up,
        };
        // The API server's format of a single check is the text format.
        let format = if format == Format::Kube { Format::Text } else { format };
        out.clear();
        write_single(out, &line, code, format);
        Some(Reply { code, content_type: format.content_type(), body: out })
    }

    /// A copy of the current state of an endpoint, for replies that exclude checks.
    pub fn snapshot(&self, endpoint: EndpointIndex) -> Option<Snapshot> {
        let endpoint = self.endpoint(endpoint)?;
        Some(Snapshot::new(endpoint, &self.ordered(endpoint), self.unix_at_zero))
    }

    /// Starts a call: advances the time and clears the changes of the previous call.
    fn advance(&mut self, now: Time) -> Time {
        self.events.clear();
        self.rendered.clear();
        self.checks_changed.clear();
        self.now = self.now.max(now);
        self.now
    }

    fn changes(&self) -> Changes<'_> {
        Changes { events: &self.events, rendered: &self.rendered, checks: &self.checks_changed }
    }

    /// Initializes every endpoint's counts from its uses.
    fn begin(&mut self) {
        for at in 0..self.slots.len() {
            self.follow(index_of(at), [None, None], true, self.now);
        }
        for at in 0..self.endpoints.len() {
            self.mark(at);
        }
        self.settle(self.now);
        self.advance(self.now);
        self.counters = Counters::default();
    }

    /// Records the effects of a result, a command or the passing of time on a check: events,
    /// counts, the check's own reply, its deadline.
    fn follow(&mut self, check: CheckIndex, moved: [Option<Move>; 2], renew: bool, now: Time) {
        let slot = &mut self.slots[check.as_usize()];
        self.deadlines.arm(check.0, slot.check.deadline());
        if moved == [None, None] && !renew {
            // Bodies also contain the time and the latency of the check's last result.
            for &(endpoint, _) in &slot.users {
                if now.since(self.endpoints[endpoint as usize].rendered_at) >= RENDER_AGE_MAX {
                    mark(&mut self.dirty, &mut self.is_dirty, endpoint);
                }
            }
            return;
        }
        for moved in moved.into_iter().flatten() {
            self.counters.check_transitions += 1;
            self.events.push(Event::Check { at: now, check, moved });
        }
        self.checks_changed.push(check);
        for &(endpoint, place) in &slot.users {
            self.endpoints[endpoint as usize].count(place as usize, &slot.check);
            mark(&mut self.dirty, &mut self.is_dirty, endpoint);
        }
    }

    fn mark(&mut self, endpoint: usize) {
        let endpoint = u32::try_from(endpoint).expect("every cap is far below u32::MAX");
        mark(&mut self.dirty, &mut self.is_dirty, endpoint);
    }

    /// Finishes a change of the board: judges and renders the endpoints that may have changed.
    fn settle(&mut self, now: Time) {
        let mut next = 0;
        while let Some(&at) = self.dirty.get(next) {
            next += 1;
            self.is_dirty[at as usize] = false;
            let endpoint = &mut self.endpoints[at as usize];
            if let Some((from, to)) = endpoint.settle(now) {
                self.counters.endpoint_transitions += 1;
                self.events.push(Event::Endpoint { at: now, endpoint: EndpointIndex(at), from, to });
            }
            let item = u32::try_from(self.slots.len()).expect("every cap is far below u32::MAX") + at;
            self.deadlines.arm(item, endpoint.deadline(now));
            self.render(at);
        }
        self.dirty.clear();
    }

    fn render(&mut self, at: u32) {
        self.counters.renders += 1;
        let mut rendered = std::mem::take(&mut self.endpoints[at as usize].rendered);
        let moved = self.endpoints[at as usize].take_moved();
        let endpoint = &self.endpoints[at as usize];
        let config = endpoint.config();
        let lines = self.lines(endpoint);
        let pages = Audience::ALL.map(|audience| {
            let (verdict, code) = endpoint.answer(audience);
            Page {
                name: &config.name,
                verdict,
                code,
                note: endpoint.note(verdict),
                lines: &lines,
                lines_total: config.uses.len(),
                unknown: &[],
                details: config.details,
                body_len_max: config.body_len_max,
                unix_at_zero: self.unix_at_zero,
            }
        });
        if rendered.render(&pages) || moved {
            self.rendered.push(EndpointIndex(at));
        }
        let endpoint = &mut self.endpoints[at as usize];
        (endpoint.rendered, endpoint.rendered_at) = (rendered, self.now);
    }

    /// The lines of an endpoint's checks, as many as can fit into a body. Checks that decided the
    /// verdict come first.
    fn lines(&self, endpoint: &Endpoint) -> Vec<Line<'_>> {
        self.ordered(endpoint).into_iter().map(|(_, line)| line).collect()
    }

    /// The lines of [`lines`](Self::lines), each with the check's position among the uses.
    fn ordered(&self, endpoint: &Endpoint) -> Vec<(usize, Line<'_>)> {
        let config = endpoint.config();
        let fitting = config.body_len_max / LINE_LEN_MIN;
        endpoint.places().take(fitting).map(|place| (place, self.line(endpoint, place))).collect()
    }

    fn line(&self, endpoint: &Endpoint, place: usize) -> Line<'_> {
        let (one, class) = (&endpoint.config().uses[place], endpoint.classes()[place]);
        let Slot { name, check, .. } = &self.slots[one.check.as_usize()];
        Line {
            name,
            state: check.state(),
            class,
            severity: one.severity,
            reason: check.reason(),
            left_out: false,
            last: check.last().map(|(at, result)| (at, result.latency)),
        }
    }
}

fn index_of(at: usize) -> CheckIndex {
    CheckIndex(u32::try_from(at).expect("every cap is far below u32::MAX"))
}

fn mark(dirty: &mut Vec<u32>, is_dirty: &mut [bool], endpoint: u32) {
    if !std::mem::replace(&mut is_dirty[endpoint as usize], true) {
        dirty.push(endpoint);
    }
}
