//! `type = "http"`
//!
//! Does not know about: how a request is sent.

use super::super::super::statuses::Statuses;
use super::super::Secret;
use super::place::{ClientTls, Place, Resolve, Url};
use super::remote::CertificateRule;
use crate::http::Method;
use std::fmt;
use std::time::Duration;

/// `type = "http"`
#[derive(Clone, Debug, PartialEq)]
pub struct HttpCheck {
    /// With scheme, host and path.
    pub url: Url,
    /// Where to connect in the place of the host of the URL.
    pub address: Option<Place>,
    /// The method.
    pub method: Method,
    /// The content of the request.
    pub body: String,
    /// Whether requests say that they are not to be traced.
    pub traceparent: bool,
    /// Further header fields; `Host` replaces that of the URL.
    pub headers: Vec<(String, FieldValue)>,
    /// Sent as `Authorization: Basic`, to the host of the URL only: a name and a password.
    pub basic: Option<(String, Secret)>,
    /// Sent as `Authorization: Bearer`, to the host of the URL only.
    pub bearer: Option<Secret>,
    /// Which redirects are followed.
    pub follow_redirects: FollowRedirects,
    /// Bytes of the content that are read.
    pub body_bytes: u32,
    /// For `https`.
    pub tls: ClientTls,
    /// Which addresses of a name are taken.
    pub resolve: Resolve,
    /// What is well.
    pub expect: HttpExpect,
    /// What is well with a complaint.
    pub degraded: HttpDegraded,
    /// How long the certificate of an `https` URL must be good for.
    pub certificate: CertificateRule,
}

/// What a header field of a request says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// Something that everybody may see.
    Open(String),
    /// Who we are, for whoever believes that.
    Secret(Secret),
}

/// Of an `http` check: what is well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpExpect {
    /// The codes.
    pub status: Statuses,
    /// Which version is answered with.
    pub http_version: Option<HttpVersion>,
    /// A part of the content.
    pub body_contains: Option<String>,
    /// What matches the content.
    pub body_matches: Option<Pattern>,
    /// What is no part of the content.
    pub body_not_contains: Option<String>,
    /// What does not match the content.
    pub body_not_matches: Option<Pattern>,
    /// Fields of the answer by name, each with what matches its value.
    pub headers: Vec<(String, Pattern)>,
    /// Values in JSON content, each with its pointer (RFC 6901).
    pub json: Vec<(String, String)>,
    /// How long it may take.
    pub max_latency: Option<Duration>,
}

/// Of an `http` check: what is well with a complaint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpDegraded {
    /// The codes, whatever the content is.
    pub status: Statuses,
    /// A part of the content.
    pub body_contains: Option<String>,
    /// What matches the content.
    pub body_matches: Option<Pattern>,
    /// Fields of the answer by name, each with what matches its value.
    pub headers: Vec<(String, Pattern)>,
    /// Values in JSON content, each with its pointer.
    pub json: Vec<(String, String)>,
    /// What takes longer.
    pub max_latency: Option<Duration>,
}

/// Which redirects are followed; at most ten, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FollowRedirects {
    /// All.
    All,
    /// None.
    No,
    /// To the same host, as the kubelet does.
    #[default]
    SameHost,
}

/// A version of the protocol. Checks ask with HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    /// `HTTP/1.0`
    Http10,
    /// `HTTP/1.1`
    Http11,
}

impl HttpVersion {
    /// As a library has it.
    pub(crate) const fn as_version(self) -> hyper::Version {
        match self {
            Self::Http10 => hyper::Version::HTTP_10,
            Self::Http11 => hyper::Version::HTTP_11,
        }
    }
}

/// A regular expression, ready to be used.
#[derive(Clone)]
pub struct Pattern(regex_lite::Regex);

impl Pattern {
    /// Bytes of a compiled expression: what is written in a file must not take the memory of the program.
    const SIZE_MAX: usize = 64 << 10;

    /// # Errors
    /// When it is none, or too large.
    pub fn new(text: &str) -> Result<Self, regex_lite::Error> {
        regex_lite::RegexBuilder::new(text).size_limit(Self::SIZE_MAX).build().map(Self)
    }

    /// As it was written.
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
            status: Statuses::successful(),
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
    /// The text itself, for whoever sends it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        match self {
            Self::Open(text) => text,
            Self::Secret(secret) => secret.reveal(),
        }
    }
}

impl HttpCheck {
    /// Bytes that are read if nothing else is said. The kubelet reads 10 KiB.
    pub const BODY_BYTES: u32 = 64 << 10;

    /// The default for this address.
    #[must_use]
    pub fn of(url: Url) -> Self {
        Self {
            url,
            address: None,
            method: Method::Get,
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
