//! An immutable map from byte strings to numbers.
//!
//! All keys come from the configuration, so a client cannot lengthen a chain, and a fast hash
//! without a secret is sufficient.
#![expect(
    clippy::indexing_slicing,
    reason = "slot indices are shifted hashes, and entry indices are those of existing entries"
)]

/// A map from byte strings to numbers. With `FOLD`, ASCII letters compare regardless of case.
#[derive(Clone, Debug)]
pub(crate) struct ByteMap<const FOLD: bool> {
    /// The slots, at most half of them in use. A slot's index is the highest bits of the hash;
    /// `shift` is 64 minus the number of these bits.
    slots: Box<[Slot]>,
    shift: u32,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u64,
    /// Length of the key; [`FREE`] for an empty slot.
    len: u32,
    /// Index in `entries`.
    entry: u32,
    value: u32,
}

#[derive(Clone, Debug)]
struct Entry {
    key: Box<[u8]>,
}

impl<const FOLD: bool> ByteMap<FOLD> {
    /// Builds a map. If two keys are equal, the first one applies.
    pub(crate) fn new(pairs: impl IntoIterator<Item = (Vec<u8>, u32)>) -> Self {
        let pairs: Vec<_> = pairs.into_iter().collect();
        // In a small map more slots stay free, so that most unknown keys are detected at the first
        // slot.
        let slots_per_key = if pairs.len() <= SMALL_LEN_MAX { 4 } else { 2 };
        let slots_len = (pairs.len() * slots_per_key).next_power_of_two().max(4);
        let free = Slot { hash: 0, len: FREE, entry: 0, value: 0 };
        let shift = u64::BITS - slots_len.trailing_zeros();
        let mut map =
            Self { slots: vec![free; slots_len].into(), shift, entries: Vec::with_capacity(pairs.len()) };
        for (key, value) in pairs {
            map.insert(key, value);
        }
        map
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline(always)]
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        let hash = hash::<FOLD>(key);
        let slot = &self.slots[self.place(hash)];
        // In most cases the key is either in the first slot or not in the map.
        if slot.hash == hash && slot.len as usize == key.len() && self.is_same(slot, key) {
            return Some(slot.value);
        }
        if slot.len == FREE { None } else { self.find_next(key, hash) }
    }

    #[inline(never)]
    fn find_next(&self, key: &[u8], hash: u64) -> Option<u32> {
        let mut place = self.place(hash);
        loop {
            place = (place + 1) & (self.slots.len() - 1);
            // The map is at most half full, so there is always a free slot.
            let slot = &self.slots[place];
            if slot.len == FREE {
                return None;
            }
            if slot.hash == hash && slot.len as usize == key.len() && self.is_same(slot, key) {
                return Some(slot.value);
            }
        }
    }

    /// Whether the slot, whose hash and length match, has this key.
    #[inline(always)]
    fn is_same(&self, slot: &Slot, key: &[u8]) -> bool {
        // For keys up to this length, equal hashes imply equal keys.
        if !FOLD && key.len() <= EXACT_LEN_MAX {
            return true;
        }
        let known = &*self.entries[slot.entry as usize].key;
        if FOLD { known.eq_ignore_ascii_case(key) } else { known == key }
    }

    fn insert(&mut self, key: Vec<u8>, value: u32) {
        if self.find(&key).is_some() {
            return;
        }
        let hash = hash::<FOLD>(&key);
        let mut place = self.place(hash);
        while self.slots[place].len != FREE {
            place = (place + 1) & (self.slots.len() - 1);
        }
        let len = u32::try_from(key.len()).expect("a configured key is far below 4 GiB");
        let entry = u32::try_from(self.entries.len()).expect("a configuration has fewer than 2^32 keys");
        self.entries.push(Entry { key: key.into() });
        self.slots[place] = Slot { hash, len, entry, value };
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the shift by at least 32 leaves 32 bits")]
    const fn place(&self, hash: u64) -> usize {
        (hash >> self.shift) as usize
    }
}

