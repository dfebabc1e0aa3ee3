//! Options of `http` checks.

use super::address::{Address, ClientTls, Resolve, Url};
use super::proxy_header::ProxyHeader;
use super::remote::CertificateRule;
use super::status::{self, StatusSet};
use super::target::{remote_of, target};
use super::{fields, http_method, latency};
use doorbell_config::{Entry, Problem, Secret, Section, Table, Text, Words};
use hyper::Method;
use std::fmt;
use std::time::Duration;

/// An HTTP request.
#[derive(Clone, Debug, PartialEq, Table)]
#[table(check = Self::check)]
pub struct HttpCheck {
    /// URL to request, http or https. Required.
    #[key(required = "\"http://127.0.0.1:3000/healthz\"")]
    pub url: Url,
    /// Address to connect to instead of the host of the URL.
    pub address: Option<Address>,
    /// PROXY header before everything else: v1 or v2 with the addresses of the connection, or local
    /// (version 2 without addresses). Not sent after a redirect to another host or port, unless
    /// `address` is set.
    pub proxy_protocol: Option<ProxyHeader>,
    /// HTTP version of requests. auto: HTTP/2 if the server of an https URL chooses it by ALPN,
    /// otherwise HTTP/1.1. HTTP/2: by ALPN with https, with prior knowledge (h2c) with http.
    #[key(default = "HTTP/1.1")]
    pub http_version: RequestVersion,
    /// Request method.
    #[key(default = "GET", with = http_method)]
    pub method: Method,
    /// Request content.
    #[key(default = "")]
    pub body: String,
    /// Send a `traceparent` with the sampled flag cleared.
    #[key(default = true)]
    pub traceparent: bool,
    /// Further header fields; Host replaces the host of the URL. Credentials such as Cookie or
    /// X-Api-Key are secrets: after a redirect to another scheme, host or port they are not sent.
    #[key(with = fields)]
    pub headers: Vec<(String, FieldValue)>,
    /// Sent as `Authorization: Basic`, to the scheme, host and port of `url` only.
    #[key(with = basic)]
    pub basic: Option<(String, Secret)>,
    /// Sent as `Authorization: Bearer`, to the scheme, host and port of `url` only; preferably
    /// ${file:PATH}.
    pub bearer: Option<Secret>,
    /// Redirects to follow; same-host is what the kubelet does.
    #[key(default = "same-host")]
    pub follow_redirects: FollowRedirects,
    /// Maximum size of the content that is read.
    #[key(name = "max_body", default = "64KiB", range = "0B..=4MiB", size)]
    pub body_bytes: u32,
    /// TLS of an https URL.
    pub tls: ClientTls,
    /// Which addresses of the target host are used, and for how long.
    pub resolve: Resolve,
    /// Requirements; the check fails if one is not met.
    #[key(flatten)]
    pub expect: HttpExpect,
    /// Conditions under which the result is degraded.
    #[key(flatten)]
    pub degraded: HttpDegraded,
    /// Limits on the remaining lifetime of the certificates of an https URL.
    #[key(flatten)]
    pub certificate: CertificateRule,
}

