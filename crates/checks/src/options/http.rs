//! Options of `http` checks.
//!
//! Does not know about: how a request is sent.

use super::address::{Address, ClientTls, Resolve, Url};
use super::remote::CertificateRule;
use super::status::StatusSet;
use doorbell_config::Secret;
use hyper::Method;
use std::fmt;
use std::time::Duration;

/// Options of a check with `type = "http"`.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpCheck {
    /// Scheme, host, path and query.
    pub url: Url,
    /// Address to connect to instead of the host of the URL.
    pub address: Option<Address>,
    /// Request method.
    pub method: Method,
    /// Request content.
    pub body: String,
    /// Sends a `traceparent` that is not sampled.
    pub traceparent: bool,
    /// Further header fields; `Host` replaces that of the URL.
    pub headers: Vec<(String, FieldValue)>,
    /// Sent as `Authorization: Basic`, to the host of the URL only: a name and a password.
    pub basic: Option<(String, Secret)>,
    /// Sent as `Authorization: Bearer`, to the host of the URL only.
    pub bearer: Option<Secret>,
    /// Which redirects are followed.
    pub follow_redirects: FollowRedirects,
    /// Bytes of content to read.
    pub body_bytes: u32,
    /// TLS of `https` URLs.
    pub tls: ClientTls,
    /// Which addresses of a name are used.
    pub resolve: Resolve,
    /// Requirements; otherwise the check fails.
    pub expect: HttpExpect,
    /// Conditions under which the result is degraded.
    pub degraded: HttpDegraded,
    /// Required lifetime of the certificate of an `https` URL.
    pub certificate: CertificateRule,
}

/// Value of a header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// Plain text; may be shown.
    Open(String),
    /// A credential: sent to the origin of the URL only, and never shown.
    Secret(Secret),
}

/// Requirements of an `http` check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpExpect {
    /// Accepted status codes.
    pub status: StatusSet,
    /// Version of the response.
    pub http_version: Option<HttpVersion>,
    /// Text that is part of the content.
    pub body_contains: Option<String>,
    /// Expression that matches the content.
    pub body_matches: Option<Pattern>,
    /// Text that is not part of the content.
    pub body_not_contains: Option<String>,
    /// Expression that does not match the content.
    pub body_not_matches: Option<Pattern>,
    /// Header fields of the response, each with an expression for its value.
    pub headers: Vec<(String, Pattern)>,
    /// Values in JSON content by their pointer (RFC 6901).
    pub json: Vec<(String, String)>,
    /// Latency above which the check fails.
    pub max_latency: Option<Duration>,
}

/// Conditions under which the result of an `http` check is degraded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpDegraded {
    /// Status codes, whatever the content is.
    pub status: StatusSet,
    /// Text that is part of the content.
    pub body_contains: Option<String>,
    /// Expression that matches the content.
    pub body_matches: Option<Pattern>,
    /// Header fields of the response, each with an expression for its value.
    pub headers: Vec<(String, Pattern)>,
    /// Values in JSON content by their pointer.
    pub json: Vec<(String, String)>,
    /// Latency above which the result is degraded.
    pub max_latency: Option<Duration>,
}

/// Which redirects are followed; at most ten, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FollowRedirects {
    /// All redirects.
    All,
    /// No redirects.
    No,
    /// Redirects to the same host, as in the kubelet.
    #[default]
    SameHost,
}

/// Version of a response; requests use HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    /// `HTTP/1.0`
    Http10,
    /// `HTTP/1.1`
    Http11,
}

impl HttpVersion {
    pub(crate) const fn as_version(self) -> hyper::Version {
        match self {
            Self::Http10 => hyper::Version::HTTP_10,
            Self::Http11 => hyper::Version::HTTP_11,
        }
    }
}

/// A compiled regular expression.
#[derive(Clone)]
pub struct Pattern(regex_lite::Regex);

impl Pattern {
    /// Limit on the bytes of a compiled expression.
    const SIZE_MAX: usize = 64 << 10;

    /// Compiles an expression.
    ///
    /// # Errors
    /// It is invalid, or too large.
    pub fn new(text: &str) -> Result<Self, regex_lite::Error> {
        regex_lite::RegexBuilder::new(text).size_limit(Self::SIZE_MAX).build().map(Self)
    }

    /// The source text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether a part of the text matches.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl Default for HttpExpect {
    fn default() -> Self {
        Self {
            status: StatusSet::successful(),
            http_version: None,
            body_contains: None,
            body_matches: None,
            body_not_contains: None,
            body_not_matches: None,
            headers: Vec::new(),
            json: Vec::new(),
            max_latency: None,
        }
    }
}

impl FieldValue {
    /// The secret text, for sending.
    #[must_use]
    pub fn reveal(&self) -> &str {
        match self {
            Self::Open(text) => text,
            Self::Secret(secret) => secret.reveal(),
        }
    }
}

impl HttpCheck {
    /// Default of [`Self::body_bytes`]. The kubelet reads 10 KiB.
    pub const BODY_BYTES: u32 = 64 << 10;

    /// A `GET` request; any status from 200 to 299 is a success.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self {
            url,
            address: None,
            method: Method::GET,
            body: String::new(),
            traceparent: true,
            headers: Vec::new(),
            basic: None,
            bearer: None,
            follow_redirects: FollowRedirects::default(),
            body_bytes: Self::BODY_BYTES,
            tls: ClientTls::default(),
            resolve: Resolve::default(),
            expect: HttpExpect::default(),
            degraded: HttpDegraded::default(),
            certificate: CertificateRule::default(),
        }
    }
}
