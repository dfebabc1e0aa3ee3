//! Checks of the first bytes on a TLS listener, before a session is created.

use doorbell_http::Next;

/// Length of a record header: type, version, length (RFC 8446 5.1).
pub(super) const HEADER_LEN: usize = 5;

/// Maximum length of a record's plaintext.
const FRAGMENT_LEN_MAX: usize = 1 << 14;

/// Type of a handshake record.
const HANDSHAKE: u8 = 22;

/// Message type of a ClientHello.
const CLIENT_HELLO: u8 = 1;

/// Number of initial bytes that are checked for letters, to detect HTTP.
const METHOD_LEN_LOOKED_AT: usize = 4;

/// Reply to a client that sends HTTP to a TLS port.
pub(super) const PLAIN_HTTP_REPLY: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain\r\n\
    Content-Length: 42\r\n\
    Connection: close\r\n\r\n\
    This port requires TLS: use https:// here\n";

/// Classification of the first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// The first record of a ClientHello is complete.
    Complete,
    /// HTTP without TLS.
    Http,
    /// Consistent with TLS so far, but incomplete.
    More,
    /// Anything else.
    NotTls,
    /// The ClientHello exceeds the limit.
    TooLong,
}

/// The alert record of a server without capacity (RFC 8446 6): `internal_error`.
pub const OVERLOAD_ALERT: [u8; 7] = Alert::InternalError.record();

/// Alerts that are sent without a session (RFC 8446 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alert {
    DecodeError = 50,
    InternalError = 80,
}

impl Alert {
    /// A fatal alert as a record.
    pub(super) const fn record(self) -> [u8; 7] {
        [21, 3, 3, 0, 2, 2, self as u8]
    }
}

/// Classifies all bytes received so far.
pub(super) fn classify(bytes: &[u8], hello_bytes_max: usize) -> Opening {
    let Some(&first) = bytes.first() else { return Opening::More };
    if first != HANDSHAKE {
        let begin = &bytes[..bytes.len().min(METHOD_LEN_LOOKED_AT)];
        let letters = begin.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let is_method = letters == begin.len() || (letters > 0 && begin[letters] == b' ');
        return if is_method { Opening::Http } else { Opening::NotTls };
    }
    if bytes.get(1).is_some_and(|&major| major != 3) || bytes.get(2).is_some_and(|&minor| minor > 4) {
        return Opening::NotTls;
    }
    let Some(&[_, _, _, high, low]) = bytes.first_chunk::<HEADER_LEN>() else { return Opening::More };
    let record_len = usize::from(u16::from_be_bytes([high, low]));
    if record_len == 0 || record_len > FRAGMENT_LEN_MAX {
        return Opening::NotTls;
    }
    let received = &bytes[HEADER_LEN..];
    let handshake = &received[..received.len().min(record_len)];
    if handshake.first().is_some_and(|&kind| kind != CLIENT_HELLO) {
        return Opening::NotTls;
    }
    if let Some(&[_, top, high, low]) = handshake.first_chunk::<4>()
        && u32::from_be_bytes([0, top, high, low]) as usize + 4 > hello_bytes_max
    {
        return Opening::TooLong;
    }
    if record_len > hello_bytes_max {
        return Opening::TooLong;
    }
    if handshake.len() < record_len { Opening::More } else { Opening::Complete }
}

/// The step after an alert. While the rest of an announced ClientHello is still arriving, an
/// immediate close would cause a reset, which can overtake the alert.
pub(super) fn after_alert(bytes: &[u8]) -> Next {
    if is_whole(bytes, usize::MAX - HEADER_LEN) { Next::CloseClean } else { Next::CloseLinger }
}

