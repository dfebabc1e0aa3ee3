//! The request of a probe, from a module and a target, and the requests that follow redirects.

use super::module::Module;
use doorbell_checks::options::{
    Address, CheckKind, ClientTls, FieldValue, FollowRedirects, HostPort, HttpCheck, Url,
};
use doorbell_checks::{Seen, is_same_origin, url_of_location};
use hyper::Method;
use std::net::SocketAddr;

/// A check of a target whose address is not known yet.
pub(super) struct ProbeRequest {
    kind: CheckKind,
    at: HostPort,
    follows: FollowRedirects,
}

impl ProbeRequest {
    /// Parses a target; `None` if it is invalid for the module.
    pub(super) fn parse(module: &Module, target: &str) -> Option<Self> {
        let mut kind = module.kind.clone();
        let mut follows = FollowRedirects::No;
        let at = match &mut kind {
            // blackbox_exporter accepts an IPv6 address without brackets.
            CheckKind::Dns(_) => HostPort::parse(target, Some(53))
                .or_else(|| Some(HostPort { port: 53, ..HostPort::parse_host(target)? }))?,
            CheckKind::Grpc(_) | CheckKind::Tcp(_) | CheckKind::Udp(_) => HostPort::parse(target, None)?,
            CheckKind::Icmp(_) => HostPort::parse_host(target)?,
            CheckKind::Http(http) => {
                let is_url = target.starts_with("http://") || target.starts_with("https://");
                http.url = if is_url { Url::parse(target) } else { Url::parse(&format!("http://{target}")) }?;
                follows = http.follow_redirects;
                // Each redirect becomes a request of its own, whose address is checked first.
                http.follow_redirects = FollowRedirects::No;
                http.url.at.clone()
            }
            CheckKind::Redis(_) => HostPort::parse(target, Some(6379))?,
            CheckKind::Tls(_) => HostPort::parse(target, Some(443))?,
            _ => return None,
        };
        Some(Self { kind, at, follows })
    }

    pub(super) const fn at(&self) -> &HostPort {
        &self.at
    }

    /// Returns a check of exactly this address, with the host name of the target.
    pub(super) fn kind(&self, addr: SocketAddr) -> CheckKind {
        let at = HostPort { host: addr.ip().to_string(), port: addr.port() };
        let place = Address::Tcp(at.clone());
        let name = |tls: &mut ClientTls| {
            tls.server_name.get_or_insert_with(|| self.at.host.clone());
        };
        let mut kind = self.kind.clone();
        match &mut kind {
            CheckKind::Dns(dns) => dns.server = at,
            CheckKind::Grpc(grpc) => {
                grpc.tls.as_mut().map(name);
                grpc.address = place;
            }
            CheckKind::Http(http) => http.address = Some(place),
            CheckKind::Icmp(icmp) => icmp.host = at,
            CheckKind::Redis(redis) => {
                redis.tls.as_mut().map(name);
                redis.address = place;
            }
            CheckKind::Tcp(tcp) => tcp.address = place,
            CheckKind::Tls(tls) => {
                name(&mut tls.tls);
                tls.address = place;
            }
            CheckKind::Udp(udp) => udp.address = place,
            _ => {}
        }
        kind
    }

    /// Whether the response is a redirect, followed or not.
    pub(super) fn is_redirected(seen: &Seen) -> bool {
        let is_redirect = matches!(seen.status, Some(301 | 302 | 303 | 307 | 308));
        is_redirect && seen.location.as_deref().is_some_and(|to| !to.is_empty())
    }

    /// The request of a redirect, if it is followed and its location is a valid URL.
    pub(super) fn redirected(&self, seen: &Seen) -> Option<Self> {
        let CheckKind::Http(http) = &self.kind else { return None };
        let to = seen.location.as_deref().filter(|_| Self::is_redirected(seen))?;
        let url = url_of_location(&http.url, to)?;
        let is_followed = match self.follows {
            FollowRedirects::All => true,
            FollowRedirects::No => false,
            FollowRedirects::SameHost => url.at.host.eq_ignore_ascii_case(&http.url.at.host),
        };
        if !is_followed {
            return None;
        }
        let mut next = HttpCheck::clone(http);
        // Redirects continue with GET or HEAD, except 307 and 308 (RFC 9110 15.4).
        if !matches!(seen.status, Some(307 | 308)) {
            if next.method != Method::HEAD {
                next.method = Method::GET;
            }
            next.body = String::new();
            next.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        }
        if url.at != http.url.at {
            next.proxy_protocol = None;
            next.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("host"));
        }
        if !is_same_origin(&url, &http.url) {
            remove_credentials(&mut next);
        }
        next.url = url;
        let at = next.url.at.clone();
        Some(Self { kind: next.into(), at, follows: self.follows })
    }
}

