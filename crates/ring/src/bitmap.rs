//! Owns `Bitmap`, one bit per index. The memory is allocated zeroed, so a page is not written
//! before one of its bits is set.

#[derive(Debug)]
pub(crate) struct Bitmap {
    words: Box<[u64]>,
    len: u32,
}

impl Bitmap {
    pub(crate) fn new(len: u32) -> Self {
        Self { words: vec![0; (len as usize).div_ceil(64)].into_boxed_slice(), len }
    }

    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// Whether `index` is in range and its bit is set.
    #[inline]
    pub(crate) fn contains(&self, index: u32) -> bool {
        index < self.len && self.words[index as usize / 64] & (1 << (index % 64)) != 0
    }

    /// Sets a bit. Returns false and changes nothing if the index is out of range or the bit is
    /// already set.
    #[inline]
    pub(crate) fn insert(&mut self, index: u32) -> bool {
        if index >= self.len || self.contains(index) {
            return false;
        }
        self.words[index as usize / 64] |= 1 << (index % 64);
        true
    }

    /// Clears a bit. Returns false if it was not set.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> bool {
        if !self.contains(index) {
            return false;
        }
        self.words[index as usize / 64] &= !(1 << (index % 64));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_is_set_once_and_cleared_once() {
        let mut bits = Bitmap::new(130);
        for index in [0, 1, 63, 64, 127, 129] {
            assert!(!bits.contains(index));
            assert!(bits.insert(index));
            assert!(!bits.insert(index));
            assert!(bits.contains(index));
            assert!(bits.remove(index));
            assert!(!bits.remove(index));
        }
    }

    #[test]
    fn an_index_outside_is_never_live() {
        let mut bits = Bitmap::new(65);
        for index in [65, 66, 127, 128, u32::MAX] {
            assert!(!bits.insert(index));
            assert!(!bits.contains(index));
            assert!(!bits.remove(index));
        }
        assert!(!Bitmap::new(0).insert(0));
        assert_eq!(bits.len(), 65);
    }

    #[test]
    fn neighbours_do_not_share_a_bit() {
        let mut bits = Bitmap::new(256);
        for index in (0..256).step_by(2) {
            assert!(bits.insert(index));
        }
        for index in 0..256 {
            assert_eq!(bits.contains(index), index % 2 == 0);
        }
    }
}
