//! A validated configuration: all values are checked, all names resolved, all defaults filled in.
//!
//! Does not know about: rules between tables (see `resolve`), contents of files.

mod admin;
mod auth;
mod balancer;
mod blackbox;
mod compute;
mod connections;
mod control;
mod health;
mod history;
mod http2;
mod lifecycle;
mod limit;
mod links;
mod listener;
mod log;
mod route;
mod runtime;
mod server_url;
mod sharing;
mod systemd;
mod tls;
mod tuning;
mod udp;

pub use admin::Admin;
pub use auth::{Auth, Jwt, JwtAlgorithm};
pub use balancer::{Agent, TcpGate, WhenDown};
pub use blackbox::{Blackbox, Module, OwnModule};
pub use compute::Compute;
pub use connections::Connections;
pub use control::{Control, ControlSocket, Maintenance, Window};
use doorbell_checks::options::{Check, CheckDefaults};
use doorbell_config::{Named, Problem, Section, Table};
pub use doorbell_config::{Rate, Secret};
pub use health::{
    CheckUse, Codes, DegradedVia, FailOpen, Health, HealthState, OnDrain, OnStale, Quorum, QuorumOf, Role,
};
pub use history::{ClickHouse, ClickHouseServer, History};
pub use http2::{AlbReply, Grpc, Http2};
pub use lifecycle::{Lifecycle, ReloadOn};
pub(crate) use limit::unrepresentable;
pub use limit::{Limit, LimitKey, LimitSharing};
pub use links::{Links, Peer};
pub use listener::links_to;
pub use listener::{
    DEFAULT_ADDR, Forwarded, KeepAlive, Limits, Listener, Protocol, ProxyProtocol, Tcp, Timeouts,
};
pub use log::{AccessFile, Log, LogFormat, LogLevel};
pub use route::build_redirect;
pub use route::{
    Action, ClientCert, Content, Details, Files, HealthFormat, HealthRoute, Redirect, Reply, Route,
};
pub use runtime::{Driver, Runtime};
pub use server_url::{ServerKind, ServerUrl};
pub use sharing::{RedisServer, Sharing};
pub use systemd::{FdStore, ReadyOn, Systemd};
pub(crate) use tls::is_field_value;
pub use tls::{CertificateFiles, ClientAuth, ClientAuthMode, Tls};
pub use tuning::Tuning;
pub use udp::{Udp, UdpReply, UdpWhenDown};

/// Maximum number of checks of a configuration.
pub const CHECKS_MAX: usize = 10_000;

// Names of tables are names of checks and endpoints.
const _: () = assert!(doorbell_config::NAME_LEN_MAX <= doorbell_health::limits::NAME_LEN_MAX);

/// Configuration of doorbell. Durations are written "250ms", "5s" or "1m30s", sizes "512B", "16KiB"
/// or "1MiB". Strings may hold ${NAME} or ${NAME:-default} from the environment, secrets also
/// ${file:/path}.
#[derive(Clone, Debug, PartialEq, Table)]
#[table(check = Self::check_version)]
pub struct Config {
    /// Version of this format; only 1 exists.
    #[key(default = 1, with = version, shown)]
    pub version: u8,
    /// Process: driver, workers, connections.
    pub runtime: Runtime,
    /// Limits of connections, on all listeners.
    pub connections: Connections,
    /// Log and access log.
    pub log: Log,
    /// Start, reload and drain.
    pub lifecycle: Lifecycle,
    /// Notifications to systemd, and sockets that it stores.
    pub systemd: Systemd,
    /// Control socket.
    pub control: Control,
    /// Maintenance by files and schedules.
    pub maintenance: Maintenance,
    /// Metrics at /metrics, and pages for operators and scripts below /-/. Default: none, except
    /// without a configuration file.
    #[key(shown)]
    pub admin: Option<Admin>,
    /// Techniques of the drivers.
    pub tuning: Tuning,
    /// Threads for files and signatures.
    pub compute: Compute,
    /// Certificates and client authentication of TLS listeners, by the names that listeners refer
    /// to.
    pub tls: Named<Tls>,
    /// Credentials, by the names that routes refer to.
    pub auth: Named<Auth>,
    /// Rate limits, by the names that routes refer to.
    #[key(name = "limit")]
    pub limits: Named<Limit>,
    /// Listening sockets, by name.
    #[key(name = "listener")]
    pub listeners: Named<Listener>,
    /// Limits of HTTP/2.
    pub http2: Http2,
    /// Health by gRPC.
    pub grpc: Grpc,
    /// Defaults of every check.
    pub check_defaults: CheckDefaults,
    /// Checks, by name; the name is the label in metrics.
    #[key(name = "check")]
    pub checks: Named<Check>,
    /// Endpoints, by name: each combines checks into one state. livez and readyz always exist.
    pub health: Named<Health>,
    /// HAProxy agent-checks, by name: one line with state, weight and reason for each connection.
    #[key(name = "agent")]
    pub agents: Named<Agent>,
    /// TCP gates, by name: ports that accept connections while an endpoint serves.
    #[key(name = "tcp_gate")]
    pub tcp_gates: Named<TcpGate>,
    /// Replies to datagrams, by name.
    pub udp: Named<Udp>,
    /// Certificates and addresses of this instance for links. Default: none.
    #[key(shown)]
    pub links: Option<Links>,
    /// Links to other instances, by name.
    #[key(name = "link")]
    pub peers: Named<Peer>,
    /// Redis or Valkey, through which instances share checks and limits. Default: none.
    #[key(shown)]
    pub shared: Option<Sharing>,
    /// Probes on request, compatible with Prometheus' blackbox_exporter. Default: none.
    #[key(shown)]
    pub blackbox: Option<Blackbox>,
    /// Routes, by name: which requests get which reply. A configuration without routes serves livez
    /// and readyz at all common paths; any route in the file removes these default routes.
    #[key(name = "route")]
    pub routes: Named<Route>,
    /// History of checks and endpoints in a database.
    pub history: History,
    /// Whether checks may run programs: set on the command line, never in the file.
    #[key(skip)]
    pub allow_exec: bool,
}

