//! The guards of a route: rate limit, client certificate, token, concurrency. The guards apply in
//! this order, regardless of the order in the file: the rate limit precedes tokens, so that tokens
//! cannot be brute-forced.

mod auth;
pub(crate) mod browser;
pub(crate) mod client_limits;
pub(crate) mod subject;
pub(crate) mod token_jobs;

use crate::guards::client_limits::Tables;
use crate::guards::subject::{Promise, Subject};
use crate::guards::token_jobs::TokenJob;
use auth::{Auth, AuthReader};
use doorbell::Offload;
use doorbell::http::auth::Decision;
use doorbell::http::layer::{AtMost, RateLimit, RequireClientCert};
use doorbell::http::limit;
use doorbell::http::{Replied, Request, Responder};
use doorbell::offload::Class;
use doorbell_proxy_config::model::{self, Config, LimitKey};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Objects that routes refer to by name, built once for all listeners.
#[derive(Debug)]
pub(crate) struct Common {
    tables: Arc<Tables>,
    auths: Vec<Auth>,
    /// Compute lane that verifies expensive signatures; without it, the worker verifies them.
    lane: Option<Offload>,
}

/// The guards of one route.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guards {
    limit: Option<RateLimit>,
    client_cert: Option<RequireClientCert>,
    auth: Vec<Auth>,
    lane: Option<Offload>,
    at_most: Option<AtMost>,
}

/// Error message with the name of the unusable part of the configuration.
pub(crate) type Refusal = String;

impl Common {
    /// Builds the token policies of a configuration, and the watchers of their key files.
    pub(crate) fn build(
        config: &Config,
        tables: Arc<Tables>,
        lane: Option<Offload>,
    ) -> Result<(Self, Vec<AuthReader>), Refusal> {
        let mut auths = Vec::new();
        let mut readers = Vec::new();
        for auth in &config.auth {
            let (auth, reader) = Auth::build(auth)?;
            auths.push(auth);
            readers.extend(reader);
        }
        Ok((Self { tables, auths, lane }, readers))
    }

    /// The compute lane for jobs of this class, if any of these policies has keys with expensive
    /// signatures.
    fn lane_for(&self, positions: &[usize], config: &Config, class: Class) -> Option<Offload> {
        let is_heavy = |position: &usize| config.auth.get(*position).is_some_and(model::Auth::is_heavy);
        let lane = self.lane.clone().filter(|_| positions.iter().any(is_heavy));
        lane.map(|lane| lane.class(class))
    }

    /// The limits, with their counters.
    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The compute lane, if a route needs one.
    pub(crate) const fn lane(&self) -> Option<&Offload> {
        self.lane.as_ref()
    }
}

impl Guards {
    /// Builds the guards of a route on a listener, by position. A rate limit may exempt health
    /// routes.
    pub(crate) fn build(position: usize, listener: usize, config: &Config, common: &Common) -> Self {
        let Some(route) = config.routes.get(position) else { return Self::default() };
        let is_probe = route.is_probe();
        let needs_cert = config.needs_client_cert(listener, route);
        let client_cert = needs_cert.then(|| {
            RequireClientCert::named(route.client_names.iter().map(|name| name.value.clone()).collect())
        });
        let limit = route.limit.as_ref().and_then(|link| {
            let limit = config.limits.get(link.position)?;
            let limiter = Arc::clone(common.tables.limiter(link.position)?);
            let v6_len = config.runtime.client_ipv6_prefix;
            let rate_limit = RateLimit::new(limiter, limit_key(&limit.key, v6_len)).client_v6_len(v6_len);
            let rate_limit = rate_limit.exempt_probes(limit.exempt_probes).send_fields(limit.headers);
            (!(limit.exempt_probes && is_probe)).then_some(rate_limit)
        });
        let positions: Vec<usize> = route.auth.iter().map(|link| link.position).collect();
        let auth = positions.iter().filter_map(|position| common.auths.get(*position).cloned()).collect();
        // Tokens of probes are verified before those of other requests.
        let class = if is_probe { Class::High } else { Class::Normal };
        let lane = common.lane_for(&positions, config, class);
        let at_most = common.tables.of_route(&route.name).cloned();
        Self { limit, client_cert, auth, lane, at_most }
    }

    /// Whether there are no guards.
    pub(crate) const fn is_open(&self) -> bool {
        self.limit.is_none() && self.client_cert.is_none() && self.auth.is_empty() && self.at_most.is_none()
    }

    /// Whether a guard may depend on the client's address.
    pub(crate) const fn wants_client(&self) -> bool {
        self.limit.is_some()
    }

    /// Calls `serve` for an admitted request, or refuses the request. Stores the name of a token's
    /// holder in `subject`. A token that is expensive to verify is passed to `defer`, which calls
    /// [`Self::apply_verified`] after the verification.
    ///
    /// A guard takes the responder only to refuse, or to check a token that is not static, so that
    /// most admitted requests do not move the responder.
    #[inline(always)]
    pub(crate) fn apply<'a>(
        &self,
        request: &Request<'_>,
        mut reply: Responder<'a>,
        mut subject: Option<&mut Subject>,
        defer: impl FnOnce(TokenJob, Option<Promise>, Responder<'a>) -> Replied<'a>,
        serve: impl FnOnce(Responder<'_>) -> Replied<'_>,
    ) -> Replied<'a> {
        if let Some(limit) = &self.limit
            && let Err(checked) = limit.ask(request, &mut reply)
        {
            return limit.refuse(checked, reply);
        }
        if let Some(client_cert) = &self.client_cert
            && !client_cert.allows(request)
        {
            return client_cert.refuse(request, reply);
        }
        if let Some((first, others)) = self.auth.split_first()
            && !first.admits_static(request, &mut subject)
        {
            if let Some(token_job) = token_job_for(self.lane.as_ref(), first, others, request) {
                return defer(token_job, subject.map(Subject::promise), reply);
            }
            match first.authorize(others, request, reply, &mut subject) {
                Ok(allowed) => reply = allowed,
                Err(answered) => return answered,
            }
        }
        self.apply_verified(reply, serve)
    }

