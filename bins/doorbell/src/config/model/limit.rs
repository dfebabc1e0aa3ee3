//! `[limit.NAME]`: how often a client may come.
//!
//! Does not know about: routes, how requests are counted.

use doorbell_config::Rate;
use std::fmt;

/// `[limit.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Named by routes.
    pub name: String,
    /// What clients are told apart by.
    pub key: LimitKey,
    /// In the long run.
    pub rate: Rate,
    /// At once.
    pub burst: u32,
    /// Keys that are remembered.
    pub table: u32,
    /// Whether requests that look like a known prober's are let through uncounted. Anybody can look like one, so the default is false.
    pub exempt_probes: bool,
    /// Whether replies carry `RateLimit-*`.
    pub headers: bool,
}

/// What clients are told apart by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitKey {
    /// The first field with this name.
    Header(String),
    /// All of an IPv4 address, and of an IPv6 address as much as is one client.
    Ip,
    /// The first bits of the address.
    Prefix {
        /// Bits of an IPv4 address, 1 to 32.
        v4_len: u8,
        /// Bits of an IPv6 address, 1 to 128; `None`: as many as are one client.
        v6_len: Option<u8>,
    },
    /// The bearer token.
    Token,
}

impl Limit {
    /// Keys that are remembered when nothing else is said: half a mebibyte.
    pub const TABLE: u32 = 65_536;
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
