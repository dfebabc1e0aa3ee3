//! Building a redirect. All errors of a configuration are found here.

use super::escape::is_clean_path;
use super::{Redirect, RedirectStatus, Scheme};
use crate::router::{ByteMap, host};
use std::fmt;

/// Builder of a [`Redirect`].
#[derive(Clone, Debug)]
pub struct RedirectBuilder {
    scheme: Scheme,
    port: Option<u16>,
    hosts: Vec<String>,
    canonical: Option<String>,
    path: String,
    keep_query: bool,
    status: RedirectStatus,
}

/// The reason why a redirect cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedirectBuildError {
    /// A host is neither a name nor an address literal.
    BadHost(String),
    /// The path template does not begin with `/` or `{path}`, has an unclosed or empty brace, or
    /// contains a byte that is not valid in a path.
    BadPath(String),
    /// There are neither hosts nor a canonical host, so the redirect would have to trust the
    /// request.
    NoHost,
    /// The port is 0.
    ZeroPort,
}

/// A part of a path template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Literal(Box<str>),
    Param(Box<str>),
    /// `{path}`: the path of the request.
    Path,
}

impl RedirectBuilder {
    pub(super) fn new(scheme: Scheme) -> Self {
        Self {
            scheme,
            port: None,
            hosts: Vec::new(),
            canonical: None,
            path: "{path}".into(),
            keep_query: true,
            status: RedirectStatus::default(),
        }
    }

    /// Sets the port of the location. By default it is the scheme's port, which is omitted. The
    /// port of the request is never used.
    #[must_use]
    pub const fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Adds a host whose requests are redirected to the same host.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Sets the host for requests with an unlisted host. Without a canonical host these requests
    /// get 421.
    #[must_use]
    pub fn canonical_host(mut self, host: impl Into<String>) -> Self {
        self.canonical = Some(host.into());
        self
    }

    /// Sets the path template: text, `{path}` for the path of the request, and `{name}` for a
    /// parameter of the route. Default `{path}`. To replace a prefix, route `/old/{*rest}` to
    /// `/new/{rest}`. [`Routes`](crate::routes::Routes) refuses a parameter that the route does not
    /// have. With another router such a parameter is empty; [`Redirect::param_names`] lists those of
    /// the template.
    #[must_use]
    pub fn path(mut self, template: impl Into<String>) -> Self {
        self.path = template.into();
        self
    }

    /// Sets whether the query is kept; default true.
    #[must_use]
    pub const fn keep_query(mut self, keep_query: bool) -> Self {
        self.keep_query = keep_query;
        self
    }

    /// Sets the status; default 308.
    #[must_use]
    pub const fn status(mut self, status: RedirectStatus) -> Self {
        self.status = status;
        self
    }

    /// Builds the redirect.
    ///
    /// # Errors
    /// The first setting that is invalid.
    pub fn build(self) -> Result<Redirect, RedirectBuildError> {
        let port = match self.port {
            Some(0) => return Err(RedirectBuildError::ZeroPort),
            Some(port) if port != self.scheme.default_port() => format!(":{port}"),
            _ => String::new(),
        };
        if self.hosts.is_empty() && self.canonical.is_none() {
            return Err(RedirectBuildError::NoHost);
        }
        let mut names = Vec::new();
        let mut origins: Vec<Box<str>> = Vec::new();
        for given in self.hosts.iter().chain(&self.canonical) {
            let name = host::canonical(given).ok_or_else(|| RedirectBuildError::BadHost(given.clone()))?;
            origins.push(format!("{}://{name}{port}", self.scheme.as_str()).into());
            names.push(name.into_bytes());
        }
        names.truncate(self.hosts.len());
        Ok(Redirect {
            hosts: ByteMap::new(names.into_iter().zip(0..)),
            origins,
            canonical: self.canonical.is_some(),
            path: parse_template(&self.path).ok_or(RedirectBuildError::BadPath(self.path))?.into(),
            keep_query: self.keep_query,
            status: self.status,
        })
    }
}

fn parse_template(template: &str) -> Option<Vec<Piece>> {
    if !template.starts_with('/') && !template.starts_with("{path}") {
        return None;
    }
    let mut pieces = Vec::new();
    let mut left = template;
    while !left.is_empty() {
        let (literal, rest) = left.split_at(left.find('{').unwrap_or(left.len()));
        if !literal.is_empty() {
            pieces.push(Piece::Literal(Some(literal).filter(|text| is_clean_path(text))?.into()));
        }
        left = rest;
        if let Some(rest) = left.strip_prefix('{') {
            let (name, rest) = rest.split_once('}')?;
            let good =
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            pieces.push(match name {
                "path" => Piece::Path,
                _ if good => Piece::Param(name.into()),
                _ => return None,
            });
            left = rest;
        }
    }
    Some(pieces)
}

impl fmt::Display for RedirectBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadHost(host) => write!(f, "`{host}` is not a host name or an address"),
            Self::BadPath(path) => write!(f, "`{path}` is not a path template"),
            Self::NoHost => f.write_str("a redirect needs a host or a canonical host"),
            Self::ZeroPort => f.write_str("port 0 is not valid"),
        }
    }
}

impl std::error::Error for RedirectBuildError {}