/// A name and a password.
#[derive(Clone, Debug, Table)]
struct Basic {
    /// Name.
    #[key(required = "\"NAME\"", read = basic_name)]
    username: String,
    /// Password, preferably ${file:PATH}.
    #[key(required = "\"${file:/run/secrets/NAME}\"")]
    password: Secret,
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
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct HttpExpect {
    /// Accepted status codes, such as "200", "200-399", "2xx", "200,204" or a list. Default:
    /// 200-299.
    #[key(table = "expect", default = "200-299", with = status)]
    pub status: StatusSet,
    /// Version of the response. Default: any.
    #[key(table = "expect")]
    pub http_version: Option<HttpVersion>,
    /// Text that is part of the content.
    #[key(table = "expect")]
    pub body_contains: Option<String>,
    /// Regular expression that matches the content.
    #[key(table = "expect")]
    pub body_matches: Option<Pattern>,
    /// Text that must not occur in the content that is read.
    #[key(table = "expect")]
    pub body_not_contains: Option<String>,
    /// Regular expression that must not match the content that is read.
    #[key(table = "expect")]
    pub body_not_matches: Option<Pattern>,
    /// Header fields of the response, each with a regular expression for its value.
    #[key(table = "expect", with = fields::patterns)]
    pub headers: Vec<(String, Pattern)>,
    /// Values in JSON content by their pointer (RFC 6901).
    #[key(table = "expect", with = fields::pointers)]
    pub json: Vec<(String, String)>,
    /// Latency above which the check fails. Default: `timeout`.
    #[key(table = "expect", range = "1ms..=10m")]
    pub max_latency: Option<Duration>,
}

/// Conditions under which the result of an `http` check is degraded.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct HttpDegraded {
    /// Status codes, such as "429" or ["4xx"], regardless of the content.
    #[key(table = "degraded", with = status)]
    pub status: StatusSet,
    /// Text that is part of the content.
    #[key(table = "degraded")]
    pub body_contains: Option<String>,
    /// Regular expression that matches the content.
    #[key(table = "degraded")]
    pub body_matches: Option<Pattern>,
    /// Header fields of the response, each with a regular expression for its value.
    #[key(table = "degraded", with = fields::patterns)]
    pub headers: Vec<(String, Pattern)>,
    /// Values in JSON content by their pointer (RFC 6901).
    #[key(table = "degraded", with = fields::pointers)]
    pub json: Vec<(String, String)>,
    /// Latency above which the result is degraded.
    #[key(table = "degraded", range = "1ms..=10m")]
    pub max_latency: Option<Duration>,
}

/// Which redirects are followed; at most ten in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum FollowRedirects {
    /// All redirects.
    All,
    /// No redirects.
    No,
    /// To the same host, as the kubelet does.
    SameHost,
}

/// Version of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum RequestVersion {
    /// The version that the server chooses by ALPN; `HTTP/1.1` without TLS.
    #[word("auto")]
    Auto,
    /// `HTTP/1.1`
    #[word("HTTP/1.1")]
    Http11,
    /// `HTTP/2`
    #[word("HTTP/2")]
    Http2,
}

/// Version of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum HttpVersion {
    /// `HTTP/1.0`
    #[word("HTTP/1.0")]
    Http10,
    /// `HTTP/1.1`
    #[word("HTTP/1.1")]
    Http11,
    /// `HTTP/2`
    #[word("HTTP/2")]
    Http2,
}

