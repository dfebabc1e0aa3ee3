//! A fixed map from byte strings to numbers, made once and then only read.
//!
//! Does not know about: paths, hosts, routes. Keys come from the configuration alone, so a client cannot lengthen a
//! chain, and a fast hash without a secret is enough.
#![expect(
    clippy::indexing_slicing,
    reason = "slots are masked, entry numbers were made from the length of the list"
)]

/// A map from byte strings to numbers. `FOLD` compares ASCII letters without regard to case.
#[derive(Clone, Debug)]
pub(crate) struct ByteMap<const FOLD: bool> {
    /// Position + 1 in `entries`, 0 for a free slot. At most half full.
    slots: Box<[u32]>,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    key: Box<[u8]>,
    value: u32,
}

impl<const FOLD: bool> ByteMap<FOLD> {
    /// Makes a map; the first of two equal keys wins.
    pub(crate) fn new(pairs: impl IntoIterator<Item = (Vec<u8>, u32)>) -> Self {
        let pairs: Vec<_> = pairs.into_iter().collect();
        let slots_len = (pairs.len() * 2).next_power_of_two().max(4);
        let mut map = Self { slots: vec![0; slots_len].into(), entries: Vec::with_capacity(pairs.len()) };
        for (key, value) in pairs {
            map.insert(key, value);
        }
        map
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        let mut slot = self.home(key);
        loop {
            // A slot number is always masked, and an entry number was made from `entries.len()`.
            match self.slots[slot] {
                0 => return None,
                entry => {
                    let entry = &self.entries[entry as usize - 1];
                    if same::<FOLD>(&entry.key, key) {
                        return Some(entry.value);
                    }
                }
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    fn insert(&mut self, key: Vec<u8>, value: u32) {
        if self.find(&key).is_some() {
            return;
        }
        let mut slot = self.home(&key);
        while self.slots[slot] != 0 {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.entries.push(Entry { key: key.into(), value });
        self.slots[slot] =
            u32::try_from(self.entries.len()).expect("a configuration has fewer than 2^32 keys");
    }

    #[inline]
    fn home(&self, key: &[u8]) -> usize {
        let hash = hash::<FOLD>(key);
        (hash >> 32) as usize & (self.slots.len() - 1)
    }
}

#[inline]
fn same<const FOLD: bool>(known: &[u8], key: &[u8]) -> bool {
    if FOLD { known.eq_ignore_ascii_case(key) } else { known == key }
}

/// Multiply and rotate over eight bytes at a time; the last word overlaps the one before it.
#[inline]
fn hash<const FOLD: bool>(key: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |word: u64| if FOLD { word | 0x2020_2020_2020_2020 } else { word };
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ fold(word)).wrapping_mul(MULTIPLIER);
    let mut hash = (key.len() as u64).wrapping_mul(MULTIPLIER);
    if let Some(last) = key.last_chunk::<8>() {
        let mut rest = key;
        while let Some((word, tail)) = rest.split_first_chunk::<8>() {
            hash = mix(hash, u64::from_le_bytes(*word));
            rest = tail;
        }
        return mix(hash, u64::from_le_bytes(*last));
    }
    let word = match (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
        }
        _ => key.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    let hash = mix(hash, word);
    hash ^ hash << 29
}

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
