//! Port ranges that `connect` may choose from: the system's range, and random windows of it.

use core::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// A range of ports, including both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

/// File with the system's range, for IPv4 and IPv6.
const SYSTEM: &str = "/proc/sys/net/ipv4/ip_local_port_range";

impl PortRange {
    /// Linux's default of `net.ipv4.ip_local_port_range`.
    pub const DEFAULT: Self = Self { first: 32_768, last: 60_999 };

    /// A range; `None` if `first` is 0 or larger than `last`.
    #[must_use]
    pub const fn new(first: u16, last: u16) -> Option<Self> {
        if first == 0 || first > last { None } else { Some(Self { first, last }) }
    }

    /// Reads `net.ipv4.ip_local_port_range` of this network namespace.
    ///
    /// # Errors
    /// The file cannot be read, or does not contain a range.
    pub fn of_system() -> io::Result<Self> {
        let text = std::fs::read_to_string(SYSTEM)?;
        Self::parse(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a port range"))
    }

    /// Parses two numbers separated by blanks.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace().map(str::parse);
        match (words.next(), words.next(), words.next()) {
            (Some(Ok(first)), Some(Ok(last)), None) => Self::new(first, last),
            _ => None,
        }
    }

    /// The first port.
    #[must_use]
    pub const fn first(self) -> u16 {
        self.first
    }

    /// The last port.
    #[must_use]
    pub const fn last(self) -> u16 {
        self.last
    }

    /// Number of ports.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a range has at least one port")]
    pub const fn len(self) -> u32 {
        self.last as u32 - self.first as u32 + 1
    }

    /// Whether the range contains a port.
    #[must_use]
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }

    /// The port selected by `random`, a uniformly distributed number.
    pub(super) fn port(self, random: u32) -> u16 {
        self.first + scaled(random, self.len())
    }

    /// Returns a random window of `width` adjacent ports, or the whole range if the range is
    /// smaller. All positions are equally likely.
    pub(super) fn window(self, width: u16, random: u32) -> Self {
        let width = u32::from(width.max(1)).min(self.len());
        let first = self.first + scaled(random, self.len() - width + 1);
        let last = u32::from(first) + width - 1;
        Self { first, last: u16::try_from(last).expect("a window is inside its range") }
    }
}

impl Default for PortRange {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// Scales `random` to a number below `bound`, which is at most the number of ports.
fn scaled(random: u32, bound: u32) -> u16 {
    let number = (u64::from(random) * u64::from(bound)) >> 32;
    u16::try_from(number).expect("there are 65,536 ports")
}

/// A generator of random numbers for several threads: `SplitMix64`, which suffices to distribute
/// ports but is not secure.
#[derive(Debug)]
pub(super) struct Random(AtomicU64);

impl Random {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(RandomState::new().hash_one(0)))
    }

    pub(super) fn next(&self) -> u32 {
        const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut word = self.0.fetch_add(GAMMA, Ordering::Relaxed).wrapping_add(GAMMA);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((word ^ (word >> 31)) >> 32).expect("the upper half fits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_systems_text_is_read() {
        for (text, want) in [
            ("32768\t60999\n", PortRange::new(32_768, 60_999)),
            ("1024 65535", PortRange::new(1_024, 65_535)),
            ("5 5", PortRange::new(5, 5)),
            ("", None),
            ("7", None),
            ("0 9", None),
            ("9 8", None),
            ("1 2 3", None),
            ("1 65536", None),
            ("-1 7", None),
        ] {
            assert_eq!(PortRange::parse(text), want, "{text:?}");
        }
        assert!(PortRange::of_system().is_ok());
        assert_eq!(PortRange::DEFAULT.len(), 28_232);
        assert_eq!(PortRange::DEFAULT.to_string(), "32768-60999");
    }

    #[test]
    fn the_extreme_random_values_give_the_ends_of_the_range() {
        let range = PortRange::new(1_000, 1_999).unwrap();
        assert_eq!((range.port(0), range.port(u32::MAX)), (1_000, 1_999));
        assert_eq!(range.window(100, 0), PortRange::new(1_000, 1_099).unwrap());
        assert_eq!(range.window(100, u32::MAX), PortRange::new(1_900, 1_999).unwrap());
        assert_eq!(range.window(0, 0).len(), 1, "a window has at least one port");
        let all = PortRange::new(1, 65_535).unwrap();
        assert_eq!((all.window(u16::MAX, u32::MAX), all.port(u32::MAX)), (all, 65_535));
    }

    #[test]
    fn random_numbers_fill_the_range_evenly() {
        let (random, range) = (Random::new(), PortRange::new(100, 107).unwrap());
        let mut seen = [0_u32; 8];
        for _ in 0..8_000 {
            seen[usize::from(range.port(random.next()) - 100)] += 1;
        }
        assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
        assert_ne!(Random::new().next(), Random::new().next(), "each generator has its own seed");
    }

    proptest! {
        #[test]
        fn a_window_lies_in_its_range_and_has_its_width(
            (first, last) in (1_u16..).prop_flat_map(|first| (Just(first), first..)), width: u16, random: u32,
        ) {
            let range = PortRange::new(first, last).unwrap();
            let window = range.window(width, random);
            prop_assert!(range.contains(window.first()) && range.contains(window.last()));
            prop_assert_eq!(window.len(), u32::from(width.max(1)).min(range.len()));
            prop_assert!(window.contains(window.port(random)) && range.contains(range.port(random)));
        }
    }
}
