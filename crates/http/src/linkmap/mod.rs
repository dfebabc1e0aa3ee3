//! An immutable map from paths to new locations, built from a text file of up to a million links.
//!
//! Entry points: [`LinkMap::parse`], [`LinkMap::find`].
//!
//! ```
//! use doorbell_http::linkmap::LinkMap;
//! use doorbell_http::redirect::RedirectStatus;
//!
//! let map = LinkMap::parse("# from  to  [status, 308 without one]\n/docs  https://docs.example.com/  302\n").expect("good lines");
//! let link = map.find(b"/docs").expect("it is there");
//! assert_eq!((link.location, link.status), (b"https://docs.example.com/".as_slice(), RedirectStatus::Found));
//! ```
//!
//! # Decision: one block of memory and a hash table of offsets
//!
//! *Context.* A map of 100,000 links exceeds the caches near the core, so the cost of a look-up
//! depends on the number of unrelated memory locations that it reads. *Choice.* All entries are in
//! one block of memory, each path next to its location. A table with eight bytes per slot, at most
//! half full, contains their offsets. A look-up usually reads two memory locations. Part of the
//! hash is stored in the slot, so that the look-up of an unknown path usually reads only one. All
//! paths come from the configuration, so that no client can lengthen a chain, and a fast hash
//! without a secret is sufficient. *What would change it:* maps that are edited in place.
#![expect(
    clippy::indexing_slicing,
    reason = "slot indices are masked, and their offsets are those of written entries"
)]

mod error;
mod line;
#[cfg(test)]
mod tests;

pub use error::{LinkError, LinkProblem};

use crate::redirect::RedirectStatus;
use crate::router::hash;
use line::Line;

/// Maximum number of links in a map.
pub const LINKS_MAX: usize = 1_000_000;
/// Maximum length of a path or a location, in bytes.
pub const LINK_BYTES_MAX: usize = 4096;
/// Maximum total length of the entries of a map, in bytes: 256 MiB. An entry is a path, a location
/// and six more bytes.
pub const MAP_BYTES_MAX: usize = 256 << 20;
/// Maximum number of errors reported for a file.
pub const ERRORS_MAX: usize = 100;

/// A map of moved paths.
///
/// Its size is that of its paths and locations, plus six bytes per link, plus 16 to 32 bytes per
/// link for the table.
#[derive(Clone)]
pub struct LinkMap {
    /// The slots, at most half of them in use. The search for a path begins at the index in the
    /// highest bits of its hash; `shift` is 64 minus the number of these bits.
    slots: Box<[Slot]>,
    shift: u32,
    /// Consecutive entries: a header of [`HEADER_LEN`] bytes, the path, the location. The first
    /// byte is unused, so that no entry has the offset 0.
    entries: Box<[u8]>,
    len: usize,
}

/// The new location of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link<'m> {
    /// The value of `Location`, in visible ASCII: an absolute URL, or a path on the same server.
    pub location: &'m [u8],
    /// The status of the redirect.
    pub status: RedirectStatus,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// Offset in `entries`, 0 for a free slot.
    entry: u32,
    /// Bits of the hash that are not part of the index.
    tag: u32,
}

impl LinkMap {
    /// Parses `/from <white space> https://to [status]` lines. Empty lines and lines that begin
    /// with `#` are ignored.
    ///
    /// # Errors
    /// All errors with their lines, up to [`ERRORS_MAX`]. There is no new map in this case; callers
    /// should continue to use an earlier one.
    pub fn parse(text: &str) -> Result<Self, Vec<LinkError>> {
        let mut errors = Vec::new();
        let mut lines = Vec::new();
        for (index, text) in text.lines().enumerate() {
            let number = index + 1;
            match line::parse(text) {
                Ok(Some(line)) => lines.push((number, line)),
                Ok(None) => {}
                Err(problem) => errors.push(LinkError { line: number, problem }),
            }
            if lines.len() > LINKS_MAX {
                errors.push(LinkError { line: number, problem: LinkProblem::TooManyLinks });
            }
            if errors.len() >= ERRORS_MAX || lines.len() > LINKS_MAX {
                return Err(errors);
            }
        }
        let map = Self::build(&lines, &mut errors);
        if errors.is_empty() { Ok(map) } else { Err(errors) }
    }