/// Hashes a key by multiplying and rotating words of eight bytes; the last word overlaps the
/// previous one. Different keys of the same length up to [`EXACT_LEN_MAX`] have different hashes.
#[inline(always)]
pub(crate) fn hash<const FOLD: bool>(key: &[u8]) -> u64 {
    let fold = |word: u64| if FOLD { word | 0x2020_2020_2020_2020 } else { word };
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ fold(word)).wrapping_mul(MULTIPLIER);
    let hash = (key.len() as u64).wrapping_mul(MULTIPLIER);
    if key.len() > EXACT_LEN_MAX {
        return hash_long(key, hash, mix);
    }
    let word = match (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
        }
        // The first, middle and last byte cover all bytes of a key of up to three bytes.
        _ => match (key.first(), key.get(key.len() / 2), key.last()) {
            (Some(&first), Some(&middle), Some(&last)) => {
                u64::from(first) | u64::from(middle) << 8 | u64::from(last) << 16
            }
            _ => 0,
        },
    };
    mix(hash, word)
}

#[inline(never)]
fn hash_long(key: &[u8], mut hash: u64, mix: impl Fn(u64, u64) -> u64) -> u64 {
    let mut rest = key;
    while let Some((word, tail)) = rest.split_first_chunk::<8>() {
        hash = mix(hash, u64::from_le_bytes(*word));
        rest = tail;
    }
    key.last_chunk::<8>().map_or(hash, |last| mix(hash, u64::from_le_bytes(*last)))
}

/// Maximum number of keys of a small map.
const SMALL_LEN_MAX: usize = 1000;
/// Length that marks a free slot; no key is this long.
const FREE: u32 = u32::MAX;
/// Keys up to this length fit into a single hashed word.
const EXACT_LEN_MAX: usize = 8;
/// Multiplier of the hash; odd, so that the multiplication is invertible.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_found_and_nothing_else() {
        for count in [0_u32, 1, 2, 3, 7, 100, 5000] {
            let keys: Vec<_> =
                (0..count).map(|n| format!("/{}{n}", "x".repeat(n as usize % 20)).into_bytes()).collect();
            let map = ByteMap::<false>::new(keys.iter().cloned().zip(0..));
            for (key, n) in keys.iter().zip(0..) {
                assert_eq!(map.find(key), Some(n));
                let mut longer = key.clone();
                longer.push(b'!');
                assert_eq!(map.find(&longer), None);
            }
            assert_eq!(map.find(b""), None);
            assert_eq!(map.is_empty(), count == 0);
        }
    }

    /// Short keys with equal hashes are equal, because their bytes are not compared.
    #[test]
    fn short_keys_are_distinguished() {
        for len in 1..=EXACT_LEN_MAX {
            let key = vec![b'/'; len];
            let map = ByteMap::<false>::new([(key.clone(), 1)]);
            for place in 0..len {
                for byte in 0..=255u8 {
                    let mut other = key.clone();
                    other[place] = byte;
                    assert_eq!(map.find(&other), (other == key).then_some(1), "{other:?}");
                }
            }
        }
    }

    /// A key that has the same hash as a configured key, but other bytes, is not found.
    #[test]
    fn long_keys_of_one_hash_are_distinguished() {
        let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(MULTIPLIER);
        let start = 24_u64.wrapping_mul(MULTIPLIER);
        let [known, other] = [*b"/admin/s", *b"/admin/S"].map(u64::from_le_bytes);
        let second = u64::from_le_bytes(*b"tatus/ok");
        // The keys have the same hash state after the second word, and their last words are equal.
        let collides = second ^ mix(start, known).rotate_left(5) ^ mix(start, other).rotate_left(5);
        let key = |words: [u64; 3]| words.map(u64::to_le_bytes).concat();
        let last = u64::from_le_bytes(*b"/a/route");
        let (key, twin) = (key([known, second, last]), key([other, collides, last]));
        let map = ByteMap::<false>::new([(key.clone(), 1)]);
        assert_eq!(hash::<false>(&key), hash::<false>(&twin));
        assert_eq!((map.find(&key), map.find(&twin)), (Some(1), None));
    }

    #[test]
    fn case_counts_only_without_fold() {
        let pairs = [(b"Example.COM".to_vec(), 7), (b"a".to_vec(), 8)];
        let folded = ByteMap::<true>::new(pairs.clone());
        assert_eq!(folded.find(b"eXAMPLE.com"), Some(7));
        assert_eq!(folded.find(b"A"), Some(8));
        let exact = ByteMap::<false>::new(pairs);
        assert_eq!(exact.find(b"example.com"), None);
        assert_eq!(exact.find(b"Example.COM"), Some(7));
    }
}
