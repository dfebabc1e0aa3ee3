//! One HTTP request on a new connection, and the redirects that are followed.

use crate::connect::connector::Conn;
use crate::connect::dialer::Dialer;
use crate::connect::tls::{Protocols, Tls, handshake};
use crate::finding::{Issue, Verdict, worse};
use crate::kinds::exchange::{Exchange, ResponseWithLocation, field};
use crate::kinds::expectations::{HttpResponse, evaluate, fails_pattern};
use crate::kinds::materials::Materials;
use crate::kinds::tls as tls_check;
use crate::kinds::traceparent::{TRACEPARENT, Unsampled};
use crate::options::{ClientTls, FollowRedirects, HostPort, HttpCheck, RequestVersion, Url, address_of};
use crate::progress::{Progress, Stage};
use base64::Engine as _;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use hyper::{Method, Request, Uri};
use std::borrow::Cow;
use tokio::time::Instant;

/// Maximum number of redirects per run. The kubelet follows one less.
const REDIRECTS_MAX: usize = 10;

pub(crate) const OUR_NAME: &str = concat!("doorbell/", env!("CARGO_PKG_VERSION"));

/// Checks one URL.
#[derive(Debug)]
pub(crate) struct HttpRunner {
    check: HttpCheck,
    method: Method,
    /// Request target of the check's URL.
    target: Uri,
    /// Header fields of a request to this URL, except `traceparent`.
    headers: HeaderMap,
    /// Names of the fields that contain credentials, sent to the origin of the URL only.
    credentials: Box<[HeaderName]>,
    body: Bytes,
    traces: Option<Unsampled>,
    dialer: Dialer,
    tls: Tls,
    /// TLS configuration for redirects to another origin, without the client certificate.
    tls_elsewhere: Tls,
}

impl HttpRunner {
    pub(crate) fn build(check: &HttpCheck, with: &mut Materials<'_>) -> Result<Self, String> {
        let at = address_of(check.address.as_ref(), &check.url);
        let dialer = with.dialer(&at, check.resolve).with_proxy_header(check.proxy_protocol);
        let pool = &mut with.shared.tls;
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(OUR_NAME));
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        for configured in &check.headers {
            let (name, value) = field(configured)?;
            headers.insert(name, value);
        }
        let basic = check.basic.as_ref().map(|(name, password)| {
            let both = base64::prelude::BASE64_STANDARD.encode(format!("{name}:{}", password.reveal()));
            format!("Basic {both}")
        });
        let bearer = check.bearer.as_ref().map(|bearer| format!("Bearer {}", bearer.reveal()));
        if let Some(authorization) = basic.or(bearer) {
            let mut value =
                HeaderValue::try_from(authorization).map_err(|_| "the token is not a valid field value")?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let credentials = headers.iter().filter(|(_, value)| value.is_sensitive());
        let credentials = credentials.map(|(name, _)| name.clone()).collect();
        let host = HeaderValue::try_from(check.url.authority());
        headers.entry(HOST).or_insert(host.map_err(|_| format!("{} cannot be requested", check.url))?);
        let target = check.url.target.parse().map_err(|_| format!("{} cannot be requested", check.url))?;
        // A configured `traceparent` takes precedence.
        let traces = check.traceparent && !headers.contains_key(TRACEPARENT);
        let method = Method::from_bytes(check.method.as_str().as_bytes());
        let method = method.map_err(|_| format!("{} is not a method", check.method))?;
        let needs_tls = check.url.is_https || check.follow_redirects != FollowRedirects::No;
        let protocols: Protocols = match check.http_version {
            RequestVersion::Auto => &["h2", "http/1.1"],
            RequestVersion::Http11 => &["http/1.1"],
            RequestVersion::Http2 => &["h2"],
        };
        let tls = if needs_tls { pool.take(&check.tls, protocols, check.url.is_https)? } else { Tls::None };
        let anonymous = ClientTls { cert: None, key: None, ..check.tls.clone() };
        let tls_elsewhere = match check.follow_redirects {
            FollowRedirects::No => Tls::None,
            _ => pool.take(&anonymous, protocols, false)?,
        };
        Ok(Self {
            check: check.clone(),
            method,
            target,
            headers,
            credentials,
            body: Bytes::copy_from_slice(check.body.as_bytes()),
            traces: traces.then(Unsampled::default),
            dialer,
            tls,
            tls_elsewhere,
        })
    }

    pub(crate) const fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// Whether redirects may lead to hosts outside the configuration.
    pub(crate) fn follows_other_hosts(&self) -> bool {
        self.check.follow_redirects == FollowRedirects::All
    }

