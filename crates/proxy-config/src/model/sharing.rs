//! `[shared]`: the store that instances share.

use super::Secret;
use super::server_url::{ServerKind, ServerUrl};
use doorbell_checks::options::ClientTls;
use doorbell_config::{At, Entry, Problem, Section, Table};
use std::time::Duration;

/// A server of Redis or Valkey, through which instances share checks and limits and show themselves
/// to `doorbell fleet`. Probes never wait for the server; without it each instance continues alone.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct Sharing {
    /// URL of the server: `redis://HOST:PORT/DB`, or rediss for TLS; the default port is 6379, and
    /// the default database 0. Required.
    #[key(required = "\"redis://redis:6379\"")]
    pub redis: At<ServerUrl<RedisServer>>,
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

/// Redis or Valkey servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisServer {}

impl ServerKind for RedisServer {
    const FORM: &str = "redis://HOST:PORT/DB or rediss://HOST:PORT/DB, without a user or password";
    const SCHEMES: [(&str, u16); 2] = [("redis", 6379), ("rediss", 6379)];
    const HAS_DB: bool = true;
}

impl Sharing {
    fn check(&self, at: &Section<'_>) {
        self.redis.check_tls("redis", at);
        self.redis.check_password(at);
        let has_password = at.place("password").is_some();
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
