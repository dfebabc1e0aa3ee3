//! The limits of a message as bytes: the largest accepted input, and the smallest refused one.

use super::{Vector, chunked, get_with};
use doorbell_http::Next::Read;

pub(crate) fn all() -> Vec<Vector> {
    [head_bytes(), request_line_bytes(), field_counts(), body_bytes(), chunk_limits()]
        .into_iter()
        .flatten()
        .collect()
}

/// A head of exactly `len` bytes.
pub(crate) fn head_of(len: usize) -> Vec<u8> {
    let pad = len - get_with(b"X: \r\n").len();
    get_with(format!("X: {}\r\n", "p".repeat(pad)).as_bytes())
}

pub(crate) fn head_bytes() -> Vec<Vector> {
    assert_eq!(head_of(16_384).len(), 16_384);
    let mut endless = b"GET / HTTP/1.1\r\nHost: a\r\nX: ".to_vec();
    endless.resize(16_384, b'x');
    vec![
        Vector::accepted("head of 16 KiB", head_of(16_384)),
        Vector::accepted(
            "head of 16 KiB with empty lines",
            [b"\r\n\r\n".as_slice(), &head_of(16_380)].concat(),
        ),
        Vector::refused("head of 16 KiB and a byte", head_of(16_385), 431),
        Vector::new("16 KiB less one byte of a head without end", &endless[..16_383], &[], Read),
        Vector::refused("16 KiB of a head without end", &*endless, 431),
        Vector::refused(
            "100 KB of a value",
            get_with(&[b"X: ", [b'x'; 100_000].as_slice(), b"\r\n"].concat()),
            431,
        ),
        Vector::refused(
            "100 KB of a name",
            get_with(&[[b'x'; 100_000].as_slice(), b": x\r\n"].concat()),
            431,
        ),
        Vector::refused(
            "an invalid last byte has priority over the limit",
            [&endless[..16_383], b"\0"].concat(),
            400,
        ),
    ]
}

pub(crate) fn request_line_bytes() -> Vec<Vector> {
    let line = |len: usize| {
        format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "u".repeat(len - "GET / HTTP/1.1\r\n".len()))
    };
    vec![
        Vector::accepted(
            "target of 7,900 bytes",
            format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "u".repeat(7_899)),
        ),
        Vector::accepted(
            "target of 8,000 bytes",
            format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "u".repeat(7_999)),
        ),
        Vector::accepted("request line of 8 KiB", line(8192)),
        Vector::accepted("request line of 8 KiB after empty lines", format!("\r\n\r\n{}", line(8192))),
        Vector::refused("request line of 8 KiB and a byte", line(8193), 414),
        Vector::refused("target of 100 KB", line(100_000), 414),
        Vector::new("8 KiB less one byte of a target", format!("GET /{}", "u".repeat(8_186)), &[], Read),
        Vector::refused("8 KiB of a target", format!("GET /{}", "u".repeat(8_187)), 414),
        Vector::refused("version beyond 8 KiB", format!("GET /{} HTTP/1.1\r\n", "u".repeat(8_180)), 414),
    ]
}

pub(crate) fn field_counts() -> Vec<Vector> {
    let lines = |count: usize| get_with("X: y\r\n".repeat(count - 1).as_bytes());
    vec![
        Vector::accepted("100 fields", lines(100)),
        Vector::refused("101 fields", lines(101), 431),
        Vector::refused("1,000 fields", lines(1000), 431),
        Vector::accepted("100 trailers", chunked(format!("0\r\n{}\r\n", "X: y\r\n".repeat(100)).as_bytes())),
        Vector::refused(
            "101 trailers",
            chunked(format!("0\r\n{}\r\n", "X: y\r\n".repeat(101)).as_bytes()),
            431,
        ),
        Vector::accepted(
            "trailers of 16 KiB",
            chunked(format!("0\r\nX:{}\r\n\r\n", "y".repeat(16_378)).as_bytes()),
        ),
        Vector::refused(
            "trailers of 16 KiB and a byte",
            chunked(format!("0\r\nX:{}\r\n\r\n", "y".repeat(16_379)).as_bytes()),
            431,
        ),
    ]
}

pub(crate) fn body_bytes() -> Vec<Vector> {
    let length = |path: &str, len: usize| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\n\r\n{}",
            "b".repeat(len.min(70_000))
        )
    };
    let chunk = |len: usize| chunked(format!("{len:x}\r\n{}\r\n0\r\n\r\n", "b".repeat(len)).as_bytes());
    vec![
        Vector::accepted("wanted body of 64 KiB", length("/want", 65_536)),
        Vector::accepted("skipped body of 64 KiB", length("/", 65_536)),
        Vector::refused("body of 64 KiB and a byte", length("/want", 65_537), 413),
        Vector::refused("skipped body of 64 KiB and a byte", length("/", 65_537), 413),
        Vector::refused("declared body of 1 TB", length("/want", 1 << 40), 413),
        Vector::accepted("chunk of 64 KiB", chunk(65_536)),
        Vector::refused("chunk of 64 KiB and a byte", chunk(65_537), 413),
        Vector::refused("largest chunk size", chunked(b"FFFFFFFFFFFFFFFF\r\n"), 413),
        Vector::refused(
            "chunks of 64 KiB and a byte in total",
            chunked(format!("10000\r\n{}\r\n1\r\nb\r\n", "b".repeat(65_536)).as_bytes()),
            413,
        ),
    ]
}

pub(crate) fn chunk_limits() -> Vec<Vector> {
    let ext = |len: usize| format!("1;{}\r\na\r\n", "e".repeat(len - 1));
    let tiny =
        |count: usize| chunked(format!("{}0\r\n\r\n", "f\r\n0123456789abcde\r\n".repeat(count)).as_bytes());
    let last = "0\r\n\r\n";
    vec![
        Vector::accepted("extension of 256 bytes", chunked((ext(256) + last).as_bytes())),
        Vector::refused("extension of 257 bytes", chunked((ext(257) + last).as_bytes()), 400),
        Vector::accepted("extensions of 4 KiB", chunked((ext(256).repeat(16) + last).as_bytes())),
        Vector::refused(
            "extensions of 4 KiB and two bytes",
            chunked((ext(256).repeat(16) + &ext(2) + last).as_bytes()),
            400,
        ),
        Vector::accepted("1,024 tiny chunks", tiny(1024)),
        Vector::refused("1,025 tiny chunks", tiny(1025), 400),
        Vector::accepted(
            "2,000 chunks of 16 bytes",
            chunked(format!("{}0\r\n\r\n", "10\r\n0123456789abcdef\r\n".repeat(2000)).as_bytes()),
        ),
    ]
}
