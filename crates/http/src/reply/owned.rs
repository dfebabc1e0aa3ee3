//! A reply as a value: built independently of a connection, sent once with a [`Responder`].

use super::shared::content_len_of;
use super::write::{COPIED_BYTES_MAX, TEXT, put_end, put_field, put_length, put_status};
use super::{Replied, Responder};
use crate::{ApiMisuse, Status};
use bytes::Bytes;

/// An owned reply to one request.
///
/// A forbidden field replaces the whole reply by a 500.
#[must_use = "a reply does nothing until it is sent"]
#[derive(Clone, Debug)]
pub struct Reply {
    status: Status,
    /// Status line and field lines.
    head: Vec<u8>,
    body: Bytes,
    misuse: Option<ApiMisuse>,
}

impl Reply {
    /// A reply without content.
    pub fn new(status: Status) -> Self {
        let mut head = Vec::with_capacity(HEAD_LEN);
        put_status(&mut head, status);
        let misuse = status.is_informational().then_some(ApiMisuse::StatusInformational);
        Self { status, head, body: Bytes::new(), misuse }
    }

    /// Creates a reply with `text/plain; charset=utf-8` content.
    pub fn text(status: Status, body: impl Into<Bytes>) -> Self {
        Self::new(status).body(TEXT, body)
    }

    /// Adds a field line. A second `Content-Type` replaces the first. Framing, connection and date
    /// fields are forbidden.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let written = put_field(&mut self.head, 0, name.as_bytes(), value.as_ref());
        // Only the first misuse is reported.
        self.misuse = self.misuse.or_else(|| written.err());
        self
    }

    /// Sets the content and its type.
    pub fn body(self, content_type: &str, body: impl Into<Bytes>) -> Self {
        let mut typed = self.header("Content-Type", content_type);
        typed.body = body.into();
        typed
    }

    /// The status.
    pub const fn status(&self) -> Status {
        self.status
    }
}

impl<'a> Responder<'a> {
    /// Sends an owned reply. Up to 16 KiB of content are copied next to the head; longer content is
    /// sent without a copy.
    pub fn send_owned(self, reply: Reply) -> Replied<'a> {
        self.out.forget_sent();
        let Reply { status, head, body, misuse } = reply;
        if let Some(misuse) = misuse {
            return self.refuse(misuse);
        }
        let with_content = status.allows_content() && !self.head_only;
        let len = body.len();
        self.out.head.extend_from_slice(&head);
        put_length(&mut self.out.head, status, len);
        put_end(&mut self.out.head, self.date, self.persist);
        if with_content && len <= COPIED_BYTES_MAX {
            self.out.head.extend_from_slice(&body);
        } else if with_content {
            self.out.put_body(body);
        }
        self.answered(status, if with_content { content_len_of(len) } else { 0 })
    }
}

/// Space for the fields of a typical reply.
const HEAD_LEN: usize = 128;
