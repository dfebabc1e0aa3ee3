//! Per-minute increments of counters.

use crate::row::{COUNTS_MAX, CounterName, Increments};
use std::collections::HashMap;

/// Totals of a set of counters at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Identifies the set of counters.
    pub name: CounterName,
    /// Values in the order that [`CounterName`] gives; unused ones are 0.
    pub counts: [u64; COUNTS_MAX],
}

/// Counters that `R` reads, and their values as of the end of the last minute.
pub(crate) struct Counters<R> {
    read: R,
    last: ByName,
}

type ByName = HashMap<CounterName, [u64; COUNTS_MAX]>;

impl<R: Fn() -> Vec<Counter>> Counters<R> {
    /// Uses the current counters as the baseline: earlier increments belong to no minute.
    pub(crate) fn new(read: R) -> Self {
        Self { last: by_name(read()), read }
    }

    /// Returns the increments since the last call, without unchanged counters. If a counter is
    /// lower than before, its set was reset to 0.
    pub(crate) fn increments(&mut self, minute: u64) -> Vec<Increments> {
        let before = std::mem::replace(&mut self.last, by_name((self.read)()));
        let increments = self.last.iter().filter_map(|(name, counts)| {
            let known = before.get(name).copied().unwrap_or_default();
            let was_restarted = counts.iter().zip(&known).any(|(count, known)| count < known);
            let base = if was_restarted { [0; COUNTS_MAX] } else { known };
            let mut increments = [0; COUNTS_MAX];
            for (increments, (count, base)) in increments.iter_mut().zip(counts.iter().zip(base)) {
                *increments = u32::try_from(count - base).unwrap_or(u32::MAX);
            }
            (increments != [0; COUNTS_MAX]).then(|| Increments {
                minute,
                name: name.clone(),
                counts: increments,
            })
        });
        increments.collect()
    }
}

fn by_name(counters: Vec<Counter>) -> ByName {
    counters.into_iter().map(|counter| (counter.name, counter.counts)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn counter(link: &str, counts: [u64; COUNTS_MAX]) -> Counter {
        Counter { name: CounterName::Link(link.into()), counts }
    }

    type Now = RefCell<Vec<Counter>>;

    fn increments(
        counters: &mut Counters<impl Fn() -> Vec<Counter>>,
        shown: &Now,
        now: Vec<Counter>,
    ) -> Vec<(CounterName, [u32; COUNTS_MAX])> {
        shown.replace(now);
        let mut rows: Vec<_> = counters.increments(7).into_iter().map(|row| (row.name, row.counts)).collect();
        rows.sort_by_key(|(name, _)| format!("{name:?}"));
        rows
    }

    #[test]
    fn only_growth_is_a_row() {
        let name = |link: &str| CounterName::Link(link.into());
        let shown = Now::new(vec![counter("eu", [100, 1, 0, 0, 0])]);
        let mut counters = Counters::new(|| shown.borrow().clone());
        let now = vec![counter("eu", [110, 1, 0, 0, 0]), counter("us", [3, 0, 0, 0, 0])];
        let rows = [(name("eu"), [10, 0, 0, 0, 0]), (name("us"), [3, 0, 0, 0, 0])];
        assert_eq!(increments(&mut counters, &shown, now.clone()), rows, "a new counter grew from 0");
        assert_eq!(increments(&mut counters, &shown, now), [], "nothing has changed");
        let restarted = vec![counter("eu", [8, 2, 0, 0, 0])];
        assert_eq!(increments(&mut counters, &shown, restarted), [(name("eu"), [8, 2, 0, 0, 0])]);
        let large = vec![counter("eu", [u64::MAX, 2, 0, 0, 0])];
        assert_eq!(increments(&mut counters, &shown, large), [(name("eu"), [u32::MAX, 0, 0, 0, 0])]);
    }
}
