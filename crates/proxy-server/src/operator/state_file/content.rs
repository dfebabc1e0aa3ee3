//! The content of the state file: detects damage, and preserves durations across restarts and jumps
//! of the clock.
//!
//! Layout: `doorstat`, two bytes of version, eight bytes of SipHash-2-4 of the payload, and the
//! payload in bitcode. The payload contains the remaining time of each entry, and the moment of
//! writing on two clocks: the boot clock, which cannot be set, and the time of day, which is used
//! after a reboot. The remaining time of an entry never grows, regardless of jumps of the time of
//! day.

use bitcode::{Decode, Encode};
use rustix::time::{ClockId, clock_gettime};
use siphasher::sip::SipHasher24;
use std::fs;
use std::hash::Hasher as _;
use std::time::Duration;
use thiserror::Error;

const MAGIC: [u8; 8] = *b"doorstat";

/// Version of the layout of [`SavedState`]. The earlier versions are still read.
const VERSION: u16 = 3;

const HEAD_LEN: usize = MAGIC.len() + 2 + 8;

/// The saved state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(in crate::operator) struct SavedState {
    pub(in crate::operator) moment: Moment,
    /// Operators' drains of single endpoints or of `all`.
    pub(in crate::operator) drains: Vec<SavedHold>,
    /// Maintenance by operators.
    pub(in crate::operator) maintenance: Vec<SavedHold>,
    /// Maintenance windows that an operator ended early.
    pub(in crate::operator) ended_windows: Vec<SavedWindow>,
}

/// The layout of version 2.
#[derive(Clone, Debug, Encode, Decode)]
pub(super) struct SavedV2 {
    pub(super) moment: Moment,
    pub(super) drains: Vec<SavedHold>,
    pub(super) maintenance: Vec<SavedHold>,
}

/// The layout of version 1.
#[derive(Clone, Debug, Encode, Decode)]
pub(super) struct SavedV1 {
    pub(super) moment: Moment,
    /// Reason of a drain of all endpoints.
    pub(super) drain: Option<String>,
    pub(super) maintenance: Vec<SavedHold>,
}

/// One drain or maintenance.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(in crate::operator) struct SavedHold {
    pub(in crate::operator) target: String,
    pub(in crate::operator) reason: String,
    /// Remaining time when the file was written.
    pub(in crate::operator) left_ms: Option<u64>,
}

/// One occurrence of a maintenance window, for one target.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(in crate::operator) struct SavedWindow {
    pub(in crate::operator) schedule: String,
    pub(in crate::operator) length_ms: u64,
    pub(in crate::operator) since_unix_ms: u64,
    pub(in crate::operator) target: String,
}

/// A moment on two clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(in crate::operator) struct Moment {
    /// Boot ID of the kernel.
    pub(in crate::operator) boot: String,
    pub(in crate::operator) since_boot_ms: u64,
    pub(in crate::operator) unix_ms: u64,
}

/// Why a file cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum DecodeError {
    #[error("the file is damaged")]
    Damaged,
    #[error("the file has version {0}, this program supports version {VERSION}")]
    Foreign(u16),
}

impl DecodeError {
    /// Suffix of the name under which the file is set aside after this error.
    pub(super) const fn suffix(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Foreign(_) => "foreign",
        }
    }
}

impl Moment {
    pub(in crate::operator) fn now() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let since = clock_gettime(ClockId::Boottime);
        let secs = u64::try_from(since.tv_sec).unwrap_or_default();
        let since_boot_ms = secs * 1000 + u64::try_from(since.tv_nsec).unwrap_or_default() / 1_000_000;
        Self { boot: boot.trim().to_owned(), since_boot_ms, unix_ms: super::super::clock::unix_ms() }
    }

    /// Time from this moment to `now`; zero if this moment is in the future.
    pub(in crate::operator) fn until(&self, now: &Self) -> Duration {
        let is_same_boot = !self.boot.is_empty() && self.boot == now.boot;
        Duration::from_millis(match is_same_boot {
            true => now.since_boot_ms.saturating_sub(self.since_boot_ms),
            false => now.unix_ms.saturating_sub(self.unix_ms),
        })
    }
}

impl SavedState {
    pub(super) fn encode(&self) -> Vec<u8> {
        with_head(VERSION, &bitcode::encode(self))
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_LEN>().ok_or(DecodeError::Damaged)?;
        let [magic @ .., v0, v1, d0, d1, d2, d3, d4, d5, d6, d7] = *head;
        if magic != MAGIC {
            return Err(DecodeError::Damaged);
        }
        let version = u16::from_le_bytes([v0, v1]);
        if !(1..=VERSION).contains(&version) {
            return Err(DecodeError::Foreign(version));
        }
        if u64::from_le_bytes([d0, d1, d2, d3, d4, d5, d6, d7]) != digest(rest) {
            return Err(DecodeError::Damaged);
        }
        let saved = match version {
            1 => bitcode::decode::<SavedV1>(rest).map(Self::from),
            2 => bitcode::decode::<SavedV2>(rest).map(Self::from),
            _ => bitcode::decode(rest),
        };
        saved.map_err(|_| DecodeError::Damaged)
    }
}

impl From<SavedV1> for SavedState {
    fn from(SavedV1 { moment, drain, maintenance }: SavedV1) -> Self {
        let all =
            |reason| SavedHold { target: super::super::maintenance::ALL.to_owned(), reason, left_ms: None };
        SavedV2 { moment, drains: drain.map(all).into_iter().collect(), maintenance }.into()
    }
}

impl From<SavedV2> for SavedState {
    fn from(SavedV2 { moment, drains, maintenance }: SavedV2) -> Self {
        Self { moment, drains, maintenance, ended_windows: Vec::new() }
    }
}

/// A file with this version and payload.
pub(super) fn with_head(version: u16, rest: &[u8]) -> Vec<u8> {
    [&MAGIC[..], &version.to_le_bytes(), &digest(rest).to_le_bytes(), rest].concat()
}

/// Checksum of the payload. It detects damage but not manipulation, because the key is not secret.
fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Returns the checksum of a payload, for tests with crafted files.
#[cfg(test)]
pub(super) fn digest_of(bytes: &[u8]) -> u64 {
    digest(bytes)
}
