//! Bytes that are written as pairs of hexadecimal digits.

use doorbell_config::{Entry, Json, Key, TEXTS, Value as _};

/// Maximum number of bytes that are sent or expected.
const BYTES_MAX: usize = 4096;

/// Parses bytes that are written as pairs of hexadecimal digits; spaces are ignored.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|char| !char.is_ascii_whitespace())
        .map(|char| char.to_digit(16))
        .collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |[high, low]: &[u32; 2]| u8::try_from(high << 4 | low).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// Parses at most [`BYTES_MAX`] bytes.
pub(super) fn parse(text: &str) -> Option<Vec<u8>> {
    unhex(text).filter(|bytes| bytes.len() <= BYTES_MAX)
}

/// Formats bytes as pairs of digits.
pub(super) fn format(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// Reads bytes; the text may be empty.
pub(super) fn read(entry: &Entry<'_>) -> Option<Vec<u8>> {
    parse(&entry.string()?).or_else(|| refuse(entry))
}

/// Reports a text that is not bytes in hexadecimal.
pub(super) fn refuse<T>(entry: &Entry<'_>) -> Option<T> {
    let message = format!("`{}` is not bytes in hexadecimal", entry.name());
    let help = format!("write pairs of digits, as in \"02 0000 50494e47\", at most {BYTES_MAX} bytes");
    entry.refuse("bad-value", message, help)
}

pub(super) fn dump(bytes: &[u8]) -> Option<Json> {
    (!bytes.is_empty()).then(|| format(bytes).into())
}

pub(super) fn form(key: &Key) -> Json {
    String::form(key)
}

/// A list of byte strings.
pub(super) mod list {
    use super::{Entry, Json, Key, TEXTS};
    use doorbell_config::Value as _;

    pub(in super::super) fn read(entry: &Entry<'_>) -> Option<Vec<Vec<u8>>> {
        entry.list(TEXTS, super::read)
    }

    pub(in super::super) fn dump(list: &[Vec<u8>]) -> Option<Json> {
        match list {
            [] => None,
            [one] => Some(super::format(one).into()),
            several => Some(several.iter().map(|one| super::format(one)).collect()),
        }
    }

    pub(in super::super) fn form(key: &Key) -> Json {
        Vec::<String>::form(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal() {
        for (text, expected) in [
            ("02 0000 50494e47", Some(&b"\x02\0\0PING"[..])),
            ("fF", Some(b"\xff")),
            ("", Some(b"")),
            (" ", Some(b"")),
            ("0", None),
            ("0g", None),
            ("0x", None),
            ("+1", None),
            ("é0", None),
            ("0 0 0", None),
        ] {
            assert_eq!(parse(text).as_deref(), expected, "{text:?}");
        }
        assert_eq!(format(b"\x02\0\xff"), "02 00 ff");
        assert!(parse(&"00".repeat(BYTES_MAX)).is_some() && parse(&"00".repeat(BYTES_MAX + 1)).is_none());
    }
}