/// Removes all credentials, because the next target is of another origin.
fn remove_credentials(http: &mut HttpCheck) {
    (http.basic, http.bearer) = (None, None);
    http.headers.retain(|(_, value)| matches!(value, FieldValue::Open(_)));
    (http.tls.cert, http.tls.key) = (None, None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_checks::options::{DnsCheck, IcmpCheck, ProxyHeader, UdpCheck};
    use doorbell_config::Secret;
    use std::time::Duration;

    fn module(kind: impl Into<CheckKind>) -> Module {
        Module { name: "own".into(), timeout: Duration::from_secs(1), kind: kind.into() }
    }

    #[test]
    fn targets_of_datagrams() {
        let host = || HostPort::default();
        let dns = || module(DnsCheck::new(host(), "a.test".to_owned()));
        let icmp = || module(IcmpCheck::new(host()));
        let udp = || module(UdpCheck::new(Address::Tcp(host())));
        for (module, target, expected) in [
            (dns(), "ns.test", Some("ns.test:53")),
            (dns(), "192.0.2.1:5353", Some("192.0.2.1:5353")),
            (dns(), "2001:db8::53", Some("[2001:db8::53]:53")),
            (dns(), "unix:/run/a.sock", None),
            (icmp(), "a.test", Some("a.test")),
            (icmp(), "2001:db8::1", Some("2001:db8::1")),
            (icmp(), "a.test:80", None),
            (udp(), "[::1]:8125", Some("[::1]:8125")),
            (udp(), "a.test", None),
            (udp(), "unix:/run/a.sock", None),
        ] {
            let found = ProbeRequest::parse(&module, target);
            assert_eq!(found.as_ref().map(|asked| asked.at().to_string()).as_deref(), expected, "{target}");
            let Some(asked) = found else { continue };
            // The check goes to the address that was allowed.
            let kind = asked.kind(SocketAddr::from(([192, 0, 2, 9], asked.at().port)));
            assert_eq!(kind.remote().unwrap().host, "192.0.2.9", "{target}");
        }
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        let secret = || Secret::new("hunter2".to_owned());
        let http = HttpCheck {
            method: Method::POST,
            body: "x".to_owned(),
            follow_redirects: FollowRedirects::All,
            proxy_protocol: Some(ProxyHeader::V1),
            bearer: Some(secret()),
            headers: vec![
                ("Host".to_owned(), FieldValue::Open("shop".to_owned())),
                ("Cookie".to_owned(), FieldValue::Secret(secret())),
                ("Accept".to_owned(), FieldValue::Open("a/b".to_owned())),
            ],
            ..HttpCheck::default()
        };
        let first = ProbeRequest::parse(&module(http), "http://a:81/x").unwrap();
        let seen = |status, location: &str| Seen {
            status: Some(status),
            location: Some(location.to_owned()),
            ..Seen::default()
        };
        for (status, location, expected) in [
            (302, "/y", "GET http://a:81/y proxied true Host Cookie Accept"),
            (307, "/y", "POST http://a:81/y proxied true Host Cookie Accept"),
            (302, "http://a:82/", "GET http://a:82/ false Accept"),
            (302, "https://a:81/", "GET https://a:81/ proxied false Host Accept"),
            (302, "http://b:81/", "GET http://b:81/ false Accept"),
        ] {
            let next = first.redirected(&seen(status, location)).unwrap();
            let CheckKind::Http(http) = &next.kind else { panic!("a redirect is an HTTP request") };
            let proxied = if http.proxy_protocol.is_some() { " proxied" } else { "" };
            let names: Vec<&str> = http.headers.iter().map(|(name, _)| name.as_str()).collect();
            let shown = format!(
                "{} {}{proxied} {} {}",
                http.method,
                http.url,
                http.bearer.is_some(),
                names.join(" ")
            );
            assert_eq!(shown, expected, "{status} {location}");
            // The first origin again, but another origin chose the target.
            let CheckKind::Http(back) = next.redirected(&seen(302, "http://a:81/")).unwrap().kind else {
                panic!("a redirect is an HTTP request")
            };
            assert!(http.bearer.is_some() || back.bearer.is_none(), "{location}");
        }
        assert!(first.redirected(&seen(200, "/y")).is_none() && first.redirected(&seen(302, "")).is_none());
        let head = HttpCheck {
            method: Method::HEAD,
            follow_redirects: FollowRedirects::All,
            ..HttpCheck::default()
        };
        let next = ProbeRequest::parse(&module(head), "a").unwrap().redirected(&seen(303, "/y")).unwrap();
        assert!(matches!(next.kind, CheckKind::Http(http) if http.method == Method::HEAD));
        let stays = HttpCheck { follow_redirects: FollowRedirects::SameHost, ..HttpCheck::default() };
        let stays = ProbeRequest::parse(&module(stays), "a").unwrap();
        assert!(stays.redirected(&seen(302, "http://a:82/")).is_some());
        assert!(stays.redirected(&seen(302, "http://b/")).is_none());
    }
}
