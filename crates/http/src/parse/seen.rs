//! A cache of the heads of earlier requests.
//!
//! # Decision: cache whole heads
//!
//! *Context.* A prober sends the same bytes for years, and the result of parsing depends only on
//! the bytes and the limits. *Choice.* A thread that serves many connections may use one [`Seen`]
//! for all of them. A head that equals a cached one byte for byte is not parsed again. The cache
//! has four slots, and the length of a head determines its slot, so that a few alternating probers
//! do not displace each other.
//!
//! Only heads without a query and with no fields other than `Host`, `Connection`, `Accept`,
//! `Accept-Encoding` and `User-Agent` are cached. The cache therefore contains no secrets, and no
//! comparison reveals by its duration how many bytes of a secret match: a head with `Authorization`
//! is parsed each time. The parser records whether a head can be cached, so that other heads cost
//! only one failed look-up. The length and the number of fields of a cached head are stored with it
//! and compared with the limits. The prober is identified when its head is cached; for later equal
//! heads it is read from the cache.
//!
//! *Measured:* the rows `again`, compared with their neighbours, in
//! `benches/benches/instructions/machine.rs`. *What would change it:* probers that vary their
//! requests.

#![expect(clippy::indexing_slicing, reason = "the index is a remainder modulo the number of slots")]

use super::{Head, KEEP_ALIVE};
use crate::prober::Requester;
use crate::{Limits, Method, Request};

/// A cache of parsed heads.
///
/// One instance serves all connections of a thread.
#[derive(Clone)]
pub struct Seen {
    places: [SeenHead; PLACES],
    /// The slot used last; consecutive requests are mostly alike.
    recent: usize,
}

#[derive(Clone)]
struct SeenHead {
    head: Head,
    /// Length of `bytes`; 0 for an empty slot.
    len: u8,
    /// Number of other heads for this slot since the last one was cached.
    misses: u8,
    bytes: [u8; BYTES_MAX + 1],
}

impl Seen {
    /// An empty cache.
    pub const fn new() -> Self {
        Self { places: [const { SeenHead::EMPTY }; PLACES], recent: 0 }
    }

    /// The cached result for a head that makes up all of `input`, if the head is within the limits.
    #[inline(always)]
    pub(crate) fn find_all(&self, input: &[u8], limits: &Limits) -> Option<&Head> {
        let place = &self.places[place_of(input.len())];
        (place.bytes() == input && place.is_within(limits)).then_some(&place.head)
    }

    /// The cached result for the head at the start of `input`, if the head is within the limits.
    #[inline(always)]
    pub(crate) fn find(&mut self, input: &[u8], limits: &Limits) -> Option<&Head> {
        let mut at = place_of(input.len());
        if self.places[at].bytes() != input {
            // More input may follow the head. If the input starts with all bytes of a cached head,
            // it starts with that head, because no head is a prefix of another one.
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

    /// Handles a parsed head that may be cached. It is cached only after a few misses of its
    /// slot, so that two alternating probers do not cause a copy each time.
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
        // TRACE is not cached, because it is not passed to every service.
        if head.method() == Some(Method::Trace) {
            return;
        }
        if let (Ok(len), Some(copy)) = (u8::try_from(bytes.len()), place.bytes.get_mut(..bytes.len())) {
            copy.copy_from_slice(bytes);
            (place.len, place.head) = (len, head.clone());
            place.head.requester = Some(Requester::read(&Request::new(bytes, head, b"")));
            self.recent = at;
        }
    }
}

impl SeenHead {
    /// An empty slot. It would match empty input, so its flag `KEEP_ALIVE` makes
    /// [`crate::Conn::answer_once`] ignore it.
    const EMPTY: Self = Self {
        head: Head { flags: KEEP_ALIVE, ..Head::new() },
        len: 0,
        misses: MISSES_MAX,
        bytes: [0; BYTES_MAX + 1],
    };

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        // The length is stored in one byte, so that the compiler can remove the bounds check.
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Whether a parser with these limits would have the same result.
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

/// The slot for a head of this length.
#[inline(always)]
const fn place_of(len: usize) -> usize {
    len % PLACES
}

const PLACES: usize = 4;
/// Maximum length of a cached head. Known probers send less than 200 bytes.
const BYTES_MAX: usize = u8::MAX as usize;
const MISSES_MAX: u8 = 7;
