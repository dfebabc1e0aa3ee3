//! Decoding of complete bodies, and the exact byte at which an error is detected.
//!
//! Does not know about: connections; the tables in `tests/` contain whole requests.

use super::*;

#[test]
fn decodes_and_says_where_it_ends() {
    let input = b"3;x=\"y\"\r\nabc\r\n0A\r\n0123456789\r\n0\r\nT: v\r\n\r\nGET /";
    let mut data = Vec::new();
    let verdict = Chunked::new().decode(input, &Limits::default(), Some(&mut data));
    assert_eq!(verdict, Ok((input.len() - 5, true)));
    assert_eq!(data, b"abc0123456789");
    assert_eq!(Chunked::new().decode(input, &Limits::default(), None), verdict);
}

#[test]
fn the_first_wrong_byte_decides() {
    for (good, wrong, error) in [
        ("", "x", RequestError::ChunkFraming),
        ("", "\r", RequestError::ChunkFraming),
        ("5", " ", RequestError::ChunkFraming),
        ("5\r", "x", RequestError::LineEnd),
        ("5\r\nhello", "!", RequestError::ChunkFraming),
        ("5\r\nhello\r", "!", RequestError::ChunkFraming),
        ("0123456789abcdef", "0", RequestError::ChunkFraming),
        ("10001", "\r", RequestError::BodyTooLarge),
        ("10001", ";", RequestError::BodyTooLarge),
        ("5;", "\r", RequestError::ChunkExtension),
        ("5;a=", "\r", RequestError::ChunkExtension),
        ("0\r\n", "\n", RequestError::LineEnd),
        ("0\r\nX", "\r", RequestError::Field),
        ("0\r\nX: y\r\n\r", "\r", RequestError::LineEnd),
    ] {
        let mut decoder = Chunked::new();
        let limits = Limits::default();
        assert_eq!(decoder.decode(good.as_bytes(), &limits, None), Ok((good.len(), false)), "{good:?}");
        assert_eq!(decoder.decode(wrong.as_bytes(), &limits, None), Err(error), "{good:?} {wrong:?}");
    }
}
