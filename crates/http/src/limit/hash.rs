//! SipHash-1-3 (Aumasson and Bernstein, 2012) of a short key that is available as a whole.
//!
//! # Decision: a separate implementation instead of the crate `siphasher`
//!
//! *Context.* An incremental hasher stores partial words between parts of its input. A key consists
//! of only one part, mostly of 5 or 17 bytes. *Measured* with callgrind, `shared.known` in
//! `benches/benches/instructions/edge.rs`: with the crate, the hash was half of the cost of a
//! decision. *Choice.* This implementation, with the crate as the oracle of its tests. *What would
//! change it:* a function of the crate that hashes a whole slice at the same cost.

/// A hash with its seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct SipHash {
    /// The state before the first byte of a key.
    start: [u64; 4],
}

impl SipHash {
    pub(super) const fn new([k0, k1]: [u64; 2]) -> Self {
        let start = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        Self { start }
    }

    #[inline(always)]
    pub(super) fn hash(&self, bytes: &[u8]) -> u64 {
        let (words, rest) = bytes.as_chunks();
        self.hash_words(words.iter().map(|word| u64::from_le_bytes(*word)), bytes.len(), last_word(rest))
    }

    /// Hashes `len` bytes given as little-endian numbers; `last` contains the final bytes, fewer
    /// than eight.
    #[inline(always)]
    pub(super) fn hash_words(&self, words: impl IntoIterator<Item = u64>, len: usize, last: u64) -> u64 {
        let state = words.into_iter().fold(self.start, absorb);
        let [v0, v1, v2, v3] = absorb(state, (len as u64) << 56 | last);
        let [v0, v1, v2, v3] = round(round(round([v0, v1, v2 ^ 0xff, v3])));
        v0 ^ v1 ^ v2 ^ v3
    }
}

#[inline(always)]
const fn absorb([v0, v1, v2, v3]: [u64; 4], word: u64) -> [u64; 4] {
    let [v0, v1, v2, v3] = round([v0, v1, v2, v3 ^ word]);
    [v0 ^ word, v1, v2, v3]
}

#[inline(always)]
const fn round([v0, v1, v2, v3]: [u64; 4]) -> [u64; 4] {
    let (v0, v2) = (v0.wrapping_add(v1), v2.wrapping_add(v3));
    let (v1, v3) = (v1.rotate_left(13) ^ v0, v3.rotate_left(16) ^ v2);
    let (v0, v2) = (v0.rotate_left(32).wrapping_add(v3), v2.wrapping_add(v1));
    let (v1, v3) = (v1.rotate_left(17) ^ v2, v3.rotate_left(21) ^ v0);
    [v0, v1, v2.rotate_left(32), v3]
}

/// Returns fewer than eight bytes as a little-endian number.
#[inline(always)]
fn last_word(bytes: &[u8]) -> u64 {
    match (bytes, bytes.first_chunk(), bytes.last_chunk()) {
        ([], ..) => 0,
        // The two parts overlap.
        (_, Some(low), Some(high)) => {
            let beyond = 8 * (bytes.len() - 4);
            u64::from(u32::from_le_bytes(*low)) | u64::from(u32::from_le_bytes(*high)) << beyond
        }
        _ => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use siphasher::sip::SipHasher13;

    proptest! {
        #[test]
        fn as_siphasher(k0: u64, k1: u64, bytes in proptest::collection::vec(any::<u8>(), 0..70)) {
            for len in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, bytes.len()] {
                let bytes = &bytes[..len.min(bytes.len())];
                prop_assert_eq!(SipHash::new([k0, k1]).hash(bytes), SipHasher13::new_with_keys(k0, k1).hash(bytes));
            }
        }
    }
}
