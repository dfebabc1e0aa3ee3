//! A complete request, as passed to a service: borrowed bytes and the results of parsing.

use crate::parse::{Fields, Framing, Head};
use crate::pattern::{Params, Pattern};
use crate::scheme::Scheme;
use crate::{Client, Method, Time, TlsInfo};

/// A request with a complete head and body.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    head: &'a [u8],
    parsed: &'a Head,
    body: &'a [u8],
    client: &'a Client<'a>,
    now: Time,
    unix_secs: i64,
    /// `None` stands for `Found::NOTHING`, because zero is cheaper to store than an address.
    found: Option<&'a Found<'a>>,
}

/// Facts about a request that the services in front of its handler have found.
#[derive(Clone, Copy)]
pub(crate) struct Found<'a> {
    pub(crate) params: Params<'a, 'a>,
    pub(crate) identity: Option<&'a str>,
}

impl Found<'_> {
    const NOTHING: Self = Self { params: Params::none(), identity: None };
}

impl<'a> Request<'a> {
    /// Creates a request. `parsed` must be the completed state for exactly these bytes of `head`.
    /// The client is unknown, and the time is zero.
    #[inline]
    pub const fn new(head: &'a [u8], parsed: &'a Head, body: &'a [u8]) -> Self {
        Self { head, parsed, body, client: &Client::UNKNOWN, now: Time::ZERO, unix_secs: 0, found: None }
    }

    /// The facts that the services in front of the handler have found.
    pub(crate) const fn found(&self) -> Found<'a> {
        match self.found {
            Some(found) => *found,
            None => Found::NOTHING,
        }
    }

    /// This request, with the facts that a service has found.
    pub(crate) const fn with_found<'b>(&self, found: &'b Found<'b>) -> Request<'b>
    where
        'a: 'b,
    {
        let mut request = *self;
        request.found = Some(found);
        request
    }

    /// The bytes of a parameter of the route's path, undecoded as in the path. `None` if the route
    /// has no such parameter, and without [`Routes`](crate::routes::Routes) in front.
    ///
    /// To decode it, use a library for percent-encoding (RFC 3986 section 2.1).
    pub fn param(&self, name: &str) -> Option<&'a [u8]> {
        self.found().params.value(name)
    }

    /// The parameters of the route's path.
    pub const fn params(&self) -> Params<'a, 'a> {
        self.found().params
    }

    /// The name of the client that a guard has admitted: the name of its token, the subject of its
    /// signed token, or the name in its certificate. `None` without a guard that identifies
    /// clients. Of several such guards, the one that was consulted last counts.
    pub const fn identity(&self) -> Option<&'a str> {
        self.found().identity
    }

    /// Sets the client and the time.
    #[inline]
    #[must_use]
    pub const fn from_client(mut self, client: &'a Client<'a>, now: Time, unix_secs: i64) -> Self {
        (self.client, self.now, self.unix_secs) = (client, now, unix_secs);
        self
    }

    /// The client that sent the request.
    #[inline]
    pub const fn client(&self) -> &'a Client<'a> {
        self.client
    }

    /// The scheme used by the client: the one that a trusted proxy reported
    /// ([`Client::scheme`]) or, without a report, that of this connection.
    pub fn scheme(&self) -> Scheme {
        let of_conn = if self.client.tls.is_some() { Scheme::Https } else { Scheme::Http };
        self.client.scheme.unwrap_or(of_conn)
    }

    /// Time of the call, on the worker's clock, which never goes backward.
    #[inline]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Time of the call in seconds since 1970-01-01 UTC, as in the `Date` field, which the engine
    /// updates every half second.
    #[inline]
    pub const fn unix_secs(&self) -> i64 {
        self.unix_secs
    }

    /// The method.
    #[inline]
    pub fn method(&self) -> Method {
        self.parsed.known_method()
    }

    /// Whether the method is HEAD, so that the reply is sent without its content.
    #[inline]
    pub fn is_head(&self) -> bool {
        self.parsed.known_method() == Method::Head
    }

    /// The HTTP version.
    pub const fn version(&self) -> Version {
        if self.parsed.minor() == 0 { Version::Http10 } else { Version::Http11 }
    }

    /// The target as received, in any form (RFC 9112 3.2).
    pub fn target(&self) -> &'a str {
        text(self.parsed.target(self.head))
    }

    /// The undecoded path, which starts with `/`; for `OPTIONS *` it is `*`.
    #[inline]
    pub fn path(&self) -> &'a str {
        text(self.parsed.path(self.head))
    }

    /// The undecoded part of the target after the first `?`.
    pub fn query(&self) -> Option<&'a str> {
        self.parsed.query(self.head).map(text)
    }

    /// Host and optional port: the authority of an absolute target, otherwise the `Host` field. In
    /// HTTP/1.0 both may be absent.
    pub fn host(&self) -> Option<&'a str> {
        self.parsed.host(self.head).map(text)
    }

    /// The undecoded path as bytes, which need no conversion.
    #[inline]
    pub fn path_bytes(&self) -> &'a [u8] {
        self.parsed.path(self.head)
    }

    /// The undecoded part of the target after the first `?`, as bytes.
    #[inline]
    pub fn query_bytes(&self) -> Option<&'a [u8]> {
        self.parsed.query(self.head)
    }

    /// Host and optional port as bytes; see [`Self::host`].
    #[inline]
    pub fn host_bytes(&self) -> Option<&'a [u8]> {
        self.parsed.host(self.head)
    }

    /// The value of the first field with this name, ignoring case, without surrounding white space.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers().find(name)
    }

    #[inline(always)]
    pub(crate) const fn head(&self) -> &'a Head {
        self.parsed
    }

    /// The value of the first `Authorization` field, and whether there is only one.
    #[inline]
    pub(crate) fn authorization(&self) -> Option<(&'a [u8], bool)> {
        self.parsed.authorization(self.head)
    }

    /// All fields in order.
    pub fn headers(&self) -> Fields<'a> {
        self.parsed.fields(self.head)
    }

    /// The decoded body if the service wants it; otherwise empty.
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Whether the head announces a content length, but [`Self::body`] is empty because the service
    /// did not want the body ([`crate::Service::wants_body`]). False for a chunked body, because
    /// its length is not announced.
    #[inline]
    pub const fn is_body_skipped(&self) -> bool {
        self.body.is_empty() && matches!(self.parsed.framing(), Framing::Length(len) if len > 0)
    }
}

