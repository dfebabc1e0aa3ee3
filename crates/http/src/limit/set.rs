//! One cache line of the table: finding a key, and choosing the word to evict.

use super::hash::SipHash;
use super::prefix::first_bits;
use std::net::IpAddr;

/// Words in a set.
pub(super) const WAYS: usize = 8;
/// Value of an empty word.
pub(super) const EMPTY: u64 = 0;

/// The set of a key, and the tag that identifies the key in its set.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyPosition {
    pub(super) set: usize,
    /// Tag of the key; never zero.
    pub(super) tag: u32,
}

impl KeyPosition {
    /// The place as one number, for places of [`KeyHasher::whole`].
    pub(super) const fn whole(self) -> u64 {
        (self.set as u64) << 32 | self.tag as u64
    }
}

/// Maps keys to places.
#[derive(Clone, Debug)]
pub(super) struct KeyHasher {
    hasher: SipHash,
    sets: u32,
}

/// The result of searching all words of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The index of the key's word or, if there are copies, of the newest one.
    At(usize),
    /// The key is missing. The word at `way` is the one to evict: it has the smallest debt.
    Least { way: usize, live: bool },
}

impl KeyHasher {
    /// Creates a mapping for a table of at least `keys_max` keys.
    pub(super) fn new(keys_max: usize, seed: [u64; 2]) -> Self {
        let sets = keys_max.clamp(1, super::KEYS_MAX).div_ceil(WAYS);
        Self { hasher: SipHash::new(seed), sets: u32::try_from(sets).expect("KEYS_MAX fits") }
    }

    /// Creates a mapping for a limiter without a table: [`KeyPosition::whole`] then identifies the key.
    pub(super) const fn whole(seed: [u64; 2]) -> Self {
        Self { hasher: SipHash::new(seed), sets: u32::MAX }
    }

    pub(super) const fn sets(&self) -> usize {
        self.sets as usize
    }

    #[inline]
    pub(super) fn of(&self, key: &[u8]) -> KeyPosition {
        self.place(self.hasher.hash(key))
    }

    /// Like [`Self::of`], for the bytes of [`KeyBytes::ip`](super::KeyBytes::ip): 4 or 16 bytes of
    /// an address, and a zero byte.
    #[inline]
    pub(super) fn of_ip(&self, addr: IpAddr, v6_len: u8) -> KeyPosition {
        self.place(match addr.to_canonical() {
            IpAddr::V4(addr) => self.hasher.hash_words([], 5, u32::from_le_bytes(addr.octets()).into()),
            IpAddr::V6(addr) => {
                let octets = first_bits(addr, v6_len).octets();
                self.hasher.hash_words(
                    octets.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)),
                    17,
                    0,
                )
            }
        })
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a word fit")]
    pub(super) fn place(&self, hash: u64) -> KeyPosition {
        // The high half of the hash is scaled to the number of sets, which need not be a power of
        // two.
        let set = ((hash >> 32) * u64::from(self.sets)) >> 32;
        KeyPosition { set: set as usize, tag: (hash as u32).max(1) }
    }
}

#[inline]
pub(super) fn word(tag: u32, tat: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(tat)
}

#[inline]
pub(super) const fn tag_of(word: u64) -> u32 {
    (word >> 32) as u32
}

/// The debt of a word's key: the number of ticks from `now` to its theoretical arrival time (TAT,
/// see [the module](super)). Zero for an empty or expired word.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "time wraps")]
pub(super) const fn owed(word: u64, now: u64) -> u32 {
    let ahead = (word as u32).wrapping_sub(now as u32);
    // Times wrap: a TAT is in the past if it is at most half of the 32-bit range before `now`. An
    // empty word never has a debt.
    if word == EMPTY || ahead > i32::MAX as u32 { 0 } else { ahead }
}

/// Returns the TAT of a key with this debt.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "time wraps")]
pub(super) const fn tat(now: u64, owed: u32) -> u32 {
    (now as u32).wrapping_add(owed)
}

/// Searches all words of a set.
#[inline(always)]
pub(super) fn find(words: &[u64; WAYS], tag: u32, now: u64) -> Found {
    let mut found = words.iter().enumerate().filter(|(_, word)| tag_of(**word) == tag).map(|(way, _)| way);
    match (found.next(), found.next()) {
        (None, _) => least(words, now),
        (Some(way), None) => Found::At(way),
        (Some(_), Some(_)) => newest(words, tag, now),
    }
}

#[inline(never)]
fn least(words: &[u64; WAYS], now: u64) -> Found {
    // The debt is combined with the index in the low bits, so that the minimum is found without a
    // branch.
    let least = (0..).zip(words).map(|(way, &word)| u64::from(owed(word, now)) << 8 | way).min();
    let least = least.unwrap_or_default();
    Found::Least { way: (least & 0xff) as usize, live: least >> 8 > 0 }
}

/// Finds the copy of a key with the largest debt; the first one of equal copies.
#[cold]
fn newest(words: &[u64; WAYS], tag: u32, now: u64) -> Found {
    let copies = words.iter().enumerate().filter(|(_, word)| tag_of(**word) == tag);
    let newest = copies.rev().max_by_key(|(_, word)| owed(**word, now));
    Found::At(newest.map_or(0, |(way, _)| way))
}
