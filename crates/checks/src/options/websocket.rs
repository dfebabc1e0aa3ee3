//! Options of `websocket` checks.

use super::address::{Address, ClientTls, Resolve, Url};
use super::fields;
use super::http::FieldValue;
use super::latency::LatencyRule;
use super::remote::CertificateRule;
use super::target::{remote_of, target};
use doorbell_config::{Problem, Section, Table};

/// A WebSocket connection.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct WebsocketCheck {
    /// URL to connect to, ws or wss. Required.
    #[key(required = "\"ws://127.0.0.1:3000/socket\"", with = url)]
    pub url: Url,
    /// Address to connect to instead of the host of the URL.
    pub address: Option<Address>,
    /// Further header fields of the request; Host replaces the host of the URL, and Origin and
    /// Sec-WebSocket-Protocol are sent only if they are set here. Credentials such as Cookie are
    /// secrets.
    #[key(with = fields)]
    pub headers: Vec<(String, FieldValue)>,
    /// Send a ping and require its pong.
    #[key(default = true)]
    pub ping: bool,
    /// Text message to send. Default: none.
    pub send: Option<String>,
    /// Text that one of the messages from the server must contain.
    #[key(table = "expect")]
    pub contains: Option<String>,
    /// TLS of a wss URL.
    pub tls: ClientTls,
    /// Limits on the remaining lifetime of the certificates of a wss URL.
    #[key(flatten)]
    pub certificate: CertificateRule,
    /// Limits on the latency.
    #[key(flatten)]
    pub latency: LatencyRule,
    /// Which addresses of the target host are used, and for how long.
    pub resolve: Resolve,
}

impl WebsocketCheck {
    /// Expects a connection, and a pong.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self { url, ..Self::default() }
    }

    fn check(&self, at: &Section<'_>) {
        let may_be_tls = self.url.is_https || !at.has_valid("url");
        CertificateRule::needs_tls(at, may_be_tls, "write a wss URL, or remove it");
        let is_own = |name: &str| {
            let name = name.to_ascii_lowercase();
            name.starts_with("sec-websocket-") && name != "sec-websocket-protocol"
        };
        for (name, _) in self.headers.iter().filter(|(name, _)| is_own(name)) {
            let message = format!("header field `{name}` cannot be set");
            let problem = Problem::error("bad-header", at.place("headers").unwrap_or_default(), message);
            at.problem(problem.help("remove it; doorbell writes this field itself"));
        }
    }
}

target!(check: WebsocketCheck, remote_of(check.address.as_ref(), &check.url), Some(&check.tls));

/// Form of the URL: `ws` or `wss` in the configuration, stored as a [`Url`] with `http` or `https`.
pub(super) mod url {
    use super::Url;
    use doorbell_config::{Entry, Json, Key, Value as _};

    /// Parses `ws://..` or `wss://..`.
    pub(in super::super) fn parse(text: &str) -> Option<Url> {
        Url::parse(&format!("http{}", text.strip_prefix("ws")?))
    }

    pub(super) fn read(entry: &Entry<'_>) -> Option<Url> {
        let text = entry.string()?;
        parse(&text).or_else(|| {
            let help = "write \"ws://host:port/path\" or \"wss://host/path\", without credentials and `#`";
            entry.refuse("bad-value", "this is not a WebSocket URL", help)
        })
    }

    pub(super) fn dump(url: &Url) -> Option<Json> {
        Some(url.to_string().replacen("http", "ws", 1).into())
    }

    pub(super) fn form(key: &Key) -> Json {
        String::form(key)
    }
}
