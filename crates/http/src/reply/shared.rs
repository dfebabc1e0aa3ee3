//! Replies that are built once and sent many times.

use super::out::ImageId;
use super::write::{COPIED_BYTES_MAX, END_BYTES_MAX, TEXT, put_end, put_field, put_length, put_status};
use super::{Out, Persist, put_refusal};
use crate::{ApiMisuse, Date, Status};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A shared reply, rendered in advance except for `Date` and `Connection`.
///
/// Cloning increments a reference count.
#[derive(Clone, Debug)]
pub struct StaticReply(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    status: Status,
    /// All constant parts: the status line, the handler's fields, and the length.
    head: Vec<u8>,
    /// Length of `head` up to the length field.
    fields_end: usize,
    body: Bytes,
    images: Option<Images>,
}

/// Complete replies without the value of `Date`. A frequent reply is sent by copying an image and
/// writing the date into it.
#[derive(Debug)]
struct Images {
    /// One image for each [`Persist`], in the order of its variants.
    whole: [Box<[u8]>; 3],
    date_at: usize,
    content_len: u32,
    /// Identifies the images; never 0. A changed reply has images with another number.
    number: u64,
}

/// The number for the next images.
static NUMBER_NEXT: AtomicU64 = AtomicU64::new(1);

impl Images {
    /// Renders the images of a reply that is valid and small enough to be stored three times.
    fn render(inner: &Inner) -> Option<Self> {
        let content: &[u8] = if inner.status.allows_content() { &inner.body } else { b"" };
        if inner.status.is_informational() || content.len() > IMAGE_CONTENT_BYTES_MAX {
            return None;
        }
        let date = Date::new(0);
        let render = |persist| {
            let mut image = Vec::with_capacity(inner.head.len() + END_BYTES_MAX + content.len());
            image.extend_from_slice(&inner.head);
            put_end(&mut image, &date, persist);
            image.extend_from_slice(content);
            image.into_boxed_slice()
        };
        Some(Self {
            whole: [render(Persist::Close), render(Persist::Implied), render(Persist::Stated)],
            date_at: inner.head.len(),
            content_len: content_len_of(content.len()),
            number: NUMBER_NEXT.fetch_add(1, Ordering::Relaxed),
        })
    }

    #[inline(never)]
    fn without_content<'a>(&self, image: &'a [u8]) -> &'a [u8] {
        image.get(..image.len() - self.content_len as usize).unwrap_or_default()
    }

    #[inline(always)]
    fn put(&self, out: &mut Out, date: &Date, persist: Persist, head_only: bool) -> u32 {
        let Some(image) = self.whole.get(persist as usize) else {
            return 0;
        };
        let mut image = &**image;
        let mut content_len = self.content_len;
        if head_only {
            image = self.without_content(image);
            content_len = 0;
        }
        let date_at = out.head.len() + self.date_at;
        out.head.extend_from_slice(image);
        if let Some(line) = out.head.get_mut(date_at..).and_then(<[u8]>::first_chunk_mut) {
            *line = *date.line();
        }
        content_len
    }
}

impl StaticReply {
    /// A reply without content. A 1xx status is replaced by a 500 when the reply is sent, because
    /// it is not final.
    pub fn new(status: Status) -> Self {
        let mut head = Vec::new();
        put_status(&mut head, status);
        Self(Arc::new(Inner::finish(status, head, Bytes::new())))
    }

    /// A reply with these fields, including the content type, and this content. This is cheaper
    /// than the other methods, each of which renders the whole reply again.
    pub fn whole<V: AsRef<[u8]>>(
        status: Status,
        fields: impl IntoIterator<Item = (impl AsRef<str>, V)>,
        body: impl Into<Bytes>,
    ) -> Result<Self, ApiMisuse> {
        let mut head = Vec::with_capacity(HEAD_LEN_TYPICAL);
        put_status(&mut head, status);
        for (name, value) in fields {
            put_field(&mut head, 0, name.as_ref().as_bytes(), value.as_ref())?;
        }
        Ok(Self(Arc::new(Inner::finish(status, head, body.into()))))
    }

