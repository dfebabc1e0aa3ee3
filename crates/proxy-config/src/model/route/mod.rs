//! `[route.NAME]`: the requests that it matches, its guards, and its action.

mod methods;
mod redirect;
mod rules;
mod sources;

pub use redirect::Redirect;
pub use redirect::build_redirect;

use super::Grpc;
use doorbell::http::Method;
use doorbell::http::router::MethodSet;
use doorbell_config::{At, Link, Map, Table, Words};
use std::fmt;
use std::path::PathBuf;

/// One route: `files`, `grpc`, `health`, `push`, `redirect` or `reply` selects its action.
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
    /// Paths such as "/x", "/x/{name}" or "/x/{*rest}"; one or a list. Default: for a redirect
    /// every path, for grpc the paths of its calls; otherwise required.
    #[key(name = "path", filled, shown, read = sources::paths, default_with = Self::default_paths)]
    pub paths: Vec<At<String>>,
    /// Methods, or any; others get 405, even if a less specific path has them. Default: GET and
    /// HEAD; also OPTIONS for health; all for a redirect without `map`; POST for grpc; POST and PUT
    /// for push.
    #[key(filled, with = methods, default_with = Self::default_methods)]
    pub methods: Vec<Method>,
    /// Further header fields of the reply.
    pub headers: Map<String>,
    /// Names of `[auth.NAME]`, one or a list; any of them grants access. Other clients get 401 or
    /// 403.
    #[key(filled)]
    pub auth: Vec<At<Link>>,
    /// Name of a `[limit.NAME]`; requests beyond it get 429.
    pub limit: Option<At<Link>>,
    /// Maximum number of requests in progress; further ones get 503. A Watch of gRPC counts while
    /// it is open. Default: no limit.
    #[key(range = 1..=4_000_000, nonzero)]
    pub concurrent: Option<u32>,
    /// Client certificate: require or exempt. Default: require with `client_names`, otherwise the
    /// `mode` of the listener's `[tls.NAME]`.
    pub client_cert: Option<ClientCert>,
    /// Accepted names of the client certificate, compared byte by byte with its alternative names
    /// (DNS, mail, URI, IP address), or with its common name if it has none of these. Clients
    /// without an accepted name get 403.
    #[key(filled, read = sources::client_names)]
    pub client_names: Vec<At<String>>,
    /// Replies with files of a directory.
    #[key(shown)]
    pub files: Option<Files>,
    /// Applies the guards of this route to the calls of `[grpc]`.
    pub grpc: Option<bool>,
    /// Endpoint to report; with {check} in `path`, one of its checks, for clients that see
    /// `details`.
    pub health: Option<At<Link>>,
    /// Format of the reply; auto follows `Accept`. ?format= and ?verbose of a request take
    /// precedence.
    #[key(default = "text")]
    pub format: HealthFormat,
    /// Clients that see single checks and reasons, and may exclude checks with ?exclude=NAME. Other
    /// clients get only the state, and 404 for a path with {check}. Default: never; with
    /// `details_auth`: authenticated.
    #[key(default_with = Self::default_details)]
    pub details: Details,
    /// Names of `[auth.NAME]`, one or a list, whose clients count as authenticated; other clients
    /// get only the state. Default: the names in `auth`.
    pub details_auth: Vec<At<Link>>,
    /// Accepts results of checks of type ttl by POST or PUT, with {check} and {result} in `path`.
    pub push: Option<bool>,
    /// Replies with a redirect. The reply is 404 if the location equals the requested URL, for
    /// instance behind a proxy that terminates TLS and forwards the scheme (see `forwarded`).
    #[key(shown)]
    pub redirect: Option<Redirect>,
    /// Fixed reply, in which {path}, {host}, {method}, {client} and the parameters of `path` are
    /// replaced by parts of the request.
    #[key(shown)]
    pub reply: Option<Reply>,
}

/// Whether a route requires a client certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum ClientCert {
    /// No certificate is required.
    Exempt,
    /// Requests without a certificate get 403.
    Require,
}

/// Format of a health reply, unless `?format=` or `?verbose` selects another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Words)]
pub enum HealthFormat {
    /// Chosen by `Accept`; text for clients that accept any type.
    Auto,
    /// `application/health+json`
    #[word("health+json")]
    HealthJson,
    /// The format of the Kubernetes API server for `?verbose`.
    KubeVerbose,
    /// The format of Spring Boot's actuator.
    Spring,
    /// The state, then a line for each check.
    #[default]
    Text,
}

/// Clients that see the checks of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Words)]
pub enum Details {
    /// All clients.
    Always,
    /// Authenticated clients.
    Authenticated,
    /// No clients.
    #[default]
    Never,
}

