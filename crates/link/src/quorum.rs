//! Decision about one target from its states at several places: the instances that check it.

use crate::wire::State;

/// Decision of the places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// At least `quorum` places report the target as down or degraded, but fewer than `quorum` are
    /// down or unknown.
    Degraded,
    /// At least `quorum` places report the target as down.
    Down,
    /// The unknown places could complete the quorum for [`Self::Down`], or there are no places.
    Undecided,
    /// Fewer than `quorum` places are down or unknown, and fewer than `quorum` are down or
    /// degraded.
    Up,
}

/// Decides by the states at all places. The target is down if at least `quorum` places report it as
/// down. It is up only if the unknown places could not complete that quorum: unknown never counts
/// as up.
///
/// A place at which the check is in maintenance or removed counts as unknown.
#[must_use]
pub fn decide(states: &[State], quorum: usize) -> Decision {
    let count = |wanted: State| states.iter().filter(|state| **state == wanted).count();
    let (down, degraded, up) = (count(State::Down), count(State::Degraded), count(State::Up));
    let unknown = states.len() - down - degraded - up;
    let quorum = quorum.clamp(1, states.len().max(1));
    if states.is_empty() {
        Decision::Undecided
    } else if down >= quorum {
        Decision::Down
    } else if down + unknown >= quorum {
        Decision::Undecided
    } else if down + degraded >= quorum {
        Decision::Degraded
    } else {
        // The unknown places could not complete the quorum for `Down`. They are assumed not to be
        // degraded.
        Decision::Up
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn states(letters: &str) -> Vec<State> {
        let state = |letter| match letter {
            'd' => State::Down,
            'g' => State::Degraded,
            'm' => State::Maintenance,
            'r' => State::Removed,
            'u' => State::Up,
            _ => State::Unknown,
        };
        letters.chars().map(state).collect()
    }

    #[test]
    fn decisions() {
        use Decision::{Degraded, Down, Undecided, Up};
        for (quorum, rows) in [
            (
                2,
                &[
                    ("uuu", Up),
                    ("duu", Up),
                    ("ddu", Down),
                    ("ddd", Down),
                    ("dd?", Down),
                    // One place is down, one is up, and the third is unknown.
                    ("du?", Undecided),
                    ("uu?", Up),
                    ("u??", Undecided),
                    ("d??", Undecided),
                    ("???", Undecided),
                    ("ggu", Degraded),
                    ("gdu", Degraded),
                    ("guu", Up),
                    ("gg?", Degraded),
                    ("gu?", Up),
                    ("mmm", Undecided),
                    ("uum", Up),
                    ("ddm", Down),
                    ("rru", Undecided),
                    // Four places in two halves that disagree.
                    ("dduu", Down),
                    ("uu??", Undecided),
                    ("", Undecided),
                ][..],
            ),
            (3, &[("dduu", Up), ("uu??", Up), ("du??", Undecided), ("dddu", Down)]),
            (1, &[("uuu", Up), ("uud", Down), ("uu?", Undecided), ("u", Up), ("d", Down), ("?", Undecided)]),
            (9, &[("ddd", Down), ("ddu", Up), ("dd?", Undecided)]),
            (0, &[("uu", Up), ("ud", Down)]),
        ] {
            for (letters, expected) in rows {
                assert_eq!(decide(&states(letters), quorum), *expected, "{letters} with quorum {quorum}");
            }
        }
    }

    proptest! {
        #[test]
        fn states_that_become_known_never_reverse_a_decision(
            letters in "[dgu?]{1,7}",
            quorum in 1_usize..5,
            fill in "[dgu]{7}",
        ) {
            let before = decide(&states(&letters), quorum);
            let mut fill = fill.chars();
            let known: String =
                letters.chars().map(|letter| if letter == '?' { fill.next().unwrap() } else { letter }).collect();
            let after = decide(&states(&known), quorum);
            prop_assert_ne!(after, Decision::Undecided);
            match before {
                Decision::Down => prop_assert_eq!(after, Decision::Down),
                Decision::Up | Decision::Degraded => prop_assert_ne!(after, Decision::Down),
                Decision::Undecided => {}
            }
            if !letters.contains('u') && !letters.contains('g') {
                prop_assert_ne!(before, Decision::Up, "unknown is never up");
            }
        }
    }
}