impl Request<'_> {
    /// Copies head and body into one allocation that is independent of the connection's buffers.
    /// The size is at most the sum of the limits of head and body. The parameters of a route and the
    /// identity are copied, too, if there are any.
    pub fn detach(&self) -> OwnedRequest {
        let head = self.head.get(..self.parsed.len()).unwrap_or(self.head);
        let mut bytes = Vec::with_capacity(head.len() + self.body.len());
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(self.body);
        OwnedRequest {
            head_len: head.len(),
            bytes,
            parsed: self.parsed.clone(),
            client: self.client.without_tls(),
            tls: self.client.tls.cloned(),
            pattern: self.found().params.pattern().cloned(),
            identity: self.found().identity.map(Box::from),
            now: self.now,
            unix_secs: self.unix_secs,
        }
    }
}

/// An owned request, for deferred replies.
#[derive(Clone, Debug)]
pub struct OwnedRequest {
    bytes: Vec<u8>,
    head_len: usize,
    parsed: Head,
    client: Client<'static>,
    tls: Option<TlsInfo>,
    pattern: Option<Pattern>,
    identity: Option<Box<str>>,
    now: Time,
    unix_secs: i64,
}

impl OwnedRequest {
    /// Calls `f` with the original request.
    pub fn with<R>(&self, f: impl FnOnce(&Request<'_>) -> R) -> R {
        let (head, body) = self.bytes.split_at_checked(self.head_len).unwrap_or_default();
        let client = self.client.with_tls(self.tls.as_ref());
        let request = Request::new(head, &self.parsed, body).from_client(&client, self.now, self.unix_secs);
        let params = self.pattern.as_ref().map_or(Params::none(), |of| Params::of(of, request.path_bytes()));
        let found = Found { params, identity: self.identity.as_deref() };
        f(&request.with_found(&found))
    }

    /// Sets [`Request::identity`], for a guard that identifies the client in a job.
    #[must_use]
    pub fn identified(mut self, identity: &str) -> Self {
        self.identity = Some(identity.into());
        self
    }
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method())
            .field("target", &self.target())
            .field("version", &self.version())
            .field("headers", &self.headers())
            .field("body_len", &self.body.len())
            .finish()
    }
}

/// Supported versions; 1.2 to 1.9 count as 1.1 (RFC 9110 2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2. Never the version of a [`Request`], which always has the form of HTTP/1.
    Http2,
}

/// Converts a target or host, which was validated as visible ASCII.
#[inline]
fn text(bytes: &[u8]) -> &str {
    debug_assert!(bytes.is_ascii());
    std::str::from_utf8(bytes).unwrap_or_default()
}
