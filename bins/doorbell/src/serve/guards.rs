//! What stands before a route: rate limit, client certificate, token, requests at once; in this order, whatever the file's.
//!
//! Does not know about: routes, replies of those who get in. The cheapest question comes first, and a client that may not ask
//! often cannot guess tokens often.

use super::watch::{Look, Stamps, Watched, directories_of};
use crate::config::model::{self, Config, JwtAlgorithm, JwtKey, LimitKey};
use crate::http::auth::jwt::{Algorithm, Jwks, JwtPolicy, Key};
use crate::http::auth::{Decision, Policy, Tokens};
use crate::http::layer::{AtMost, Guard, RateLimit, RequireAuth, RequireClientCert};
use crate::http::limit::{self, Limiter, Quota};
use crate::http::{Answered, Request, Responder};
use arc_swap::ArcSwap;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Everything that routes refer to by name, made once for all listeners.
#[derive(Debug)]
pub(super) struct Common {
    limiters: Vec<Arc<Limiter>>,
    auths: Vec<Arc<ArcSwap<RequireAuth>>>,
}

/// What one route asks of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Guards {
    limit: Option<RateLimit>,
    client_cert: Option<RequireClientCert>,
    auth: Vec<Arc<ArcSwap<RequireAuth>>>,
    at_most: Option<AtMost>,
}

/// A part of the configuration that cannot be used, by its name.
pub(super) type Refusal = String;

impl Common {
    /// The limiters and token policies of a configuration, and what is to be watched.
    pub(super) fn build(config: &Config) -> Result<(Self, Vec<AuthReader>), Refusal> {
        let limiters = config.limits.iter().map(limiter).collect::<Result<_, _>>()?;
        let mut auths = Vec::new();
        let mut readers = Vec::new();
        for auth in &config.auth {
            let stamps = Stamps::of(key_path(auth));
            let policy = Arc::new(ArcSwap::from_pointee(require(auth)?));
            auths.push(Arc::clone(&policy));
            if key_path(auth).is_some() {
                readers.push(AuthReader { auth: auth.clone(), policy, stamps });
            }
        }
        Ok((Self { limiters, auths }, readers))
    }
}

impl Guards {
    /// The guards of one route. `needs_cert` is what the listener and the route come to; a route of probes may be free of limits.
    pub(super) fn build(
        guard: Option<&model::Guard>,
        needs_cert: bool,
        is_probe: bool,
        config: &Config,
        common: &Common,
    ) -> Self {
        let names = guard.map(|guard| guard.client_names.clone()).unwrap_or_default();
        let client_cert = needs_cert.then(|| RequireClientCert::named(names));
        let Some(guard) = guard else { return Self { client_cert, ..Self::default() } };
        let limit = guard.limit.and_then(|position| {
            let limit = config.limits.get(position)?;
            let limiter = Arc::clone(common.limiters.get(position)?);
            let by = RateLimit::new(limiter, limit_key(&limit.key));
            let by = by.exempt_probes(limit.exempt_probes).send_fields(limit.headers);
            (!(limit.exempt_probes && is_probe)).then_some(by)
        });
        let auth = guard.auth.iter().filter_map(|position| common.auths.get(*position).cloned()).collect();
        Self { limit, client_cert, auth, at_most: guard.concurrent.map(AtMost::new) }
    }

    /// True when nobody is asked anything.
    pub(super) const fn is_open(&self) -> bool {
        self.limit.is_none() && self.client_cert.is_none() && self.auth.is_empty() && self.at_most.is_none()
    }

    /// True when a question is about the client's address.
    pub(super) const fn wants_client(&self) -> bool {
        self.limit.is_some()
    }

    /// Answers for the route, or has `answer` do it.
    pub(super) fn pass<'a>(
        &self,
        request: &Request<'_>,
        mut reply: Responder<'a>,
        answer: impl FnOnce(Responder<'a>) -> Answered,
    ) -> Answered {
        if let Some(limit) = &self.limit {
            match limit.admit(request, reply) {
                Ok(admitted) => reply = admitted,
                Err(answered) => return answered,
            }
        }
        if let Some(client_cert) = &self.client_cert {
            match client_cert.admit(request, reply) {
                Ok(admitted) => reply = admitted,
                Err(answered) => return answered,
            }
        }
        match self.authorize(request, reply) {
            Ok(admitted) => reply = admitted,
            Err(answered) => return answered,
        }
        let Some(at_most) = &self.at_most else { return answer(reply) };
        match at_most.enter() {
            Some(_place) => answer(reply),
            None => at_most.refuse(reply),
        }
    }

    /// Any of the policies may let a request in; if none does, the first one says what it wants.
    fn authorize<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Result<Responder<'a>, Answered> {
        let Some((first, others)) = self.auth.split_first() else { return Ok(reply) };
        let first = first.load();
        let decision = first.decide(request);
        if matches!(decision, Decision::Allowed(_)) {
            return Ok(reply);
        }
        let is_allowed =
            |auth: &Arc<ArcSwap<RequireAuth>>| matches!(auth.load().decide(request), Decision::Allowed(_));
        if others.iter().any(is_allowed) { Ok(reply) } else { Err(first.refuse(&decision, reply)) }
    }
}

