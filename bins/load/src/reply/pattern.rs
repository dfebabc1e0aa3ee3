//! Expected bytes with holes where replies may differ: the value of `Date`, and the id.

use memchr::memmem;

use super::Id;

/// Expected bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    bytes: Box<[u8]>,
    /// Holes in ascending order, without overlaps.
    holes: Box<[Hole]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hole {
    from: usize,
    to: usize,
    kind: HoleKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HoleKind {
    /// Any bytes except line ends.
    Any,
    /// The id of the request.
    Id,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Number of wrong bytes in place of the id.
    pub foreign: u64,
    /// Whether any other byte differs, or more bytes arrived than expected.
    pub wrong: bool,
}

impl Pattern {
    /// Creates a pattern from `bytes`, with a hole for each occurrence of `id` and a hole at `any`.
    #[must_use]
    pub fn new(bytes: &[u8], id: Option<Id>, any: Option<std::ops::Range<usize>>) -> Self {
        let mut holes: Vec<Hole> = any
            .filter(|range| !range.is_empty())
            .map(|range| Hole { from: range.start, to: range.end, kind: HoleKind::Any })
            .into_iter()
            .collect();
        if let Some(id) = id {
            let places = memmem::find_iter(bytes, id.as_bytes());
            holes.extend(places.map(|from| Hole { from, to: from + Id::LEN, kind: HoleKind::Id }));
        }
        holes.sort_by_key(|hole| hole.from);
        Self { bytes: bytes.into(), holes: holes.into() }
    }

    /// Number of expected bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether no bytes are expected.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether these bytes must contain the id.
    #[must_use]
    pub fn has_id(&self) -> bool {
        self.holes.iter().any(|hole| hole.kind == HoleKind::Id)
    }

    /// Compares `bytes` with the pattern from `offset` on. Without `id`, any id matches.
    #[must_use]
    pub fn compare(&self, offset: usize, bytes: &[u8], id: Option<Id>) -> Difference {
        let mut difference = Difference::default();
        let Some(expected) = self.bytes.get(offset..).and_then(|rest| rest.get(..bytes.len())) else {
            difference.wrong = true;
            return difference;
        };
        let end = offset + bytes.len();
        // `at` is a position in the pattern, and `at - offset` the corresponding one in `bytes`.
        let mut at = offset;
        for hole in self.holes.iter().filter(|hole| hole.to > offset && hole.from < end) {
            let (from, to) = (hole.from.max(offset), hole.to.min(end));
            difference.wrong |= bytes[at - offset..from - offset] != expected[at - offset..from - offset];
            let filling = &bytes[from - offset..to - offset];
            match (hole.kind, id) {
                (HoleKind::Any, _) => difference.wrong |= memchr::memchr2(b'\r', b'\n', filling).is_some(),
                (HoleKind::Id, Some(id)) => {
                    let ours = &id.as_bytes()[from - hole.from..to - hole.from];
                    if filling != ours {
                        difference.foreign += count_different(filling, ours);
                    }
                }
                (HoleKind::Id, None) => {}
            }
            at = to;
        }
        difference.wrong |= bytes[at - offset..] != expected[at - offset..];
        difference
    }
}

#[cold]
fn count_different(one: &[u8], two: &[u8]) -> u64 {
    one.iter().zip(two).filter(|(a, b)| a != b).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Difference = Difference { foreign: 0, wrong: false };

    #[test]
    fn holes_at_every_split_point() {
        let (first, second) = (Id::new(1, 1), Id::new(1, 2));
        let text = |id: Id, date: &str| {
            let id = String::from_utf8_lossy(id.as_bytes()).into_owned();
            format!("{id} date: {date} and again {id}{id}")
        };
        let sample = text(first, "monday");
        let pattern = Pattern::new(sample.as_bytes(), Some(first), Some(23..29));
        assert!(pattern.has_id());
        assert_eq!(pattern.len(), sample.len());
        for (id, date, sent, wrong) in [
            (first, "monday", first, false),
            (second, "friday", second, false),
            (second, "fri\rxy", second, true),
        ] {
            let bytes = text(sent, date).into_bytes();
            for split in 0..=bytes.len() {
                let one = pattern.compare(0, &bytes[..split], Some(id));
                let two = pattern.compare(split, &bytes[split..], Some(id));
                assert_eq!((one.wrong || two.wrong, one.foreign + two.foreign), (wrong, 0), "at {split}");
            }
        }
        let bytes = text(first, "monday").into_bytes();
        let whole = pattern.compare(0, &bytes, Some(second));
        assert!(whole.foreign > 24 && !whole.wrong, "{whole:?}");
        for split in 0..=bytes.len() {
            let one = pattern.compare(0, &bytes[..split], Some(second));
            let two = pattern.compare(split, &bytes[split..], Some(second));
            assert_eq!(one.foreign + two.foreign, whole.foreign, "at {split}");
        }
        assert_eq!(pattern.compare(0, &bytes, None), NOTHING, "without an id any id matches");
    }

    #[test]
    fn every_byte_outside_a_hole_counts() {
        let id = Id::new(0, 0);
        let mut bytes = b"abc".to_vec();
        bytes.extend(id.as_bytes());
        bytes.extend(b"def");
        let pattern = Pattern::new(&bytes, Some(id), None);
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x20;
            let in_hole = (3..3 + Id::LEN).contains(&at);
            let want = Difference { foreign: u64::from(in_hole), wrong: !in_hole };
            assert_eq!(pattern.compare(0, &bad, Some(id)), want, "at {at}");
        }
    }

    #[test]
    fn too_many_bytes_are_wrong() {
        let pattern = Pattern::new(b"ab", None, None);
        assert_eq!(pattern.compare(0, b"ab", None), NOTHING);
        assert_eq!(pattern.compare(2, b"", None), NOTHING);
        for (offset, bytes) in [(0, &b"abc"[..]), (1, b"bc"), (2, b"c"), (3, b"")] {
            assert!(pattern.compare(offset, bytes, None).wrong, "{offset} {bytes:?}");
        }
    }
}
