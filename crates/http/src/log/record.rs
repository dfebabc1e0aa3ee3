//! The record of one request: a fixed number of bytes that owns its contents.

use super::Entry;
use crate::prober::{Prober, is_nameless, named};
use crate::{Client, Method, RequestError, Status, Time, TlsVersion, Version};
use std::net::IpAddr;

/// The contents of one log line.
///
/// Texts share one area of [`Record::TEXT_BYTES_MAX`] bytes. The subject gets up to 32 bytes, the
/// host up to 48. Up to 48 bytes are reserved for the user agent. The target gets the space between
/// the host and this reserve, and the user agent all space after the target. Longer texts are
/// truncated; see [`Clip::cut`].
#[derive(Clone, Copy)]
pub struct Record {
    fields: Fields,
    area: [u8; AREA_LEN],
}

const _: () = assert!(size_of::<Record>() == 256);

/// The first part of a record. Most records, above all those of probes, consist of this part only.
///
/// Its length is half that of a [`Record`], because the cost of a queue between two threads depends
/// on the bytes transferred between the processors' caches.
#[derive(Clone, Copy)]
pub struct RecordHead {
    fields: Fields,
    area: [u8; HEAD_AREA_LEN],
}

const _: () = assert!(size_of::<RecordHead>() == 128);

/// The second part of a record that does not fit into a [`RecordHead`].
#[derive(Clone, Copy)]
pub struct RecordTail([u8; AREA_LEN - HEAD_AREA_LEN]);

#[derive(Clone, Copy)]
struct Fields {
    at: Time,
    content_len: u32,
    /// 0 means no reply.
    status: u16,
    route: Option<Route>,
    addr: Option<IpAddr>,
    method: Option<Method>,
    error: Option<RequestError>,
    tls: Option<TlsVersion>,
    flags: u8,
    /// Bit n: text n was truncated.
    cut: u8,
    /// Lengths of the texts, in the order of [`Part`].
    lens: [u8; PARTS],
}

/// A possibly truncated text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clip<'a> {
    /// The bytes as received.
    pub bytes: &'a [u8],
    /// Whether bytes are missing at the end.
    pub cut: bool,
}

impl Record {
    /// Size of the text area of a record.
    pub const TEXT_BYTES_MAX: usize = AREA_LEN;

    /// The record of a request with its reply.
    #[inline]
    pub fn answered(entry: &Entry<'_>) -> Self {
        Self::answered_with(entry, entry.request.header("user-agent"))
    }

    #[inline]
    pub(super) fn answered_with(entry: &Entry<'_>, user_agent: Option<&[u8]>) -> Self {
        let request = entry.request;
        let client = request.client();
        let mut record = Self::new(client, request.now());
        record.fields.content_len = u32::try_from(entry.content_len).unwrap_or(u32::MAX);
        record.fields.status = entry.status.map_or(0, Status::code);
        record.fields.route = entry.route.and_then(Route::new);
        record.fields.method = Some(request.method());
        record.set(PROBE, entry.probe);
        record.set(NAMELESS_PROBER, user_agent.is_none() && is_nameless(request));
        record.set(HTTP10, request.version() == Version::Http10);
        record.put_texts(
            entry.subject.map(str::as_bytes),
            request.host_bytes(),
            request.target().as_bytes(),
            user_agent,
        );
        record
    }

    /// Splits the record into parts for [`Self::from_parts`].
    #[inline]
    pub fn to_parts(&self) -> (RecordHead, Option<RecordTail>) {
        let (head, tail) = self.area.split_at(HEAD_AREA_LEN);
        let mut area = [0; HEAD_AREA_LEN];
        area.copy_from_slice(head);
        let tail = self.fields.is_long().then(|| {
            let mut rest = [0; AREA_LEN - HEAD_AREA_LEN];
            rest.copy_from_slice(tail);
            RecordTail(rest)
        });
        (RecordHead { fields: self.fields, area }, tail)
    }

    /// Joins the parts of a record. Without a tail, texts end at the end of the head's area.
    pub fn from_parts(head: &RecordHead, tail: Option<&RecordTail>) -> Self {
        let mut area = [0; AREA_LEN];
        let (first, second) = area.split_at_mut(HEAD_AREA_LEN);
        first.copy_from_slice(&head.area);
        if let Some(RecordTail(rest)) = tail {
            second.copy_from_slice(rest);
        }
        Self { fields: head.fields, area }
    }