/// Files of a directory; the last parameter of `path` names the file.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Files {
    /// Directory; the last parameter of `path` names a file in it. Symbolic links are followed
    /// unless they lead out of the directory. Required.
    #[key(required = "\"/var/lib/acme/challenges\"")]
    pub dir: PathBuf,
    // Default: the type that RFC 8555 8.3 names for the files of a challenge.
    /// `Content-Type` of every file.
    #[key(default = "application/octet-stream", read = sources::content_type)]
    pub content_type: String,
    /// Maximum size of a file; larger ones get 404.
    #[key(default = "64KiB", range = "1B..=16MiB", size, nonzero)]
    pub max_bytes: u32,
}

/// A reply. In its body and in the fields of its route, `{path}`, `{host}`, `{method}`, `{client}`
/// and the parameters of the path are replaced by parts of the request; `{{` is a literal brace.
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
    /// Further header fields, with the same parameters as `body`.
    pub headers: Map<String>,
    /// Content of `file` at the time the configuration was read; empty if files were not read.
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

/// Action of a route.
#[derive(Clone, Debug)]
pub enum Action<'r> {
    /// The files of a directory.
    Files(&'r Files),
    /// `grpc.health.v1` with the settings of `[grpc]`; over HTTP/2 only.
    Grpc,
    /// The state of a health endpoint.
    Health(HealthRoute),
    /// Redirects from a link map, with a location for each path.
    Links(&'r Redirect),
    /// Results of checks of type `ttl` are accepted.
    Push,
    /// A redirect.
    Redirect(&'r Redirect),
    /// A fixed reply, which may contain parameters.
    Reply(&'r Reply),
}

/// Action of a health route: reports an endpoint or, with a parameter `{check}` in the path, one of
/// its checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthRoute {
    /// The position in [`super::Config::health`].
    pub endpoint: usize,
    /// Format of the body for requests that select none.
    pub format: HealthFormat,
    /// Clients that see more than the state.
    pub details: Details,
    /// Positions in [`super::Config::auth`] of the rules whose clients count as authenticated; if
    /// empty, all clients that the route admits count as authenticated.
    pub details_auth: Vec<usize>,
}

impl Route {
    /// Fills in the default methods of the action, and its default paths if the route has none.
    #[must_use]
    pub fn with_defaults(mut self) -> Self {
        if self.paths.is_empty() {
            self.paths = self.default_paths();
        }
        self.methods = self.default_methods();
        self
    }

    /// The action of the route.
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
            // A route without an action only exists after an error.
            Self { reply, .. } => Action::Reply(reply.as_ref().unwrap_or_else(|| Reply::defaults())),
        }
    }

    /// Whether the route has an action; false only after an error.
    pub(crate) fn has_action(&self) -> bool {
        !matches!(self.action(), Action::Reply(_)) || self.reply.is_some()
    }

    /// Whether the route serves probes.
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        self.health.is_some() || self.is_grpc()
    }

    /// Whether the route serves the calls of `[grpc]`.
    #[must_use]
    pub const fn is_grpc(&self) -> bool {
        matches!(self, Self { grpc: Some(true), health: None, .. })
    }

    /// Whether the route is on the listener at this position.
    #[must_use]
    pub fn is_on(&self, listener: usize) -> bool {
        self.positions().any(|position| position == listener)
    }

    /// The positions of the listeners of the route.
    pub(crate) fn positions(&self) -> impl Iterator<Item = usize> {
        self.listeners.iter().map(|link| link.position)
    }

    /// Hosts of the route; an empty list matches every host.
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

    /// The fields of [`Self::fields`] with their positions in the file.
    pub(crate) fn written_fields(&self) -> impl Iterator<Item = &(At<String>, At<String>)> {
        self.headers.iter().chain(self.reply.iter().flat_map(|reply| reply.headers.iter()))
    }

    fn default_paths(&self) -> Vec<At<String>> {
        match self {
            Self { redirect: Some(_), .. } => vec!["/{*rest}".to_owned().into()],
            Self { grpc: Some(_), .. } => Grpc::PATHS.map(|path| path.to_owned().into()).into(),
            _ => Vec::new(),
        }
    }

    /// Default methods. Probers use GET, HEAD and OPTIONS. A redirect with 308 preserves every
    /// method. A link map is for browsers, which use GET.
    fn default_methods(&self) -> Vec<Method> {
        match self.action() {
            Action::Files(_) | Action::Links(_) | Action::Reply(_) => vec![Method::Get, Method::Head],
            Action::Grpc => vec![Method::Post],
            Action::Health(_) => vec![Method::Get, Method::Head, Method::Options],
            Action::Push => vec![Method::Post, Method::Put],
            Action::Redirect(_) => MethodSet::ANY.iter().collect(),
        }
    }

    fn default_details(&self) -> Details {
        if self.details_auth.is_empty() { Details::Never } else { Details::Authenticated }
    }

    /// Keys without effect: those of health routes, on a route of another kind.
    fn useless(&self) -> &'static [&'static str] {
        if self.health.is_some() { &[] } else { &["format", "details", "details_auth"] }
    }
}
