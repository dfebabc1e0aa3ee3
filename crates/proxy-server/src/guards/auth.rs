//! Token policies, and the replacement of their keys while the server runs.

use super::Refusal;
use crate::guards::subject::Subject;
use crate::reload::watch::{Scan, Stamps, Watched, directories_of};
use arc_swap::ArcSwap;
use doorbell::http::auth::jwt::{Algorithm, Jwks, JwksError, JwtPolicy, Key};
use doorbell::http::auth::{Decision, Policy, Tokens};
use doorbell::http::layer::RequireAuth;
use doorbell::http::{Replied, Request, Responder};
use doorbell_proxy_config::model;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A token policy. A policy without a key file is fixed, which saves each request an atomic load.
#[derive(Clone, Debug)]
pub(super) enum Auth {
    Fixed(Arc<RequireAuth>),
    Watched(Arc<ArcSwap<RequireAuth>>),
}

impl Auth {
    /// Builds the policy, and the watcher of its key file if it has one.
    pub(super) fn build(auth: &model::Auth) -> Result<(Self, Option<AuthReader>), Refusal> {
        let stamps = Stamps::of(auth.jwt.as_ref().and_then(key_path));
        let policy = Arc::new(require(auth)?);
        if auth.jwt.as_ref().and_then(key_path).is_none() {
            return Ok((Self::Fixed(policy), None));
        }
        let policy = Arc::new(ArcSwap::new(policy));
        let reader = AuthReader { auth: auth.clone(), policy: Arc::clone(&policy), stamps };
        Ok((Self::Watched(policy), Some(reader)))
    }

    /// Whether a request has a static token of a fixed policy. Fast path for the usual case.
    #[inline(always)]
    pub(super) fn admits_static(&self, request: &Request<'_>, subject: &mut Option<&mut Subject>) -> bool {
        let Self::Fixed(policy) = self else { return false };
        let Some(name) = policy.known(request) else { return false };
        if let Some(subject) = subject {
            subject.set(name);
        }
        true
    }

    /// Authorizes a request that [`Self::admits_static`] does not admit. The request is admitted if
    /// one policy admits it. Otherwise, the refusal is that of the first policy that accepts the
    /// token but requires other claims or, if there is none, that of `self`.
    #[inline(never)]
    pub(super) fn authorize<'a>(
        &self,
        others: &[Self],
        request: &Request<'_>,
        reply: Responder<'a>,
        subject: &mut Option<&mut Subject>,
    ) -> Result<Responder<'a>, Replied<'a>> {
        let mut refusal_of = |decision: &Decision<'_>| {
            if let (Decision::Allowed(principal), Some(subject)) = (decision, &mut *subject) {
                subject.set(principal.name());
            }
            decision.allowed().err()
        };
        let watched;
        let (first, decision) = match self {
            Self::Fixed(policy) => (&**policy, policy.decide_unknown(request)),
            Self::Watched(policy) => {
                watched = policy.load();
                (&**watched, watched.decide(request))
            }
        };
        let Some(mut refusal) = refusal_of(&decision) else { return Ok(reply) };
        let mut refused_by = None;
        for other in others {
            match other.with(|auth| refusal_of(&auth.decide(request))) {
                None => return Ok(reply),
                Some(other_refusal) if other_refusal.takes_precedence_over(&refusal) => {
                    (refused_by, refusal) = (Some(other), other_refusal)
                }
                Some(_) => {}
            }
        }
        Err(match refused_by {
            None => first.refuse(&refusal, reply),
            Some(other) => other.with(|auth| auth.refuse(&refusal, reply)),
        })
    }

    pub(super) fn load(&self) -> Arc<RequireAuth> {
        match self {
            Self::Fixed(policy) => Arc::clone(policy),
            Self::Watched(policy) => policy.load_full(),
        }
    }

    pub(super) fn with<T>(&self, f: impl FnOnce(&RequireAuth) -> T) -> T {
        match self {
            Self::Fixed(policy) => f(policy),
            Self::Watched(policy) => f(&policy.load()),
        }
    }
}

/// Reloads the public keys of `[auth.NAME]` when their file changes.
#[derive(Debug)]
pub(crate) struct AuthReader {
    auth: model::Auth,
    policy: Arc<ArcSwap<RequireAuth>>,
    stamps: Stamps,
}

impl Watched for AuthReader {
    fn name(&self) -> String {
        format!("auth {}", self.auth.name)
    }

    fn directories(&self) -> Vec<PathBuf> {
        self.auth.jwt.as_ref().and_then(key_path).into_iter().flat_map(directories_of).collect()
    }

    fn scan(&mut self) -> Scan {
        let stamps = Stamps::of(self.auth.jwt.as_ref().and_then(key_path));
        if stamps == self.stamps {
            return Scan::Same;
        }
        match require(&self.auth) {
            Ok(policy) => {
                self.stamps = stamps;
                self.policy.store(Arc::new(policy));
                Scan::Changed("new keys in use".to_owned())
            }
            Err(why) => Scan::Refused(why),
        }
    }
}

fn require(auth: &model::Auth) -> Result<RequireAuth, Refusal> {
    let named = |error: &dyn std::fmt::Display| format!("auth {}: {error}", auth.name);
    let mut tokens = Tokens::new();
    for (name, secret) in auth.tokens.iter() {
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
        jwt.algorithms.iter().map(|algorithm| Algorithm::from(*algorithm)).collect();
    let mut builder = JwtPolicy::builder().keys(keys(jwt, &algorithms)?);
    for issuer in &jwt.issuers {
        builder = builder.issuer(issuer);
    }
    for audience in &jwt.audiences {
        builder = builder.audience(audience);
    }
    for (name, value) in jwt.require.iter() {
        builder = if name.value == "scope" {
            value
                .split(' ')
                .filter(|scope| !scope.is_empty())
                .fold(builder, |builder, scope| builder.require_scope(scope))
        } else {
            builder.require_claim(&name.value, &value.value)
        };
    }
    let leeway_secs = u32::try_from(jwt.leeway.as_secs()).unwrap_or(u32::MAX);
    builder.leeway_secs(leeway_secs).build().map_err(|error| error.to_string())
}

fn keys(jwt: &model::Jwt, algorithms: &[Algorithm]) -> Result<Vec<Key>, Refusal> {
    if let Some(secret) = &jwt.secret {
        let key = Key::hmac(secret.reveal().as_bytes());
        return key.map(|key| vec![key]).map_err(|error| error.to_string());
    }
    let path = key_path(jwt).ok_or("signed tokens need a key")?;
    let text = read(path)?;
    if jwt.key_file.is_some() {
        let algorithm = algorithms.first().copied().ok_or("a key in a file needs one algorithm")?;
        let key = Key::pem(algorithm, &text);
        return key.map(|key| vec![key]).map_err(|error| format!("{}: {error}", path.display()));
    }
    let set = Jwks::read(&text, algorithms)
        .map_err(|error| format!("{}: {}", path.display(), with_cause(&error)))?;
    for why in &set.ignored {
        tracing::warn!("{}: {}; it is ignored", path.display(), with_cause(why));
    }
    Ok(set.keys)
}

/// Formats the error together with the error of the key that caused it.
fn with_cause(error: &JwksError) -> String {
    match error {
        JwksError::Key { error: cause, .. } => format!("{error}: {cause}"),
        _ => error.to_string(),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Refusal> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The file with the public keys; `None` with a secret.
fn key_path(jwt: &model::Jwt) -> Option<&Path> {
    jwt.key_file.as_ref().or(jwt.jwks_file.as_ref()).map(|path| path.as_path())
}