impl HttpVersion {
    pub(crate) const fn as_version(self) -> hyper::Version {
        match self {
            Self::Http10 => hyper::Version::HTTP_10,
            Self::Http11 => hyper::Version::HTTP_11,
            Self::Http2 => hyper::Version::HTTP_2,
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
    /// The expression is invalid or too large.
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

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Text for Pattern {
    fn parse(text: String, entry: &Entry<'_>) -> Option<Self> {
        Self::new(&text).map_or_else(
            |error| {
                let message = format!("this is not a regular expression: {error}");
                let help = "use the syntax of the regex crate, without look-around and back-references, in 'single quotes'";
                entry.refuse("bad-pattern", message, help)
            },
            Some,
        )
    }

    fn blank() -> Self {
        Self::new("").expect("the empty expression is valid")
    }
}

impl FieldValue {
    /// The text for sending, even if it is secret.
    #[must_use]
    pub fn reveal(&self) -> &str {
        match self {
            Self::Open(text) => text,
            Self::Secret(secret) => secret.reveal(),
        }
    }
}

target!(check: HttpCheck, remote_of(check.address.as_ref(), &check.url), Some(&check.tls));

impl HttpCheck {
    /// A `GET` request that expects a status from 200 to 299.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self { url, ..Self::default() }
    }

    fn check(&self, at: &Section<'_>) {
        self.check_authorization(at);
        self.check_version(at);
        let url = at.right_place("url");
        if let (Some(tls), Some(url), false) = (at.place("tls"), &url, self.url.is_https) {
            let problem = Problem::warning("no-effect", tls, "`tls` has no effect on an `http` URL");
            at.problem(problem.also(url.clone(), "not https").help("write \"https://\", or remove `tls`"));
        }
        // RFC 9110 9.3: content has no defined meaning with GET and HEAD, and is forbidden with
        // TRACE; some servers refuse it.
        let has_no_content = [Method::GET, Method::HEAD, Method::TRACE].contains(&self.method);
        if let Some(body) = at.right_place("body").filter(|_| has_no_content && !self.body.is_empty()) {
            let mut problem =
                Problem::error("contradiction", body, format!("{} has no content", self.method));
            if let Some(method) = at.right_place("method") {
                problem = problem.also(method, "the method");
            }
            at.problem(problem.help("add `method = \"POST\"`, or remove `body`"));
        }
        latency::check([self.expect.max_latency, self.degraded.max_latency], at);
        let keys = ["expect.certificate_expires_after", "degraded.certificate_expires_within"];
        let certificate = keys.into_iter().find_map(|key| at.right_place(key));
        if let (Some(certificate), Some(url), false) = (certificate, url, self.url.is_https) {
            let problem = Problem::error("contradiction", certificate, "an `http` URL has no certificate");
            at.problem(problem.also(url, "not https").help("write \"https://\", or remove it"));
        }
    }

    /// Refuses an expected version that no response to these requests has.
    fn check_version(&self, at: &Section<'_>) {
        let is_two = self.expect.http_version == Some(HttpVersion::Http2);
        let is_possible = match self.http_version {
            RequestVersion::Auto => true,
            RequestVersion::Http11 => !is_two,
            RequestVersion::Http2 => is_two,
        };
        if let Some(expected) = at.right_place("expect.http_version").filter(|_| !is_possible) {
            let message = "no response to these requests has this version";
            let mut problem = Problem::error("contradiction", expected, message);
            if let Some(sent) = at.right_place("http_version") {
                problem = problem.also(sent, "the version of requests");
            }
            let version = if is_two { "HTTP/2" } else { "HTTP/1.1" };
            at.problem(problem.help(format!("add `http_version = \"{version}\"`, or remove it")));
        }
    }

    /// Refuses a second `Authorization`, and invalid tokens.
    fn check_authorization(&self, at: &Section<'_>) {
        check_token(self.bearer.as_ref(), at);
        let (basic, bearer) = (at.right_place("basic"), at.right_place("bearer"));
        let twice = |place, other, label: &str| {
            let problem = Problem::error("contradiction", place, "`Authorization` is written twice");
            at.problem(problem.also(other, label).help("remove one of them"));
        };
        if let (Some(basic), Some(bearer)) = (&basic, &bearer) {
            twice(bearer.clone(), basic.clone(), "as `basic`");
        }
        let is_it = |name: &str| name.eq_ignore_ascii_case("authorization");
        let field = self.headers.iter().find(|(name, _)| is_it(name));
        let Some(field) = field.and_then(|(name, _)| at.place(&format!("headers.{name}"))) else { return };
        for (other, label) in [(basic, "as `basic`"), (bearer, "as `bearer`")] {
            if let Some(other) = other {
                twice(field.clone(), other, label);
            }
        }
    }
}

/// Reports a `bearer` that cannot be sent, without showing it.
pub(super) fn check_token(token: Option<&Secret>, at: &Section<'_>) {
    let is_good = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if let (Some(token), Some(place)) = (token, at.right_place("bearer"))
        && !is_good(token.reveal())
    {
        let problem = Problem::error("bad-token", place, "this cannot be sent as a token");
        at.problem(
            problem.help("a token consists of visible ASCII characters, without spaces and line breaks"),
        );
    }
}

fn basic_name(entry: &Entry<'_>) -> Option<String> {
    let name = entry.string()?;
    // RFC 7617 2
    if name.contains(':') || name.bytes().any(|byte| byte.is_ascii_control()) {
        let help = "write it without `:`, which separates name and password, and without line breaks";
        return entry.refuse("bad-value", "a name with `:` or a control character cannot be sent", help);
    }
    Some(name)
}

/// A table of a name and a password.
mod basic {
    use super::{Basic, Secret};
    use doorbell_config::{Entry, Json, Key, Table};

    pub(super) fn read(entry: &Entry<'_>) -> Option<Option<(String, Secret)>> {
        let Basic { username, password } = entry.read_table()?;
        Some(Some((username, password)))
    }

    #[expect(clippy::ref_option, reason = "signature required by the `Table` derive")]
    pub(super) fn dump(basic: &Option<(String, Secret)>) -> Option<Json> {
        let (username, password) = basic.clone()?;
        Some(Basic { username, password }.to_json(true))
    }

    pub(super) fn form(_: &Key) -> Json {
        Basic::schema()
    }
}
