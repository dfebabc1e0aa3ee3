//! The output of one connection: unsent replies in order.

use super::write::{CONTENT_TYPE, find_field, put_field, remove_field};
use super::{DefaultField, Later, Persist};
use crate::{ApiMisuse, Misuses};
use bytes::Bytes;

/// Bytes to send: first `head`, then `body`.
#[derive(Debug, Default)]
pub struct Out {
    /// Rendered replies in order.
    pub head: Vec<u8>,
    /// Content of the last reply if it is too large to be copied; otherwise empty.
    pub body: Bytes,
    /// Start of the current reply in `head`.
    begun_at: usize,
    /// Replies that were replaced by a 500.
    misuses: Misuses,
    /// Field lines added by layers to the current reply.
    lines: Vec<u8>,
    lines_misuse: Option<ApiMisuse>,
    /// Whether there may be anything that the next reply must take into account: lines of layers, a
    /// default field or a deferred request. A single flag keeps the usual case cheap.
    has_lines: bool,
    default_field: Option<DefaultField>,
    /// Identifies the contents of `head` if they are an image of a shared reply.
    image: ImageId,
    /// The deferred request.
    later: Option<Box<Later>>,
    /// Whether `head` was sent and is stored only because the next reply may be the same.
    is_sent: bool,
}

/// The field lines added by layers to one reply.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) bytes: Vec<u8>,
    misuse: Option<ApiMisuse>,
    are_any: bool,
}

