//! Replies that are made once and sent many times.
//!
//! Does not know about: single requests.

use super::out::ImageId;
use super::write::{END_BYTES_MAX, put_end, put_field, put_length, put_status};
use super::{COPIED_BYTES_MAX, Out, Persist, put_refusal};
use crate::{ApiMisuse, Date, Status};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A rendered reply without `Date` and `Connection`. Cloning counts a reference.
#[derive(Clone, Debug)]
pub struct StaticReply(Arc<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    status: Status,
    /// Status line, the handler's fields, length: everything that is the same each time.
    head: Vec<u8>,
    /// Bytes of `head` in front of the length.
    fields_end: usize,
    body: Bytes,
    images: Option<Images>,
}

/// Everything as it goes out but for the value of `Date`: what is sent most is one copy and one patch.
#[derive(Clone, Debug)]
struct Images {
    /// One for each [`Persist`], in its order.
    whole: [Box<[u8]>; 3],
    date_at: usize,
    content_len: u32,
    /// Told apart by it, never 0: a reply that is changed has other images.
    number: u64,
}

/// The number of the images that are rendered next.
static NUMBER_NEXT: AtomicU64 = AtomicU64::new(1);

impl Images {
    /// Only for what may be sent as it is, and is small enough to be kept three times.
    fn render(inner: &Inner) -> Option<Self> {
        let content: &[u8] = if inner.status.allows_content() { &inner.body } else { b"" };
        if inner.status.is_informational() || content.len() > IMAGE_CONTENT_BYTES_MAX {
            return None;
        }
        let date = Date::new(0);
        let render = |persist| {
            let mut image = inner.head.clone();
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
    /// A reply without content. With a 1xx status it will be sent as 500: that is no final reply.
    pub fn new(status: Status) -> Self {
        let mut head = Vec::new();
        put_status(&mut head, status);
        let fields_end = head.len();
        put_length(&mut head, status, 0);
        let mut inner = Inner { status, head, fields_end, body: Bytes::new(), images: None };
        inner.images = Images::render(&inner);
        Self(Arc::new(inner))
    }

    /// `text/plain; charset=utf-8` content.
    pub fn text(status: Status, body: impl Into<Bytes>) -> Self {
        Self::new(status).body("text/plain; charset=utf-8", body).expect("a constant content type is valid")
    }

    /// Adds a field line. Framing, connection and date fields are refused: they belong to the connection.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Result<Self, ApiMisuse> {
        self.change(|inner| put_field(&mut inner.head, name.as_bytes(), value.as_ref()))?;
        Ok(self)
    }

    /// Sets the content and adds its type.
    pub fn body(self, content_type: &str, body: impl Into<Bytes>) -> Result<Self, ApiMisuse> {
        let mut typed = self.header("Content-Type", content_type)?;
        typed.change(|inner| {
            inner.body = body.into();
            Ok(())
        })?;
        Ok(typed)
    }

    /// The status.
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// The content.
    pub fn content(&self) -> &Bytes {
        &self.0.body
    }

    /// Writes the reply outside of any request, as the last of its connection: for instance a 503 to a client that
    /// there is no place for.
    pub fn put_last(&self, out: &mut Out, date: &Date) {
        out.begin_reply();
        let _content_len = self.put(out, date, Persist::Close, false);
    }

    /// What the reply would be now, as a name; none for a reply that has no image.
    #[inline(always)]
    pub(super) fn image(&self, date: &Date, persist: Persist, head_only: bool) -> ImageId {
        let number = self.0.images.as_ref().map_or(0, |images| images.number);
        ImageId { number, unix_secs: date.unix_secs(), persist, head_only }
    }

    /// How much content an image has.
    #[inline(always)]
    pub(super) fn image_content_len(&self, head_only: bool) -> u32 {
        match &self.0.images {
            Some(images) if !head_only => images.content_len,
            _ => 0,
        }
    }

    /// Writes the reply behind [`Out::begin_reply`] and tells how much content it has.
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

    /// Changes fields or content and writes the length anew.
    fn change(&mut self, change: impl FnOnce(&mut Inner) -> Result<(), ApiMisuse>) -> Result<(), ApiMisuse> {
        let inner = Arc::make_mut(&mut self.0);
        inner.head.truncate(inner.fields_end);
        change(inner)?;
        inner.fields_end = inner.head.len();
        put_length(&mut inner.head, inner.status, inner.body.len());
        inner.images = Images::render(inner);
        Ok(())
    }
}

/// Of content above 4 GiB the largest value.
pub(super) fn content_len_of(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Content up to this size is kept in the images of its reply.
const IMAGE_CONTENT_BYTES_MAX: usize = 1024;
