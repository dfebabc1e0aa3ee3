//! Who may change something.
//!
//! Does not know about: what it is that is changed.

use crate::config::model::Admin;
use crate::http::auth::Tokens;
use arc_swap::ArcSwap;
use hyper::HeaderMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// See the [module](self). What it wants may change.
pub(in crate::serve) struct Guard(ArcSwap<Wanted>);

/// What is wanted of whoever changes something.
enum Wanted {
    /// To be on this machine.
    Here,
    /// Nobody may.
    Nobody,
    Token(Tokens),
}

/// Why somebody may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// A page of another site asks in the name of whoever looks at it.
    CrossSite,
    /// Nobody asked for this listener, and so it only shows.
    OnlyShows,
    /// From another machine, and there is no token.
    Remote,
    /// Without the token.
    Token,
}

impl Guard {
    /// Of a listener that only shows.
    pub(in crate::serve) fn closed() -> Self {
        Self(ArcSwap::from_pointee(Wanted::Nobody))
    }

    /// Wants from now on what this configuration says.
    pub(in crate::serve) fn follow(&self, admin: Option<&Admin>) {
        self.0.store(Arc::new(admin.map_or(Wanted::Nobody, Wanted::of)));
    }

    /// Whether whoever sent these fields from there may change something.
    pub(super) fn admit(&self, headers: &HeaderMap, peer: SocketAddr) -> Result<(), Denied> {
        match &**self.0.load() {
            Wanted::Here => admit_local(headers, peer),
            Wanted::Nobody => Err(Denied::OnlyShows),
            Wanted::Token(tokens) => admit_bearer(tokens, headers),
        }
    }

    /// The same for what may only be done on this machine, with the token or without.
    pub(super) fn admit_here(&self, headers: &HeaderMap, peer: SocketAddr) -> Result<(), Denied> {
        admit_local(headers, peer)?;
        self.admit(headers, peer)
    }
}

impl Wanted {
    fn of(admin: &Admin) -> Self {
        if admin.by_itself {
            return Self::Nobody;
        }
        let Some(token) = &admin.token else { return Self::Here };
        let mut tokens = Tokens::new();
        // One that cannot be used was refused with the configuration; then nobody gets in.
        let _checked = tokens.add("admin", token.reveal().as_bytes());
        Self::Token(tokens)
    }
}

fn admit_bearer(tokens: &Tokens, headers: &HeaderMap) -> Result<(), Denied> {
    let presented = headers.get("authorization").map(hyper::header::HeaderValue::as_bytes);
    let token = presented.and_then(|value| match value.split_at_checked(7)? {
        (scheme, token) if scheme.eq_ignore_ascii_case(b"bearer ") => Some(token.trim_ascii()),
        _ => None,
    });
    token.and_then(|token| tokens.find(token)).map(|_| ()).ok_or(Denied::Token)
}

/// A browser on this machine is on it, too: what pages of other sites have it send is told by fields that they cannot set.
fn admit_local(headers: &HeaderMap, peer: SocketAddr) -> Result<(), Denied> {
    if !peer.ip().to_canonical().is_loopback() {
        return Err(Denied::Remote);
    }
    let site = headers.get("sec-fetch-site").map(hyper::header::HeaderValue::as_bytes);
    let is_same_site = matches!(site, None | Some(b"same-origin" | b"none"));
    let host = headers.get("host").and_then(|host| host.to_str().ok()).unwrap_or_default();
    let origin = headers.get("origin").map(hyper::header::HeaderValue::as_bytes);
    let is_same_origin = origin.is_none_or(|origin| origin == format!("http://{host}").as_bytes());
    if is_same_site && is_same_origin && (host.is_empty() || is_here(host)) {
        Ok(())
    } else {
        Err(Denied::CrossSite)
    }
}

/// Whether a `Host` is an address, or this machine: any other name may be one that somebody lets point here.
fn is_here(host: &str) -> bool {
    let name =
        host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(name, _)| name);
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CrossSite => "a page of another site may not ask for that",
            Self::OnlyShows => {
                "without --admin or `[admin]` this address only shows: use `doorbell drain` and the like"
            }
            Self::Remote => "without `admin.token` this is for clients on the same machine",
            Self::Token => "this needs `Authorization: Bearer` and the token of `admin.token`",
        })
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_token = matches!(**self.0.load(), Wanted::Token(_));
        f.debug_struct("Guard").field("has_token", &has_token).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::model::Secret;
    use hyper::header::{HeaderName, HeaderValue};

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
        Admin { token: token.map(|token| Secret::new(token.to_owned())), ..Admin::default() }
    }

    fn guard(token: Option<&str>) -> Guard {
        let guard = Guard::closed();
        guard.follow(Some(&admin(token)));
        guard
    }

    #[test]
    fn what_is_wanted_may_change() {
        let here: SocketAddr = "127.0.0.1:5000".parse().unwrap();
        let (none, bearer) = (headers(&[]), headers(&[("authorization", BEARER)]));
        let guard = Guard::closed();
        let both = || (guard.admit(&none, here), guard.admit(&bearer, here));
        assert_eq!(both(), (Err(Denied::OnlyShows), Err(Denied::OnlyShows)));
        for (admin, expect) in [
            (Some(admin(None)), (Ok(()), Ok(()))),
            (Some(admin(Some(TOKEN))), (Err(Denied::Token), Ok(()))),
            (Some(admin(Some("fedcba9876543210fedcba9876543210"))), (Err(Denied::Token), Err(Denied::Token))),
            (Some(Admin::by_itself()), (Err(Denied::OnlyShows), Err(Denied::OnlyShows))),
            (Some(admin(None)), (Ok(()), Ok(()))),
            (None, (Err(Denied::OnlyShows), Err(Denied::OnlyShows))),
        ] {
            guard.follow(admin.as_ref());
            assert_eq!(both(), expect, "{admin:?}");
        }
    }

    #[test]
    fn who_may() {
        use Denied::{CrossSite, Remote, Token};
        let here: SocketAddr = "127.0.0.1:5000".parse().unwrap();
        let mapped: SocketAddr = "[::ffff:127.0.0.1]:5000".parse().unwrap();
        let there: SocketAddr = "10.1.2.3:5000".parse().unwrap();
        let open: [(SocketAddr, Fields, Answer); 12] = [
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
            (there, &[("host", "10.1.2.3:9130")], Err(Remote)),
            (there, &[("authorization", BEARER)], Err(Remote)),
        ];
        for (peer, fields, expect) in open {
            let guard = guard(None);
            assert_eq!(guard.admit(&headers(fields), peer), expect, "{peer} {fields:?}");
            assert_eq!(guard.admit_here(&headers(fields), peer), expect, "{peer} {fields:?}");
        }
        let guarded: [(SocketAddr, Fields, Answer, Answer); 5] = [
            (here, &[("authorization", BEARER)], Ok(()), Ok(())),
            (there, &[("authorization", BEARER)], Ok(()), Err(Remote)),
            (there, &[("authorization", "Bearer 0123456789abcdef0123456789abcdee")], Err(Token), Err(Remote)),
            (here, &[], Err(Token), Err(Token)),
            (here, &[("authorization", TOKEN)], Err(Token), Err(Token)),
        ];
        let guard = guard(Some(TOKEN));
        for (peer, fields, expect, expect_here) in guarded {
            assert_eq!(guard.admit(&headers(fields), peer), expect, "{peer} {fields:?}");
            assert_eq!(guard.admit_here(&headers(fields), peer), expect_here, "{peer} {fields:?}");
        }
    }
}
