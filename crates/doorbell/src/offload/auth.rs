//! A guard that verifies signatures of bearer tokens in jobs, because a verification takes tens of
//! microseconds. Everything else runs on the ring thread.
//!
//! Does not know about: tokens (see [`doorbell_http::auth`]), how a job is run.

use std::sync::Arc;

use doorbell_http::auth::{Decision, Policy};
use doorbell_http::layer::{Layer, RequireAuth, identified};
use doorbell_http::{Replied, Request, Responder, Service};

use super::{JobReply, Offload};

/// The layer returned by [`Offload::require_auth`].
#[derive(Debug)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct OffloadAuth {
    auth: RequireAuth,
    jobs: Offload,
}

/// A service guarded by an [`OffloadAuth`].
///
/// [`Service::hands_over`] always returns false, as behind any guard.
#[derive(Clone, Debug)]
pub struct OffloadAuthService<S>(Arc<Guarded<S>>);

#[derive(Debug)]
struct Guarded<S> {
    auth: RequireAuth,
    jobs: Offload,
    inner: S,
}

impl Offload {
    /// A layer that admits requests by `policy`, like [`RequireAuth`]. Signatures that were made
    /// with a private key are verified in jobs of this [`Offload`], because a verification takes
    /// tens of microseconds. Other decisions (no token, a static token, a shared secret, an unknown
    /// algorithm or key) are made on the ring thread, where the guarded service also runs.
    ///
    #[cfg_attr(all(feature = "jwt", feature = "rayon"), doc = "```no_run")]
    #[cfg_attr(not(all(feature = "jwt", feature = "rayon")), doc = "```ignore")]
    /// use doorbell::http::auth::Policy;
    /// use doorbell::http::auth::jwt::{Algorithm, JwtPolicy, Key};
    /// use doorbell::http::layer::ServiceExt as _;
    /// use doorbell::{Http1, Listen, Offload, Server, StaticReply, Status, service_fn};
    ///
    /// let key = Key::pem(Algorithm::Es256, &std::fs::read("issuer.pem")?)?;
    /// let tokens = JwtPolicy::builder().key(key).issuer("https://issuer.test").audience("doorbell").build()?;
    /// let jobs = Offload::builder().build()?;
    ///
    /// let secret = StaticReply::text(Status::OK, "secret\n");
    /// let service = service_fn(move |_, reply| reply.send(&secret));
    /// let service = service.with(jobs.require_auth(Policy::jwt("api", tokens)?));
    /// Server::builder().listen(Listen::tcp(([127, 0, 0, 1], 8080).into()), Http1::new(service)).start()?.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The service is in an [`Arc`], because a request that waits for a job may outlive the server.
    pub fn require_auth(&self, policy: Policy) -> OffloadAuth {
        OffloadAuth { auth: RequireAuth::new(policy), jobs: self.clone() }
    }
}

impl<S: Service + Send + Sync + 'static> Layer<S> for OffloadAuth {
    type Service = OffloadAuthService<S>;

    fn layer(self, inner: S) -> Self::Service {
        let Self { auth, jobs } = self;
        OffloadAuthService(Arc::new(Guarded { auth, jobs, inner }))
    }
}

impl<S: Service + Send + Sync + 'static> OffloadAuthService<S> {
    /// Handles a request without a valid static token.
    #[inline(never)]
    fn call_unknown<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        let Guarded { auth, jobs, inner } = &*self.0;
        if auth.is_heavy_for(request) {
            return self.verify(jobs, request, reply);
        }
        match auth.decide_unknown(request) {
            Decision::Allowed(principal) => {
                identified(request, principal.name(), reply, |request, reply| inner.call(request, reply))
            }
            refused => auth.refuse(&refused, reply),
        }
    }

    /// Verifies the token in a job; the ring thread then calls the service or refuses the request.
    fn verify<'a>(&self, jobs: &Offload, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        let (owned, guarded) = (request.detach(), Arc::clone(&self.0));
        jobs.run(request, reply, move || {
            let name = owned.with(|request| {
                let decision = guarded.auth.decide(request);
                decision.allowed().map(|principal| principal.name().to_owned())
            });
            let admitted = name.map(|name| owned.identified(&name));
            JobReply::then(move |reply| match admitted {
                Ok(owned) => owned.with(|request| guarded.inner.call(request, reply)),
                Err(refused) => guarded.auth.refuse(&refused, reply),
            })
        })
    }
}

impl<S: Service + Send + Sync + 'static> Service for OffloadAuthService<S> {
    fn inner(&self) -> Option<&dyn Service> {
        Some(&self.0.inner)
    }

    #[inline]
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        match self.0.auth.known(request) {
            Some(name) => {
                identified(request, name, reply, |request, reply| self.0.inner.call(request, reply))
            }
            None => self.call_unknown(request, reply),
        }
    }
}
