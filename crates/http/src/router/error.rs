//! The reasons why a set of routes cannot be built, with the names of the routes.

use super::methods::MethodSet;
use crate::pattern::PatternError;
use std::fmt;

/// One reason why a set of routes cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouteError {
    /// The host is not a name or an address literal.
    BadHost {
        /// Name of the route.
        route: String,
        /// The configured host.
        host: String,
    },
    /// The path is not a pattern.
    BadPath {
        /// Name of the route.
        route: String,
        /// The configured path.
        path: String,
        /// The error in the path.
        cause: PatternError,
    },
    /// Two routes match exactly the same requests of a host.
    Duplicate(Conflict),
    /// The route has no methods.
    NoMethods {
        /// Name of the route.
        route: String,
    },
    /// Two routes match some of the same requests, and the second route would not get
    /// these requests.
    Shadowed(Conflict),
    /// The service of the route needs a parameter that its path does not have.
    UnknownParam {
        /// Name of the route.
        route: String,
        /// The parameter that the service needs.
        name: String,
        /// The parameters of the path.
        known: Vec<String>,
    },
}

/// Two routes that match the same requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Name of the route that was added first.
    pub first: String,
    /// Name of the route that was added second.
    pub second: String,
    /// The host of both routes; `None` means any host.
    pub host: Option<String>,
    /// The configured path of the first route.
    pub first_path: String,
    /// The configured path of the second route; its parameter names may differ.
    pub second_path: String,
    /// The methods that both routes have.
    pub methods: MethodSet,
}

/// All reasons why a set of routes cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteErrors(Vec<RouteError>);

impl RouteErrors {
    pub(super) const fn new(errors: Vec<RouteError>) -> Self {
        Self(errors)
    }

    /// The reasons; at least one.
    #[must_use]
    pub fn all(&self) -> &[RouteError] {
        &self.0
    }
}

impl IntoIterator for RouteErrors {
    type Item = RouteError;
    type IntoIter = std::vec::IntoIter<RouteError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// One reason a line.
impl fmt::Display for RouteErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            let separator = if at > 0 { "\n" } else { "" };
            write!(f, "{separator}{error}")?;
            if let RouteError::BadPath { cause, .. } = error {
                write!(f, ": {cause}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for RouteErrors {}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadHost { route, host } => {
                write!(f, "route `{route}`: `{host}` is not a host name or an address")
            }
            Self::BadPath { route, path, .. } => write!(f, "route `{route}`: `{path}` is not a path pattern"),
            Self::Duplicate(conflict) => write!(
                f,
                "routes `{}` and `{}` match the same requests: {conflict}",
                conflict.first, conflict.second
            ),
            Self::NoMethods { route } => write!(f, "route `{route}` has no methods"),
            Self::Shadowed(conflict) => write!(
                f,
                "route `{}` hides a part of route `{}`: {conflict}",
                conflict.first, conflict.second
            ),
            Self::UnknownParam { route, name, known } => {
                write!(f, "route `{route}` has no parameter `{name}`, which its service needs")?;
                for (at, known) in known.iter().enumerate() {
                    write!(f, "{} `{known}`", if at == 0 { ": did you mean" } else { " or" })?;
                }
                f.write_str(if known.is_empty() { "" } else { "?" })
            }
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.methods, self.first_path)?;
        if self.first_path != self.second_path {
            write!(f, " (= {})", self.second_path)?;
        }
        match &self.host {
            Some(host) => write!(f, " on host {host}"),
            None => f.write_str(" on any host"),
        }
    }
}

impl std::error::Error for RouteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::BadPath { cause, .. } => Some(cause),
            Self::BadHost { .. }
            | Self::Duplicate(_)
            | Self::NoMethods { .. }
            | Self::Shadowed(_)
            | Self::UnknownParam { .. } => None,
        }
    }
}