    /// The record of a request that could not be parsed.
    #[cold]
    pub fn refused(error: RequestError, client: &Client<'_>, now: Time) -> Self {
        let mut record = Self::new(client, now);
        record.fields.status = error.status().code();
        record.fields.error = Some(error);
        let subject = client.tls.and_then(|tls| tls.client_name.as_deref());
        record.put_texts(subject.map(str::as_bytes), None, b"", None);
        record
    }

    /// Marks that the handler panicked.
    #[must_use]
    pub fn panicked(mut self) -> Self {
        self.set(PANICKED, true);
        self
    }

    /// Adds the deferred reply.
    #[must_use]
    pub(super) fn ended(mut self, status: Option<Status>, content_len: usize) -> Self {
        self.fields.status = status.map_or(0, Status::code);
        self.fields.content_len = u32::try_from(content_len).unwrap_or(u32::MAX);
        self
    }

    /// Adds a subject that was unknown when the record was made. The space for the other texts
    /// shrinks accordingly.
    pub(super) fn name(&mut self, subject: &str) {
        let before = *self;
        let [host, target, user_agent] = [before.host(), before.target(), before.user_agent()];
        self.fields.cut = 0;
        self.put_texts(Some(subject.as_bytes()), Some(host.bytes), target.bytes, Some(user_agent.bytes));
        // Texts that were truncated before still count as truncated.
        self.fields.cut |= before.fields.cut & !(1 << Part::Subject as u8);
    }

    /// Marks a request that arrived over HTTP/2 and was converted to HTTP/1.1 for this crate.
    #[must_use]
    pub const fn by_http2(mut self) -> Self {
        self.set(HTTP2, true);
        self
    }

    /// Time of the reply, or of the deferral.
    pub const fn at(&self) -> Time {
        self.fields.at
    }

    /// The client's address.
    pub const fn addr(&self) -> Option<IpAddr> {
        self.fields.addr
    }

    /// The method; `None` when the request could not be read.
    pub const fn method(&self) -> Option<Method> {
        self.fields.method
    }

    /// The HTTP version; `None` when the request could not be read.
    pub const fn version(&self) -> Option<Version> {
        match self.fields.method {
            None => None,
            Some(_) if self.has(HTTP2) => Some(Version::Http2),
            Some(_) if self.has(HTTP10) => Some(Version::Http10),
            Some(_) => Some(Version::Http11),
        }
    }

    /// The status of the reply; `None` if there was no reply.
    pub const fn status(&self) -> Option<Status> {
        Status::new(self.fields.status)
    }

    /// Bytes of content sent; saturates at 4 GiB.
    pub const fn content_len(&self) -> u32 {
        self.fields.content_len
    }

    /// The index of the route.
    pub const fn route(&self) -> Option<u16> {
        match self.fields.route {
            Some(route) => Some(route.index()),
            None => None,
        }
    }

    /// The reason why the state machine refused the request.
    pub const fn error(&self) -> Option<RequestError> {
        self.fields.error
    }

    /// The TLS version, and whether the session was resumed.
    pub const fn tls(&self) -> Option<(TlsVersion, bool)> {
        match self.fields.tls {
            Some(version) => Some((version, self.has(RESUMED))),
            None => None,
        }
    }

    /// Whether the route is for probes, or the request came from a known prober.
    pub fn is_probe(&self) -> bool {
        self.has(PROBE) || self.prober().is_some()
    }

    /// The prober, if known. It is identified by this call and not when the record is made: the
    /// stored part of the user agent is sufficient, and the serving thread does not do the work.
    pub fn prober(&self) -> Option<Prober> {
        if self.has(NAMELESS_PROBER) { Some(Prober::Haproxy) } else { named(self.user_agent().bytes) }
    }

    /// Whether the handler panicked.
    pub const fn is_panic(&self) -> bool {
        self.has(PANICKED)
    }

