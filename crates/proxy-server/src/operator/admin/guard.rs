//! Decides which requests may read and which may change state.

use crate::guards::browser::{is_cross_site, is_forwarded, is_own_host, may_hide_site};
use arc_swap::ArcSwap;
use doorbell::http::auth::Tokens;
use doorbell_proxy_config::model::Admin;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Decides which requests are allowed. A reload may replace the rules.
pub(crate) struct Guard(ArcSwap<Rules>);

/// The rules for requests.
struct Rules {
    change: Requirement,
    /// Allowed names in `Host`, in addition to IP addresses and names of this machine. If empty,
    /// remote clients may use any name.
    hosts: Vec<String>,
}

/// The addresses of both ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) peer: IpAddr,
    pub(super) local: IpAddr,
}

/// Requirement for requests that change state.
enum Requirement {
    /// A client on this machine.
    Local,
    /// No request may change anything.
    Never,
    Token(Tokens),
}

/// Why a request is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// A page of another site sent the request through the user's browser.
    CrossSite,
    /// A GET request that a page of another site may have sent: it lacks the fields that would tell.
    Get,
    /// `Host` is not an allowed name, so a page of another site may have sent the request.
    Host,
    /// The listener was not configured: the default listener is read-only.
    ReadOnly,
    /// Sent by a proxy on this machine, for an unknown client.
    Proxied,
    /// Sent from another machine, which requires a configured token.
    Remote,
    /// Sent from another machine or by a proxy, although the request is allowed only from this
    /// machine, even with the token.
    NotLocal,
    /// Sent without a valid token.
    Token,
}

impl Guard {
    /// A guard that denies every change.
    pub(crate) fn closed() -> Self {
        Self(ArcSwap::from_pointee(Rules { change: Requirement::Never, hosts: Vec::new() }))
    }

    /// Replaces the rules by those of a configuration.
    pub(crate) fn follow(&self, admin: Option<&Admin>) {
        let change = admin.map_or(Requirement::Never, Requirement::of);
        let hosts = admin.map(|admin| admin.hosts.clone()).unwrap_or_default();
        self.0.store(Arc::new(Rules { change, hosts }));
    }

    /// Whether a request may read. Protects against DNS rebinding: another site could read the page
    /// through a browser on this machine. `hosts` are all host names of the request.
    pub(super) fn admit_read<'a>(
        &self,
        headers: &HeaderMap,
        mut hosts: impl Iterator<Item = &'a [u8]>,
        ends: Ends,
    ) -> Result<(), Denied> {
        let rules = self.0.load();
        let is_checked = ends.is_local() || !rules.hosts.is_empty();
        if !is_checked || hosts.all(|host| is_own_host(host, &rules.hosts)) {
            return Ok(());
        }
        match &rules.change {
            Requirement::Token(tokens) if admit_bearer(tokens, headers).is_ok() => Ok(()),
            _ => Err(Denied::Host),
        }
    }

    /// Whether a request with this method and these header fields may change state.
    pub(super) fn admit(&self, method: &Method, headers: &HeaderMap, ends: Ends) -> Result<(), Denied> {
        let rules = self.0.load();
        match &rules.change {
            Requirement::Local => check_local(method, headers, ends, &rules.hosts),
            Requirement::Never => Err(Denied::ReadOnly),
            Requirement::Token(tokens) => admit_bearer(tokens, headers),
        }
    }

    /// Whether a request may change state that only clients on this machine may change; a token
    /// does not replace this condition.
    pub(super) fn admit_local(&self, method: &Method, headers: &HeaderMap, ends: Ends) -> Result<(), Denied> {
        check_local(method, headers, ends, &self.0.load().hosts).map_err(|why| match why {
            Denied::Proxied | Denied::Remote => Denied::NotLocal,
            other => other,
        })?;
        self.admit(method, headers, ends)
    }
}

impl Ends {
    /// Whether the peer, a client or a proxy, is on this machine.
    fn is_local(self) -> bool {
        self.peer.to_canonical().is_loopback() || self.peer == self.local
    }
}

