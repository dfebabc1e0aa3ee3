//! `[route.NAME]`: which requests it takes, its guards, and what it replies with.
//!
//! Does not know about: looking a route up; the listeners and endpoints that it names.

mod methods;
mod redirect;
mod rules;
mod sources;

pub use redirect::Redirect;
pub(crate) use redirect::build_redirect;

use super::Grpc;
use crate::http::Method;
use crate::http::router::MethodSet;
use doorbell_config::{At, Link, Map, Table, Words};
use std::fmt;
use std::path::PathBuf;

/// One route: `files`, `grpc`, `health`, `push`, `redirect` or `reply` says what it does.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = rules::check, useless = Self::useless)]
pub struct Route {
    /// Named in logs and errors.
    #[key(table_name)]
    pub name: String,
    /// Names of listeners; one or a list. Optional with a single listener.
    #[key(name = "listener", filled)]
    pub listeners: Vec<At<Link>>,
    /// Hosts such as "example.com" or "*.example.com"; one or a list. Default: all.
    #[key(filled, read = sources::hosts)]
    pub hosts: Vec<At<String>>,
    /// Paths such as "/x", "/x/{name}" or "/x/{*rest}"; one or a list. Default: every path for a
    /// redirect, otherwise required.
    #[key(name = "path", filled, shown, read = sources::paths, default_with = Self::usual_paths)]
    pub paths: Vec<At<String>>,
    /// Methods, or any; others get 405. Default: GET and HEAD; also OPTIONS for health; all for a
    /// redirect; POST and PUT for push.
    #[key(filled, with = methods, default_with = Self::usual_methods)]
    pub methods: Vec<Method>,
    /// Further header fields of the reply.
    pub headers: Map<String>,
    /// Names of `[auth.NAME]`, one or a list; any of them grants access. Others get 401 or 403.
    #[key(filled)]
    pub auth: Vec<At<Link>>,
    /// Name of a `[limit.NAME]`; requests beyond it get 429.
    pub limit: Option<At<Link>>,
    /// Maximum number of requests in progress; further ones get 503. A Watch of gRPC counts while
    /// it is open. Default: no limit.
    #[key(range = 1..=4_000_000, nonzero)]
    pub concurrent: Option<u32>,
    /// Client certificate: require or exempt. Default: as `[tls.NAME]` of the listener demands.
    pub client_cert: Option<ClientCert>,
    /// Names of which the client certificate must have one among its alternative names (DNS, mail,
    /// URI, IP address; the common name counts only without any of these), compared byte by byte;
    /// others get 403.
    #[key(filled, read = sources::client_names)]
    pub client_names: Vec<At<String>>,
    /// Replies with files of a directory.
    #[key(shown)]
    pub files: Option<Files>,
    /// Puts the guards of this route before the calls of `[grpc]`.
    pub grpc: Option<bool>,
    /// Endpoint to report; with {check} in `path`, one of its checks, for clients that see
    /// `details`.
    pub health: Option<At<Link>>,
    /// Format of the reply; auto follows `Accept`. ?format= and ?verbose of a request take
    /// precedence.
    #[key(default = "text")]
    pub format: HealthFormat,
    /// Clients that see single checks and reasons, and may leave checks out with ?exclude=NAME;
    /// others get the state alone, and 404 for {check} of `path`. Default: never, and with
    /// `details_auth` authenticated.
    #[key(default_with = Self::usual_details)]
    pub details: Details,
    /// Names of `[auth.NAME]`, one or a list, whose clients count as authenticated; others get the
    /// state alone.
    pub details_auth: Vec<At<Link>>,
    /// Accepts results of checks of type ttl by POST or PUT, with {check} and {result} in `path`.
    pub push: Option<bool>,
    /// Replies with a redirect, or with 404 if the location is the address of the request, for
    /// instance behind a proxy that terminates TLS and says so (see `forwarded`).
    #[key(shown)]
    pub redirect: Option<Redirect>,
    /// Fixed reply, apart from {path}, {host}, {method}, {client} and parameters of `path`.
    #[key(shown)]
    pub reply: Option<Reply>,
}

/// What a route demands of client certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum ClientCert {
    /// None is needed.
    Exempt,
    /// Without one the reply is 403.
    Require,
}

/// Format of a health reply, unless `?format=` or `?verbose` names another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Words)]
pub enum HealthFormat {
    /// As `Accept` says; text for clients that accept anything.
    Auto,
    /// `application/health+json`
    #[word("health+json")]
    HealthJson,
    /// As of the Kubernetes API server, with `?verbose`.
    KubeVerbose,
    /// As of Spring Boot's actuator.
    Spring,
    /// The state, then a line for each check.
    #[default]
    Text,
}

/// Clients that see the checks of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Words)]
pub enum Details {
    /// All.
    Always,
    /// Authenticated ones.
    Authenticated,
    /// None.
    #[default]
    Never,
}

/// Files of a directory; the last parameter of `path` names the file.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Files {
    /// Directory; the last parameter of `path` names a file in it. Symbolic links are followed
    /// unless they lead out of it. Required.
    #[key(required = "\"/var/lib/acme/challenges\"")]
    pub dir: PathBuf,
    // RFC 8555 8.3 names this type for the files of a challenge.
    /// `Content-Type` of every file.
    #[key(default = "application/octet-stream", read = sources::content_type)]
    pub content_type: String,
    /// Maximum size of a file; larger ones get 404.
    #[key(default = "64KiB", range = "1B..=16MiB", size, nonzero)]
    pub max_bytes: u32,
}

