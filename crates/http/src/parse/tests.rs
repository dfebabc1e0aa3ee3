//! The results of parsing a head, and the test that no byte is read twice.
//!
//! Does not know about: the errors for invalid heads; see the tables in `tests/`.

use super::*;

fn parse(bytes: &[u8]) -> Head {
    let mut head = Head::new();
    assert_eq!(head.parse(bytes, &Limits::default()), Ok(Some(bytes.len())), "{}", bytes.escape_ascii());
    head
}

#[test]
fn paths_queries_and_hosts() {
    for (request, path, query, host) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "/", None, Some("a")),
        ("GET /x/y?q=1?2 HTTP/1.1\r\nHost: \ta:80 \r\n\r\n", "/x/y", Some("q=1?2"), Some("a:80")),
        ("GET /? HTTP/1.1\r\nHost: a\r\n\r\n", "/", Some(""), Some("a")),
        ("GET //x HTTP/1.0\r\n\r\n", "//x", None, None),
        ("GET http://B HTTP/1.1\r\nHost: b\r\n\r\n", "/", None, Some("B")),
        ("GET http://b?q HTTP/1.1\r\nHost: b\r\n\r\n", "/", Some("q"), Some("b")),
        ("GET https://b:1/p?q HTTP/1.1\r\nHost: B:1\r\n\r\n", "/p", Some("q"), Some("b:1")),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "*", None, Some("a")),
        ("OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n", "*", None, Some("a")),
        ("OPTIONS http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "/", None, Some("a")),
        ("OPTIONS http://a? HTTP/1.1\r\nHost: a\r\n\r\n", "/", Some(""), Some("a")),
        ("\r\n\r\nGET /p HTTP/1.1\r\nHost: a\r\n\r\n", "/p", None, Some("a")),
    ] {
        let bytes = request.as_bytes();
        let head = parse(bytes);
        assert_eq!(head.path(bytes), path.as_bytes(), "{request}");
        assert_eq!(head.query(bytes), query.map(str::as_bytes), "{request}");
        assert_eq!(head.host(bytes), host.map(str::as_bytes), "{request}");
    }
}

#[test]
fn fields_are_found_again() {
    let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nX-One:\t 1 \r\nEmpty:\r\nx-one: 2\r\nSpaced: a b\r\n\r\n";
    let head = parse(bytes);
    let fields = head.fields(bytes);
    let expect: [(&[u8], &[u8]); 5] =
        [(b"Host", b"a"), (b"X-One", b"1"), (b"Empty", b""), (b"x-one", b"2"), (b"Spaced", b"a b")];
    assert!(fields.iter().eq(expect));
    assert_eq!(fields.find("x-ONE"), Some(b"1".as_slice()));
    assert_eq!(fields.find("empty"), Some(b"".as_slice()));
    assert_eq!(fields.find("absent"), None);
    let none = b"GET / HTTP/1.0\r\n\r\n";
    assert_eq!(parse(none).fields(none).iter().count(), 0);
}

/// Both parser paths store the position of the first `Authorization` and detect a second one.
#[test]
fn authorization_is_found() {
    let mut lines: Vec<String> = [
        "Authorization: Bearer abc\r\n",
        "AUTHORIZATION:  Bearer abc \t\r\n",
        "authorization:a\r\n",
        "aUTHORIZATIOn: \r\n",
        "Authorization:\r\n",
        "Authorization: a\tb\r\n",
        "Authorization: \u{e9}\r\n",
        "Authorizations: no\r\n",
        "Authorizatiom: no\r\n",
        "Auth: no\r\n",
        "X-Authorization: no\r\n",
        "Accept: Authorization: no\r\n",
    ]
    .map(str::to_owned)
    .into();
    for len in (1..40).chain([65_533, 65_534, 65_535, 65_536, 70_000]) {
        lines.push(format!("Authorization: {}\r\n", "v".repeat(len)));
    }
    let limits = Limits { head_bytes_max: 200_000, ..Limits::default() };
    for first in &lines {
        for second in
            ["", "authorization: second\r\n", "Accept-Encoding: gzip\r\n", "X: a line of some length\r\n"]
        {
            for text in [
                format!("GET / HTTP/1.0\r\n{first}{second}\r\n"),
                format!("\r\nGET / HTTP/1.0\r\nUser-Agent: probe\r\n{second}{first}\r\n"),
            ] {
                let bytes = text.as_bytes();
                let (mut whole, mut steps) = (Head::new(), Head::new());
                assert_eq!(whole.parse(bytes, &limits), Ok(Some(bytes.len())));
                assert_eq!(steps.parse(&bytes[..bytes.len() - 1], &limits), Ok(None));
                assert_eq!(steps.parse(bytes, &limits), Ok(Some(bytes.len())));
                for head in [whole, steps] {
                    let fields = head.fields(bytes).iter();
                    let mut named = fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"authorization"));
                    let expect = named.next().map(|(_, value)| (value, named.next().is_none()));
                    assert_eq!(head.authorization(bytes), expect, "{text}");
                }
            }
        }
    }
}

#[test]
fn framing_and_persistence() {
    for (lines, framing, keeps_alive) in [
        ("", Framing::None, true),
        ("Content-Length: 0\r\n", Framing::None, true),
        ("Content-Length: 7\r\n", Framing::Length(7), true),
        ("Content-Length: 9223372036854775808\r\n", Framing::Length(1 << 63), true),
        ("Transfer-Encoding: Chunked\r\nConnection: close\r\n", Framing::Chunked, false),
    ] {
        let head = parse(format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").as_bytes());
        assert_eq!((head.framing(), head.keeps_alive()), (framing, keeps_alive), "{lines}");
    }
}

/// Bytes that were parsed are not read again: overwriting them with invalid bytes has no effect.
#[test]
fn bytes_already_seen_are_not_read_again() {
    let mut bytes = b"GET / HTTP/1.1\r\nHost: a\r\nX: ".to_vec();
    let value_at = bytes.len();
    bytes.extend_from_slice(&[b'v'; 500]);
    let value_end = bytes.len();
    bytes.extend_from_slice(b"\r\n\r\n");
    let (limits, mut head) = (Limits::default(), Head::new());
    for end in 0..bytes.len() {
        assert_eq!(head.parse(&bytes[..end], &limits), Ok(None));
        if (value_at..value_end).contains(&end) {
            bytes[value_at..end].fill(0);
        }
    }
    assert_eq!(head.parse(&bytes, &limits), Ok(Some(bytes.len())));
}