impl Requirement {
    fn of(admin: &Admin) -> Self {
        if admin.is_implicit {
            return Self::Never;
        }
        let Some(token) = &admin.token else { return Self::Local };
        let mut tokens = Tokens::new();
        // An unusable token is a configuration error, found earlier. If adding the token fails
        // here, every change is denied.
        let _checked = tokens.add("admin", token.reveal().as_bytes());
        Self::Token(tokens)
    }
}

fn admit_bearer(tokens: &Tokens, headers: &HeaderMap) -> Result<(), Denied> {
    let presented = headers.get("authorization").map(HeaderValue::as_bytes);
    let token = presented.and_then(|value| match value.split_at_checked(7)? {
        (scheme, token) if scheme.eq_ignore_ascii_case(b"bearer ") => Some(token.trim_ascii()),
        _ => None,
    });
    token.and_then(|token| tokens.find(token)).map(|_| ()).ok_or(Denied::Token)
}

/// Admits a client on this machine. A browser or proxy on this machine may send requests for other
/// parties, so the header fields are checked. Of 127.0.0.0/8 only 127.0.0.1 is accepted: Istio's
/// proxy connects from 127.0.0.6 for remote clients.
fn check_local(method: &Method, headers: &HeaderMap, ends: Ends, hosts: &[String]) -> Result<(), Denied> {
    let peer = ends.peer.to_canonical();
    if peer != IpAddr::V4(Ipv4Addr::LOCALHOST) && peer != IpAddr::V6(Ipv6Addr::LOCALHOST) {
        return Err(Denied::Remote);
    }
    if is_forwarded(headers.keys().map(HeaderName::as_str)) {
        return Err(Denied::Proxied);
    }
    let field = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
    let is_own = |host: &[u8]| is_own_host(host, hosts);
    let host = field("host");
    if host.is_some_and(|host| !is_own(host)) || is_cross_site(field, host.unwrap_or_default(), is_own) {
        return Err(Denied::CrossSite);
    }
    // A request without `Host` is not from a browser.
    if method == Method::GET && host.is_some_and(|host| may_hide_site(field, host)) {
        return Err(Denied::Get);
    }
    Ok(())
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CrossSite => "cross-site request denied",
            Self::Get => {
                "a page of another site may have sent this GET: use POST, address localhost, or set `admin.token`"
            }
            Self::Host => {
                "unknown name in `Host`: use an IP address or localhost, or add the name to `admin.hosts`"
            }
            Self::ReadOnly => {
                "this address is read-only without --admin or `[admin]`: use `doorbell drain` or a similar command"
            }
            Self::NotLocal => {
                "only clients on the same machine may do this, directly and not through a proxy: use `doorbell quit` there"
            }
            Self::Proxied => "request from a proxy, so its client is unknown: set `admin.token`",
            Self::Remote => "without `admin.token` only clients on the same machine may do this",
            Self::Token => {
                "missing or wrong token: send `Authorization: Bearer` with the token of `admin.token`"
            }
        })
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_token = matches!(self.0.load().change, Requirement::Token(_));
        f.debug_struct("Guard").field("has_token", &has_token).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_proxy_config::model::Secret;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    const BEARER: &str = "Bearer 0123456789abcdef0123456789abcdef";

    type Fields = &'static [(&'static str, &'static str)];
    type Answer = Result<(), Denied>;

    fn headers(fields: Fields) -> HeaderMap {
        let field = |&(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        fields.iter().map(field).collect()
    }

    fn admin(token: Option<&str>) -> Admin {
        let token = token.map(|token| Secret::new(token.to_owned()));
        Admin { token, hosts: vec!["doorbell.example".to_owned()], ..Admin::default() }
    }

    fn ends(peer: &str) -> Ends {
        Ends { peer: peer.parse().unwrap(), local: "10.0.0.1".parse().unwrap() }
    }

    fn guard(token: Option<&str>) -> Guard {
        let guard = Guard::closed();
        guard.follow(Some(&admin(token)));
        guard
    }

    #[test]
    fn a_reload_replaces_the_rules() {
        let here = ends("127.0.0.1");
        let (none, bearer) = (headers(&[]), headers(&[("authorization", BEARER)]));
        let guard = Guard::closed();
        let both = || (guard.admit(&Method::GET, &none, here), guard.admit(&Method::GET, &bearer, here));
        assert_eq!(both(), (Err(Denied::ReadOnly), Err(Denied::ReadOnly)));
        for (admin, expect) in [
            (Some(admin(None)), (Ok(()), Ok(()))),
            (Some(admin(Some(TOKEN))), (Err(Denied::Token), Ok(()))),
            (Some(admin(Some("fedcba9876543210fedcba9876543210"))), (Err(Denied::Token), Err(Denied::Token))),
            (Some(Admin::implicit()), (Err(Denied::ReadOnly), Err(Denied::ReadOnly))),
            (Some(admin(None)), (Ok(()), Ok(()))),
            (None, (Err(Denied::ReadOnly), Err(Denied::ReadOnly))),
        ] {
            guard.follow(admin.as_ref());
            assert_eq!(both(), expect, "{admin:?}");
        }
    }

    #[test]
    fn requests_that_may_change_something() {
        use Denied::{CrossSite, NotLocal, Proxied, Remote, Token};
        let here = ends("127.0.0.1");
        let mapped = ends("::ffff:127.0.0.1");
        let there = ends("10.1.2.3");
        let istio = ends("127.0.0.6");
        let open: [(Ends, Fields, Answer); 21] = [
            (here, &[("host", "127.0.0.1:9130")], Ok(())),
            (mapped, &[("host", "[::1]:9130")], Ok(())),
            (here, &[], Ok(())),
            (here, &[("host", "localhost:9130"), ("origin", "http://localhost:9130")], Ok(())),
            (here, &[("host", "localhost"), ("sec-fetch-site", "same-origin")], Ok(())),
            (here, &[("host", "localhost"), ("sec-fetch-site", "none")], Ok(())),
            (here, &[("host", "localhost"), ("sec-fetch-site", "cross-site")], Err(CrossSite)),
            (here, &[("host", "localhost"), ("sec-fetch-site", "same-site")], Err(CrossSite)),
            (here, &[("host", "localhost"), ("origin", "https://evil.example")], Err(CrossSite)),
            (here, &[("host", "evil.example:9130")], Err(CrossSite)),
            (here, &[("host", "doorbell.example"), ("origin", "http://doorbell.example")], Ok(())),
            (here, &[("host", "evil.example"), ("origin", "http://evil.example")], Err(CrossSite)),
            (here, &[("host", "localhost"), ("x-forwarded-for", "10.1.2.3")], Err(Proxied)),
            (here, &[("host", "localhost"), ("x-forwarded-proto", "https")], Err(Proxied)),
            (here, &[("host", "localhost"), ("forwarded", "for=10.1.2.3")], Err(Proxied)),
            (here, &[("host", "localhost"), ("via", "1.1 proxy")], Err(Proxied)),
            (here, &[("host", "localhost"), ("x-real-ip", "10.1.2.3")], Err(Proxied)),
            (here, &[("x-envoy-external-address", "10.1.2.3")], Err(Proxied)),
            (istio, &[("host", "localhost")], Err(Remote)),
            (there, &[("host", "10.1.2.3:9130")], Err(Remote)),
            (there, &[("authorization", BEARER)], Err(Remote)),
        ];
        for (peer, fields, expect) in open {
            let guard = guard(None);
            let (post, fields) = (Method::POST, headers(fields));
            assert_eq!(guard.admit(&post, &fields, peer), expect, "{peer:?} {fields:?}");
            let expect_here =
                expect.map_err(|why| if matches!(why, Proxied | Remote) { NotLocal } else { why });
            assert_eq!(guard.admit_local(&post, &fields, peer), expect_here, "{peer:?} {fields:?}");
        }
        let guarded: [(Ends, Fields, Answer, Answer); 6] = [
            (here, &[("authorization", BEARER)], Ok(()), Ok(())),
            (here, &[("authorization", BEARER), ("via", "1.1 proxy")], Ok(()), Err(NotLocal)),
            (there, &[("authorization", BEARER)], Ok(()), Err(NotLocal)),
            (
                there,
                &[("authorization", "Bearer 0123456789abcdef0123456789abcdee")],
                Err(Token),
                Err(NotLocal),
            ),
            (here, &[], Err(Token), Err(Token)),
            (here, &[("authorization", TOKEN)], Err(Token), Err(Token)),
        ];
        let guard = guard(Some(TOKEN));
        for (peer, fields, expect, expect_here) in guarded {
            let (get, fields) = (Method::GET, headers(fields));
            assert_eq!(guard.admit(&get, &fields, peer), expect, "{peer:?} {fields:?}");
            assert_eq!(guard.admit_local(&get, &fields, peer), expect_here, "{peer:?} {fields:?}");
        }
    }

    /// For an `<img>` with the URL of a drain, browsers send neither `Origin` nor, to a name,
    /// `Sec-Fetch-Site`.
    #[test]
    fn a_get_that_may_be_of_another_site_changes_nothing() {
        let here = ends("127.0.0.1");
        let open = guard(None);
        for (fields, expect) in [
            (&[("host", "doorbell.example:9130")] as Fields, Err(Denied::Get)),
            (&[("host", "doorbell.example"), ("sec-fetch-site", "same-origin")], Ok(())),
            (&[("host", "doorbell.example"), ("sec-fetch-site", "cross-site")], Err(Denied::CrossSite)),
            (&[("host", "localhost:9130")], Ok(())),
            (&[("host", "127.0.0.1:9130")], Ok(())),
            (&[], Ok(())),
        ] {
            let headers = headers(fields);
            assert_eq!(open.admit(&Method::GET, &headers, here), expect, "{fields:?}");
            assert_eq!(open.admit_local(&Method::GET, &headers, here), expect, "{fields:?}");
        }
        let named = headers(&[("host", "doorbell.example:9130"), ("authorization", BEARER)]);
        assert_eq!(open.admit(&Method::POST, &named, here), Ok(()), "not from a browser");
        assert_eq!(guard(Some(TOKEN)).admit(&Method::GET, &named, here), Ok(()));
    }

    #[test]
    fn a_name_of_another_site_reads_nothing_here() {
        let (here, there) = (ends("127.0.0.1"), ends("10.1.2.3"));
        let own = Ends { peer: here.local, local: here.local };
        let (plain, bearer) = (headers(&[]), headers(&[("authorization", BEARER)]));
        let open = guard(None);
        open.follow(Some(&Admin::implicit()));
        let named = guard(Some(TOKEN));
        for (host, ends, expect_open, expect_named) in [
            ("127.0.0.1:9130", here, Ok(()), Ok(())),
            ("localhost", own, Ok(()), Ok(())),
            ("doorbell.example", here, Err(Denied::Host), Ok(())),
            ("evil.example", here, Err(Denied::Host), Err(Denied::Host)),
            ("evil.example", own, Err(Denied::Host), Err(Denied::Host)),
            ("evil.example", there, Ok(()), Err(Denied::Host)),
            ("doorbell.example:9130", there, Ok(()), Ok(())),
        ] {
            let read = |guard: &Guard, headers: &HeaderMap| {
                guard.admit_read(headers, std::iter::once(host.as_bytes()), ends)
            };
            assert_eq!(read(&open, &plain), expect_open, "{host} {ends:?}");
            assert_eq!(read(&named, &plain), expect_named, "{host} {ends:?}");
            assert_eq!(read(&named, &bearer), Ok(()), "{host} {ends:?}");
        }
        let none = std::iter::empty();
        assert_eq!(open.admit_read(&plain, none, here), Ok(()), "HTTP/1.0");
        let both = [b"localhost".as_slice(), b"evil.example"];
        assert_eq!(open.admit_read(&plain, both.into_iter(), here), Err(Denied::Host));
    }
}