    /// A reply with `text/plain; charset=utf-8` content.
    pub fn text(status: Status, body: impl Into<Bytes>) -> Self {
        Self::new(status).body(TEXT, body).expect("a constant content type is valid")
    }

    /// Adds a field line. A second `Content-Type` replaces the first. Framing, connection and date
    /// fields are refused, because the connection sets them.
    pub fn header(self, name: &str, value: impl AsRef<[u8]>) -> Result<Self, ApiMisuse> {
        let content = self.0.body.clone();
        self.with(name, value.as_ref(), content)
    }

    /// Sets the content and its type.
    pub fn body(self, content_type: &str, body: impl Into<Bytes>) -> Result<Self, ApiMisuse> {
        self.with("Content-Type", content_type.as_bytes(), body.into())
    }

    /// The status.
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// The content.
    pub fn content(&self) -> &Bytes {
        &self.0.body
    }

    /// Writes the reply without a request, as the last one of its connection: for instance a 503 to
    /// a client for which there is no free slot.
    pub fn put_last(&self, out: &mut Out, date: &Date) {
        out.begin_reply();
        let _content_len = self.put(out, date, Persist::Close, false);
    }

    /// The identity of the reply's bytes at this time. Its number is 0 if the reply has no images.
    #[inline(always)]
    pub(super) fn image(&self, date: &Date, persist: Persist, head_only: bool) -> ImageId {
        let number = self.0.images.as_ref().map_or(0, |images| images.number);
        ImageId { number, unix_secs: date.unix_secs(), persist, head_only }
    }

    /// Content length of an image.
    #[inline(always)]
    pub(super) fn image_content_len(&self, head_only: bool) -> u32 {
        match &self.0.images {
            Some(images) if !head_only => images.content_len,
            _ => 0,
        }
    }

    /// Writes the reply after [`Out::begin_reply`] and returns its content length.
    #[inline(always)]
    pub(super) fn put(&self, out: &mut Out, date: &Date, persist: Persist, head_only: bool) -> u32 {
        match &self.0.images {
            Some(images) => images.put(out, date, persist, head_only),
            None => self.put_parts(out, date, persist, head_only),
        }
    }

    #[inline(never)]
    fn put_parts(&self, out: &mut Out, date: &Date, persist: Persist, head_only: bool) -> u32 {
        let inner = &*self.0;
        if inner.status.is_informational() {
            put_refusal(ApiMisuse::StatusInformational, out, date, persist);
            return 0;
        }
        let with_content = !head_only && inner.status.allows_content();
        let copied = if with_content && inner.body.len() <= COPIED_BYTES_MAX { &*inner.body } else { &[] };
        out.head.reserve(inner.head.len() + END_BYTES_MAX + copied.len());
        out.head.extend_from_slice(&inner.head);
        put_end(&mut out.head, date, persist);
        out.head.extend_from_slice(copied);
        if with_content && inner.body.len() > COPIED_BYTES_MAX {
            out.put_body(inner.body.clone());
        }
        if with_content { content_len_of(inner.body.len()) } else { 0 }
    }

    /// A copy of the reply with one more field and with this content.
    fn with(&self, name: &str, value: &[u8], body: Bytes) -> Result<Self, ApiMisuse> {
        let Inner { status, head, fields_end, .. } = &*self.0;
        let mut head = head.get(..*fields_end).unwrap_or_default().to_vec();
        put_field(&mut head, 0, name.as_bytes(), value)?;
        Ok(Self(Arc::new(Inner::finish(*status, head, body))))
    }
}

impl Inner {
    /// Appends the length after all fields and renders the images.
    fn finish(status: Status, mut head: Vec<u8>, body: Bytes) -> Self {
        let fields_end = head.len();
        put_length(&mut head, status, body.len());
        let mut inner = Self { status, head, fields_end, body, images: None };
        inner.images = Images::render(&inner);
        inner
    }
}

/// Converts a content length; it saturates at 4 GiB.
pub(super) fn content_len_of(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Maximum size of content that is stored in the images of its reply.
const IMAGE_CONTENT_BYTES_MAX: usize = 1024;

/// Space for the fields of a typical reply.
const HEAD_LEN_TYPICAL: usize = 256;
