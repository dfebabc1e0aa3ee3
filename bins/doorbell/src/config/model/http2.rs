//! `[http2]` and `[grpc]`: what HTTP/2 connections may cost, and what is answered to gRPC health checks.
//!
//! Does not know about: listeners, which turn HTTP/2 on.

use doorbell_config::{At, Link, Map, Problem, Section, Table, Words};

/// Limits of HTTP/2, on listeners with `http2 = true`.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Http2 {
    /// Connections of all listeners together; one more gets GOAWAY, or an alert behind TLS.
    #[key(default = 4096, range = 1..=1_000_000, nonzero)]
    pub max_connections: u32,
    /// Requests of one connection at once.
    #[key(default = 100, range = 1..=1000, nonzero)]
    pub concurrent_streams: u32,
    /// Requests of one connection; then it is told to go.
    #[key(default = 10_000, range = 1..=1_000_000_000, nonzero)]
    pub max_requests: u32,
}

// What stands before it says a route with `grpc = true`; a listener without one has a route of that kind that lets everybody in.
/// Health by gRPC (grpc.health.v1: Check, Watch, List) on listeners with `http2 = true`.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct Grpc {
    /// False makes grpc.health.v1 a path like any other.
    #[key(default = true)]
    pub enabled: bool,
    /// The endpoint that the service without a name stands for.
    #[key(default = "readyz")]
    pub overall: At<Link>,
    /// Endpoints by the name of the service.
    pub services: Map<Link>,
    /// Streams of Watch at once.
    #[key(default = 16_384, range = 1..=1_000_000, nonzero)]
    pub max_watches: u32,
    /// Streams of Watch at once of one connection.
    #[key(default = 10, range = 1..=1000, nonzero)]
    pub watches_per_connection: u32,
    /// What `/AWS.ALB/healthcheck` is told: verdict is code 12 while the service without a name serves and 14 otherwise, always is 12 in any
    /// case.
    #[key(default = "verdict")]
    pub alb: AlbAnswer,
}

/// The answer to what an AWS application load balancer asks for by default, who takes code 12, UNIMPLEMENTED, for well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum AlbAnswer {
    /// Always 12: well while there is an answer.
    Always,
    /// 12 while the service without a name serves, and otherwise 14, UNAVAILABLE.
    Verdict,
}

/// As long as a name in a request may be: its message is 4 KiB at most.
const SERVICE_LEN_MAX: usize = 1024;

impl Grpc {
    /// The paths that are asked for: the methods of the service, and what an AWS application load balancer asks for by default.
    pub const PATHS: [&str; 2] = ["/grpc.health.v1.Health/{method}", Self::ALB_PATH];

    /// What an AWS application load balancer asks for by default.
    pub const ALB_PATH: &str = "/AWS.ALB/healthcheck";

    /// The default, where `readyz` has this position in [`super::Config::health`].
    #[must_use]
    pub fn of(readyz: usize) -> Self {
        Self { overall: Link { name: "readyz".into(), position: readyz }.into(), ..Self::default() }
    }

    fn check(&self, at: &Section<'_>) {
        let bad = |service: &At<String>, message: String, help: String| {
            at.problem(Problem::error("bad-name", service.span.clone(), message).help(help));
        };
        for (service, _) in self.services.iter() {
            if service.is_empty() {
                let message = "the service without a name is the overall one".to_owned();
                bad(service, message, "write `overall = \"readyz\"` in [grpc]".to_owned());
            } else if service.len() > SERVICE_LEN_MAX {
                let message = format!("a service has a name of {} bytes", service.len());
                bad(service, message, format!("at most {SERVICE_LEN_MAX} bytes"));
            }
        }
    }
}
