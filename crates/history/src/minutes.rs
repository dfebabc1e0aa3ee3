//! Time that endpoints spend in each state, by minute. Availability is calculated from these rows:
//! a lost or repeated row affects only its own minute, and time during which the program does not
//! run is a gap, not a state.

use crate::row::{Minute, STATES};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const MINUTE_MS: u64 = 60_000;

/// Maximum plausible step of the clock between two calls. After a larger step, the clock was set or
/// the system was suspended, and the states in between are unknown. After a smaller step backwards
/// (a late event, or a clock that was set back slightly), no time is counted until the clock has
/// caught up: a second row of a minute would replace the first one.
const GAP_MS: u64 = 2 * MINUTE_MS;

/// Time of all endpoints in each state, by minute. All times are in milliseconds since 1970.
#[derive(Debug, Default)]
pub struct Minutes {
    /// Time up to which states have been counted.
    now_ms: u64,
    endpoints: BTreeMap<Arc<str>, Spent>,
    /// Completed minutes.
    done: Vec<Minute>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    /// Index in [`STATES`]; `None` for a removed endpoint, whose row is added at the end of the
    /// minute.
    state: Option<usize>,
    ms: [u32; STATES.len()],
}

impl Minutes {
    /// Sets the endpoints: removes those that are not listed, and adds new ones with the given
    /// state. A known endpoint keeps its state, which only [`Self::moved`] changes.
    pub fn follow<'a>(&mut self, endpoints: impl IntoIterator<Item = (&'a str, &'a str)>, now_ms: u64) {
        self.advance(now_ms);
        let mut before = std::mem::take(&mut self.endpoints);
        for (name, state) in endpoints {
            let (name, mut spent) =
                before.remove_entry(name).unwrap_or_else(|| (name.into(), Spent::default()));
            spent.state.get_or_insert_with(|| position(state));
            self.endpoints.insert(name, spent);
        }
        for (name, spent) in before {
            self.endpoints.insert(name, Spent { state: None, ..spent });
        }
    }

    /// Records a state change of an endpoint.
    pub fn moved(&mut self, endpoint: &str, to: &str, now_ms: u64) {
        self.advance(now_ms);
        let state = Some(position(to));
        match self.endpoints.get_mut(endpoint) {
            Some(spent) => spent.state = state,
            None => {
                self.endpoints.insert(endpoint.into(), Spent { state, ..Spent::default() });
            }
        }
    }

    /// Counts the time up to `now_ms`, and returns the rows of completed minutes.
    pub fn completed(&mut self, now_ms: u64) -> Vec<Minute> {
        self.advance(now_ms);
        std::mem::take(&mut self.done)
    }

    /// Returns the rows of completed minutes and of the current one. Called at shutdown.
    pub fn end(&mut self, now_ms: u64) -> Vec<Minute> {
        self.advance(now_ms);
        self.complete();
        std::mem::take(&mut self.done)
    }

    fn advance(&mut self, now_ms: u64) {
        if now_ms.abs_diff(self.now_ms) > GAP_MS {
            self.complete();
            self.now_ms = now_ms;
        }
        while self.now_ms < now_ms {
            let end = (self.now_ms / MINUTE_MS + 1) * MINUTE_MS;
            let until = end.min(now_ms);
            let took = u32::try_from(until - self.now_ms).unwrap_or(u32::MAX);
            for spent in self.endpoints.values_mut() {
                spent.state.iter().for_each(|state| spent.ms[*state] += took);
            }
            if until == end {
                self.complete();
            }
            self.now_ms = until;
        }
    }

    /// Completes the current minute.
    fn complete(&mut self) {
        let minute = self.now_ms / MINUTE_MS;
        self.endpoints.retain(|name, spent| {
            self.done.extend(spent.row(Arc::clone(name), minute));
            spent.ms = Default::default();
            spent.state.is_some()
        });
    }
}

impl Spent {
    fn row(&self, endpoint: Arc<str>, minute: u64) -> Option<Minute> {
        self.ms.iter().any(|ms| *ms > 0).then_some(Minute { minute, endpoint, ms: self.ms })
    }
}

/// Index of a state in [`STATES`]; unrecognized names count as `down`.
fn position(state: &str) -> usize {
    let down = 2;
    STATES.iter().position(|word| *word == state).unwrap_or(down)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(minute: u64, endpoint: &str, ms: [u32; 5]) -> Minute {
        Minute { minute, endpoint: endpoint.into(), ms }
    }

    #[test]
    fn time_is_counted_in_the_state_and_minute_in_which_it_passed() {
        let mut minutes = Minutes::default();
        minutes.follow([("a", "up"), ("b", "down")], 30_000);
        minutes.moved("a", "degraded", 50_000);
        assert_eq!(minutes.completed(59_999), []);
        minutes.moved("a", "down", 70_000);
        let first = [row(0, "a", [20_000, 10_000, 0, 0, 0]), row(0, "b", [0, 0, 30_000, 0, 0])];
        assert_eq!(minutes.completed(80_000), first);
        minutes.moved("b", "maintenance", 90_000);
        minutes.follow([("b", "up")], 100_000);
        assert_eq!(
            minutes.end(110_000),
            [row(1, "a", [0, 10_000, 30_000, 0, 0]), row(1, "b", [0, 0, 30_000, 0, 20_000])],
            "a known endpoint keeps its state, and a removed one its time"
        );
    }

    #[test]
    fn a_gap_of_the_clock_is_not_counted() {
        for (later, rows) in [
            (61_000 + GAP_MS + 1, vec![row(1, "a", [1_000, 0, 0, 0, 0])]),
            (59_000, vec![]),
            (62_000, vec![]),
        ] {
            let mut minutes = Minutes::default();
            minutes.follow([("a", "up")], 60_000);
            minutes.completed(61_000);
            assert_eq!(minutes.completed(later), rows, "{later}");
        }
        let mut minutes = Minutes::default();
        minutes.follow([("a", "up")], 10 * 60_000);
        minutes.completed(10 * 60_000 + 1_000);
        let early = 10 * 60_000 - GAP_MS;
        assert_eq!(minutes.completed(early), [row(10, "a", [1_000, 0, 0, 0, 0])], "set back by more");
        assert_eq!(minutes.end(early + 2), [row(8, "a", [2, 0, 0, 0, 0])]);
        let mut minutes = Minutes::default();
        minutes.follow([("a", "up")], 60_000);
        let rows = minutes.completed(60_000 + GAP_MS);
        assert_eq!(rows, [row(1, "a", [60_000, 0, 0, 0, 0]), row(2, "a", [60_000, 0, 0, 0, 0])]);
    }

    /// A second row of the same minute would replace the first one in the store.
    #[test]
    fn a_minute_has_one_row_although_a_time_comes_late_or_the_endpoint_is_removed_and_added_again() {
        let mut minutes = Minutes::default();
        minutes.follow([("a", "up")], 60_000);
        assert_eq!(minutes.completed(120_001), [row(1, "a", [60_000, 0, 0, 0, 0])]);
        // An event of the previous minute that another thread has recorded late.
        minutes.moved("a", "down", 119_999);
        minutes.follow([], 130_001);
        minutes.follow([("a", "up")], 150_001);
        assert_eq!(minutes.completed(150_001), []);
        assert_eq!(minutes.completed(180_000), [row(2, "a", [29_999 + 1, 0, 10_000, 0, 0])]);
        minutes.follow([], 180_000);
        assert_eq!(minutes.completed(400_000), [], "the endpoint was removed");
    }
}