/// The side of `[auth.NAME]` that reads keys.
#[derive(Debug)]
pub(super) struct AuthReader {
    auth: model::Auth,
    policy: Arc<ArcSwap<RequireAuth>>,
    stamps: Stamps,
}

impl Watched for AuthReader {
    fn name(&self) -> String {
        format!("auth {}", self.auth.name)
    }

    fn directories(&self) -> Vec<PathBuf> {
        key_path(&self.auth).into_iter().flat_map(directories_of).collect()
    }

    fn look(&mut self) -> Look {
        let stamps = Stamps::of(key_path(&self.auth));
        if stamps == self.stamps {
            return Look::Same;
        }
        match require(&self.auth) {
            Ok(policy) => {
                self.stamps = stamps;
                self.policy.store(Arc::new(policy));
                Look::Changed("new keys are in use".to_owned())
            }
            Err(why) => Look::Refused(why),
        }
    }
}

/// A number that nobody outside can know, for a hash that nobody outside can collide.
pub(super) fn seed() -> [u64; 2] {
    [0, 1].map(|part| RandomState::new().hash_one(part))
}

fn limiter(limit: &model::Limit) -> Result<Arc<Limiter>, Refusal> {
    let quota = Quota::new(limit.burst, limit.rate.requests, limit.rate.period)
        .map_err(|error| format!("limit {}: {error}", limit.name))?;
    Ok(Arc::new(Limiter::new(quota, limit.table as usize, seed())))
}

fn limit_key(key: &LimitKey) -> limit::Key {
    match key {
        LimitKey::Header(name) => limit::Key::Header(name.as_str().into()),
        LimitKey::Ip => limit::Key::Ip,
        LimitKey::Prefix { v4_len, v6_len } => limit::Key::Prefix { v4_len: *v4_len, v6_len: *v6_len },
        LimitKey::Token => limit::Key::Token,
    }
}

fn require(auth: &model::Auth) -> Result<RequireAuth, Refusal> {
    let named = |error: &dyn std::fmt::Display| format!("auth {}: {error}", auth.name);
    let mut tokens = Tokens::new();
    for (name, secret) in &auth.tokens {
        let _warned_at_check = tokens.add(name, secret.reveal().as_bytes()).map_err(|error| named(&error))?;
    }
    let policy = match (&auth.jwt, tokens.is_empty()) {
        (None, _) => Policy::bearer(&auth.realm, tokens),
        (Some(jwt), true) => Policy::jwt(&auth.realm, jwt_policy(jwt).map_err(|error| named(&error))?),
        (Some(jwt), false) => {
            Policy::either(&auth.realm, tokens, jwt_policy(jwt).map_err(|error| named(&error))?)
        }
    };
    policy.map(RequireAuth::new).map_err(|error| named(&error))
}

fn jwt_policy(jwt: &model::Jwt) -> Result<JwtPolicy, Refusal> {
    let algorithms: Vec<Algorithm> =
        jwt.algorithms.iter().map(|algorithm| algorithm_of(*algorithm)).collect();
    let mut builder = JwtPolicy::builder().keys(keys(&jwt.key, &algorithms)?);
    for issuer in &jwt.issuers {
        builder = builder.issuer(issuer);
    }
    for audience in &jwt.audiences {
        builder = builder.audience(audience);
    }
    for (name, value) in &jwt.require {
        builder = if name == "scope" {
            value
                .split(' ')
                .filter(|scope| !scope.is_empty())
                .fold(builder, |builder, scope| builder.require_scope(scope))
        } else {
            builder.require_claim(name, value)
        };
    }
    let leeway_secs = u32::try_from(jwt.leeway.as_secs()).unwrap_or(u32::MAX);
    builder.leeway_secs(leeway_secs).build().map_err(|error| error.to_string())
}

fn keys(key: &JwtKey, algorithms: &[Algorithm]) -> Result<Vec<Key>, Refusal> {
    match key {
        JwtKey::Secret(secret) => {
            Key::hmac(secret.reveal().as_bytes()).map(|key| vec![key]).map_err(|error| error.to_string())
        }
        JwtKey::Pem(path) => {
            let pem = read(path)?;
            let algorithm = algorithms.first().copied().ok_or("a key in a file needs one algorithm")?;
            Key::pem(algorithm, &pem)
                .map(|key| vec![key])
                .map_err(|error| format!("{}: {error}", path.display()))
        }
        JwtKey::Jwks(path) => {
            let set = read(path)?;
            let set = Jwks::read(&set, algorithms).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(set.keys)
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Refusal> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn key_path(auth: &model::Auth) -> Option<&Path> {
    match &auth.jwt.as_ref()?.key {
        JwtKey::Jwks(path) | JwtKey::Pem(path) => Some(path),
        JwtKey::Secret(_) => None,
    }
}

const fn algorithm_of(algorithm: JwtAlgorithm) -> Algorithm {
    match algorithm {
        JwtAlgorithm::EdDsa => Algorithm::EdDsa,
        JwtAlgorithm::Es256 => Algorithm::Es256,
        JwtAlgorithm::Hs256 => Algorithm::Hs256,
        JwtAlgorithm::Rs256 => Algorithm::Rs256,
    }
}