    pub(crate) async fn run(&self, progress: &Progress, start: Instant) -> Verdict {
        let response = self.fetch(progress).await?;
        let latency = start.elapsed();
        let (expect, degraded) = (&self.check.expect, &self.check.degraded);
        let verdict = evaluate(&response, latency, expect, degraded);
        progress.see(|seen| seen.fails_pattern = fails_pattern(&response, expect));
        match progress.certificate() {
            // Of two equally bad verdicts, that of the response counts, not that of the
            // certificate.
            Some(_) => worse(verdict, tls_check::evaluate(progress, &self.check.certificate)),
            None => verdict,
        }
    }

    /// Sends the request, follows redirects, and returns the last response.
    pub(crate) async fn fetch(&self, progress: &Progress) -> Result<HttpResponse, Issue> {
        let mut url = Cow::Borrowed(&self.check.url);
        let mut elsewhere: Option<Dialer> = None;
        let (mut is_plain_get, mut is_home) = (false, true);
        for _redirect in 0..=REDIRECTS_MAX {
            let dialer = elsewhere.as_ref().unwrap_or(&self.dialer);
            let mut stream = dialer.connect(progress).await?;
            let request = self.request(&url, is_plain_get, is_home)?;
            let exchange = Exchange { request, len_max: self.check.body_bytes as usize, progress };
            let (answer, location) = if url.is_https {
                // Boxed, so that runs without TLS are small.
                Box::pin(self.over_tls(stream, exchange, &url, is_home)).await?
            } else if self.check.http_version == RequestVersion::Http2 {
                stream.close_with_fin();
                Box::pin(exchange.over_http2(stream, &url)).await?
            } else {
                exchange.over_http1(stream).await?
            };
            let status = answer.status;
            let Some(next) = self.next(&url, status, location)? else { return Ok(answer) };
            // A check with an explicit address connects to it for every redirect.
            if next.at != url.at && self.check.address.is_none() {
                let is_first = next.at == self.check.url.at;
                elsewhere = (!is_first).then(|| self.dialer.to(self.address_of(&next, progress)));
            }
            // A run has one connection at a time.
            progress.end().await;
            is_plain_get |= self.becomes_get(status);
            // A request that is redirected back to the first origin carries no credentials either,
            // because the other origin chose its target.
            is_home &= is_same_origin(&next, &self.check.url);
            url = Cow::Owned(next);
        }
        Err(Issue::failure(format!("more than {REDIRECTS_MAX} redirects")))
    }

    /// Performs the handshake and one exchange.
    async fn over_tls(
        &self,
        conn: Conn,
        exchange: Exchange<'_>,
        url: &Url,
        is_home: bool,
    ) -> Result<ResponseWithLocation, Issue> {
        let progress = exchange.progress;
        progress.enter(Stage::Handshake);
        let name = self.check.tls.server_name.as_deref().unwrap_or(&url.at.host);
        let tls = if is_home { &self.tls } else { &self.tls_elsewhere };
        let mut stream = handshake(tls, name, conn).await?;
        let (conn, session) = stream.get_mut();
        progress.see_tls(session, tls);
        if progress.certificate().is_none() {
            tls_check::evaluate(progress, &self.check.certificate)?;
        }
        let is_http2 = session.alpn_protocol() == Some(b"h2");
        if is_http2 {
            // In HTTP/2 the client closes first. It closes with FIN, because a reset would look
            // like a fault.
            conn.close_with_fin();
            return exchange.over_http2(stream, url).await;
        }
        if self.check.http_version == RequestVersion::Http2 {
            return Err(Issue::failure("the server did not choose HTTP/2 by ALPN"));
        }
        exchange.over_http1(stream).await
    }

    /// The address of a redirect's target. If the run checks one of several addresses of the host,
    /// a redirect to the same host stays at this address.
    fn address_of(&self, next: &Url, progress: &Progress) -> HostPort {
        let is_same_host = next.at.host.eq_ignore_ascii_case(&self.check.url.at.host);
        match progress.only().filter(|_| is_same_host) {
            Some(addr) => HostPort { host: addr.ip().to_string(), ..next.at.clone() },
            None => next.at.clone(),
        }
    }

