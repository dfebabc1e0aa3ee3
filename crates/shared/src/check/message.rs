//! Messages and results of a shared check: a version byte, then bitcode.
//!
//! Version 1 is frozen: a change needs another version.

use crate::format::{at_most, decode, encode};
use crate::store::Stamp;
use bitcode::{Decode, Encode};
use doorbell_link::Outcome;
use std::time::Duration;

/// Version of the format.
const VERSION: u8 = 1;

/// Maximum size of a message that is decoded.
const MESSAGE_LEN_MAX: usize = 4 << 10;

/// Maximum length of a reason in bytes; the rest is cut off.
const REASON_LEN_MAX: usize = 512;

/// A message of the instance that runs a check.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Message {
    /// Fencing token of the sender.
    pub token: u64,
    /// Number of the contained result, or of the last result if none is contained; 0 before the
    /// first.
    pub round: u64,
    /// Name of the instance.
    pub from: String,
    /// The result; `None` if the message only shows that the sender still holds the lease.
    pub result: Option<SharedResult>,
}

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SharedResult {
    /// The outcome.
    pub outcome: Outcome,
    /// Duration of the run in microseconds.
    pub latency_us: u64,
    /// Reason; empty for a plain success.
    pub reason: String,
    /// Time until the next run in milliseconds.
    pub next_ms: u64,
}

impl Message {
    /// Returns the position of its result in the order of all results.
    #[must_use]
    pub const fn stamp(&self) -> Stamp {
        Stamp { token: self.token, round: self.round }
    }

    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(VERSION, self)
    }

    /// Decodes a message; `None` if it is invalid or has another version.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        decode(VERSION, MESSAGE_LEN_MAX, bytes)
    }
}

impl SharedResult {
    /// Creates a result; a long reason is truncated.
    #[must_use]
    pub fn new(outcome: Outcome, latency: Duration, reason: &str, next: Duration) -> Self {
        Self {
            outcome,
            latency_us: micros(latency),
            reason: at_most(reason, REASON_LEN_MAX).to_owned(),
            next_ms: u64::try_from(next.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::hex;

    fn messages() -> Vec<Message> {
        let outcomes = [
            Outcome::Degraded,
            Outcome::Error,
            Outcome::Failure,
            Outcome::Maintenance,
            Outcome::Success,
            Outcome::Timeout,
        ];
        let message =
            |result| Message { token: 1_795_288_003_819_000, round: 70_000, from: "web-1".into(), result };
        let result = |outcome| {
            SharedResult::new(outcome, Duration::from_micros(1_250), "refused", Duration::from_secs(5))
        };
        std::iter::once(None).chain(outcomes.map(result).map(Some)).map(message).collect()
    }

    /// The messages of version 1. Deployed programs send and expect exactly these bytes: never
    /// change a line; add a version instead.
    const FROZEN_1: &str = include_str!("frozen_1.txt");

    #[test]
    fn messages_are_frozen() {
        let written: Vec<String> = messages().iter().map(|message| hex(&message.encode())).collect();
        assert_eq!(written, FROZEN_1.lines().collect::<Vec<_>>(), "\n{}", written.join("\n"));
        for message in messages() {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
    }

    #[test]
    fn other_versions_and_nonsense_are_no_messages() {
        let good = messages()[1].encode();
        let mut other = good.clone();
        other[0] = 2;
        let long = [&[VERSION][..], &[0; MESSAGE_LEN_MAX]].concat();
        for bytes in [&other[..], b"", b"\x01", b"nonsense", &good[..good.len() - 1], &long] {
            assert_eq!(Message::decode(bytes), None, "{}", hex(bytes));
        }
    }

    #[test]
    fn long_reasons_end_between_characters() {
        let result = SharedResult::new(Outcome::Failure, Duration::ZERO, &"é".repeat(600), Duration::ZERO);
        assert_eq!(result.reason.len(), REASON_LEN_MAX);
        let result = SharedResult::new(Outcome::Failure, Duration::ZERO, &"€".repeat(600), Duration::ZERO);
        assert_eq!(result.reason.len(), REASON_LEN_MAX - 2);
    }
}
