//! An immutable map from paths to new locations, built from a text file of up to a million lines.
//!
//! Does not know about: files, hosts, reloading: a new map is built separately and replaces the old
//! one. Entry points: [`LinkMap::parse`], [`LinkMap::find`].
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
//! *Context.* A map of 100,000 links exceeds the caches near the core: the cost of a look-up is the
//! number of unrelated places it touches. *Choice.* All entries are in one block of memory, path
//! next to location, and a table with eight bytes per slot, at most half full, contains their
//! offsets: usually two places per look-up. Paths come from the configuration alone, so no client
//! can lengthen a chain, and a fast hash without a secret is enough; part of it is stored in the
//! slot, so an unknown path usually touches one place. *What would change it:* maps that are edited
//! in place.
#![expect(
    clippy::indexing_slicing,
    reason = "slots are masked, and the places in them were made while the entries were written"
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
/// Maximum bytes of a path or a location.
pub const LINK_BYTES_MAX: usize = 4096;
/// Maximum bytes of all paths and locations of a map: 256 MiB.
pub const MAP_BYTES_MAX: usize = 256 << 20;
/// Maximum number of errors reported for a file.
pub const ERRORS_MAX: usize = 100;

/// A map of moved paths.
///
/// It takes the bytes of its lines, six bytes per link, and 16 to 32 bytes per link for the table.
#[derive(Clone)]
pub struct LinkMap {
    /// At most half full. The highest bits of a hash are the index, so `shift` is 64 minus their
    /// number.
    slots: Box<[Slot]>,
    shift: u32,
    /// Consecutive entries: [`HEADER_LEN`] bytes, the path, the location. The first byte is unused,
    /// so that no entry is at 0.
    entries: Box<[u8]>,
    len: usize,
}

/// The new location of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link<'m> {
    /// The value of `Location`, visible ASCII: an absolute URL, or a path of the same server.
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
    /// All errors with their lines, up to [`ERRORS_MAX`]; there is no new map then, and an earlier
    /// one should stay in use.
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
        // The line of each slot, to report duplicates.
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

    /// The new location of this path. It is compared byte by byte, without its query; nothing is
    /// allocated.
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
        reason = "a shift by at least 32 leaves an index; a tag is a part of the hash"
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
/// The highest bits of a hash are the index.
const TAG_SHIFT: u32 = 12;

impl std::fmt::Debug for LinkMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkMap").field("len", &self.len).field("memory_bytes", &self.memory_bytes()).finish()
    }
}
