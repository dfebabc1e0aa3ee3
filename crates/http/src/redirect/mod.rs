//! The `Location` of a redirect, written into the caller's buffer without an allocation.
//!
//! Entry points: [`Redirect::to`], [`Redirect::location`]; a [`Redirect`] is also a service.
//!
//! The result is always an absolute URL whose scheme, host and port come from the configuration. A
//! request only selects one of the listed hosts, so `Host: evil` and `//evil` cannot lead to
//! another site. Path and query are kept byte for byte, with two exceptions. Bytes that RFC 3986
//! forbids (backslash, quotes, braces and similar ones) are percent-encoded. Control bytes, bytes
//! outside ASCII, `#` and `%00` are refused.
#![expect(clippy::indexing_slicing, reason = "indices are those of existing elements")]

mod build;
mod escape;
mod service;
#[cfg(test)]
mod tests;

pub use crate::scheme::Scheme;
pub use build::{RedirectBuildError, RedirectBuilder};

use crate::router::{ByteMap, Params, host};
use build::Piece;
use escape::Sink;
use std::fmt;

/// The status of a redirect (RFC 9110 section 15.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RedirectStatus {
    /// 302: temporary; a client may change POST to GET.
    Found,
    /// 301: permanent; a client may change POST to GET.
    MovedPermanently,
    /// 308: permanent; the method is kept. The default.
    #[default]
    PermanentRedirect,
    /// 303: the result is at the location, to be fetched with GET.
    SeeOther,
    /// 307: temporary; the method is kept.
    TemporaryRedirect,
}

/// An immutable redirect that writes locations.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// Maps a listed host to its index in `origins`.
    hosts: ByteMap<true>,
    /// An origin such as `https://example.com:8443` for each listed host, followed by the canonical
    /// one, if any.
    origins: Vec<Box<str>>,
    /// Whether an unlisted host is redirected to the last origin instead of being refused.
    canonical: bool,
    path: Box<[Piece]>,
    keep_query: bool,
    status: RedirectStatus,
}

/// The parts of a request that determine its location.
#[derive(Clone, Copy, Debug)]
pub struct RedirectTarget<'a> {
    /// The `Host` field or the authority, with or without a port.
    pub host: Option<&'a [u8]>,
    /// The path as received, up to the `?`.
    pub path: &'a [u8],
    /// The part after the first `?`.
    pub query: Option<&'a [u8]>,
    /// The parameters of the route.
    pub params: Params<'a, 'a>,
}

/// The reason why a request has no location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedirectError {
    /// The path or the query contains a forbidden byte: 400.
    BadTarget,
    /// The location is the URL of the request, apart from the query: 404.
    LeadsBack,
    /// The host is not listed, and there is no canonical host: 421.
    Misdirected,
    /// The location does not fit into the buffer: 414.
    TooLong,
}

impl Redirect {
    /// Creates a builder for redirects to a scheme.
    #[must_use]
    pub fn to(scheme: Scheme) -> RedirectBuilder {
        RedirectBuilder::new(scheme)
    }

    /// The status of the reply.
    #[must_use]
    pub const fn status(&self) -> RedirectStatus {
        self.status
    }

    /// Names of the route parameters used in the path template.
    pub fn param_names(&self) -> impl Iterator<Item = &str> {
        self.path.iter().filter_map(|piece| match piece {
            Piece::Param(name) => Some(&**name),
            Piece::Literal(_) | Piece::Path => None,
        })
    }

    /// Writes the location for a request to the start of `buf` and returns it. The location is an
    /// absolute URL of visible ASCII.
    ///
    /// # Errors
    /// The error determines the status to send; the contents of `buf` are then unspecified.
    pub fn location<'b>(
        &self,
        target: &RedirectTarget<'_>,
        buf: &'b mut [u8],
    ) -> Result<&'b [u8], RedirectError> {
        let mut sink = Sink::new(buf);
        sink.push_clean(self.origin(target.host)?.as_bytes())?;
        for piece in &self.path {
            match piece {
                Piece::Literal(text) => sink.push_clean(text.as_bytes())?,
                Piece::Param(name) => sink.push_path(target.params.value(name).unwrap_or_default())?,
                Piece::Path if target.path.first() == Some(&b'/') => sink.push_path(target.path)?,
                Piece::Path => return Err(RedirectError::BadTarget),
            }
        }
        if let (true, Some(query)) = (self.keep_query, target.query) {
            sink.push_clean(b"?")?;
            sink.push_query(query)?;
        }
        sink.finish()
    }

    fn origin(&self, requested: Option<&[u8]>) -> Result<&str, RedirectError> {
        let listed = requested.and_then(|requested| host::find(&self.hosts, requested));
        match (listed, self.origins.last()) {
            (Some(place), _) => Ok(&self.origins[place as usize]),
            (None, Some(origin)) if self.canonical => Ok(origin),
            (None, _) => Err(RedirectError::Misdirected),
        }
    }
}

impl RedirectStatus {
    /// The redirect status with this code.
    #[must_use]
    pub const fn from_code(code: u16) -> Option<Self> {
        Some(match code {
            301 => Self::MovedPermanently,
            302 => Self::Found,
            303 => Self::SeeOther,
            307 => Self::TemporaryRedirect,
            308 => Self::PermanentRedirect,
            _ => return None,
        })
    }

    /// The code.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Found => 302,
            Self::MovedPermanently => 301,
            Self::PermanentRedirect => 308,
            Self::SeeOther => 303,
            Self::TemporaryRedirect => 307,
        }
    }
}

impl RedirectError {
    /// The status code of the reply.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::BadTarget => 400,
            Self::LeadsBack => 404,
            Self::Misdirected => 421,
            Self::TooLong => 414,
        }
    }
}

impl fmt::Display for RedirectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadTarget => "the request target contains a byte that must not be forwarded",
            Self::LeadsBack => "the location is the address of the request",
            Self::Misdirected => "the host is not listed",
            Self::TooLong => "the location is too long",
        })
    }
}

impl std::error::Error for RedirectError {}
