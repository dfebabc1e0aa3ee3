//! Heads of earlier requests, to be known again at a glance.
//!
//! Does not know about: connections, whose request it was, what was answered.
//!
//! # Decision: remember whole heads
//!
//! *Context.* A prober sends the same bytes for years, and what the parser makes of a head depends on its bytes and the limits alone.
//! *Choice.* Whoever serves many connections may keep one [`Seen`] for all of them: a head that equals a remembered one byte for byte
//! needs no second judgement. Four are kept, each in the place its length says, so that a few probers in turn do not push each other
//! out. Only heads without a query whose lines are all of `Host`, `Connection`, `Accept`, `Accept-Encoding` and `User-Agent` are
//! remembered, so nothing that anybody keeps secret stays behind, and nothing secret is compared with what was sent, in a time that
//! tells how much of it is right: a head with `Authorization` is read each time. The parser notes on its way whether a head is of this
//! kind, so others cost one look in vain and no attempt. The limits are held against what is kept with the bytes. Who sends such a head is
//! found out when it is learnt, so that whoever counts probes by prober reads one byte.
//! *Measured:* the rows `again` beside their neighbours in `benches/benches/instructions.rs`. *What would change it:* probers that vary
//! their requests.

#![expect(clippy::indexing_slicing, reason = "the number of a place is a remainder by their number")]

use super::{Head, KEEP_ALIVE};
use crate::prober::Asker;
use crate::{Limits, Method, Request};

/// Heads and what the parser made of them. One for all connections of a thread is right.
#[derive(Clone)]
pub struct Seen {
    places: [Place; PLACES],
    /// The place of the head that was met or learnt last: requests in a row are mostly alike.
    recent: usize,
}

#[derive(Clone)]
struct Place {
    head: Head,
    /// Of `bytes`; 0 when nothing is remembered.
    len: u8,
    /// Other heads of this place since the last that was learnt.
    misses: u8,
    bytes: [u8; BYTES_MAX + 1],
}

impl Seen {
    /// Nothing remembered.
    pub const fn new() -> Self {
        Self { places: [const { Place::EMPTY }; PLACES], recent: 0 }
    }

    /// What was made of the head that is all of `input`, if it is remembered and within the limits.
    #[inline(always)]
    pub(crate) fn find_all(&self, input: &[u8], limits: &Limits) -> Option<&Head> {
        let place = &self.places[place_of(input.len())];
        (place.bytes() == input && place.is_within(limits)).then_some(&place.head)
    }

    /// What was made of the head in front of `input`, if it is remembered and within the limits.
    #[inline(always)]
    pub(crate) fn find(&mut self, input: &[u8], limits: &Limits) -> Option<&Head> {
        let mut at = place_of(input.len());
        if self.places[at].bytes() != input {
            // More may follow it. A head ends where it first can, so what begins with all its bytes begins with this head.
            at = self.recent % PLACES;
            let bytes = self.places[at].bytes();
            if input.len() <= bytes.len() || !input.starts_with(bytes) {
                return None;
            }
        }
        self.recent = at;
        let place = &self.places[at];
        (place.len > 0 && place.is_within(limits)).then_some(&place.head)
    }

    /// This head was read, may be remembered, and was not. Remembers it once its place was missed a few times in a row, so that two probers in
    /// turn do not cost a copy each time.
    #[inline(never)]
    pub(super) fn learn(&mut self, head: &Head, input: &[u8]) {
        let Some(bytes) = input.get(..head.len()) else {
            return;
        };
        let at = place_of(bytes.len());
        let place = &mut self.places[at];
        if place.misses < MISSES_MAX {
            place.misses += 1;
            return;
        }
        place.misses = 0;
        // TRACE is not given to every service.
        if head.method() == Some(Method::Trace) {
            return;
        }
        if let (Ok(len), Some(copy)) = (u8::try_from(bytes.len()), place.bytes.get_mut(..bytes.len())) {
            copy.copy_from_slice(bytes);
            (place.len, place.head) = (len, head.clone());
            place.head.asker = Some(Asker::read(&Request::new(bytes, head, b"")));
            self.recent = at;
        }
    }
}

impl Place {
    /// Equal to an input without bytes, which is no request: with this flag [`crate::Conn::answer_once`] does not take it for one.
    const EMPTY: Self = Self {
        head: Head { flags: KEEP_ALIVE, ..Head::new() },
        len: 0,
        misses: MISSES_MAX,
        bytes: [0; BYTES_MAX + 1],
    };

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        // The length is one byte, so that nothing is to be checked here.
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Whether a parser with these limits would have come to the same.
    #[inline(always)]
    fn is_within(&self, limits: &Limits) -> bool {
        usize::from(self.len) <= limits.request_line_bytes_max.min(limits.head_bytes_max)
            && self.head.fields <= limits.fields_max
    }
}

impl Default for Seen {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seen")
            .field("lens", &self.places.each_ref().map(|place| place.len))
            .finish_non_exhaustive()
    }
}

/// The only place of a head of this length.
#[inline(always)]
const fn place_of(len: usize) -> usize {
    len % PLACES
}

const PLACES: usize = 4;
/// The probers known to us send less than 200 bytes.
const BYTES_MAX: usize = u8::MAX as usize;
const MISSES_MAX: u8 = 7;
