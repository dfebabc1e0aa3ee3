//! `[route.NAME]`: which requests, who may ask, what is answered.
//!
//! Does not know about: looking a route up.

use crate::http::Method;
use crate::http::redirect::{RedirectStatus, Scheme};
use std::fmt;
use std::path::PathBuf;

/// `[route.NAME]`
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Named in logs and errors.
    pub name: String,
    /// Positions in [`super::Config::listeners`].
    pub listeners: Vec<usize>,
    /// Hosts; none means any.
    pub hosts: Vec<String>,
    /// Path patterns.
    pub paths: Vec<String>,
    /// Methods; GET brings HEAD along.
    pub methods: Vec<Method>,
    /// Further header fields of the reply.
    pub headers: Vec<(String, String)>,
    /// Who gets that far.
    pub guard: Guard,
    /// What is answered.
    pub action: Action,
}

/// What stands before a route; by default it lets everybody in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// The position in [`super::Config::limits`].
    pub limit: Option<usize>,
    /// Requests of this route in progress at once; over it the answer is 503.
    pub concurrent: Option<u32>,
    /// Whether a client certificate is needed; `None` is what the listener says.
    pub client_cert: Option<ClientCert>,
    /// The names of verified certificates that get in; none means every verified one. Others get 403.
    pub client_names: Vec<String>,
    /// Positions in [`super::Config::auth`], any of which lets a request in; none means nobody is asked.
    pub auth: Vec<usize>,
}

/// What a route says about client certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCert {
    /// None is needed.
    Exempt,
    /// Without one the answer is 403.
    Require,
}

/// What a route answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The files of a directory.
    Files(Files),
    /// `grpc.health.v1`, as `[grpc]` says; in HTTP/2 only.
    Grpc,
    /// The state of a health endpoint.
    Health(HealthRoute),
    /// Redirects, one for each link.
    Links(LinkMap),
    /// The application tells how a check of type `ttl` is.
    Push,
    /// A redirect.
    Redirect(RedirectTo),
    /// Always the same, but for the names in it.
    Reply(Reply),
}

/// `health = ".."`: with a parameter `{check}` in the path, one check of the endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthRoute {
    /// The position in [`super::Config::health`].
    pub endpoint: usize,
    /// How the body looks to whoever does not say how it should.
    pub format: HealthFormat,
    /// Who sees more than the state.
    pub details: Details,
    /// Positions in [`super::Config::auth`]: whoever any of them knows sees the details. All others get the rest.
    pub details_auth: Vec<usize>,
}

/// How the body of a health reply looks, unless `?format=` or `?verbose` says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HealthFormat {
    /// As `Accept` says; text for those who take anything.
    Auto,
    /// `application/health+json`
    HealthJson,
    /// As of the Kubernetes API server, with `?verbose`.
    KubeVerbose,
    /// As of Spring Boot's actuator.
    Spring,
    /// The state, then a line for each check.
    #[default]
    Text,
}

/// Who sees the checks of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Details {
    /// Everybody.
    Always,
    /// Whoever has shown who he is.
    Authenticated,
    /// Nobody.
    #[default]
    Never,
}

/// `files = { .. }`: the last parameter of the path is the name of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// Where the files are.
    pub dir: PathBuf,
    /// The type of their content.
    pub content_type: String,
    /// A file that is longer is not sent.
    pub max_bytes: u32,
}

/// `redirect = { map = .. }`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkMap {
    /// Where the links are.
    pub map: PathBuf,
    /// Where a link goes that is not among them; without it the answer is 404.
    pub default: Option<String>,
    /// The status of `default`; a link has its own in the map.
    pub status: RedirectStatus,
}

/// `redirect = { .. }`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectTo {
    /// How the location begins.
    pub scheme: Scheme,
    /// Where hosts that are not listed go; with listed hosts, where they all go.
    pub host: Option<String>,
    /// The port; `None` is the scheme's own.
    pub port: Option<u16>,
    /// The path template.
    pub path: String,
    /// The status.
    pub status: RedirectStatus,
    /// Whether the query goes along.
    pub keep_query: bool,
}

/// `reply = { .. }`: in its body and in the fields of its route `{path}`, `{host}`, `{method}`, `{client}` and the parameters of the path stand for what
/// the request says, and `{{` for a brace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// From 200 to 599.
    pub status: u16,
    /// The content.
    pub body: String,
    /// The content as it is, instead of `body`.
    pub file: Option<ReplyFile>,
    /// The type of the content.
    pub content_type: String,
}

/// A file whose content is a reply's.
#[derive(Clone, PartialEq, Eq)]
pub struct ReplyFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it held when the configuration was read; empty where the files of a configuration are left alone.
    pub content: Vec<u8>,
}

impl fmt::Debug for ReplyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyFile").field("path", &self.path).field("len", &self.content.len()).finish()
    }
}

impl Action {
    /// Whether it is what probers ask for.
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        matches!(self, Self::Grpc | Self::Health(_))
    }
}

impl HealthRoute {
    /// The default for the endpoint at this position.
    #[must_use]
    pub const fn of(endpoint: usize) -> Self {
        Self { endpoint, format: HealthFormat::Text, details: Details::Never, details_auth: Vec::new() }
    }
}

impl Default for RedirectTo {
    fn default() -> Self {
        Self {
            scheme: Scheme::Https,
            host: None,
            port: None,
            path: "{path}".into(),
            status: RedirectStatus::default(),
            keep_query: true,
        }
    }
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            status: 200,
            body: String::new(),
            file: None,
            content_type: "text/plain; charset=utf-8".into(),
        }
    }
}

impl Default for Files {
    /// RFC 8555 8.3 names this type for the files of a challenge.
    fn default() -> Self {
        Self { dir: PathBuf::new(), content_type: "application/octet-stream".into(), max_bytes: 64 << 10 }
    }
}

impl Default for LinkMap {
    /// What is not among the links today may be tomorrow, and browsers keep a 308.
    fn default() -> Self {
        Self { map: PathBuf::new(), default: None, status: RedirectStatus::Found }
    }
}
