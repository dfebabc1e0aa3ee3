//! `[shared]`: the store that instances share.
//!
//! Does not know about: keys and values in the store.

use super::Secret;
use doorbell_checks::options::ClientTls;
use doorbell_config::{At, Entry, Problem, Section, Table, Text};
use doorbell_shared::redis::Server;
use std::fmt;
use std::time::Duration;

/// A server of Redis or Valkey, through which instances share checks and limits and show themselves
/// to `doorbell fleet`. Probes never wait for the server; without it each instance continues alone.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct Sharing {
    /// URL of the server: `redis://HOST:PORT/DB`, or rediss for TLS; the default port is 6379, and
    /// the default database 0. Required.
    #[key(required = "\"redis://redis:6379\"")]
    pub redis: At<RedisUrl>,
    /// User of the access control list. Default: the default user of the server.
    pub username: Option<String>,
    /// Password, preferably ${file:PATH}. Default: none.
    pub password: Option<Secret>,
    /// TLS of the connection, for rediss.
    pub tls: Option<ClientTls>,
    /// Prefix of all keys and channels in the store. Instances with the same prefix share checks
    /// and limits.
    #[key(default = "doorbell:")]
    pub prefix: String,
    /// Name of this instance, different from all others. Default: the host name.
    #[key(read = instance)]
    pub instance: Option<String>,
    /// Zone of this instance, shown by `doorbell fleet`. Default: none.
    pub zone: Option<String>,
    /// Maximum time to connect, and from a command to its reply.
    #[key(default = "500ms", range = "10ms..=1m")]
    pub timeout: Duration,
    /// Whether `doorbell fleet` lists this instance.
    #[key(default = false)]
    pub announce: bool,
}

/// Maximum length of the name of an instance in bytes.
const INSTANCE_LEN_MAX: usize = 128;

/// The URL of a Redis or Valkey server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisUrl(String);

impl RedisUrl {
    /// The server, without credentials.
    pub(crate) fn server(&self) -> Option<Server> {
        Server::new(&self.0).ok()
    }
}

impl Sharing {
    fn check(&self, at: &Section<'_>) {
        let is_tls = self.redis.server().is_some_and(|server| server.is_tls());
        if let (false, Some(_), Some(place)) =
            (is_tls, &self.tls, at.place("tls").filter(|_| at.has_valid("redis")))
        {
            let problem = Problem::error("useless-tls", place, "`tls` has no effect without rediss");
            at.problem(problem.help("write the URL with rediss, or remove `tls`"));
        }
        let password = at.place("password");
        let has_password = password.is_some();
        let is_plain = |server: Server| !server.is_tls() && !server.is_local();
        if let (Some(place), true) = (password, self.redis.server().is_some_and(is_plain)) {
            let message = format!("the password is sent to {} without encryption", self.redis.value);
            let problem = Problem::warning("plain-password", place, message);
            at.problem(problem.help("write the URL with rediss, for TLS"));
        }
        if let (Some(_), false, Some(place)) = (&self.username, has_password, at.place("username")) {
            let problem = Problem::error("missing-password", place, "`username` needs a password");
            at.problem(problem.help("add `password`, or remove `username` for the default user"));
        }
    }
}

#[expect(clippy::option_option, reason = "signature required by the `Table` derive")]
fn instance(entry: &Entry<'_>) -> Option<Option<String>> {
    let name = entry.string()?;
    if name.is_empty() || name.len() > INSTANCE_LEN_MAX || name.chars().any(char::is_control) {
        let help = format!("write 1 to {INSTANCE_LEN_MAX} bytes without control characters");
        return entry.refuse("bad-name", format!("{name:?} is not the name of an instance"), help);
    }
    Some(Some(name))
}

impl Text for RedisUrl {
    fn parse(text: String, entry: &Entry<'_>) -> Option<Self> {
        match Server::new(&text) {
            Ok(_) => Some(Self(text)),
            // The URL may contain a password, so it is not shown.
            Err(error) => entry.refuse("bad-url", "the URL cannot be used", error.to_string()),
        }
    }

    fn blank() -> Self {
        Self("redis://localhost".to_owned())
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
