//! The state file's content: laid out so that damage is noticed, with times that survive restarts and clocks that jump.
//!
//! Does not know about: files.
//!
//! `doorstat`, the version in two bytes, a SipHash-2-4 of the rest in eight, and the rest in bitcode. What is left of a maintenance is
//! kept together with the moment at which that was so, by two clocks: that of the boot, which nobody sets, and the time of day for after
//! the next boot. However far the time of day jumps, nothing lasts longer than it was declared for.

use bitcode::{Decode, Encode};
use rustix::time::{ClockId, clock_gettime};
use siphasher::sip::SipHasher24;
use std::fs;
use std::hash::Hasher as _;
use std::time::Duration;
use thiserror::Error;

const MAGIC: [u8; 8] = *b"doorstat";

/// Of the layout of [`SavedState`].
const VERSION: u16 = 2;

/// The one before, which is read for whoever comes from it.
const VERSION_BEFORE: u16 = 1;

const HEAD_LEN: usize = MAGIC.len() + 2 + 8;

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(in crate::operator) struct SavedState {
    pub(in crate::operator) moment: Moment,
    /// Drains that an operator wants, of endpoints or of `all`.
    pub(in crate::operator) drains: Vec<SavedHold>,
    /// Maintenance.
    pub(in crate::operator) maintenance: Vec<SavedHold>,
}

/// [`SavedState`] as it was in [`VERSION_BEFORE`].
#[derive(Clone, Debug, Encode, Decode)]
struct SavedBefore {
    moment: Moment,
    /// The reason of a drain of everything.
    drain: Option<String>,
    maintenance: Vec<SavedHold>,
}

/// One drain or maintenance.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(in crate::operator) struct SavedHold {
    pub(in crate::operator) target: String,
    pub(in crate::operator) reason: String,
    /// What was left of it at the moment of writing.
    pub(in crate::operator) left_ms: Option<u64>,
}

/// A moment, by every clock there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(in crate::operator) struct Moment {
    /// Of the running kernel; another one after the next boot.
    pub(in crate::operator) boot: String,
    pub(in crate::operator) since_boot_ms: u64,
    pub(in crate::operator) unix_ms: u64,
}

/// Why bytes are no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum Damage {
    #[error("the file is damaged")]
    Damaged,
    #[error("the file is of version {0}, where this program knows version {VERSION}")]
    Foreign(u16),
}

impl Damage {
    /// Of the name under which it is set aside.
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

    /// How long ago that was; nothing where the clocks say that it is yet to come.
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
        let rest = bitcode::encode(self);
        let mut bytes = Vec::with_capacity(HEAD_LEN + rest.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&digest(&rest).to_le_bytes());
        bytes.extend_from_slice(&rest);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_LEN>().ok_or(Damage::Damaged)?;
        let [magic @ .., v0, v1, d0, d1, d2, d3, d4, d5, d6, d7] = *head;
        if magic != MAGIC {
            return Err(Damage::Damaged);
        }
        let version = u16::from_le_bytes([v0, v1]);
        if version != VERSION && version != VERSION_BEFORE {
            return Err(Damage::Foreign(version));
        }
        if u64::from_le_bytes([d0, d1, d2, d3, d4, d5, d6, d7]) != digest(rest) {
            return Err(Damage::Damaged);
        }
        let kept = match version {
            VERSION_BEFORE => bitcode::decode::<SavedBefore>(rest).map(Self::from),
            _ => bitcode::decode(rest),
        };
        kept.map_err(|_| Damage::Damaged)
    }
}

impl From<SavedBefore> for SavedState {
    fn from(SavedBefore { moment, drain, maintenance }: SavedBefore) -> Self {
        let all =
            |reason| SavedHold { target: super::super::maintenance::ALL.to_owned(), reason, left_ms: None };
        Self { moment, drains: drain.map(all).into_iter().collect(), maintenance }
    }
}

/// Against damage, not against people: the key is no secret.
fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(bytes);
    hasher.finish()
}

/// What the version before wrote for this.
#[cfg(test)]
pub(super) fn encode_before(moment: Moment, drain: Option<String>, maintenance: Vec<SavedHold>) -> Vec<u8> {
    let rest = bitcode::encode(&SavedBefore { moment, drain, maintenance });
    [&MAGIC[..], &VERSION_BEFORE.to_le_bytes(), &digest(&rest).to_le_bytes(), &rest].concat()
}

/// For tests that write bytes of their own.
#[cfg(test)]
pub(super) fn digest_of(bytes: &[u8]) -> u64 {
    digest(bytes)
}