    /// The target of a redirect, if it is followed.
    fn next(&self, from: &Url, status: u16, location: Option<HeaderValue>) -> Result<Option<Url>, Issue> {
        let follows = self.check.follow_redirects;
        // A redirect with an empty `Location` is not followed, as in Go's client, which the kubelet
        // uses.
        let leads =
            |location: &HeaderValue| matches!(status, 301 | 302 | 303 | 307 | 308) && !location.is_empty();
        let Some(location) = location.filter(leads) else {
            return Ok(None);
        };
        if follows == FollowRedirects::No {
            return Ok(None);
        }
        let to = join(from, location.as_bytes()).ok_or_else(|| {
            let text = String::from_utf8_lossy(location.as_bytes());
            Issue::failure(format!("status {status} redirects to {text:?}, which is not a URL"))
        })?;
        // As in the kubelet, the same host may have any port.
        let is_allowed = follows == FollowRedirects::All || to.at.host.eq_ignore_ascii_case(&from.at.host);
        Ok(is_allowed.then_some(to))
    }

    /// Whether a redirect with this status changes the method to `GET` (RFC 9110 15.4).
    fn becomes_get(&self, status: u16) -> bool {
        match status {
            301 | 302 => self.method == Method::POST,
            303 => self.method != Method::HEAD,
            _ => false,
        }
    }

    /// Builds a request. The header fields are prepared once and cloned for each request. Of the
    /// 53,000 user-space instructions of a run, cloning and dropping them takes 820, and hyper
    /// takes 1,240 to write them (callgrind). A pre-encoded request would save less than 5 % and
    /// needs a client of our own.
    fn request(&self, url: &Url, is_plain_get: bool, is_home: bool) -> Result<Request<Full<Bytes>>, Issue> {
        let body = if is_plain_get { Bytes::new() } else { self.body.clone() };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = if is_plain_get { Method::GET } else { self.method.clone() };
        *request.headers_mut() = self.headers.clone();
        let first = &self.check.url;
        if url == first {
            *request.uri_mut() = self.target.clone();
        } else {
            let unusable = || Issue::error(format!("{url} cannot be requested"));
            *request.uri_mut() = url.target.parse().map_err(|_| unusable())?;
            if url.at != first.at {
                let host = HeaderValue::try_from(url.authority()).map_err(|_| unusable())?;
                request.headers_mut().insert(HOST, host);
            }
        }
        let headers = request.headers_mut();
        if !is_home {
            for name in &self.credentials {
                headers.remove(name);
            }
        }
        if is_plain_get {
            headers.remove(CONTENT_TYPE);
        }
        if let Some(traces) = &self.traces
            && let Ok(value) = HeaderValue::from_bytes(&traces.next())
        {
            request.headers_mut().insert(HeaderName::from_static(TRACEPARENT), value);
        }
        Ok(request)
    }
}

/// Resolves a `Location` against the URL of the request (RFC 3986 5.2). Bytes outside ASCII are
/// percent-encoded, as in Go and in browsers.
#[must_use]
pub fn join(from: &Url, location: impl AsRef<[u8]>) -> Option<Url> {
    let location = percent_encoded(location.as_ref());
    let location = location.split('#').next().unwrap_or_default();
    if let Some((scheme, rest)) = split_scheme(location) {
        return Url::parse(&format!("{}:{rest}", scheme.to_ascii_lowercase())).map(without_dots);
    }
    let scheme = if from.is_https { "https" } else { "http" };
    if location.starts_with("//") {
        return Url::parse(&format!("{scheme}:{location}")).map(without_dots);
    }
    let path = from.target.split('?').next().unwrap_or_default();
    let target = if location.is_empty() {
        from.target.clone()
    } else if location.starts_with('/') {
        location.to_owned()
    } else if location.starts_with('?') {
        format!("{path}{location}")
    } else {
        let directory = path.rfind('/').map_or("/", |end| &path[..=end]);
        format!("{directory}{location}")
    };
    Url::parse(&format!("{scheme}://{}{target}", from.at)).map(without_dots)
}

