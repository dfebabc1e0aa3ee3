//! Pauses between attempts to connect.

use std::time::Duration;

const MIN: Duration = Duration::from_millis(250);
const MAX: Duration = Duration::from_secs(15);

/// Pauses that double up to a maximum. Each is shortened by a random part of up to half, so that
/// many instances do not reconnect to a restarted peer at the same time.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
    jitter: Jitter,
}

/// Random parts of durations.
#[derive(Clone, Copy, Debug)]
pub struct Jitter(u64);

impl Backoff {
    /// Starts with the shortest pause. `seed` is any number that differs between instances.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { next: MIN, jitter: Jitter::new(seed) }
    }

    /// Returns to the shortest pause, after a good connection.
    pub const fn reset(&mut self) {
        self.next = MIN;
    }

    /// Returns the pause before the next attempt.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(MAX);
        pause - self.jitter.part_of(pause / 2)
    }
}

impl Jitter {
    /// `seed` is any number that differs between instances.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a random part of a duration.
    pub fn part_of(&mut self, duration: Duration) -> Duration {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        duration * u32::try_from((mixed ^ (mixed >> 31)) % 1024).unwrap_or_default() / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_differ() {
        let mut backoff = Backoff::new(1);
        let pauses: Vec<Duration> = (0..9).map(|_| backoff.pause()).collect();
        for (pause, doublings) in pauses.iter().zip(0..) {
            let full = (MIN * (1 << doublings)).min(MAX);
            assert!((full / 2..=full).contains(pause), "{pauses:?}");
        }
        assert_ne!(Backoff::new(2).pause(), pauses[0]);
        backoff.reset();
        assert!(backoff.pause() <= MIN);
    }
}
