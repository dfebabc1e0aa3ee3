//! The unique id of a request: sixteen hexadecimal digits.

use std::fmt;

/// An id that is unique within a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Id([u8; Self::LEN]);

impl Id {
    /// Length in bytes.
    pub const LEN: usize = 16;

    /// The id for a request of a worker. `sequence` must be below 2⁴⁸.
    #[must_use]
    pub fn new(worker: u16, sequence: u64) -> Self {
        debug_assert!(sequence >> 48 == 0, "a run is not that long");
        let mut digits = [0; Self::LEN];
        let mut rest = scatter(u64::from(worker) << 48 | sequence);
        for digit in &mut digits {
            *digit = b"0123456789abcdef"[(rest >> 60) as usize];
            rest <<= 4;
        }
        Self(digits)
    }

    /// The digits.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", String::from_utf8_lossy(&self.0))
    }
}

/// The finalizer of splitmix64. It is injective, so ids stay unique. Neighbouring ids differ in
/// most of their digits, so a part of another request's id is detected, and a reply is unlikely to
/// contain an id by accident.
const fn scatter(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_unique_and_neighbours_differ_nearly_everywhere() {
        let mut seen = HashSet::new();
        for worker in [0, 1, u16::MAX] {
            for sequence in (0..1_000).chain([1 << 47]) {
                assert!(seen.insert(*Id::new(worker, sequence).as_bytes()));
            }
        }
        for sequence in 0..1_000 {
            let (one, two) = (Id::new(0, sequence), Id::new(0, sequence + 1));
            let same = one.as_bytes().iter().zip(two.as_bytes()).filter(|(a, b)| a == b).count();
            assert!(same < 8, "{one:?} {two:?}");
        }
    }
}