    fn build(lines: &[(usize, Line<'_>)], errors: &mut Vec<LinkError>) -> Self {
        let slots_len = (lines.len() * 2).next_power_of_two().max(4);
        let shift = u64::BITS - slots_len.trailing_zeros();
        let bytes: usize =
            lines.iter().map(|(_, line)| HEADER_LEN + line.path.len() + line.location.len()).sum();
        let mut map =
            Self { slots: vec![Slot::default(); slots_len].into(), shift, entries: Box::default(), len: 0 };
        if bytes > MAP_BYTES_MAX {
            errors.push(LinkError { line: 0, problem: LinkProblem::TooManyBytes });
            return map;
        }
        let mut entries = Vec::with_capacity(1 + bytes);
        entries.push(0);
        // The line number for each slot, to report duplicates.
        let mut line_of = vec![0_u32; slots_len];
        for &(number, line) in lines {
            let path = line.path.as_bytes();
            let (mut place, tag) = map.place(path);
            while map.slots[place].entry != 0
                && !(map.slots[place].tag == tag && Entry::at(&entries, map.slots[place]).path == path)
            {
                place = (place + 1) & (slots_len - 1);
            }
            if map.slots[place].entry != 0 {
                let first = line_of[place] as usize;
                let problem = LinkProblem::Duplicate { path: line.path.to_owned(), first };
                errors.push(LinkError { line: number, problem });
                if errors.len() >= ERRORS_MAX {
                    return map;
                }
                continue;
            }
            let entry = u32::try_from(entries.len()).expect("below MAP_BYTES_MAX");
            map.slots[place] = Slot { entry, tag };
            line_of[place] = u32::try_from(number).unwrap_or(u32::MAX);
            line.write(&mut entries);
            map.len += 1;
        }
        map.entries = entries.into();
        map
    }

    /// The new location of a path without its query. The path is compared byte by byte, and nothing
    /// is allocated.
    #[inline]
    #[must_use]
    pub fn find(&self, path: &[u8]) -> Option<Link<'_>> {
        let (mut place, tag) = self.place(path);
        loop {
            // The table is at most half full, so there is always a free slot.
            let slot = self.slots[place];
            if slot.entry == 0 {
                return None;
            }
            if slot.tag == tag {
                let entry = Entry::at(&self.entries, slot);
                if entry.path == path {
                    return Some(entry.link());
                }
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
    }

    /// Number of links in the map.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether the map is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Size of the map in bytes.
    #[must_use]
    pub const fn memory_bytes(&self) -> usize {
        self.entries.len() + self.slots.len() * size_of::<Slot>()
    }

    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the shift by at least 32 leaves 32 bits; a tag is a part of the hash"
    )]
    fn place(&self, path: &[u8]) -> (usize, u32) {
        let hash = hash::<false>(path);
        ((hash >> self.shift) as usize, (hash >> TAG_SHIFT) as u32)
    }
}

/// One entry, borrowed from the map.
struct Entry<'m> {
    status: u8,
    path: &'m [u8],
    location: &'m [u8],
}

impl<'m> Entry<'m> {
    #[inline(always)]
    fn at(entries: &'m [u8], slot: Slot) -> Self {
        let (header, rest) = entries[slot.entry as usize..].split_at(HEADER_LEN);
        let len = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let (path, rest) = rest.split_at(len(0));
        Self { status: header[4], path, location: &rest[..len(2)] }
    }

    #[inline(always)]
    fn link(&self) -> Link<'m> {
        Link { location: self.location, status: line::STATUSES[usize::from(self.status)].1 }
    }
}

/// Length of the path, length of the location, index of the status, one unused byte.
const HEADER_LEN: usize = 6;
/// Position of the tag in a hash; the index is in the highest bits.
const TAG_SHIFT: u32 = 12;

impl std::fmt::Debug for LinkMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkMap").field("len", &self.len).field("memory_bytes", &self.memory_bytes()).finish()
    }
}
