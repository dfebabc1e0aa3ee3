//! Ratios of pairs, and their middle and spread.
//!
//! Does not know about: what was measured.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Pair;
use crate::report::median;

/// The ratios of a contest: ours to the peer.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Summary {
    /// Of the ratios of `of` in each pair; `None` without pairs, or where the peer has nothing to compare with.
    pub(crate) fn of<T>(pairs: &[Pair<T>], of: impl Fn(&T) -> f64) -> Option<Self> {
        let ratios: Vec<f64> = pairs.iter().map(|pair| of(&pair.ours) / of(&pair.peer)).collect();
        if !ratios.iter().all(|ratio| ratio.is_finite()) {
            return None;
        }
        Some(Self {
            median: median(&ratios)?,
            low: ratios.iter().copied().min_by(f64::total_cmp)?,
            high: ratios.iter().copied().max_by(f64::total_cmp)?,
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2} to {:.2})", self.median, self.low, self.high)
    }
}

/// The middle of one side.
pub(super) fn middle<T>(pairs: &[Pair<T>], of: impl Fn(&Pair<T>) -> f64) -> Option<f64> {
    median(&pairs.iter().map(of).collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(values: &[(f64, f64)]) -> Vec<Pair<f64>> {
        values.iter().map(|&(ours, peer)| Pair { ours, peer }).collect()
    }

    #[test]
    fn the_ratio_is_that_of_neighbors_and_not_of_middles() {
        // The machine became twice as slow after the second pair; the ratios do not see it.
        let pairs = pairs(&[(1.0, 2.0), (1.1, 2.0), (2.0, 4.0), (1.8, 4.0), (2.0, 4.0)]);
        let summary = Summary::of(&pairs, |&value| value).unwrap();
        assert_eq!((summary.median, summary.low, summary.high), (0.5, 0.45, 0.55));
        assert_eq!(summary.to_string(), "0.50 (0.45 to 0.55)");
        assert_eq!(middle(&pairs, |pair| pair.peer), Some(4.0));
    }

    #[test]
    fn nothing_to_compare_with_has_no_ratio() {
        assert_eq!(Summary::of(&pairs(&[]), |&value| value), None);
        assert_eq!(Summary::of(&pairs(&[(1.0, 0.0), (1.0, 2.0)]), |&value| value), None);
    }
}