    /// Applies the guards that follow the verification of a token.
    #[inline(always)]
    pub(crate) fn apply_verified<'a>(
        &self,
        reply: Responder<'a>,
        serve: impl FnOnce(Responder<'_>) -> Replied<'_>,
    ) -> Replied<'a> {
        match &self.at_most {
            None => serve(reply),
            Some(at_most) => at_most.around(reply, serve),
        }
    }
}

/// Returns the job that verifies the token of a request; `None` without a compute lane, or if
/// verifying is cheap.
#[inline(never)]
fn token_job_for(
    lane: Option<&Offload>,
    first: &Auth,
    others: &[Auth],
    request: &Request<'_>,
) -> Option<TokenJob> {
    let lane = lane?;
    let is_heavy = |auth: &Auth| auth.with(|auth| auth.is_heavy_for(request));
    if !is_heavy(first) && !others.iter().any(is_heavy) {
        return None;
    }
    Some(TokenJob::new(lane.clone(), first.load(), others.iter().map(Auth::load).collect()))
}

/// Decides which clients see the details of health replies; refuses no request.
#[derive(Clone, Debug)]
pub(crate) struct Viewers {
    auth: Vec<Auth>,
    /// Compute lane that verifies expensive signatures.
    lane: Option<Offload>,
}

impl Viewers {
    /// Admits the clients that one of these policies admits; without policies, all clients.
    pub(crate) fn build(positions: &[usize], config: &Config, common: &Common) -> Self {
        let auth = positions.iter().filter_map(|position| common.auths.get(*position).cloned()).collect();
        Self { auth, lane: common.lane_for(positions, config, Class::High) }
    }

    /// Whether all clients see details.
    pub(crate) const fn are_all(&self) -> bool {
        self.auth.is_empty()
    }

    /// Whether some tokens are expensive to verify.
    pub(crate) const fn have_jobs(&self) -> bool {
        self.lane.is_some()
    }

    /// Returns the job that verifies the token of a request; `None` if [`Self::admit`] is about as
    /// fast.
    pub(crate) fn token_job_for(&self, request: &Request<'_>) -> Option<TokenJob> {
        let (first, others) = self.auth.split_first()?;
        token_job_for(self.lane.as_ref(), first, others, request)
    }

    /// Whether the client of a request sees details.
    pub(crate) fn admit(&self, request: &Request<'_>) -> bool {
        if self.auth.is_empty() {
            return true;
        }
        let allows = |auth: &Auth| auth.with(|auth| matches!(auth.decide(request), Decision::Allowed(_)));
        request.header("authorization").is_some() && self.auth.iter().any(allows)
    }
}

/// A random seed, so that clients cannot cause hash collisions.
pub(crate) fn seed() -> [u64; 2] {
    [0, 1].map(|part| RandomState::new().hash_one(part))
}

/// Converts the key of a limit. `v6_len` is the default prefix length of an IPv6 client.
fn limit_key(key: &LimitKey, v6_len: u8) -> limit::Key {
    match key {
        LimitKey::Header(name) => limit::Key::Header(name.as_str().into()),
        LimitKey::Ip => limit::Key::Ip,
        LimitKey::Prefix { v4_len, v6_len: own } => {
            limit::Key::Prefix { v4_len: *v4_len, v6_len: own.unwrap_or(v6_len) }
        }
        LimitKey::Token => limit::Key::Token,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_proxy_config::{Source, parse};

    #[test]
    fn a_route_has_one_limit_on_all_its_listeners() {
        let text = "version = 1\n[listener.a]\nbind = \":8080\"\n[listener.b]\nbind = \":8081\"\n\
                    [route.r]\nlistener = [\"a\", \"b\"]\npath = \"/r\"\nconcurrent = 1\nreply = {}\n\
                    [route.s]\nlistener = \"a\"\npath = \"/s\"\nconcurrent = 1\nreply = {}\n";
        let source = Source { name: "f".to_owned(), text: text.to_owned() };
        let config = parse(&source, &|_| None).config.unwrap();
        let tables = Arc::new(Tables::after(&Tables::default(), &config).unwrap());
        let (common, _) = Common::build(&config, tables, None).unwrap();
        let at_most = |route, listener| Guards::build(route, listener, &config, &common).at_most.unwrap();
        let (here, there, other) = (at_most(0, 0), at_most(0, 1), at_most(1, 0));
        let place = here.enter();
        assert!(place.is_some() && there.enter().is_none() && other.enter().is_some());
        drop(place);
        assert!(there.enter().is_some());
        let refused: Vec<_> = common.tables().counted().map(|counted| counted.refused()).collect();
        assert_eq!(refused, [("busy", 1), ("busy", 0)]);
    }
}
