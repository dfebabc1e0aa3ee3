//! `[limit.NAME]`: request rates of clients.

use doorbell::http::limit::{BURST_MAX, KEYS_MAX, OnError, Quota};
use doorbell_config::{Entry, Json, Key, Problem, Rate, Secret, Section, Table, Value, literal};
use doorbell_shared::limit::{Gcra, credit_default};
use serde_json::json;
use std::fmt;
use std::ops::Range;

/// One limit.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct Limit {
    /// Referred to by routes.
    #[key(table_name)]
    pub name: String,
    /// Identity of a client: "ip", "ip/24", "ip/24,56" (bits of IPv4, IPv6), "header:NAME" or
    /// "token". Default for the bits of IPv6: `runtime.client_ipv6_prefix`.
    #[key(default = "ip")]
    pub key: LimitKey,
    /// Maximum rate of requests, such as "20/s", "600/m" or "1000/h". Required.
    #[key(required = "\"20/s\"")]
    pub rate: Rate,
    /// Maximum number of requests in one burst. Default: the number of requests in `rate`.
    #[key(default_with = Self::default_burst, range = 1..=BURST_MAX, nonzero)]
    pub burst: u32,
    /// Maximum number of tracked clients; those that used the least of their rate are dropped
    /// first.
    #[key(default = 65_536, range = 1..=KEYS_MAX, nonzero)]
    pub table: u32,
    /// Exempts health and gRPC routes and, on other routes, known probers; any client can imitate a
    /// prober.
    #[key(default = false)]
    pub exempt_probes: bool,
    /// Sends `RateLimit-*` in all replies; with `false`, only in refusals.
    #[key(default = true)]
    pub headers: bool,
    /// Shares the limit with all instances that use the store of `[shared]`. Default: each instance
    /// has the limit for itself.
    pub shared: Option<LimitSharing>,
}

/// A limit that instances share. Each instance leases parts of the limit in advance, so that no
/// request waits for the store.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct LimitSharing {
    /// Secret of the keyed hashes that stand for clients in the store: at least 16 bytes, the same
    /// in all instances, preferably ${file:PATH}. Required.
    #[key(required = "\"${file:/run/secrets/limits}\"")]
    pub secret: Secret,
    /// Decision while the store does not reply: local (the limit applies to each instance for
    /// itself) or refuse.
    #[key(default = "local", words = ON_ERROR)]
    pub on_error: OnError,
    /// Maximum number of requests of a client that an instance permits while it has no lease for
    /// the client and waits for the store. Default: the smaller of 8 and a quarter of the burst,
    /// but at least 1 and at least 1/1024 of the burst.
    #[key(range = 1..=BURST_MAX)]
    pub credit: Option<u32>,
}

const ON_ERROR: [(&str, OnError); 2] = [("local", OnError::Local), ("refuse", OnError::Refuse)];

impl LimitSharing {
    /// Minimum length of a secret in bytes.
    const SECRET_LEN_MIN: usize = 16;

    fn check(&self, at: &Section<'_>) {
        if self.secret.reveal().len() < Self::SECRET_LEN_MIN
            && let Some(place) = at.right_place("secret")
        {
            let message = format!("a secret has at least {} bytes", Self::SECRET_LEN_MIN);
            let problem = Problem::error("short-secret", place, message);
            at.problem(problem.help("`openssl rand -base64 24` prints a good one"));
        }
    }
}

/// Identity of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitKey {
    /// The first header field with this name.
    Header(String),
    /// The whole IPv4 address, or the first `runtime.client_ipv6_prefix` bits of an IPv6 address.
    Ip,
    /// The first bits of the address.
    Prefix {
        /// Bits of an IPv4 address, 1 to 32.
        v4_len: u8,
        /// Bits of an IPv6 address, 1 to 128; `None`: `runtime.client_ipv6_prefix`.
        v6_len: Option<u8>,
    },
    /// The bearer token.
    Token,
}

impl Limit {
    fn default_burst(&self) -> u32 {
        self.rate.requests.min(BURST_MAX)
    }

