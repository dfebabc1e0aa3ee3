//! What a ClientHello offers by ALPN (RFC 7301), read without taking anything from it.
//!
//! Does not know about: any other extension, who does the handshake.

use std::borrow::Cow;

/// A record's header: type, version, length (RFC 8446 5.1).
use super::hello::HEADER_LEN;

/// The extension's number.
const ALPN: u16 = 16;

/// Whose the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The client's first choice among ours and theirs is one of theirs.
    HandOver,
    /// The ClientHello goes on in a record that is not complete.
    More,
    /// Everything else, what cannot be read included: the handshake tells the client.
    Ours,
}

/// Looks at the records received so far, the first of which is complete. `theirs` are spoken by whoever takes what is handed over.
pub(super) fn choose(records: &[u8], ours: &[String], theirs: &[String]) -> Choice {
    let Some(message) = message(records) else { return Choice::More };
    let Some(mut offered) = offered(&message) else { return Choice::Ours };
    let is_in = |list: &[String], name: &[u8]| list.iter().any(|known| known.as_bytes() == name);
    while let Some(name) = offered.block::<1>() {
        if is_in(theirs, name) {
            return Choice::HandOver;
        }
        if is_in(ours, name) {
            return Choice::Ours;
        }
    }
    Choice::Ours
}

/// The first handshake message, which seldom takes more than one record. Without one, an empty message.
fn message(records: &[u8]) -> Option<Cow<'_, [u8]>> {
    let first = fragment(records).unwrap_or_default();
    let len = |start: &[u8]| match start {
        &[_, top, high, low, ..] => Some(4 + u32::from_be_bytes([0, top, high, low]) as usize),
        _ => None,
    };
    if let Some(whole) = len(first).and_then(|len| first.get(..len)) {
        return Some(Cow::Borrowed(whole));
    }
    let (mut gathered, mut rest) = (Vec::new(), records);
    while let Some(piece) = fragment(rest) {
        gathered.extend_from_slice(piece);
        if let Some(len) = len(&gathered).filter(|len| gathered.len() >= *len) {
            gathered.truncate(len);
            return Some(Cow::Owned(gathered));
        }
        rest = &rest[HEADER_LEN + piece.len()..];
        // Another kind of record in the middle of a message: the handshake refuses it.
        if rest.first().is_some_and(|kind| *kind != records[0]) {
            return Some(Cow::Borrowed(&[]));
        }
    }
    None
}

/// The content of the first record, if it is complete.
fn fragment(records: &[u8]) -> Option<&[u8]> {
    let &[_, _, _, high, low] = records.first_chunk::<HEADER_LEN>()?;
    records.get(HEADER_LEN..HEADER_LEN + usize::from(u16::from_be_bytes([high, low])))
}

/// The list of names that a ClientHello offers (RFC 8446 4.1.2).
fn offered(message: &[u8]) -> Option<Reader<'_>> {
    let mut hello = Reader(message);
    // Type, length, version and random.
    hello.take(4 + 2 + 32)?;
    hello.block::<1>()?;
    hello.block::<2>()?;
    hello.block::<1>()?;
    let mut extensions = Reader(hello.block::<2>()?);
    loop {
        let kind = extensions.take(2)?;
        let content = extensions.block::<2>()?;
        if kind == ALPN.to_be_bytes() {
            return Reader(content).block::<2>().map(Reader);
        }
    }
}

/// Bytes not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// A block after its length, which takes `N` bytes.
    fn block<const N: usize>(&mut self) -> Option<&'a [u8]> {
        let len = self.take(N)?.iter().fold(0, |len, &byte| len << 8 | usize::from(byte));
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ClientHello with these ALPN names behind another extension, in records of at most `record_len` bytes.
    fn hello(names: &[&str], record_len: usize) -> Vec<u8> {
        let list: Vec<u8> = names
            .iter()
            .flat_map(|name| [&[u8::try_from(name.len()).unwrap()], name.as_bytes()].concat())
            .collect();
        let block = |bytes: &[u8]| [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat();
        let mut extensions = [&[0, 23][..], &block(&[])].concat();
        if !names.is_empty() {
            extensions.extend([&[0, 16][..], &block(&block(&list))].concat());
        }
        let body =
            [&[3, 3][..], &[7; 32], &[2, 8, 9], &block(&[19, 1]), &[1, 0], &block(&extensions)].concat();
        let len = u32::try_from(body.len()).unwrap().to_be_bytes();
        let message = [&[1], &len[1..], &body].concat();
        message.chunks(record_len).flat_map(|piece| [&[22, 3, 1][..], &block(piece)].concat()).collect()
    }

    fn choice(records: &[u8]) -> Choice {
        choose(records, &["http/1.1".to_owned()], &["h2".to_owned()])
    }

    #[test]
    fn the_clients_first_choice_decides() {
        let table: &[(&[&str], Choice)] = &[
            (&[], Choice::Ours),
            (&["h2"], Choice::HandOver),
            (&["h2", "http/1.1"], Choice::HandOver),
            (&["spdy/3", "h2", "http/1.1"], Choice::HandOver),
            (&["http/1.1", "h2"], Choice::Ours),
            (&["http/1.1"], Choice::Ours),
            (&["h3", "h"], Choice::Ours),
            (&["H2"], Choice::Ours),
        ];
        for (names, expected) in table {
            for record_len in [1, 7, 1 << 14] {
                assert_eq!(choice(&hello(names, record_len)), *expected, "{names:?} in {record_len}");
            }
        }
    }

    #[test]
    fn a_message_in_parts_is_waited_for() {
        let whole = hello(&["h2"], 20);
        for len in 0..whole.len() {
            assert_eq!(choice(&whole[..len]), Choice::More, "{len}");
        }
        assert_eq!(choice(&[&whole[..], &[23, 3, 3]].concat()), Choice::HandOver);
        assert_eq!(choice(&[&whole[..25], &[23, 3, 3]].concat()), Choice::Ours, "another record within");
    }

    #[test]
    fn what_cannot_be_read_is_for_the_handshake_to_refuse() {
        let whole = hello(&["h2"], 1 << 14);
        // Every length of the message made wrong in turn: no panic, and nothing but a verdict.
        for at in 9..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let _verdict = choice(&bytes);
            }
        }
        let mut cut = whole;
        cut.truncate(5 + 4 + 30);
        cut[3..5].copy_from_slice(&[0, 34]);
        cut[6..9].copy_from_slice(&[0, 0, 30]);
        assert_eq!(choice(&cut), Choice::Ours);
    }
}
