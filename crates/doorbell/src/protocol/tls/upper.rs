//! The protocol inside a TLS session: its state, its unprocessed plaintext and its plaintext
//! output.

use core::cell::Cell;
use core::mem;

use doorbell_http::{Client, Date, Later, Next, Out};
use rustls::server::ServerConnectionData;
use rustls::unbuffered::{EncryptError, WriteTraffic};

use super::super::{Io, Local, Protocol};
use crate::error::CloseReason;
use crate::time::Time;
use crate::tls::{PlainBytes, TlsInfo};

/// Maximum plaintext of a record (RFC 8446 5.1).
const RECORD_LEN_MAX: usize = 1 << 14;

/// Maximum overhead of a record: header, explicit nonce or content type, and tag, for every
/// supported cipher suite.
const RECORD_OVERHEAD_MAX: usize = 32;

/// Maximum length of a close_notify record.
const CLOSE_NOTIFY_LEN_MAX: usize = 64;

/// Maximum amount of plaintext that is encrypted before the ciphertext is sent. It limits the
/// memory that a slow reader can occupy.
const AHEAD_LEN_MAX: usize = 2 * RECORD_LEN_MAX;

/// Initial capacity for rendering a reply.
const REPLY_LEN: usize = 512;

/// Maximum capacity of a buffer that is kept in [`SPARE`]; a larger one is freed.
const SPARE_LEN_MAX: usize = 16 * 1024;

thread_local! {
    /// A buffer in which the connections of this thread render their replies, one after another.
    /// Most replies are encrypted in the turn in which they are written, so an idle connection
    /// needs no buffer.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The [`Io`] of a call, without the buffers.
pub(super) struct CallContext<'a> {
    pub(super) now: Time,
    pub(super) date: &'a Date,
    pub(super) draining: bool,
    pub(super) local: &'a mut Local,
    pub(super) client: &'a Client<'a>,
}

/// The inner protocol's state and plaintext. The [module](self) documents them.
#[derive(Debug)]
pub(super) struct Upper<C> {
    pub(super) conn: C,
    /// The step that the protocol last requested.
    pub(super) after: Next,
    info: TlsInfo,
    /// The request that the protocol passed to a job, until the worker takes the request.
    later: Option<Box<Later>>,
    carry: UnreadPlaintext,
    plain: Out,
    /// Number of bytes of the head of `plain` that are already encrypted.
    head_at: usize,
}

/// Plaintext that the protocol could not process yet. Unallocated while there is none.
#[derive(Debug)]
struct UnreadPlaintext {
    buf: Vec<u8>,
    /// The capacity that is counted in `plain_bytes`.
    counted: usize,
    plain_bytes: PlainBytes,
}

impl<C> Upper<C> {
    pub(super) const fn new(conn: C, info: TlsInfo, plain: Out, plain_bytes: PlainBytes) -> Self {
        let carry = UnreadPlaintext { buf: Vec::new(), counted: 0, plain_bytes };
        Self { conn, after: Next::Read, info, later: None, carry, plain, head_at: 0 }
    }