/// A reply. In its body and in the fields of its route, `{path}`, `{host}`, `{method}`, `{client}`
/// and the parameters of the path stand for parts of the request, and `{{` for a brace.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Reply {
    /// Status code.
    #[key(default = 200, range = 200..=599)]
    pub status: u16,
    /// Content.
    #[key(default = "")]
    pub body: String,
    /// File with the content, used verbatim instead of `body`; at most 1MiB, read again when it
    /// changes.
    pub file: Option<At<PathBuf>>,
    /// `Content-Type` of the content.
    #[key(default = "text/plain; charset=utf-8", read = sources::content_type)]
    pub content_type: String,
    /// Further header fields, with the same parameters.
    pub headers: Map<String>,
    /// Content of `file` when the configuration was read; empty if files were not read.
    #[key(skip)]
    pub content: Content,
}

/// Content of a file.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Content(pub Vec<u8>);

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// What a route does.
#[derive(Clone, Debug)]
pub enum Action<'r> {
    /// The files of a directory.
    Files(&'r Files),
    /// `grpc.health.v1`, as `[grpc]` says; in HTTP/2 only.
    Grpc,
    /// The state of a health endpoint.
    Health(HealthRoute),
    /// Redirects from a map, one for each link.
    Links(&'r Redirect),
    /// Results of checks of type `ttl` are accepted.
    Push,
    /// A redirect.
    Redirect(&'r Redirect),
    /// A fixed reply, apart from its parameters.
    Reply(&'r Reply),
}

/// `health = ".."`: with a parameter `{check}` in the path, one check of the endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthRoute {
    /// The position in [`super::Config::health`].
    pub endpoint: usize,
    /// Format of the body for clients that name none.
    pub format: HealthFormat,
    /// Clients that see more than the state.
    pub details: Details,
    /// Positions in [`super::Config::auth`]: clients that any of them accepts see the details.
    pub details_auth: Vec<usize>,
}

impl HealthRoute {
    /// The default for the endpoint at this position.
    #[must_use]
    pub const fn of(endpoint: usize) -> Self {
        Self { endpoint, format: HealthFormat::Text, details: Details::Never, details_auth: Vec::new() }
    }
}

impl Route {
    /// A route with the methods and, for lack of any, the paths that its action usually has.
    #[must_use]
    pub fn completed(mut self) -> Self {
        if self.paths.is_empty() {
            self.paths = self.usual_paths();
        }
        self.methods = self.usual_methods();
        self
    }

    /// What it does.
    #[must_use]
    pub fn action(&self) -> Action<'_> {
        match self {
            Self { health: Some(link), .. } => Action::Health(HealthRoute {
                endpoint: link.position,
                format: self.format,
                details: self.details,
                details_auth: self.details_auth.iter().map(|link| link.position).collect(),
            }),
            Self { push: Some(true), .. } => Action::Push,
            Self { grpc: Some(true), .. } => Action::Grpc,
            Self { files: Some(files), .. } => Action::Files(files),
            Self { redirect: Some(redirect), .. } if redirect.map.is_some() => Action::Links(redirect),
            Self { redirect: Some(redirect), .. } => Action::Redirect(redirect),
            // Without any action only after an error.
            Self { reply, .. } => Action::Reply(reply.as_ref().unwrap_or_else(|| Reply::defaults())),
        }
    }

    /// Whether it does anything; false only after an error.
    #[must_use]
    pub fn acts(&self) -> bool {
        !matches!(self.action(), Action::Reply(_)) || self.reply.is_some()
    }

    /// Whether probes ask for it.
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        self.health.is_some() || self.is_grpc()
    }

    /// Whether it takes the calls of `[grpc]`.
    #[must_use]
    pub const fn is_grpc(&self) -> bool {
        matches!(self, Self { grpc: Some(true), health: None, .. })
    }

    /// Whether it is on the listener at this position.
    #[must_use]
    pub fn is_on(&self, listener: usize) -> bool {
        self.positions().any(|position| position == listener)
    }

    /// The positions of its listeners.
    pub fn positions(&self) -> impl Iterator<Item = usize> {
        self.listeners.iter().map(|link| link.position)
    }

    /// The hosts that it takes; none means any.
    #[must_use]
    pub fn host_names(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.value.clone()).collect()
    }

    /// Further header fields of the reply: those of the route, then those of `reply`.
    #[must_use]
    pub fn fields(&self) -> Vec<(String, String)> {
        let fields = self.written_fields();
        fields.map(|(name, value)| (name.value.clone(), value.value.clone())).collect()
    }

    /// The same with their places.
    pub(crate) fn written_fields(&self) -> impl Iterator<Item = &(At<String>, At<String>)> {
        self.headers.iter().chain(self.reply.iter().flat_map(|reply| reply.headers.iter()))
    }

    fn usual_paths(&self) -> Vec<At<String>> {
        match self {
            Self { redirect: Some(_), .. } => vec!["/{*rest}".to_owned().into()],
            Self { grpc: Some(_), .. } => Grpc::PATHS.map(|path| path.to_owned().into()).into(),
            _ => Vec::new(),
        }
    }

    /// Probers use all three of a health route; a redirect keeps whatever method it gets, but a
    /// link is only followed.
    fn usual_methods(&self) -> Vec<Method> {
        match self.action() {
            Action::Files(_) | Action::Links(_) | Action::Reply(_) => vec![Method::Get, Method::Head],
            Action::Grpc => vec![Method::Post],
            Action::Health(_) => vec![Method::Get, Method::Head, Method::Options],
            Action::Push => vec![Method::Post, Method::Put],
            Action::Redirect(_) => MethodSet::ANY.iter().collect(),
        }
    }

    fn usual_details(&self) -> Details {
        if self.details_auth.is_empty() { Details::Never } else { Details::Authenticated }
    }

    /// Keys of health, on other routes.
    fn useless(&self) -> &'static [&'static str] {
        if self.health.is_some() { &[] } else { &["format", "details", "details_auth"] }
    }
}
