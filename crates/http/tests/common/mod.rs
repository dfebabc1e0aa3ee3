//! Shared parts of the integration tests.
#![allow(dead_code, reason = "each test file needs only a part")]

pub(crate) mod body_vectors;
pub(crate) mod conn_vectors;
pub(crate) mod harness;
pub(crate) mod head_vectors;
pub(crate) mod limit_vectors;

use doorbell_http::{Limits, Next};
use harness::{Peer, statuses};

/// The exact bytes of an input, the resulting statuses, and the next action of the connection.
#[derive(Debug)]
pub(crate) struct Vector {
    pub(crate) name: String,
    pub(crate) input: Vec<u8>,
    pub(crate) expect: Vec<u16>,
    pub(crate) next: Next,
}

impl Vector {
    pub(crate) fn new(name: &str, input: impl Into<Vec<u8>>, expect: &[u16], next: Next) -> Self {
        Self { name: name.to_owned(), input: input.into(), expect: expect.to_owned(), next }
    }

    /// An input that is refused with this status, which closes the connection.
    pub(crate) fn refused(name: &str, input: impl Into<Vec<u8>>, status: u16) -> Self {
        Self::new(name, input, &[status], Next::CloseLinger)
    }

    /// An input that gets one 200; the connection stays open.
    pub(crate) fn accepted(name: &str, input: impl Into<Vec<u8>>) -> Self {
        Self::new(name, input, &[200], Next::Read)
    }

    pub(crate) fn check(&self) {
        let Self { name, input, expect, next } = self;
        let peer = Peer::run(&Limits::default(), [input.as_slice()]);
        let text = input.get(..200).unwrap_or(input).escape_ascii();
        assert_eq!(&statuses(&peer.sent), expect, "{name}: {text}\n{:?}", peer.conn.error());
        assert_eq!(peer.next, *next, "{name}: {text}\n{:?}", peer.conn.error());
    }
}

/// All vectors of all tables.
pub(crate) fn all_vectors() -> Vec<Vector> {
    [head_vectors::all(), body_vectors::all(), conn_vectors::all(), limit_vectors::all()]
        .into_iter()
        .flatten()
        .collect()
}

pub(crate) fn check_all(vectors: Vec<Vector>) {
    assert!(!vectors.is_empty());
    for vector in vectors {
        vector.check();
    }
}

/// Returns a GET with these field lines, each with its CRLF, after a valid `Host`.
pub(crate) fn get_with(lines: &[u8]) -> Vec<u8> {
    [b"GET / HTTP/1.1\r\nHost: a\r\n".as_slice(), lines, b"\r\n"].concat()
}

/// Returns a POST with a chunked body.
pub(crate) fn chunked(body: &[u8]) -> Vec<u8> {
    [b"POST /want HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".as_slice(), body].concat()
}