    fn check(&self, at: &Section<'_>) {
        let Some(rate) = at.right_place("rate") else { return };
        let place = at.right_place("burst").unwrap_or(rate);
        if let Some(problem) = unrepresentable(self.rate, self.burst, &place) {
            at.problem(problem);
        } else if let Some(Err(why)) = self.in_store() {
            let message = format!("limit `{}` cannot be shared: {why}", self.name);
            at.problem(Problem::error("out-of-range", place, message).help("increase `burst`"));
        }
    }

    /// The parameters of the limit in the store, or the reason why the limit cannot be shared;
    /// `None` if it is not shared.
    pub fn in_store(&self) -> Option<Result<Gcra, String>> {
        let credit = self.shared.as_ref()?.credit.unwrap_or_else(|| credit_default(self.burst));
        let quota = Quota::new(self.burst, self.rate.requests, self.rate.period);
        Some(match quota {
            Ok(quota) => Gcra::new(&quota, credit).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        })
    }
}

/// Returns a problem if the limiter cannot represent this rate and burst.
pub(crate) fn unrepresentable(rate: Rate, burst: u32, span: &Range<usize>) -> Option<Problem> {
    let error = Quota::new(burst, rate.requests, rate.period).err()?;
    let message = format!("{rate} with a burst of {burst} cannot be counted: {error}");
    let problem = Problem::error("out-of-range", span.clone(), message);
    Some(problem.help(format!("a burst is at most {BURST_MAX}, and must refill within a year")))
}

impl Value for LimitKey {
    fn read(entry: &Entry<'_>) -> Option<Self> {
        let text = entry.string()?;
        let help =
            "one of \"ip\", \"ip/24\", \"ip/24,64\" for IPv4 and IPv6, \"header:X-Api-Key\", \"token\"";
        parse_key(&text)
            .or_else(|| entry.refuse("bad-value", format!("`{}` cannot be {text:?}", entry.name()), help))
    }

    fn absent() -> Self {
        Self::Ip
    }

    fn dump(&self, _key: &Key, _with_defaults: bool) -> Option<Json> {
        Some(literal(&self.to_string()))
    }

    fn form(_key: &Key) -> Json {
        json!({ "type": "string" })
    }
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Ip => f.write_str("ip"),
            Self::Prefix { v4_len, v6_len: None } => write!(f, "ip/{v4_len}"),
            Self::Prefix { v4_len, v6_len: Some(v6_len) } => write!(f, "ip/{v4_len},{v6_len}"),
            Self::Token => f.write_str("token"),
        }
    }
}

fn parse_key(text: &str) -> Option<LimitKey> {
    if let Some(name) = text.strip_prefix("header:") {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let good = !name.is_empty() && name.bytes().all(token);
        return good.then(|| LimitKey::Header(name.to_ascii_lowercase()));
    }
    if let Some(lens) = text.strip_prefix("ip/") {
        let (v4, v6) = lens.split_once(',').map_or((lens, None), |(v4, v6)| (v4, Some(v6)));
        let len = |text: &str, max: u8| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|len| digits && (1..=max).contains(len))
        };
        let v6_len = match v6 {
            Some(v6) => Some(len(v6.trim_start(), 128)?),
            None => None,
        };
        return Some(LimitKey::Prefix { v4_len: len(v4, 32)?, v6_len });
    }
    match text {
        "ip" => Some(LimitKey::Ip),
        "token" => Some(LimitKey::Token),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        for (text, shown) in [
            ("ip", "ip"),
            ("ip/24", "ip/24"),
            ("ip/24,56", "ip/24,56"),
            ("ip/24, 56", "ip/24,56"),
            ("ip/32,128", "ip/32,128"),
            ("token", "token"),
            ("header:X-Api-Key", "header:x-api-key"),
        ] {
            assert_eq!(parse_key(text).map(|key| key.to_string()).as_deref(), Some(shown));
            assert_eq!(parse_key(shown), parse_key(text));
        }
        for text in [
            "",
            "IP",
            "ip/",
            "ip/0",
            "ip/33",
            "ip/24,",
            "ip/24,0",
            "ip/24,129",
            "ip/+1",
            "ip/x",
            "header:",
            "header:a b",
            "host",
        ] {
            assert_eq!(parse_key(text), None, "{text}");
        }
    }
}
