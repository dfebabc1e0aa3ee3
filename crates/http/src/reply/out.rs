//! The output of one connection: replies in order, not yet sent.
//!
//! Does not know about: how it is sent.

use crate::ApiMisuse;
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
    misuse: Option<ApiMisuse>,
}

impl Out {
    /// Empty, without a heap allocation.
    pub const fn new() -> Self {
        Self { head: Vec::new(), body: Bytes::new(), begun_at: 0, misuse: None }
    }

    /// Empty, with room for `bytes` before it must grow.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { head: Vec::with_capacity(bytes), ..Self::new() }
    }

    /// Nothing to send.
    pub const fn is_empty(&self) -> bool {
        self.head.is_empty() && self.body.is_empty()
    }

    /// Bytes to send.
    pub const fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Forgets everything, keeps the room.
    pub fn clear(&mut self) {
        self.head.clear();
        self.body = Bytes::new();
        self.begun_at = 0;
    }

    /// Takes away an unfinished reply, after a service has panicked in the middle of one. Earlier ones stay.
    pub fn drop_unfinished(&mut self) {
        self.head.truncate(self.begun_at);
    }

    /// The last reply that was replaced by a 500 since this was asked, if any.
    pub const fn take_misuse(&mut self) -> Option<ApiMisuse> {
        self.misuse.take()
    }

    /// Whatever is written next begins here. A large body that is still here although it should have been flushed
    /// is copied, so that the order holds.
    #[inline]
    pub(crate) fn begin_reply(&mut self) {
        if !self.body.is_empty() {
            self.copy_body();
        }
        self.begun_at = self.head.len();
    }

    #[cold]
    fn copy_body(&mut self) {
        self.head.extend_from_slice(&std::mem::take(&mut self.body));
    }

    pub(crate) fn refuse_reply(&mut self, misuse: ApiMisuse) {
        self.head.truncate(self.begun_at);
        self.misuse = Some(misuse);
    }

    /// Adds content that is sent without a copy, after everything that is already here.
    pub(crate) fn put_body(&mut self, body: Bytes) {
        debug_assert!(self.body.is_empty(), "begin_reply has moved it");
        self.body = body;
    }
}
