//! Keys of a TCP check, whose bytes are text or hexadecimal.
//!
//! Does not know about: connections.

use super::address::{Address, HostPort, Resolve};
use super::http::Pattern;
use super::kind::Target;
use super::latency::LatencyRule;
use super::remote::TcpCheck;
use doorbell_config::{Dump, Entry, JsonMap, Key, Problem, Section, Table};
use std::sync::OnceLock;

/// Maximum number of bytes that are sent or expected.
const BYTES_MAX: usize = 4096;

/// A connection, and optionally bytes on it.
#[derive(Clone, Debug, Table)]
struct Keys {
    /// Address to connect to, "host:port" or "unix:/path". Required.
    #[key(required = "\"127.0.0.1:5432\"")]
    address: Address,
    /// Text to send after connecting. Default: nothing; an accepted connection is enough.
    send: Option<String>,
    /// Bytes to send after connecting, as pairs of hexadecimal digits.
    #[key(read = hex)]
    send_hex: Option<String>,
    /// Text that the response must contain.
    #[key(table = "expect")]
    contains: Option<String>,
    /// Bytes that the response must contain, as pairs of hexadecimal digits.
    #[key(table = "expect", read = hex)]
    hex: Option<String>,
    /// Regular expression that the response must match, as text.
    #[key(table = "expect")]
    matches: Option<Pattern>,
    /// Limits on the latency.
    #[key(flatten)]
    latency: LatencyRule,
    /// Use of the addresses of the host.
    resolve: Resolve,
}

impl Table for TcpCheck {
    const DOC: &'static str = Keys::DOC;

    fn keys() -> &'static [Key] {
        Keys::keys()
    }

    fn defaults() -> &'static Self {
        static DEFAULTS: OnceLock<TcpCheck> = OnceLock::new();
        DEFAULTS.get_or_init(|| Keys::default().build())
    }

    fn properties() -> JsonMap {
        Keys::properties()
    }

    fn take(at: &mut Section<'_>) -> Self {
        let keys = Keys::take(at);
        for [text, hex] in [["send", "send_hex"], ["expect.contains", "expect.hex"]] {
            if let (Some(text), Some(hex)) = (at.right_place(text), at.right_place(hex)) {
                let problem = Problem::error("contradiction", hex, "the same bytes twice");
                at.problem(problem.also(text, "as text").help("remove one of them"));
            }
        }
        keys.build()
    }

    fn show(&self, to: &mut Dump) {
        let text = |bytes: &[u8]| {
            let text = str::from_utf8(bytes).ok().filter(|text| !text.is_empty());
            text.map(str::to_owned)
        };
        let hex = |bytes: &[u8]| {
            let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            str::from_utf8(bytes).is_err().then(|| digits.join(" "))
        };
        let keys = Keys {
            address: self.address.clone(),
            send: text(&self.send),
            send_hex: hex(&self.send),
            contains: text(&self.contains),
            hex: hex(&self.contains),
            matches: self.matches.clone(),
            latency: self.latency,
            resolve: self.resolve,
        };
        keys.show(to);
    }
}

impl Target for TcpCheck {
    fn remote(&self) -> Option<&HostPort> {
        self.address.remote()
    }
}

impl TcpCheck {
    /// A check that succeeds if the connection is accepted.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self { address, ..Self::defaults().clone() }
    }
}

impl Keys {
    fn build(self) -> TcpCheck {
        let bytes = |text: Option<String>, hex: Option<String>| {
            let hex = hex.and_then(|hex| parse_hex(&hex));
            text.map(String::into_bytes).or(hex).unwrap_or_default()
        };
        TcpCheck {
            address: self.address,
            send: bytes(self.send, self.send_hex),
            contains: bytes(self.contains, self.hex),
            matches: self.matches,
            latency: self.latency,
            resolve: self.resolve,
        }
    }
}

/// Parses pairs of hexadecimal digits. Spaces are ignored.
fn hex(entry: &Entry<'_>) -> Option<Option<String>> {
    let text = entry.string()?;
    if parse_hex(&text).is_some() {
        return Some(Some(text));
    }
    let message = format!("`{}` is not bytes in hexadecimal", entry.name());
    let help = format!("write pairs of digits, as in \"02 0000 50494e47\", at most {BYTES_MAX} bytes");
    entry.refuse("bad-value", message, help)
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|char| !char.is_ascii_whitespace())
        .map(|char| char.to_digit(16))
        .collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let is_whole = rest.is_empty() && (1..=BYTES_MAX).contains(&pairs.len());
    is_whole.then(|| pairs.iter().filter_map(|[high, low]| u8::try_from(high << 4 | low).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal() {
        assert_eq!(parse_hex("02 0000 50494e47").as_deref(), Some(&b"\x02\0\0PING"[..]));
        assert_eq!(parse_hex("fF").as_deref(), Some(&b"\xff"[..]));
        for bad in ["", " ", "0", "0g", "é0", "0 0 0"] {
            assert_eq!(parse_hex(bad), None, "{bad:?}");
        }
        assert!(
            parse_hex(&"00".repeat(BYTES_MAX)).is_some() && parse_hex(&"00".repeat(BYTES_MAX + 1)).is_none()
        );
    }
}