    /// Calls the protocol and stores its next step.
    pub(super) fn run<P: Protocol<Conn = C>>(
        &mut self,
        protocol: &P,
        context: &mut CallContext<'_>,
        call: impl FnOnce(&P, &mut C, Io<'_>) -> Next,
    ) {
        if self.plain.head.capacity() == 0 {
            self.plain.head = SPARE.take();
            self.plain.head.reserve(REPLY_LEN);
        }
        self.ask(protocol, context, call);
        if !self.carry.settle() {
            self.carry.buf = Vec::new();
            let _within = self.carry.settle();
            self.ask(protocol, context, |protocol, conn, io| {
                protocol.handle_overload(conn, CloseReason::InputMemory, io)
            });
        }
    }

    fn ask<P: Protocol<Conn = C>>(
        &mut self,
        protocol: &P,
        context: &mut CallContext<'_>,
        call: impl FnOnce(&P, &mut C, Io<'_>) -> Next,
    ) {
        let client = context.client.with_tls(Some(&self.info));
        let io = Io {
            now: context.now,
            date: context.date,
            input: &mut self.carry.buf,
            out: &mut self.plain,
            draining: context.draining,
            local: context.local,
            client: &client,
        };
        self.after = call(protocol, &mut self.conn, io);
        self.later = self.plain.take_later();
        if self.after == Next::HandOver {
            // A connection over TLS cannot be handed over, because its keys cannot be moved.
            self.refuse_hand_over(protocol, context);
        }
    }

    /// Moves the count of invalid replies, with their reasons, to `out`, from which the worker
    /// takes it.
    pub(super) fn pass_misuses(&mut self, out: &mut Out) {
        out.take_misuses_of(&mut self.plain);
    }

    /// Takes the request that the protocol passed to a job, after [`Next::Wait`].
    pub(super) const fn take_later(&mut self) -> Option<Box<Later>> {
        self.later.take()
    }

    #[cold]
    fn refuse_hand_over<P: Protocol<Conn = C>>(&mut self, protocol: &P, context: &mut CallContext<'_>) {
        self.ask(protocol, context, |protocol, conn, io| {
            protocol.handle_overload(conn, CloseReason::NotTaken, io)
        });
    }

    /// True if no further records may be decrypted before the output is sent.
    pub(super) fn stops_reading(&self) -> bool {
        self.after != Next::Read || !self.plain.body.is_empty() || self.plain.head.len() >= AHEAD_LEN_MAX
    }

    /// True if all output of the protocol is encrypted.
    pub(super) const fn is_written(&self) -> bool {
        self.plain.is_empty()
    }

    /// True if the protocol has closed the connection.
    pub(super) const fn closes(&self) -> bool {
        matches!(self.after, Next::Close | Next::CloseClean | Next::CloseLinger)
    }

    /// Encrypts the protocol's output, at most [`AHEAD_LEN_MAX`] bytes.
    pub(super) fn write(
        &mut self,
        writer: &mut WriteTraffic<'_, ServerConnectionData>,
        out: &mut Vec<u8>,
    ) -> Result<(), EncryptError> {
        self.top_up_head();
        let head = self.plain.head.get(self.head_at..).unwrap_or_default();
        let head = &head[..head.len().min(AHEAD_LEN_MAX)];
        if !head.is_empty() {
            encrypt(writer, head, out)?;
        }
        self.head_at += head.len();
        if self.head_at < self.plain.head.len() {
            return Ok(());
        }
        let ahead = AHEAD_LEN_MAX - head.len();
        let body = self.plain.body.split_to(ahead.min(self.plain.body.len()));
        if !body.is_empty() {
            encrypt(writer, &body, out)?;
        }
        self.head_at = 0;
        self.plain.head.clear();
        if self.plain.body.is_empty() {
            give_back(self.plain.take_room());
        }
        Ok(())
    }

    /// Fills up the last record of the head with the beginning of the body.
    fn top_up_head(&mut self) {
        let Out { head, body, .. } = &mut self.plain;
        let unwritten = head.len() - self.head_at.min(head.len());
        let last = unwritten % RECORD_LEN_MAX;
        if last != 0 && !body.is_empty() {
            let moved = body.split_to(body.len().min(RECORD_LEN_MAX - last));
            head.extend_from_slice(&moved);
        }
    }
}

/// Keeps an empty buffer for the next reply.
fn give_back(buf: Vec<u8>) {
    debug_assert!(buf.is_empty(), "I-9: output of one connection is not left for the next");
    if buf.capacity() <= SPARE_LEN_MAX {
        SPARE.set(buf);
    }
}

/// Encrypts all of `plain`.
fn encrypt(
    writer: &mut WriteTraffic<'_, ServerConnectionData>,
    plain: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), EncryptError> {
    let room = plain.len() + plain.len().div_ceil(RECORD_LEN_MAX) * RECORD_OVERHEAD_MAX;
    append(out, room, |room| writer.encrypt(plain, room))
}

/// Appends the close_notify.
pub(super) fn write_close_notify(
    writer: &mut WriteTraffic<'_, ServerConnectionData>,
    out: &mut Vec<u8>,
) -> Result<(), EncryptError> {
    append(out, CLOSE_NOTIFY_LEN_MAX, |room| writer.queue_close_notify(room))
}

/// Appends the output of `write`, with more room if needed.
fn append(
    out: &mut Vec<u8>,
    room: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, EncryptError>,
) -> Result<(), EncryptError> {
    let start = out.len();
    out.resize(start + room, 0);
    let mut written = write(&mut out[start..]);
    if let Err(EncryptError::InsufficientSize(size)) = &written {
        out.resize(start + size.required_size, 0);
        written = write(&mut out[start..]);
    }
    out.truncate(start + *written.as_ref().unwrap_or(&0));
    written.map(drop)
}

impl UnreadPlaintext {
    /// Updates `plain_bytes`. Returns false if the buffer grew and the total exceeds the maximum.
    fn settle(&mut self) -> bool {
        if self.buf.is_empty() && self.buf.capacity() != 0 {
            self.buf = Vec::new();
        }
        if self.buf.capacity() == self.counted {
            return true;
        }
        let before = mem::replace(&mut self.counted, self.buf.capacity());
        self.plain_bytes.change(before, self.counted)
    }
}

impl Drop for UnreadPlaintext {
    fn drop(&mut self) {
        if self.counted != 0 {
            self.plain_bytes.change(self.counted, 0);
        }
    }
}