/// True if the ClientHello, in one or more records, is complete. Also true for other data and above
/// the limit of `hello_bytes_max`: the handshake refuses both.
pub(super) fn is_whole(bytes: &[u8], hello_bytes_max: usize) -> bool {
    if bytes.len() > hello_bytes_max + HEADER_LEN {
        return true;
    }
    let (mut rest, mut received) = (bytes, 0);
    let (mut message, mut message_len) = ([0; 4], usize::MAX);
    loop {
        let Some((&[kind, _, _, high, low], after)) = rest.split_first_chunk::<HEADER_LEN>() else {
            return rest.first().is_some_and(|&kind| kind != HANDSHAKE);
        };
        let record_len = usize::from(u16::from_be_bytes([high, low]));
        if kind != HANDSHAKE || record_len == 0 {
            return true;
        }
        let piece = &after[..record_len.min(after.len())];
        for (to, from) in message.iter_mut().skip(received).zip(piece) {
            *to = *from;
        }
        received += piece.len();
        if received >= message.len() {
            let [_, top, high, low] = message;
            message_len = u32::from_be_bytes([0, top, high, low]) as usize + message.len();
        }
        if received >= message_len {
            return true;
        }
        if piece.len() < record_len {
            return false;
        }
        rest = &after[record_len..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 16 * 1024;

    #[test]
    fn first_bytes_are_classified() {
        let hello = [22, 3, 1, 0, 5, 1, 0, 0, 1, 9];
        let long = [22, 3, 1, 0, 5, 1, 0, 64, 0, 9];
        let table: &[(&[u8], Opening)] = &[
            (b"", Opening::More),
            (b"G", Opening::Http),
            (b"GE", Opening::Http),
            (b"GET / HTTP/1.1", Opening::Http),
            (b"A /", Opening::Http),
            (b"get", Opening::Http),
            (b"G\0", Opening::NotTls),
            (b"GE1", Opening::NotTls),
            (b" GET", Opening::NotTls),
            (b"\r\n", Opening::NotTls),
            (&[0x80, 0x2e, 1, 0, 2], Opening::NotTls),
            (&[21, 3, 3, 0, 2, 2, 40], Opening::NotTls),
            (&[22], Opening::More),
            (&[22, 2], Opening::NotTls),
            (&[22, 3, 5], Opening::NotTls),
            (&[22, 3, 1, 0, 0], Opening::NotTls),
            (&[22, 3, 1, 64, 1], Opening::NotTls),
            (&[22, 3, 1, 0, 5, 2], Opening::NotTls),
            (&hello[..9], Opening::More),
            (&hello, Opening::Complete),
            (&long, Opening::TooLong),
            // The length of the message may be in the next record, which `classify` does not read.
            (&[22, 3, 1, 0, 1, 1, 22, 3, 1, 0, 3, 0, 0, 9], Opening::Complete),
        ];
        for (bytes, expected) in table {
            assert_eq!(classify(bytes, LIMIT), *expected, "{bytes:?}");
        }
        assert_eq!(classify(&[22, 3, 1, 0, 101], 100), Opening::TooLong);
    }

    #[test]
    fn every_prefix_of_a_first_record_is_incomplete() {
        let mut bytes = vec![22, 3, 1, 0x10, 0, 1, 0, 0x0f, 0xfc];
        bytes.resize(5 + 0x1000, 7);
        for len in 0..bytes.len() {
            assert_eq!(classify(&bytes[..len], LIMIT), Opening::More, "{len}");
        }
        assert_eq!(classify(&bytes, LIMIT), Opening::Complete);
    }

    /// A hello of the maximum length is incomplete until its last byte; the handshake refuses a
    /// longer one.
    #[test]
    fn a_hello_of_the_maximum_length_is_incomplete_until_its_last_byte() {
        let mut bytes = vec![22, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfb];
        bytes.resize(HEADER_LEN + 1000, 7);
        assert!(!is_whole(&bytes, 1000));
        assert!(is_whole(&bytes, 999));
    }

    #[test]
    fn a_hello_in_any_number_of_records_is_whole_with_its_last_byte() {
        let message: Vec<u8> = [1, 0, 0, 20].into_iter().chain(100..120).collect();
        for piece_len in 1..=message.len() {
            let records = |message: &[u8]| -> Vec<u8> {
                let record =
                    |piece: &[u8]| [&[22, 3, 1, 0, u8::try_from(piece.len()).unwrap()], piece].concat();
                message.chunks(piece_len).flat_map(record).collect()
            };
            let bytes = records(&message);
            for len in 0..bytes.len() {
                assert!(!is_whole(&bytes[..len], LIMIT), "{len} bytes, {piece_len} per record");
            }
            assert!(is_whole(&bytes, LIMIT));
            assert!(is_whole(&[&bytes[..], &[22, 3]].concat(), LIMIT), "complete, with other bytes after it");
            assert!(is_whole(&bytes[..10], 4), "more than hello_bytes_max");
        }
        let begun = [22, 3, 1, 0, 2, 1, 0];
        for other in [&[23, 3, 3, 0, 1, 0][..], &[21], &[22, 3, 1, 0, 0]] {
            assert!(is_whole(&[&begun[..], other].concat(), LIMIT), "{other:?}");
        }
    }

    #[test]
    fn the_reply_to_http_has_its_declared_length() {
        let text = core::str::from_utf8(PLAIN_HTTP_REPLY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{}", body.len());
    }
}
