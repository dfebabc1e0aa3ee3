//! The field lines of an earlier head, to be known again at a glance.
//!
//! Does not know about: request lines, connections, whose request it was.
//!
//! # Decision: remember the last field lines
//!
//! *Context.* A prober sends the same bytes for years; only its path may differ between two checks. Whether field lines are good
//! depends on their bytes and the limits alone. *Choice.* Whoever serves many connections may keep one [`Seen`] for
//! all of them: lines that equal the remembered ones byte for byte, the empty line included, need no second judgement. Only heads
//! whose lines are all of `Host`, `Connection`, `Accept`, `Accept-Encoding` and `User-Agent` are remembered, so nothing that anybody
//! keeps secret stays behind; the limit on the number of lines is held against the count that is kept with them. *Measured:* the
//! rows `again` beside their neighbours in `benches/benches/instructions.rs`, and 43 against 33 ns for the whole machine. *What would change it:* probers that vary their fields.

use super::{Fields, Span};

/// The field lines of an earlier head, and what they said. One for all connections of a thread is right.
#[derive(Clone)]
pub struct Seen {
    bytes: [u8; BYTES_MAX],
    /// Of `bytes`; 0 when nothing is remembered.
    len: usize,
    pub(super) fields: u32,
    pub(super) flags: u16,
    /// Heads with other lines since the last with these.
    misses: u8,
    /// From the first field line on.
    pub(super) host: Span,
}

impl Seen {
    /// Nothing remembered.
    pub const fn new() -> Self {
        Self { bytes: [0; BYTES_MAX], len: 0, fields: 0, flags: 0, misses: MISSES_MAX, host: Span::EMPTY }
    }

    /// Whether `rest` begins with the remembered lines; returns their length.
    #[inline(always)]
    pub(super) fn find(&self, rest: &[u8]) -> Option<usize> {
        let known = self.bytes.get(..self.len)?;
        (!known.is_empty() && rest.get(..known.len()) == Some(known)).then_some(known.len())
    }

    /// These lines were not the remembered ones. Remembers them once that has happened a few times in a row, so that two probers in
    /// turn do not cost a copy each time.
    pub(super) fn learn(&mut self, lines: &[u8], fields: u32, flags: u16, host: Span) {
        if self.misses < MISSES_MAX {
            self.misses += 1;
            return;
        }
        self.misses = 0;
        if !Fields::new(lines.strip_suffix(b"\r\n").unwrap_or_default()).iter().all(|(name, _)| is_open(name))
        {
            return;
        }
        if let Some(place) = self.bytes.get_mut(..lines.len()) {
            place.copy_from_slice(lines);
            *self = Self { bytes: self.bytes, len: lines.len(), fields, flags, misses: 0, host };
        }
    }
}

impl Default for Seen {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seen").field("len", &self.len).field("fields", &self.fields).finish_non_exhaustive()
    }
}

/// Whether a field of this name holds nothing that anybody keeps secret.
fn is_open(name: &[u8]) -> bool {
    [b"accept".as_slice(), b"accept-encoding", b"connection", b"host", b"user-agent"]
        .iter()
        .any(|open| name.eq_ignore_ascii_case(open))
}

/// These lines are short; the longest of the known probers are about a hundred bytes.
const BYTES_MAX: usize = 256;
const MISSES_MAX: u8 = 7;
