//! `[http2]` and `[grpc]`: limits of HTTP/2 connections, and gRPC health checks.

use doorbell_config::{At, Link, Map, Problem, Section, Table, Words};
use doorbell_grpc::ALB_PATH;

/// Limits of HTTP/2, on listeners with `http2 = true`.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Http2 {
    /// Maximum number of connections on all listeners together; further ones get GOAWAY, or a TLS
    /// alert.
    #[key(default = 4096, range = 1..=1_000_000, nonzero)]
    pub max_connections: u32,
    /// Maximum number of concurrent requests of a connection.
    #[key(default = 100, range = 1..=1000, nonzero)]
    pub concurrent_streams: u32,
    /// Maximum number of requests of a connection; then it gets GOAWAY.
    #[key(default = 10_000, range = 1..=1_000_000_000, nonzero)]
    pub max_requests: u32,
}

// A route with `grpc = true` sets the guards; a listener without such a route gets a default route
// without guards.
/// Health by gRPC (grpc.health.v1: Check, Watch, List) on listeners with `http2 = true`.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct Grpc {
    /// Serves grpc.health.v1; with `false`, its paths are ordinary paths.
    #[key(default = true)]
    pub enabled: bool,
    /// Endpoint of the service without a name.
    #[key(default = "readyz")]
    pub overall: At<Link>,
    /// Endpoints by service name.
    pub services: Map<Link>,
    /// Maximum number of concurrent Watch streams.
    #[key(default = 16_384, range = 1..=1_000_000, nonzero)]
    pub max_watches: u32,
    /// Maximum number of concurrent Watch streams of a connection.
    #[key(default = 10, range = 1..=1000, nonzero)]
    pub watches_per_connection: u32,
    /// Reply to `/AWS.ALB/healthcheck`: `verdict` sends code 12 while the service without a name
    /// serves and 14 otherwise; `always` sends 12.
    #[key(default = "verdict")]
    pub alb: AlbReply,
}

/// Reply to the default health check of an AWS application load balancer, which accepts code 12,
/// UNIMPLEMENTED, as healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum AlbReply {
    /// Always 12: healthy while the process replies.
    Always,
    /// 12 while the service without a name serves, and otherwise 14, UNAVAILABLE.
    Verdict,
}

/// Maximum length of a service name. The request that contains the name has at most 4 KiB.
const SERVICE_LEN_MAX: usize = 1024;

impl Grpc {
    /// Paths of the calls: the methods of the service, and the default health check of an AWS
    /// application load balancer.
    pub(crate) const PATHS: [&str; 2] = ["/grpc.health.v1.Health/{method}", ALB_PATH];

    /// The default table; `readyz` is the position of that endpoint in [`super::Config::health`].
    pub(crate) fn of(readyz: usize) -> Self {
        Self { overall: Link { name: "readyz".into(), position: readyz }.into(), ..Self::default() }
    }

    fn check(&self, at: &Section<'_>) {
        let bad = |service: &At<String>, message: String, help: String| {
            at.problem(Problem::error("bad-name", service.span.clone(), message).help(help));
        };
        for (service, _) in self.services.iter() {
            if service.is_empty() {
                let message = "the service without a name is configured as `overall`".to_owned();
                bad(service, message, "write `overall = \"readyz\"` in [grpc]".to_owned());
            } else if service.len() > SERVICE_LEN_MAX {
                let message = format!("a service has a name of {} bytes", service.len());
                bad(service, message, format!("at most {SERVICE_LEN_MAX} bytes"));
            }
        }
    }
}
