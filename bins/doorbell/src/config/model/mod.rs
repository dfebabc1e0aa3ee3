//! A configuration that can be used: every value checked, every name resolved, every default filled in.
//!
//! Does not know about: TOML, where a value was written.

mod admin;
mod auth;
mod balancer;
mod blackbox;
mod compute;
mod control;
mod health;
mod http2;
mod lifecycle;
mod limit;
mod listener;
mod log;
mod route;
mod runtime;
mod systemd;
mod tls;
mod tuning;

pub use admin::Admin;
pub use auth::{Auth, Jwt, JwtAlgorithm};
pub use balancer::{Agent, TcpGate, WhenDown};
pub use blackbox::{Blackbox, Module};
pub use compute::Compute;
pub use control::{Control, ControlSocket, Maintenance, Window};
use doorbell_checks::options::{Check, EgressOptions};
pub use doorbell_config::{Rate, Secret};
pub use health::{
    CheckUse, Codes, DegradedVia, FailOpen, Health, HealthState, OnDrain, OnStale, Quorum, QuorumOf, Role,
};
pub use http2::{AlbAnswer, Grpc, Http2};
pub use lifecycle::{Lifecycle, ReloadOn};
pub(crate) use limit::uncountable;
pub use limit::{Limit, LimitKey};
pub use listener::{
    DEFAULT_ADDR, Forwarded, KeepAlive, Limits, Listener, Protocol, ProxyProtocol, Tcp, Timeouts,
};
pub use log::{Access, AccessFile, AccessFormat, Log, LogFormat, LogLevel};
pub use route::{
    Action, ClientCert, Details, Files, Guard, HealthFormat, HealthRoute, LinkMap, RedirectTo, Reply,
    ReplyFile, Route,
};
pub use runtime::{Engine, OnWorkerFailure, Runtime};
pub use systemd::{FdStore, ReadyOn, Systemd};
pub(crate) use tls::is_field_value;
pub use tls::{CertificateFiles, ClientAuth, ClientAuthMode, Tls, TlsVersion, UnknownServerName};
pub use tuning::{Descriptors, Tuning};

/// Checks of one configuration.
pub const CHECKS_MAX: usize = 10_000;

/// Everything a file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[runtime]`
    pub runtime: Runtime,
    /// `[log]`
    pub log: Log,
    /// `[lifecycle]`
    pub lifecycle: Lifecycle,
    /// `[systemd]`
    pub systemd: Systemd,
    /// `[control]`
    pub control: Control,
    /// `[maintenance]`
    pub maintenance: Maintenance,
    /// `[admin]`; without the section nobody listens.
    pub admin: Option<Admin>,
    /// `[tuning]`
    pub tuning: Tuning,
    /// `[compute]`
    pub compute: Compute,
    /// `[tls.NAME]`, in the order of the file.
    pub tls: Vec<Tls>,
    /// `[auth.NAME]`, in the order of the file.
    pub auth: Vec<Auth>,
    /// `[limit.NAME]`, in the order of the file.
    pub limits: Vec<Limit>,
    /// `[listener.NAME]`, in the order of the file.
    pub listeners: Vec<Listener>,
    /// `[http2]`
    pub http2: Http2,
    /// `[grpc]`
    pub grpc: Grpc,
    /// Whether checks may run programs: said on the command line, and never in the file.
    pub allow_exec: bool,
    /// `[check_defaults] egress`
    pub egress: EgressOptions,
    /// `[check.NAME]`, in the order of the file.
    pub checks: Vec<Check>,
    /// `[health.NAME]`; `livez` and `readyz` are always there.
    pub health: Vec<Health>,
    /// `[agent.NAME]`, in the order of the file.
    pub agents: Vec<Agent>,
    /// `[tcp_gate.NAME]`, in the order of the file.
    pub tcp_gates: Vec<TcpGate>,
    /// `[blackbox]`
    pub blackbox: Option<Blackbox>,
    /// `[route.NAME]`, in the order of the file.
    pub routes: Vec<Route>,
}

impl Config {
    /// The TLS table of a listener, by its position.
    #[must_use]
    pub fn tls_of(&self, listener: usize) -> Option<&Tls> {
        self.tls.get(self.listeners.get(listener)?.tls.as_ref()?.position)
    }

    /// Whether a route has work for the threads of `[compute]`: files to read, or tokens whose signature takes a while to verify.
    #[must_use]
    pub fn needs_compute(&self) -> bool {
        let is_heavy = |position: &usize| self.auth.get(*position).is_some_and(Auth::is_heavy);
        self.routes.iter().any(|route| {
            if matches!(route.action, Action::Files(_) | Action::Links(_)) {
                return true;
            }
            let viewers: &[usize] = match &route.action {
                Action::Health(health) if health.details == Details::Authenticated => &health.details_auth,
                _ => &[],
            };
            route.guard.auth.iter().chain(viewers).any(is_heavy)
        })
    }

    /// Whether a listener speaks HTTP/2, by its position.
    #[must_use]
    pub fn has_http2(&self, listener: usize) -> bool {
        let listener = self.listeners.get(listener);
        listener.is_some_and(|listener| listener.is_http() && listener.http2)
    }

    /// What the handshakes of a listener ask for. Where a route is exempt, a certificate that is required can only be asked for:
    /// the routes that are not exempt then answer 403 without one.
    #[must_use]
    pub fn handshake_asks(&self, listener: usize) -> ClientAuthMode {
        let mode = self.tls_of(listener).map_or(ClientAuthMode::None, |tls| tls.client_auth.mode);
        let mut routes = self.routes.iter().filter(|route| route.listeners.contains(&listener));
        let exempts = routes.any(|route| route.guard.client_cert == Some(ClientCert::Exempt));
        if mode == ClientAuthMode::Require && exempts { ClientAuthMode::Request } else { mode }
    }

    /// Whether a route answers 403 on this listener to a client without a certificate.
    #[must_use]
    pub fn needs_client_cert(&self, listener: usize, route: &Route) -> bool {
        let mode = self.tls_of(listener).map_or(ClientAuthMode::None, |tls| tls.client_auth.mode);
        match &route.guard {
            Guard { client_cert: Some(wanted), .. } => *wanted == ClientCert::Require,
            Guard { client_names, .. } if !client_names.is_empty() => true,
            _ => mode == ClientAuthMode::Require,
        }
    }
}