/// Percent-encodes the bytes outside ASCII.
pub(crate) fn percent_encoded(location: &[u8]) -> String {
    let mut text = String::with_capacity(location.len());
    for byte in location {
        match byte {
            0..=0x7f => text.push(char::from(*byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// Removes `.` and `..` from the path (RFC 3986 5.2.4).
fn without_dots(url: Url) -> Url {
    let (path, query) = url.target.split_at(url.target.find('?').unwrap_or(url.target.len()));
    let mut kept: Vec<&str> = Vec::new();
    let mut ends_in_dots = false;
    // A path begins with a slash, so its first segment is empty.
    for segment in path.split('/').skip(1) {
        ends_in_dots = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let end = if ends_in_dots && !kept.is_empty() { "/" } else { "" };
    let target = format!("/{}{end}{query}", kept.join("/"));
    Url { target, ..url }
}

/// Whether both URLs have the same origin: scheme, host and port (RFC 6454 4). Credentials may then
/// be sent to both.
#[must_use]
pub fn is_same_origin(one: &Url, other: &Url) -> bool {
    one.is_https == other.is_https
        && one.at.port == other.at.port
        && one.at.host.eq_ignore_ascii_case(&other.at.host)
}

/// Splits at the colon of a scheme (RFC 3986 3.1). Any other colon is part of a path or query,
/// which may contain a whole URL.
fn split_scheme(location: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = location.split_once(':')?;
    let is_one = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_one.then_some((scheme, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 3986 5.4 except `g:h`, `g;x`, `g#s`, `g?y#s`, `g#s/./x`, `g#s/../x` and
    /// `http:g`, and three further references.
    #[test]
    fn references() {
        let from = Url::parse("http://a/b/c/d;p?q").unwrap();
        for (reference, expected) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g/"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("", "http://a/b/c/d;p?q"),
            ("#s", "http://a/b/c/d;p?q"),
            (";x", "http://a/b/c/;x"),
            ("g;x?y#s", "http://a/b/c/g;x?y"),
            (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../", "http://a/"),
            ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"),
            ("../../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            (".g", "http://a/b/c/.g"),
            ("g..", "http://a/b/c/g.."),
            ("..g", "http://a/b/c/..g"),
            ("./../g", "http://a/b/g"),
            ("./g/.", "http://a/b/c/g/"),
            ("g/./h", "http://a/b/c/g/h"),
            ("g/../h", "http://a/b/c/h"),
            ("g;x=1/./y", "http://a/b/c/g;x=1/y"),
            ("g;x=1/../y", "http://a/b/c/y"),
            ("g?y/./x", "http://a/b/c/g?y/./x"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
            ("http://c/x/../y/./z", "http://c/y/z"),
            ("//c/..//x", "http://c//x"),
            ("/x//../y", "http://a/x/y"),
        ] {
            let found = join(&from, reference).map(|url| url.to_string());
            assert_eq!(found.as_deref(), Some(expected), "{reference:?}");
        }
    }

    #[test]
    fn origins() {
        let url = |text: &str| Url::parse(text).unwrap();
        let first = url("https://a:8443/x");
        for (other, expected) in [
            ("https://a:8443/y?z", true),
            ("https://A:8443/", true),
            ("https://a:9443/x", false),
            ("http://a:8443/x", false),
            ("https://b:8443/x", false),
            ("https://a/x", false),
        ] {
            assert_eq!(is_same_origin(&first, &url(other)), expected, "{other}");
        }
        assert!(is_same_origin(&url("http://a/"), &url("http://a:80/x")));
    }

    #[test]
    fn locations() {
        let from = Url::parse("http://a:8080/x/y?z=1").unwrap();
        for (location, expected) in [
            ("/login", Some("http://a:8080/login")),
            ("login", Some("http://a:8080/x/login")),
            ("?w=2", Some("http://a:8080/x/y?w=2")),
            ("//b/x", Some("http://b/x")),
            ("https://b/x#top", Some("https://b/x")),
            ("http://b", Some("http://b/")),
            ("", Some("http://a:8080/x/y?z=1")),
            ("#top", Some("http://a:8080/x/y?z=1")),
            ("HTTPS://b/x", Some("https://b/x")),
            ("/login?next=http://c/", Some("http://a:8080/login?next=http://c/")),
            ("login?next=http://c/", Some("http://a:8080/x/login?next=http://c/")),
            ("?next=https://c/", Some("http://a:8080/x/y?next=https://c/")),
            ("/old/http://c/", Some("http://a:8080/old/http://c/")),
            ("//b/x?next=http://c/", Some("http://b/x?next=http://c/")),
            ("/x#http://c/", Some("http://a:8080/x")),
            ("ftp://b/x", None),
            ("mailto:b@c", None),
            ("1http://b/x", Some("http://a:8080/x/1http://b/x")),
            ("http://user@b/x", None),
            ("/a b", None),
            ("/\u{e9}", Some("http://a:8080/%C3%A9")),
            ("\u{e9}?\u{e9}#\u{e9}", Some("http://a:8080/x/%C3%A9?%C3%A9")),
            ("//\u{e9}/", None),
        ] {
            let found = join(&from, location).map(|url| url.to_string());
            assert_eq!(found.as_deref(), expected, "{location:?}");
        }
        let latin1 = join(&from, b"/caf\xe9").map(|url| url.to_string());
        assert_eq!(latin1.as_deref(), Some("http://a:8080/caf%E9"));
    }
}
