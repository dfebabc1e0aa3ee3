//! `[http2]` and `[grpc]`: what HTTP/2 connections may cost, and what is answered to gRPC health checks.
//!
//! Does not know about: listeners, which turn HTTP/2 on.

use doorbell_config::Table;

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

/// `[grpc]`: `grpc.health.v1` on every listener that speaks HTTP/2. What stands before it says a route with `grpc = true`; a listener
/// without one has a route of that kind that lets everybody in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grpc {
    /// Whether it is answered.
    pub enabled: bool,
    /// The position in [`super::Config::health`] of what the service without a name says.
    pub overall: usize,
    /// Services by name, each with such a position.
    pub services: Vec<(String, usize)>,
    /// Watch streams at once.
    pub max_watches: u32,
    /// Watch streams of one connection.
    pub watches_per_connection: u32,
    /// What an AWS application load balancer is told.
    pub alb: AlbAnswer,
}

/// The answer to what an AWS application load balancer asks for by default, who takes code 12, UNIMPLEMENTED, for well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AlbAnswer {
    /// Always 12: well while there is an answer.
    Always,
    /// 12 while the service without a name serves, and otherwise 14, UNAVAILABLE.
    #[default]
    Verdict,
}

impl Grpc {
    /// The paths that are asked for: the methods of the service, and what an AWS application load balancer asks for by default.
    pub const PATHS: [&str; 2] = ["/grpc.health.v1.Health/{method}", Self::ALB_PATH];

    /// What an AWS application load balancer asks for by default.
    pub const ALB_PATH: &str = "/AWS.ALB/healthcheck";

    /// The default, where `readyz` has this position in [`super::Config::health`].
    #[must_use]
    pub const fn of(readyz: usize) -> Self {
        Self {
            enabled: true,
            overall: readyz,
            services: Vec::new(),
            max_watches: 16_384,
            watches_per_connection: 10,
            alb: AlbAnswer::Verdict,
        }
    }
}