/// Identifies one rendering of a shared reply. Renderings differ by the time in `Date` (in
/// seconds), by the connection option, and by whether the request is HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImageId {
    /// 0 means no image.
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
    /// An empty output without a heap allocation.
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

    /// An empty output with space for this number of bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { head: Vec::with_capacity(bytes), ..Self::new() }
    }

    /// Adds this field to every later reply without a field of the same name, including replies of
    /// the state machine itself.
    pub fn set_default_field(&mut self, field: Option<DefaultField>) {
        self.default_field = field;
        self.forget_lines();
    }

    /// Takes the memory of `head` and resets the output, except for the default field and pending
    /// misuses.
    #[must_use]
    pub fn take_room(&mut self) -> Vec<u8> {
        let (default_field, misuses) = (self.default_field.take(), self.take_misuses());
        let fresh = Self { has_lines: default_field.is_some(), default_field, misuses, ..Self::new() };
        std::mem::replace(self, fresh).head
    }

    /// Whether there are no bytes to send.
    pub const fn is_empty(&self) -> bool {
        self.unsent().is_empty() && self.body.is_empty()
    }

    /// The unsent part of `head`.
    #[inline(always)]
    pub const fn unsent(&self) -> &[u8] {
        if self.is_sent { &[] } else { self.head.as_slice() }
    }

    /// Number of bytes to send.
    pub const fn len(&self) -> usize {
        self.unsent().len() + self.body.len()
    }

    /// Removes everything except the default field and the misuses counted for
    /// [`Self::take_misuses`]; keeps the memory.
    pub fn clear(&mut self) {
        self.head.clear();
        self.body = Bytes::new();
        self.begun_at = 0;
        self.image = ImageId::NONE;
        self.is_sent = false;
        self.forget_left_over();
    }

    /// Removes leftovers of the previous reply: lines that were added to a reply that was never
    /// written, and a deferred request that was never taken.
    #[inline(always)]
    pub(super) fn forget_left_over(&mut self) {
        if self.has_lines {
            self.forget_left_over_now();
        }
    }

    #[cold]
    #[inline(never)]
    fn forget_left_over_now(&mut self) {
        self.later = None;
        self.forget_lines();
    }

    /// Marks all of `head` as sent; there must be no body. The bytes stay in memory: if the next
    /// reply is the same within the same second, it is not copied again. Until
    /// [`Self::forget_sent`], only a [`crate::Conn`] may write to this output.
    #[inline(always)]
    pub fn head_is_sent(&mut self) {
        debug_assert!(self.body.is_empty(), "the body was taken before");
        self.begun_at = 0;
        self.is_sent = true;
    }

    /// Removes sent bytes and the identity of their image. Otherwise a writer that takes `head`, or
    /// fills it with other bytes, would leave the identity of a previous image behind.
    #[inline(always)]
    pub fn forget_sent(&mut self) {
        self.image.number = 0;
        if self.is_sent {
            self.is_sent = false;
            self.head.clear();
        }
    }

    /// Whether the sent bytes equal the current reply. If they do, they are marked as unsent, so
    /// that they are sent again.
    #[inline(always)]
    pub(super) fn resend_if_same(&mut self, image: &ImageId) -> bool {
        let again = self.is_sent && image.number != 0 && self.image == *image && !self.has_lines();
        self.is_sent &= !again;
        again
    }

    /// Marks the contents of `head` as this image.
    pub(super) const fn is_image(&mut self, image: ImageId) {
        self.image = image;
    }

    /// Removes an unfinished reply after a panic of the service. Earlier replies are kept, because
    /// the start of a reply is marked before each call of a service.
    pub fn drop_unfinished(&mut self) {
        self.forget_sent();
        self.drop_begun();
        self.later = None;
        self.forget_lines();
    }

    /// Takes the deferred request, after [`crate::Next::Wait`].
    pub const fn take_later(&mut self) -> Option<Box<Later>> {
        self.later.take()
    }

    /// Stores a deferred request, such as one from [`Self::take_later`] of another output.
    pub fn put_later(&mut self, later: Box<Later>) {
        debug_assert!(self.later.is_none(), "the output already has a deferred request");
        self.later = Some(later);
        self.has_lines = true;
    }

    /// Records that the deferred request has a body that was not read.
    pub(crate) fn mark_unread(&mut self, unread: bool) {
        if let Some(later) = &mut self.later {
            later.unread |= unread;
        }
    }

    /// Adds a callback for the end of the deferred request.
    pub(super) fn on_end(&mut self, ending: super::Ending) {
        if let Some(later) = &mut self.later {
            later.endings().add(ending);
        }
    }

    /// Adds callbacks for the end of a request that is deferred again.
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

    /// Takes the lines added by layers so far, for a later reply.
    pub(super) fn take_lines(&mut self) -> Lines {
        let lines = Lines {
            bytes: std::mem::take(&mut self.lines),
            misuse: self.lines_misuse.take(),
            are_any: self.has_lines,
        };
        self.forget_lines();
        lines
    }

    /// Restores lines from [`Self::take_lines`].
    pub(super) fn put_lines(&mut self, lines: Lines) {
        self.lines = lines.bytes;
        self.lines_misuse = lines.misuse;
        self.has_lines = lines.are_any || self.default_field.is_some();
    }

    /// Returns the number of replies replaced by a 500 since the last call, and the reasons. The
    /// caller of [`crate::Conn`] reports both, because the client sees only a 500 and the handler
    /// is not notified.
    #[inline(always)]
    pub const fn take_misuses(&mut self) -> Misuses {
        core::mem::replace(&mut self.misuses, Misuses::NONE)
    }

    /// Adds the misuses of `other`.
    #[inline]
    pub const fn take_misuses_of(&mut self, other: &mut Self) {
        if other.misuses.count() != 0 {
            self.misuses.add(other.take_misuses());
        }
    }

    /// Starts the next reply. A large body that has not been flushed is copied, to preserve the
    /// order.
    #[inline]
    pub(crate) fn begin_reply(&mut self) {
        self.forget_sent();
        self.begin_any_reply();
    }

    /// Like [`Self::begin_reply`], but does not remove sent bytes. The caller must remove them
    /// before it writes anything but the same reply.
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

    /// Adds lines that need no validation, each with its CRLF.
    #[inline(never)]
    pub(crate) fn add_lines(&mut self, lines: &[u8]) {
        self.lines.extend_from_slice(lines);
        self.has_lines = true;
    }

    /// Whether layers may have set field lines for the reply, valid or invalid.
    #[inline]
    pub(crate) const fn has_lines(&self) -> bool {
        self.has_lines
    }

    pub(crate) fn forget_lines(&mut self) {
        self.lines.clear();
        self.lines_misuse = None;
        self.has_lines = self.default_field.is_some();
    }

    /// Writes the default field into a reply of the state machine itself, which does not have it.
    pub(super) fn put_default_field(&mut self) {
        if let Some(field) = &self.default_field {
            self.head.extend_from_slice(field.line());
        }
    }

    /// Inserts the lines of layers after the status line of the last reply. A content type from a
    /// layer is used only if the handler sets none.
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
        // Make room at the end, move the bytes after the status line to the end, and copy the lines
        // into the gap.
        self.head.resize(len + added, 0);
        self.head.copy_within(at..len, at + added);
        if let Some(gap) = self.head.get_mut(at..at + added) {
            gap.copy_from_slice(&self.lines);
        }
        self.forget_lines();
        Ok(())
    }

    /// Adds a field line to the current reply.
    pub(super) fn put_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), ApiMisuse> {
        put_field(&mut self.head, self.begun_at, name, value)
    }

    pub(crate) fn refuse_reply(&mut self, misuse: ApiMisuse) {
        self.drop_begun();
        self.misuses.add(misuse.into());
    }

    /// Length of the current reply, if all of it is in `head`.
    pub(crate) const fn reply_len(&self) -> Option<usize> {
        if self.body.is_empty() && !self.is_sent { Some(self.head.len() - self.begun_at) } else { None }
    }

    /// Adds copies of the current reply, all of which is in `head`.
    pub(crate) fn repeat_reply(&mut self, count: u32) {
        self.image = ImageId::NONE;
        let reply = self.begun_at..self.head.len();
        self.head.reserve(reply.len() * count as usize);
        for _ in 0..count {
            self.head.extend_from_within(reply.clone());
        }
        self.begun_at = self.head.len() - reply.len();
    }

    /// Removes the current reply and its body. The body is not an earlier reply's:
    /// [`Self::begin_reply`] has copied that to `head`.
    #[cold]
    fn drop_begun(&mut self) {
        self.head.truncate(self.begun_at);
        self.body = Bytes::new();
        self.image = ImageId::NONE;
    }

    /// Adds content that is sent without a copy, after all other output.
    pub(crate) fn put_body(&mut self, body: Bytes) {
        debug_assert!(self.body.is_empty(), "begin_reply has moved an earlier body");
        self.body = body;
    }
}
