//! A reply that is built for one request.

use super::shared::content_len_of;
use super::write::{COPIED_BYTES_MAX, TEXT, put_end, put_length, put_status};
use super::{Replied, Responder};
use crate::{ApiMisuse, Status};
use bytes::Bytes;

/// Builds a reply: header fields first, then the content.
///
/// A forbidden field replaces the whole reply by a 500.
#[must_use = "a reply is sent by its last call: `text`, `body`, `content` or `empty`"]
#[derive(Debug)]
pub struct ReplyBuilder<'a> {
    responder: Responder<'a>,
    status: Status,
    misuse: Option<ApiMisuse>,
}

impl<'a> ReplyBuilder<'a> {
    pub(super) fn new(responder: Responder<'a>, status: Status) -> Self {
        put_status(&mut responder.out.head, status);
        let misuse = status.is_informational().then_some(ApiMisuse::StatusInformational);
        Self { responder, status, misuse }
    }

    /// Adds a field line. A second `Content-Type` replaces the first. Handlers must not set
    /// framing, connection and date fields.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let written = self.responder.out.put_field(name.as_bytes(), value.as_ref());
        // Only the first misuse is reported.
        self.misuse = self.misuse.or_else(|| written.err());
        self
    }

    /// Makes this reply the last one of the connection.
    pub const fn close_after(mut self) -> Self {
        self.responder.persist = super::Persist::Close;
        self
    }

    /// Sends the reply with a copy of `body`, as `text/plain; charset=utf-8`.
    pub fn text(self, body: impl AsRef<[u8]>) -> Replied<'a> {
        self.body(TEXT, body)
    }

    /// Sends the reply with a copy of `body`, and its type.
    pub fn body(self, content_type: &str, body: impl AsRef<[u8]>) -> Replied<'a> {
        self.header("Content-Type", content_type).content(body)
    }

    /// Sends the reply with `body`, which is not copied if it exceeds 16 KiB, and its type.
    pub fn body_bytes(self, content_type: &str, body: Bytes) -> Replied<'a> {
        self.header("Content-Type", content_type).content_bytes(body)
    }

    /// Sends the reply with a copy of `body`. Its type is that of an earlier
    /// [`Self::header`]; without one, the client guesses it.
    pub fn content(self, body: impl AsRef<[u8]>) -> Replied<'a> {
        let body = body.as_ref();
        let with_content = self.with_content();
        self.finish(body.len(), |responder| {
            if with_content {
                responder.out.head.extend_from_slice(body);
            }
        })
    }

    /// Sends the reply as [`Self::content`] does, but does not copy `body` if it exceeds 16 KiB.
    pub fn content_bytes(self, body: Bytes) -> Replied<'a> {
        if body.len() <= COPIED_BYTES_MAX {
            return self.content(&body);
        }
        let with_content = self.with_content();
        self.finish(body.len(), |responder| {
            if with_content {
                responder.out.put_body(body);
            }
        })
    }

    /// Sends the reply without content.
    pub fn empty(self) -> Replied<'a> {
        self.finish(0, |_| ())
    }

    const fn with_content(&self) -> bool {
        self.status.allows_content() && !self.responder.head_only
    }

    fn finish(self, len: usize, put_content: impl FnOnce(&mut Responder<'a>)) -> Replied<'a> {
        let content_len = if self.with_content() { content_len_of(len) } else { 0 };
        let mut responder = self.responder;
        if let Some(misuse) = self.misuse {
            return responder.refuse(misuse);
        }
        put_length(&mut responder.out.head, self.status, len);
        put_end(&mut responder.out.head, responder.date, responder.persist);
        put_content(&mut responder);
        responder.answered(self.status, content_len)
    }
}