impl Config {
    fn check_version(&self, at: &Section<'_>) {
        if at.place("version").is_none() {
            let message = "the file does not declare its version";
            at.problem(Problem::error("missing-version", 0..0, message).help("begin it with `version = 1`"));
        }
    }

    /// The TLS table of the listener at this position.
    #[must_use]
    pub fn tls_of(&self, listener: usize) -> Option<&Tls> {
        self.tls.get(self.listeners.get(listener)?.tls.as_ref()?.position)
    }

    /// Whether a route needs the threads of `[compute]`: for files, link maps (`redirect.map`), or
    /// tokens whose signature takes long to verify.
    #[must_use]
    pub fn needs_compute(&self) -> bool {
        let is_heavy = |position: usize| self.auth.get(position).is_some_and(Auth::is_heavy);
        self.routes.iter().any(|route| {
            if matches!(route.action(), Action::Files(_) | Action::Links(_)) {
                return true;
            }
            let viewers = Some(&route.details_auth).filter(|_| route.details == Details::Authenticated);
            route.auth.iter().chain(viewers.into_iter().flatten()).any(|link| is_heavy(link.position))
        })
    }

    /// Whether the listener at this position accepts HTTP/2.
    #[must_use]
    pub fn has_http2(&self, listener: usize) -> bool {
        self.listeners.get(listener).is_some_and(Listener::has_http2)
    }

    /// Mode of client certificates in the handshakes of a listener. If a route of the listener is
    /// exempt, `require` becomes `request`: the other routes then reply 403 to clients without a
    /// certificate.
    #[must_use]
    pub fn handshake_client_auth(&self, listener: usize) -> ClientAuthMode {
        let mode = self.tls_of(listener).map_or(ClientAuthMode::None, |tls| tls.client_auth.mode);
        let mut routes = self.routes.iter().filter(|route| route.is_on(listener));
        let exempts = routes.any(|route| route.client_cert == Some(ClientCert::Exempt));
        if mode == ClientAuthMode::Require && exempts { ClientAuthMode::Request } else { mode }
    }

    /// Whether a route replies 403 on this listener to a client without a certificate.
    #[must_use]
    pub fn needs_client_cert(&self, listener: usize, route: &Route) -> bool {
        let mode = self.tls_of(listener).map_or(ClientAuthMode::None, |tls| tls.client_auth.mode);
        match route.client_cert {
            Some(client_cert) => client_cert == ClientCert::Require,
            None => !route.client_names.is_empty() || mode == ClientAuthMode::Require,
        }
    }
}

/// Reader of `version`, which must be 1.
mod version {
    use doorbell_config::{Entry, Json, Key};
    use serde_json::json;

    pub(super) fn read(entry: &Entry<'_>) -> Option<u8> {
        match entry.raw().as_integer() {
            Some(number) if number.as_str() == "1" => Some(1),
            Some(_) => {
                let message = "this version of the format is not known";
                entry.refuse("bad-version", message, "only `version = 1` exists")
            }
            None => entry.wrong_type("the number 1"),
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by the `Table` derive")]
    pub(super) fn dump(version: &u8) -> Option<Json> {
        Some((*version).into())
    }

    pub(super) fn form(_: &Key) -> Json {
        json!({ "const": 1 })
    }
}
