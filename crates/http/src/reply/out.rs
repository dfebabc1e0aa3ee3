//! The output of one connection: replies in order, not yet sent.
//!
//! Does not know about: how it is sent.

use super::write::{CONTENT_TYPE, find_field, put_field, remove_field};
use super::{DefaultField, Later, Persist};
use crate::{ApiMisuse, Misuses};
use bytes::Bytes;

/// Bytes to send: first `head`, then `body`.
#[derive(Debug, Default)]
pub struct Out {
    /// Rendered replies in order.
    pub head: Vec<u8>,
    /// Content of the last reply when it is too large to be copied; else empty.
    pub body: Bytes,
    /// Where the reply being written begins in `head`.
    begun_at: usize,
    /// Replies that were replaced by a 500.
    misuses: Misuses,
    /// Field lines of layers for the reply that is being made.
    lines: Vec<u8>,
    lines_misuse: Option<ApiMisuse>,
    /// There are such lines, or a default field, which may become one.
    has_lines: bool,
    default_field: Option<DefaultField>,
    /// What all of `head` is, if it is one image of a shared reply.
    image: ImageId,
    /// The request that was left for later.
    later: Option<Box<Later>>,
    /// `head` was sent and is only kept for the case that the next reply is the same.
    is_sent: bool,
}

/// The field lines of layers for one reply.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) bytes: Vec<u8>,
    misuse: Option<ApiMisuse>,
    are_any: bool,
}

/// The bytes of a shared reply in one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImageId {
    /// 0: no image.
    pub(super) number: u64,
    pub(super) unix_secs: i64,
    pub(super) persist: Persist,
    pub(super) head_only: bool,
}

impl ImageId {
    const NONE: Self = Self { number: 0, unix_secs: 0, persist: Persist::Close, head_only: false };
}

impl Default for ImageId {
    fn default() -> Self {
        Self::NONE
    }
}

impl Out {
    /// Empty, without a heap allocation.
    pub const fn new() -> Self {
        Self {
            head: Vec::new(),
            body: Bytes::new(),
            begun_at: 0,
            misuses: Misuses::NONE,
            lines: Vec::new(),
            lines_misuse: None,
            has_lines: false,
            default_field: None,
            image: ImageId::NONE,
            later: None,
            is_sent: false,
        }
    }

