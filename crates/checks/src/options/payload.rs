//! Bytes that a check sends and expects, as text or in hexadecimal.

use super::hex;
use super::http::Pattern;
use doorbell_config::{Dump, Entry, JsonMap, Key, Problem, Section, Table};
use std::sync::OnceLock;

/// Bytes to send, and requirements for the response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// Bytes to send.
    pub send: Vec<u8>,
    /// Bytes that the response must contain.
    pub contains: Vec<u8>,
    /// Regular expression that the response, decoded as text, must match.
    pub matches: Option<Pattern>,
}

/// Bytes to send, and requirements for the response.
#[derive(Clone, Debug, Table)]
struct Keys {
    /// Text to send. Default: nothing; with tcp an accepted connection is enough, and with udp the
    /// datagram is empty.
    send: Option<String>,
    /// Bytes to send, as pairs of hexadecimal digits.
    #[key(read = filled_hex)]
    send_hex: Option<String>,
    /// Text that the response must contain.
    #[key(table = "expect")]
    contains: Option<String>,
    /// Bytes that the response must contain, as pairs of hexadecimal digits.
    #[key(table = "expect", read = filled_hex)]
    hex: Option<String>,
    /// Regular expression that the response, decoded as text, must match.
    #[key(table = "expect")]
    matches: Option<Pattern>,
}

impl Table for Payload {
    const DOC: &'static str = Keys::DOC;

    fn keys() -> &'static [Key] {
        Keys::keys()
    }

    fn defaults() -> &'static Self {
        static DEFAULTS: OnceLock<Payload> = OnceLock::new();
        DEFAULTS.get_or_init(Self::default)
    }

    fn properties() -> JsonMap {
        Keys::properties()
    }

    fn take(at: &mut Section<'_>) -> Self {
        let keys = Keys::take(at);
        for [text, hex] in [["send", "send_hex"], ["expect.contains", "expect.hex"]] {
            if let (Some(text), Some(hex)) = (at.right_place(text), at.right_place(hex)) {
                let problem =
                    Problem::error("contradiction", hex, "the bytes are given as text and in hexadecimal");
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
        let hex = |bytes: &[u8]| str::from_utf8(bytes).is_err().then(|| hex::format(bytes));
        let keys = Keys {
            send: text(&self.send),
            send_hex: hex(&self.send),
            contains: text(&self.contains),
            hex: hex(&self.contains),
            matches: self.matches.clone(),
        };
        keys.show(to);
    }
}

impl Payload {
    /// Whether a response is required.
    #[must_use]
    pub const fn expects_response(&self) -> bool {
        !self.contains.is_empty() || self.matches.is_some()
    }
}

impl Keys {
    fn build(self) -> Payload {
        let bytes = |text: Option<String>, hex: Option<String>| {
            let hex = hex.and_then(|text| hex::parse(&text));
            text.map(String::into_bytes).or(hex).unwrap_or_default()
        };
        Payload {
            send: bytes(self.send, self.send_hex),
            contains: bytes(self.contains, self.hex),
            matches: self.matches,
        }
    }
}

/// Reads a hexadecimal text of at least one byte, and returns the text unchanged.
fn filled_hex(entry: &Entry<'_>) -> Option<Option<String>> {
    let text = entry.string()?;
    let is_filled = hex::parse(&text).is_some_and(|bytes| !bytes.is_empty());
    if is_filled { Some(Some(text)) } else { hex::refuse(entry) }
}
