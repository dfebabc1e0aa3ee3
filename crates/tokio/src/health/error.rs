//! Reasons why a `Health` could not be built.

use std::io;

use doorbell_health::ConfigError;

/// Reason why a [`Health`](crate::Health) could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HealthError {
    /// A check was refused.
    #[error("check {name}: {source}")]
    Check {
        /// Name of the check.
        name: String,
        /// The reason.
        source: ConfigError,
    },
    /// The timeout of a check is 0, so no run could succeed.
    #[error("check {name}: the timeout is 0")]
    Timeout {
        /// Name of the check.
        name: String,
    },
    /// An endpoint was refused.
    #[error("endpoint {name}: {source}")]
    Endpoint {
        /// Name of the endpoint.
        name: String,
        /// The reason.
        source: ConfigError,
    },
    /// An endpoint uses a check that was not added.
    #[error("endpoint {endpoint}: there is no check {check}")]
    UnknownCheck {
        /// Name of the endpoint.
        endpoint: String,
        /// Name of the check.
        check: String,
    },
    /// A gRPC service has an endpoint that was not added.
    #[error("gRPC service {service}: there is no endpoint {endpoint}")]
    UnknownEndpoint {
        /// Name of the service.
        service: String,
        /// Name of the endpoint.
        endpoint: String,
    },
    /// The name of an endpoint, which is also its path, has an invalid character, or its path
    /// overlaps that of another endpoint.
    #[error(
        "endpoint {name}: the name is also the path: it needs letters, digits, '-', '.', '_', '~' or \
         '/', and /{name} must be neither the path of another endpoint nor above or below one"
    )]
    Path {
        /// Name of the endpoint.
        name: String,
    },
    /// A check follows itself, directly or through other checks and endpoints.
    #[error("a check follows itself: {path}")]
    Cycle {
        /// The checks and endpoints in the order in which they follow each other.
        path: String,
    },
    /// A check of a built-in kind cannot be created.
    #[error("{0}")]
    Kind(String),
    /// A check needs a runtime, and there is none.
    #[error("check {name}: there is no Tokio runtime here: call build() in async code or use runtime()")]
    NoRuntime {
        /// Name of the check.
        name: String,
    },
    /// The thread of the checks could not be started.
    #[error("cannot start the thread of the checks: {0}")]
    Thread(#[from] io::Error),
}