    /// Empty, with room for `bytes` before it must grow.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { head: Vec::with_capacity(bytes), ..Self::new() }
    }

    /// From now on every reply has this field, or one of the same name of its own: also a reply that the machine gives by itself.
    pub fn set_default_field(&mut self, field: Option<DefaultField>) {
        self.default_field = field;
        self.forget_lines();
    }

    /// Gives the room of `head` away. Beside the default field and the misuses that were not taken, everything is as it was made.
    #[must_use]
    pub fn take_room(&mut self) -> Vec<u8> {
        let (default_field, misuses) = (self.default_field.take(), self.take_misuses());
        let fresh = Self { has_lines: default_field.is_some(), default_field, misuses, ..Self::new() };
        std::mem::replace(self, fresh).head
    }

    /// Nothing to send.
    pub const fn is_empty(&self) -> bool {
        self.unsent().is_empty() && self.body.is_empty()
    }

    /// What of `head` is to be sent.
    #[inline(always)]
    pub const fn unsent(&self) -> &[u8] {
        if self.is_sent { &[] } else { self.head.as_slice() }
    }

    /// Bytes to send.
    pub const fn len(&self) -> usize {
        self.unsent().len() + self.body.len()
    }

    /// Forgets everything but [`Self::take_misuses`], keeps the room.
    pub fn clear(&mut self) {
        self.head.clear();
        self.body = Bytes::new();
        self.begun_at = 0;
        self.image = ImageId::NONE;
        self.is_sent = false;
        self.forget_left_over();
    }

    /// A reply begins with nothing of the one before it: not with lines that were added to a reply that was never made, nor with a
    /// request that was left for later and never taken.
    #[inline(always)]
    pub(super) fn forget_left_over(&mut self) {
        if self.has_lines || self.later.is_some() {
            self.forget_left_over_now();
        }
    }

    #[cold]
    #[inline(never)]
    fn forget_left_over_now(&mut self) {
        self.later = None;
        self.forget_lines();
    }

    /// All of `head` was sent, and there is no body. It stays where it is: if the next reply is the same, and in the same second, it
    /// is there already and need not be copied. Until [`Self::forget_sent`] only a [`crate::Conn`] may write here.
    #[inline(always)]
    pub fn head_is_sent(&mut self) {
        debug_assert!(self.body.is_empty(), "a body is taken away first");
        self.begun_at = 0;
        self.is_sent = true;
    }

    /// Takes away what was sent. Whatever is written next is no image until it is named as one: a writer that takes `head`
    /// away, or fills it with bytes of its own, leaves the name of an image behind that is not there any more.
    #[inline(always)]
    pub fn forget_sent(&mut self) {
        self.image.number = 0;
        if self.is_sent {
            self.is_sent = false;
            self.head.clear();
        }
    }

    /// Whether the reply that is begun is there already; then it is to be sent again.
    #[inline(always)]
    pub(super) fn is_again(&mut self, image: &ImageId) -> bool {
        let again = self.is_sent && image.number != 0 && self.image == *image && !self.has_lines();
        self.is_sent &= !again;
        again
    }

    /// `head` is now this, and nothing else.
    pub(super) const fn is_image(&mut self, image: ImageId) {
        self.image = image;
    }

    /// Takes away an unfinished reply, after a service has panicked in the middle of one. Earlier ones stay: whoever calls a service
    /// has begun the next reply before.
    pub fn drop_unfinished(&mut self) {
        self.forget_sent();
        self.drop_begun();
        self.later = None;
        self.forget_lines();
    }

    /// The request that was left for later, after [`crate::Next::Wait`].
    pub const fn take_later(&mut self) -> Option<Box<Later>> {
        self.later.take()
    }

    /// Passes on what [`Self::take_later`] took elsewhere.
    pub fn put_later(&mut self, later: Box<Later>) {
        debug_assert!(self.later.is_none(), "one request waits at a time");
        self.later = Some(later);
    }

    /// The request that was left for later has a body that was not read.
    pub(crate) fn mark_unread(&mut self, unread: bool) {
        if let Some(later) = &mut self.later {
            later.unread |= unread;
        }
    }

    /// Whoever wants to hear of the request that was left for later.
    pub(super) fn on_end(&mut self, ending: super::Ending) {
        if let Some(later) = &mut self.later {
            later.endings().add(ending);
        }
    }

    /// The same of a request that was left for later once more.
    pub(crate) fn on_end_all(&mut self, endings: super::ending::Endings) {
        if let Some(later) = &mut self.later {
            later.endings().add_all(endings);
        }
    }

    pub(crate) const fn later(&self) -> Option<&Later> {
        match &self.later {
            Some(later) => Some(later),
            None => None,
        }
    }

    /// The lines of layers so far, for a reply that is made later.
    pub(super) fn take_lines(&mut self) -> Lines {
        let lines = Lines {
            bytes: std::mem::take(&mut self.lines),
            misuse: self.lines_misuse.take(),
            are_any: self.has_lines,
        };
        self.forget_lines();
        lines
    }

    /// What [`Self::take_lines`] took.
    pub(super) fn put_lines(&mut self, lines: Lines) {
        self.lines = lines.bytes;
        self.lines_misuse = lines.misuse;
        self.has_lines = lines.are_any || self.default_field.is_some();
    }

    /// Replies that were replaced by a 500 since the last call. The driver of a connection reports them: the client sees a 500, the
    /// handler nothing.
    #[inline(always)]
    pub const fn take_misuses(&mut self) -> Misuses {
        core::mem::replace(&mut self.misuses, Misuses::NONE)
    }

    /// Takes those of `other` as well.
    #[inline]
    pub const fn take_misuses_of(&mut self, other: &mut Self) {
        if other.misuses.count() != 0 {
            self.misuses.add(other.take_misuses());
        }
    }

    /// Whatever is written next begins here. A large body that is still here although it should have been flushed
    /// is copied, so that the order holds.
    #[inline]
    pub(crate) fn begin_reply(&mut self) {
        self.forget_sent();
        self.begin_any_reply();
    }

    /// As [`Self::begin_reply`], for whoever takes away what was sent before writing anything else than the same again.
    #[inline(always)]
    pub(crate) fn begin_any_reply(&mut self) {
        if self.is_sent {
            return;
        }
        self.image = ImageId::NONE;
        if !self.body.is_empty() {
            self.copy_body();
        }
        self.begun_at = self.head.len();
    }

    #[cold]
    fn copy_body(&mut self) {
        self.head.extend_from_slice(&std::mem::take(&mut self.body));
    }

    pub(crate) fn add_line(&mut self, name: &[u8], value: &[u8]) {
        let written = put_field(&mut self.lines, 0, name, value);
        self.lines_misuse = self.lines_misuse.or_else(|| written.err());
        self.has_lines = true;
    }

    /// Lines that need no check, each with its CRLF.
    #[inline(never)]
    pub(crate) fn add_lines(&mut self, lines: &[u8]) {
        self.lines.extend_from_slice(lines);
        self.has_lines = true;
    }

    /// A line that must not be sent counts.
    #[inline]
    pub(crate) const fn has_lines(&self) -> bool {
        self.has_lines
    }

    pub(crate) fn forget_lines(&mut self) {
        self.lines.clear();
        self.lines_misuse = None;
        self.has_lines = self.default_field.is_some();
    }

    /// Behind the status line of a reply without fields of its own.
    pub(super) fn put_default_field(&mut self) {
        if let Some(field) = &self.default_field {
            self.head.extend_from_slice(field.line());
        }
    }

    /// Puts the lines of layers behind the status line of the reply that was written last. The type of its content is the handler's to
    /// say: a layer's is for a reply that says none.
    #[cold]
    pub(crate) fn insert_lines(&mut self) -> Result<(), ApiMisuse> {
        if let Some(misuse) = self.lines_misuse.take() {
            return Err(misuse);
        }
        if find_field(&self.head, self.begun_at, CONTENT_TYPE).is_some() {
            remove_field(&mut self.lines, 0, CONTENT_TYPE);
        }
        let reply = self.head.get(self.begun_at..).unwrap_or_default();
        if let Some(field) = &self.default_field
            && find_field(&self.head, self.begun_at, field.name()).is_none()
        {
            self.lines.extend_from_slice(field.line());
        }
        let status_line_len = memchr::memchr(b'\n', reply).map_or(0, |at| at + 1);
        let at = self.begun_at + status_line_len;
        let (len, added) = (self.head.len(), self.lines.len());
        // Room at the end, the tail moved back, the lines in the gap.
        self.head.resize(len + added, 0);
        self.head.copy_within(at..len, at + added);
        if let Some(gap) = self.head.get_mut(at..at + added) {
            gap.copy_from_slice(&self.lines);
        }
        self.forget_lines();
        Ok(())
    }

    /// Adds a field line to the reply that was begun.
    pub(super) fn put_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), ApiMisuse> {
        put_field(&mut self.head, self.begun_at, name, value)
    }

    pub(crate) fn refuse_reply(&mut self, misuse: ApiMisuse) {
        self.drop_begun();
        self.misuses.add(misuse.into());
    }

    /// Takes away what was written since a reply was begun. The body is of that reply: the beginning has moved any other.
    #[cold]
    fn drop_begun(&mut self) {
        self.head.truncate(self.begun_at);
        self.body = Bytes::new();
        self.image = ImageId::NONE;
    }

    /// Adds content that is sent without a copy, after everything that is already here.
    pub(crate) fn put_body(&mut self, body: Bytes) {
        debug_assert!(self.body.is_empty(), "begin_reply has moved it");
        self.body = body;
    }
}