    /// The authenticated sender; empty if unknown.
    pub fn subject(&self) -> Clip<'_> {
        self.text(Part::Subject)
    }

    /// Host and optional port.
    pub fn host(&self) -> Clip<'_> {
        self.text(Part::Host)
    }

    /// The target as received.
    pub fn target(&self) -> Clip<'_> {
        self.text(Part::Target)
    }

    /// `User-Agent`.
    pub fn user_agent(&self) -> Clip<'_> {
        self.text(Part::UserAgent)
    }

    #[inline]
    pub(super) fn new(client: &Client<'_>, at: Time) -> Self {
        let fields = Fields {
            at,
            content_len: 0,
            status: 0,
            route: None,
            addr: client.addr(),
            method: None,
            error: None,
            tls: client.tls.map(|tls| tls.version),
            flags: 0,
            cut: 0,
            lens: [0; PARTS],
        };
        let mut record = Self { fields, area: [0; AREA_LEN] };
        record.set(RESUMED, client.tls.is_some_and(|tls| tls.resumed));
        record
    }

    #[inline]
    pub(super) fn put_texts(
        &mut self,
        subject: Option<&[u8]>,
        host: Option<&[u8]>,
        target: &[u8],
        user_agent: Option<&[u8]>,
    ) {
        let user_agent = user_agent.unwrap_or_default();
        let at = self.put(Part::Subject, 0, SUBJECT_LEN_MAX, subject.unwrap_or_default());
        let at = self.put(Part::Host, at, at + HOST_LEN_MAX, host.unwrap_or_default());
        let at = self.put(Part::Target, at, AREA_LEN - user_agent.len().min(USER_AGENT_LEN), target);
        self.put(Part::UserAgent, at, AREA_LEN, user_agent);
    }

    /// Copies the part of `text` that fits between `at` and `end`; returns the end of the copy.
    #[inline]
    fn put(&mut self, part: Part, at: usize, end: usize, text: &[u8]) -> usize {
        let len = text.len().min(end - at);
        if len > 0
            && let (Some(place), Some(kept)) = (self.area.get_mut(at..at + len), text.get(..len))
        {
            place.copy_from_slice(kept);
        }
        let [subject, host, target, user_agent] = &mut self.fields.lens;
        let place = match part {
            Part::Subject => subject,
            Part::Host => host,
            Part::Target => target,
            Part::UserAgent => user_agent,
        };
        *place = u8::try_from(len).unwrap_or(u8::MAX);
        self.fields.cut |= u8::from(len < text.len()) << part as u8;
        at + len
    }

    fn text(&self, part: Part) -> Clip<'_> {
        let mut lens = self.fields.lens.iter().map(|&len| usize::from(len));
        let start = lens.by_ref().take(part as usize).sum();
        let len = lens.next().unwrap_or(0);
        Clip {
            bytes: self.area.get(start..start + len).unwrap_or_default(),
            cut: self.fields.cut & 1 << part as u8 != 0,
        }
    }

    const fn has(&self, flag: u8) -> bool {
        self.fields.flags & flag != 0
    }

    #[inline]
    const fn set(&mut self, flag: u8, on: bool) {
        self.fields.flags |= flag * on as u8;
    }
}

impl RecordHead {
    /// Whether the record continues in a [`RecordTail`].
    pub fn has_tail(&self) -> bool {
        self.fields.is_long()
    }
}

impl Fields {
    /// Whether the texts exceed the area of a head.
    #[inline]
    fn is_long(&self) -> bool {
        self.lens.iter().map(|&len| usize::from(len)).sum::<usize>() > HEAD_AREA_LEN
    }
}

impl std::fmt::Debug for RecordHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordHead").field("has_tail", &self.has_tail()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RecordTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordTail").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record")
            .field("at", &self.fields.at)
            .field("addr", &self.fields.addr)
            .field("method", &self.fields.method)
            .field("target", &self.target().bytes.escape_ascii())
            .field("status", &self.fields.status)
            .field("error", &self.fields.error)
            .finish_non_exhaustive()
    }
}

/// A route index below the maximum, so that `Option<Route>` needs no additional space.
#[derive(Clone, Copy, Debug)]
struct Route(std::num::NonZeroU16);

impl Route {
    const fn new(index: u16) -> Option<Self> {
        match std::num::NonZeroU16::new(index.wrapping_add(1)) {
            Some(route) => Some(Self(route)),
            None => None,
        }
    }

    const fn index(self) -> u16 {
        self.0.get() - 1
    }
}

#[derive(Clone, Copy, Debug)]
enum Part {
    Subject,
    Host,
    Target,
    UserAgent,
}

const PARTS: usize = 4;
const AREA_LEN: usize = 208;
/// Size of the text area of a [`RecordHead`].
const HEAD_AREA_LEN: usize = 80;
const SUBJECT_LEN_MAX: usize = 32;
const HOST_LEN_MAX: usize = 48;
/// Space reserved for a user agent, which is sufficient to identify every prober.
const USER_AGENT_LEN: usize = 48;

const HTTP10: u8 = 1;
const HTTP2: u8 = 1 << 5;
const NAMELESS_PROBER: u8 = 1 << 1;
const PANICKED: u8 = 1 << 2;
const PROBE: u8 = 1 << 3;
const RESUMED: u8 = 1 << 4;
