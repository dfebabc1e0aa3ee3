//! The expected reply, which is the first reply except for its date.

use std::ops::Range;

/// The end of every reply: the end of the head, and the configured body.
pub(super) const END: &[u8] = b"\r\n\r\nok\n";

const STATUS: &[u8] = b"HTTP/1.1 200 OK\r\n";
const DATE: &[u8] = b"\r\ndate: ";
/// Length of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
const DATE_LEN: usize = 29;

/// The reply with which all other replies are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    bytes: Vec<u8>,
    /// Position of the date. Empty if the reply has no date.
    date: Range<usize>,
}

impl Expected {
    /// Stores the first reply, which must have the configured body.
    pub(super) fn learn(bytes: Vec<u8>) -> Result<Self, String> {
        if !bytes.starts_with(STATUS) || !bytes.ends_with(END) {
            return Err(format!("the first reply is {:?}", String::from_utf8_lossy(&bytes)));
        }
        let lower = bytes.to_ascii_lowercase();
        let found = lower.windows(DATE.len()).position(|window| window == DATE);
        let date = found.map_or(0..0, |at| at + DATE.len()..(at + DATE.len() + DATE_LEN).min(bytes.len()));
        Ok(Self { bytes, date })
    }

    /// Length of the reply.
    pub(super) const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Compares each reply in `received` with the expected one.
    pub(super) fn check(&self, received: &[u8]) -> Result<(), String> {
        let whole = received.len().is_multiple_of(self.len());
        let is_same = |reply: &[u8]| {
            let Range { start, end } = self.date;
            reply[..start] == self.bytes[..start] && reply[end..] == self.bytes[end..]
        };
        if whole && !received.is_empty() && received.chunks(self.len()).all(is_same) {
            return Ok(());
        }
        Err(format!("a reply differs from the first one: {:?}", String::from_utf8_lossy(received)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nA: b\r\n\r\nok\n";

    #[test]
    fn only_the_date_may_differ() {
        let expected = Expected::learn(FIRST.into()).unwrap();
        let later = FIRST.replace("37 GMT", "38 GMT");
        for good in [FIRST, &later, &format!("{FIRST}{later}{FIRST}")] {
            assert_eq!(expected.check(good.as_bytes()), Ok(()));
        }
        for (from, to) in [("200", "201"), ("A: b", "A: c"), ("ok", "no"), ("ok\n", "ok"), ("ok\n", "ok\n\n")]
        {
            let bad = FIRST.replace(from, to);
            assert!(expected.check(bad.as_bytes()).is_err(), "{bad:?}");
            assert!(expected.check(format!("{FIRST}{bad}").as_bytes()).is_err(), "{bad:?}");
        }
        assert!(expected.check(b"").is_err());
        assert!(expected.check(&FIRST.as_bytes()[..9]).is_err());
    }

    #[test]
    fn a_reply_may_have_no_date() {
        let expected = Expected::learn(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n".to_vec()).unwrap();
        assert_eq!(expected.date, 0..0);
        assert!(expected.check(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nok\n").is_err());
    }

    #[test]
    fn the_first_reply_must_be_the_configured_one() {
        for bad in ["", "HTTP/1.1 503 No\r\n\r\nok\n", "HTTP/1.1 200 OK\r\n\r\nno\n"] {
            assert!(Expected::learn(bad.into()).is_err(), "{bad:?}");
        }
    }
}
