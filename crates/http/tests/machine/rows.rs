//! The rules for servers in RFC 9112, 9110 and 6585, in the order of RFC 9112. Each row contains
//! inputs with the expected statuses and the next action of the connection. `rules.rs` has more
//! inputs for each rule.
//!
//! Does not know about: splits of the input, deadlines (`deadlines.rs`), replies (`flow.rs`).

use crate::common::{Vector, chunked, get_with, harness, limit_vectors};
use doorbell_http::Next::{CloseClean, CloseLinger, Read};
use doorbell_http::{Limits, Next};
use harness::Peer;

/// Vectors whose last reply has this status and closes the connection; unread input is dropped.
fn refused(status: u16, inputs: &[&str]) -> Vec<Vector> {
    inputs.iter().map(|input| Vector::refused("refused", *input, status)).collect()
}

/// Vectors that get a 200; the connection stays open.
fn accepted(inputs: &[&str]) -> Vec<Vector> {
    inputs.iter().map(|input| Vector::accepted("accepted", *input)).collect()
}

fn one(input: impl Into<Vec<u8>>, expect: &[u16], next: Next) -> Vec<Vector> {
    vec![Vector::new("one", input, expect, next)]
}

fn check(rows: Vec<(&str, Vec<Vec<Vector>>)>) {
    for (rule, vectors) in rows {
        let mut count = 0;
        for mut vector in vectors.into_iter().flatten() {
            vector.name = rule.to_owned();
            vector.check();
            count += 1;
        }
        assert!(count > 0, "{rule}: nothing to check");
    }
}

/// Requests with these request lines and a valid `Host`.
fn lines(request_lines: &[&str]) -> Vec<String> {
    request_lines.iter().map(|line| format!("{line}\r\nHost: a\r\n\r\n")).collect()
}

fn refused_lines(status: u16, request_lines: &[&str]) -> Vec<Vector> {
    lines(request_lines).into_iter().map(|input| Vector::refused("line", input, status)).collect()
}

fn accepted_lines(request_lines: &[&str]) -> Vec<Vector> {
    lines(request_lines).into_iter().map(|input| Vector::accepted("line", input)).collect()
}

fn refused_fields(status: u16, fields: &[&[u8]]) -> Vec<Vector> {
    fields.iter().map(|field| Vector::refused("field", get_with(field), status)).collect()
}

fn refused_chunks(bodies: &[&[u8]]) -> Vec<Vector> {
    bodies.iter().map(|body| Vector::refused("chunks", chunked(body), 400)).collect()
}

#[test]
fn message_format() {
    check(vec![
        (
            "9112 2.2: empty lines before a request SHOULD be ignored; up to two are",
            vec![
                accepted(&[
                    "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
                    "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
                ]),
                refused(400, &["\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"]),
            ],
        ),
        (
            "9112 2.2: a bare LF MAY be accepted; it is refused",
            vec![refused(
                400,
                &[
                    "GET / HTTP/1.1\nHost: a\r\n\r\n",
                    "GET / HTTP/1.1\r\nHost: a\n\r\n",
                    "\nGET / HTTP/1.1\r\n",
                ],
            )],
        ),
        (
            "9112 2.2: a bare CR MUST be invalid",
            vec![refused(
                400,
                &[
                    "GET /\rx HTTP/1.1\r\nHost: a\r\n\r\n",
                    "GET / HTTP/1.1\rHost: a\r\r",
                    "GET / HTTP/1.1\r\nX: a\rb\r\n\r\n",
                ],
            )],
        ),
        (
            "9112 2.2: white space before the first field is refused",
            vec![refused(400, &["GET / HTTP/1.1\r\n Host: a\r\n\r\n"])],
        ),
        (
            "9112 2.3: a version matches the grammar, including its case",
            vec![refused_lines(
                400,
                &["GET / http/1.1", "GET / HTTP/1", "GET / HTTP/01.1", "GET / HTTP/ 1.1", "GET / HTTP/1.1 x"],
            )],
        ),
        (
            "9112 2.3, 9110 15.6.6: another major version gets 505; another minor version counts as 1.1",
            vec![
                refused_lines(505, &["GET / HTTP/2.0", "GET / HTTP/9.9"]),
                refused(505, &["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]),
                accepted_lines(&["GET / HTTP/1.2", "GET / HTTP/1.9"]),
            ],
        ),
        ("HTTP/0.9", vec![refused(400, &["GET /\r\n"])]),
    ]);
}

#[test]
fn request_line() {
    check(vec![
        (
            "9112 3: three parts, separated by one space",
            vec![refused_lines(
                400,
                &[
                    "GET\t/ HTTP/1.1",
                    "GET  / HTTP/1.1",
                    "GET /  HTTP/1.1",
                    "GET HTTP/1.1",
                    "GET /a b HTTP/1.1",
                ],
            )],
        ),
        (
            "9112 3.1: a method is a token; an unknown one gets 501, a forbidden one gets 405",
            vec![
                refused_lines(400, &["G@T / HTTP/1.1", "G\0T / HTTP/1.1"]),
                refused_lines(501, &["get / HTTP/1.1", "BREW / HTTP/1.1"]),
                one("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", &[405], Read),
            ],
        ),
        (
            "9112 3: a method that is too long gets 501",
            vec![
                vec![Vector::refused("33", format!("{} / HTTP/1.1\r\n\r\n", "M".repeat(33)), 501)],
                vec![Vector::refused("100 KB", "M".repeat(100_000), 501)],
            ],
        ),
        (
            "9112 3: a target that is too long gets 414; 8,000 bytes are accepted",
            vec![
                vec![Vector::refused("100 KB", format!("GET /{} HTTP/1.1\r\n", "u".repeat(100_000)), 414)],
                accepted_lines(&[
                    &format!("GET /{} HTTP/1.1", "u".repeat(7899)),
                    &format!("GET /{} HTTP/1.1", "u".repeat(7999)),
                ]),
            ],
        ),
    ]);
}

#[test]
fn target_and_host() {
    check(vec![
        (
            "9112 3.2.1 to 3.2.4: the forms of a target",
            vec![
                refused_lines(
                    400,
                    &["GET * HTTP/1.1", "GET foo HTTP/1.1", "GET /#f HTTP/1.1", "GET http://u@a/ HTTP/1.1"],
                ),
                refused_lines(501, &["CONNECT a:1 HTTP/1.1"]),
                accepted_lines(&["OPTIONS * HTTP/1.1"]),
            ],
        ),
        (
            "9112 3.2.2: an absolute target MUST be accepted; a host other than that of Host is refused",
            vec![
                accepted_lines(&["GET http://a/ HTTP/1.1", "GET HTTP://A HTTP/1.1"]),
                refused_lines(400, &["GET http://b/ HTTP/1.1"]),
            ],
        ),
        (
            "9112 3.2: Host is missing, repeated, not a host, or empty",
            vec![refused(
                400,
                &[
                    "GET / HTTP/1.1\r\n\r\n",
                    "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
                    "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
                    "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
                    "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
                    "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n",
                    "GET / HTTP/1.1\r\nHost:\r\n\r\n",
                ],
            )],
        ),
        (
            "3986 2: control characters and bytes outside ASCII in a target; escapes are unchanged",
            vec![
                refused_lines(400, &["GET /\0 HTTP/1.1", "GET /\u{ff} HTTP/1.1", "GET /\x7f HTTP/1.1"]),
                vec![Vector::refused(
                    "overlong",
                    b"GET /\xc0\xaf HTTP/1.1\r\nHost: a\r\n\r\n".as_slice(),
                    400,
                )],
                accepted_lines(&["GET /?%00 HTTP/1.1", "GET /?a\\b HTTP/1.1", "GET /%c0%af HTTP/1.1"]),
            ],
        ),
    ]);
}

#[test]
fn field_lines() {
    check(vec![
        (
            "9112 5.1: white space before a colon MUST be 400",
            vec![refused_fields(400, &[b"Host : a\r\n", b"Content-Length : 5\r\n"])],
        ),
        (
            "9110 5.1: a name is a token",
            vec![refused_fields(
                400,
                &[b": x\r\n", b"X[]: y\r\n", b"X\tY: z\r\n", b"\xc3\xa9: x\r\n", b"nocolon\r\n"],
            )],
        ),
        (
            "9112 5.2: a folded line MUST be refused or replaced",
            vec![refused_fields(400, &[b"X: a\r\n b\r\n"])],
        ),
        (
            "9110 5.5: control characters in a value; HTAB and bytes from 0x80 are kept",
            vec![
                refused_fields(400, &[b"X: a\0\r\n", b"X: \x07\r\n", b"X: \x7f\r\n"]),
                vec![Vector::accepted("kept", get_with(b"X: a\tb\x80\xff\r\n"))],
            ],
        ),
        (
            "9110 5.4, 6585 5: fields that are too large or too many",
            vec![vec![
                Vector::accepted("16 KiB", limit_vectors::head_of(16_384)),
                Vector::refused("and a byte", limit_vectors::head_of(16_385), 431),
                Vector::accepted("100", get_with("X: y\r\n".repeat(99).as_bytes())),
                Vector::refused("101", get_with("X: y\r\n".repeat(100).as_bytes()), 431),
            ]],
        ),
        (
            "names that some parsers read as framing fields",
            vec![refused_fields(
                400,
                &[
                    b"Transfer_Encoding: chunked\r\n",
                    b"Content_Length: 5\r\n",
                    b"Transfer-Encoding\x0b: x\r\n",
                ],
            )],
        ),
    ]);
}

fn post(fields: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}")
}

fn refused_posts(status: u16, fields: &[&str]) -> Vec<Vector> {
    fields.iter().map(|fields| Vector::refused("post", post(fields, "0\r\n\r\n"), status)).collect()
}

#[test]
fn transfer_encoding() {
    check(vec![
        (
            "9112 6.1: Transfer-Encoding together with Content-Length",
            vec![refused_posts(
                400,
                &[
                    "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                    "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                ],
            )],
        ),
        (
            "9112 6.1: Transfer-Encoding in HTTP/1.0",
            vec![refused(
                400,
                &["POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
            )],
        ),
        (
            "9112 6.1: only chunked is accepted; a single unknown coding gets 501",
            vec![
                accepted(&[&post("Transfer-Encoding: Chunked \t\r\n", "0\r\n\r\n")]),
                refused_posts(501, &["Transfer-Encoding: xchunked\r\n", "Transfer-Encoding: gzip\r\n"]),
                refused_posts(
                    400,
                    &[
                        "Transfer-Encoding: chunked, gzip\r\n",
                        "Transfer-Encoding: chunked, chunked\r\n",
                        "Transfer-Encoding: identity\r\n",
                        "Transfer-Encoding:\r\n",
                        "Transfer-Encoding: chunked ;q=1\r\n",
                        "Transfer-Encoding: ,chunked\r\n",
                        "Transfer-Encoding: \x0bchunked\r\n",
                        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                    ],
                ),
            ],
        ),
    ]);
}

#[test]
fn content_length() {
    check(vec![
        (
            "9112 6.3, 9110 8.6: Content-Length consists of digits and occurs once",
            vec![
                accepted(&[&post("Content-Length: 5\r\n", "hello")]),
                refused_posts(
                    400,
                    &[
                        "Content-Length: +5\r\n",
                        "Content-Length: -5\r\n",
                        "Content-Length: 5_0\r\n",
                        "Content-Length: 0x5\r\n",
                        "Content-Length: 0o5\r\n",
                        "Content-Length: 5 5\r\n",
                        "Content-Length: 5,5\r\n",
                        "Content-Length: 5, 6\r\n",
                        "Content-Length: 5\r\nContent-Length: 5\r\n",
                        "Content-Length: 5\r\nContent-Length: 6\r\n",
                        "Content-Length:\r\n",
                        "Content-Length: 9223372036854775809\r\n",
                        "Content-Length: 05\r\n",
                    ],
                ),
            ],
        ),
        (
            "9112 6.3: neither field means no body",
            vec![one(post("", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), &[200, 200], Read)],
        ),
        ("9110 15.5.14: a body above the limit", vec![refused_posts(413, &["Content-Length: 65537\r\n"])]),
    ]);
    // 9112 6.3, 8: a body that ends early is an error, and the service is not called.
    let mut peer = Peer::run(&Limits::default(), [post("Content-Length: 9\r\n", "hello").as_bytes()]);
    assert_eq!(
        (peer.eof(), harness::statuses(&peer.sent), peer.conn.requests()),
        (CloseLinger, vec![400], 0)
    );
    let mut peer = Peer::run(&Limits::default(), [post("Content-Length: 9\r\n", "hello").as_bytes()]);
    assert_eq!(
        (peer.timeout(), harness::statuses(&peer.sent), peer.conn.requests()),
        (CloseLinger, vec![408], 0)
    );
}

#[test]
fn chunked_coding() {
    let accepted_chunks = |bodies: &[&[u8]]| -> Vec<Vector> {
        bodies.iter().map(|body| Vector::accepted("chunks", chunked(body))).collect()
    };
    let ext = |len: usize| format!("1;{}\r\na\r\n0\r\n\r\n", "e".repeat(len - 1)).into_bytes();
    check(vec![
        (
            "9112 7.1: a chunk is its size in digits, CRLF, data, CRLF",
            vec![
                accepted_chunks(&[b"5\r\nhello\r\n0\r\n\r\n", b"00A\r\n0123456789\r\n0\r\n\r\n"]),
                refused_chunks(&[
                    b"0x5\r\nhello\r\n",
                    b"+5\r\nhello\r\n",
                    b"-1\r\n",
                    b"5_0\r\n",
                    b" 5\r\nhello\r\n",
                    b"5 \r\nhello\r\n",
                    b"10000000000000005\r\n",
                    b"5\r\nhello0\r\n\r\n",
                    b"5\nhello\r\n",
                    b"5\r\nhello\n0\r\n\r\n",
                    b"3\r\nhello\r\n",
                    b"\r\n",
                ]),
                one(chunked(b"5\r\nhel"), &[], Read),
                one(chunked(b"5\r\nhello\r\n"), &[], Read),
            ],
        ),
        (
            "9112 7.1.1: extensions are ignored within limits",
            vec![
                accepted_chunks(&[
                    b"5;a=b\r\nhello\r\n0\r\n\r\n",
                    b"5;a=\"b c\"\r\nhello\r\n0\r\n\r\n",
                    &ext(256),
                ]),
                refused_chunks(&[
                    b"5;\r\nhello\r\n",
                    b"5;[\r\nhello\r\n",
                    b"5;a\x01\r\nhello\r\n",
                    b"5;a\nhello\r\n",
                    b"5 ;a\r\nhello\r\n",
                    &ext(257),
                ]),
            ],
        ),
        (
            "9112 7.1.2: trailers are checked and dropped",
            vec![
                accepted_chunks(&[b"0\r\nContent-Length: 9\r\nHost: c\r\n\r\n"]),
                refused_chunks(&[b"0\r\nX : y\r\n\r\n", b"0\r\nX: y\n\r\n"]),
                vec![Vector::refused(
                    "101",
                    chunked(format!("0\r\n{}\r\n", "X: y\r\n".repeat(101)).as_bytes()),
                    431,
                )],
            ],
        ),
    ]);
}

#[test]
fn connections() {
    let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let close = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let expect = |path: &str, value: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: {value}\r\n\r\n")
    };
    check(vec![
        (
            "9112 9.3: replies are in order; 9.6: nothing follows close",
            vec![
                one(get.repeat(3), &[200, 200, 200], Read),
                one([get, close, get].concat(), &[200, 200], CloseLinger),
            ],
        ),
        (
            "9112 9.3: HTTP/1.1 connections stay open; HTTP/1.0 closes them without keep-alive",
            vec![
                one(get, &[200], Read),
                one("GET / HTTP/1.0\r\n\r\n", &[200], CloseClean),
                one("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &[200], Read),
                one(close, &[200], CloseClean),
            ],
        ),
        (
            "9112 9.6: unread input is drained, so that no reply is lost",
            vec![one([close, "x"].concat(), &[200], CloseLinger)],
        ),
        ("9110 9.3.2: HEAD has no content", vec![one("HEAD /big HTTP/1.1\r\nHost: a\r\n\r\n", &[200], Read)]),
        (
            "9110 10.1.1: 100 is sent only for wanted bodies, never to 1.0; another expectation gets 417",
            vec![
                one(expect("/want", "100-continue"), &[100], Read),
                one(expect("/", "100-continue"), &[200], CloseLinger),
                one(
                    "POST /want HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\nx",
                    &[200],
                    CloseClean,
                ),
                vec![Vector::refused("other", expect("/want", "magic"), 417)],
            ],
        ),
        (
            "9110 7.8: Upgrade is ignored",
            vec![
                vec![Vector::accepted(
                    "websocket",
                    get_with(b"Upgrade: websocket\r\nConnection: Upgrade\r\n"),
                )],
                one("GET / HTTP/1.0\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", &[200], CloseClean),
            ],
        ),
        (
            "9110 14.2: Range is ignored",
            vec![
                vec![Vector::accepted("GET", get_with(b"Range: bytes=0-1\r\n"))],
                accepted(&["POST / HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n"]),
            ],
        ),
        ("9110 9.3.8: TRACE is not offered", vec![one("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", &[405], Read)]),
    ]);
    // 9110 15.5.9: a head that takes too long gets a 408; without any byte of a head there is no
    // reply.
    let mut peer = Peer::run(&Limits::default(), [b"GET / HT".as_slice()]);
    assert_eq!((peer.timeout(), harness::statuses(&peer.sent)), (CloseLinger, vec![408]));
    let mut peer = Peer::new(Limits::default());
    assert_eq!((peer.timeout(), peer.sent.len()), (Next::Close, 0));
    // 9110 6.6.1 and 8.6: every reply has a date and a length. 9.3.2: a reply to HEAD has them as
    // well.
    let peer = Peer::run(&Limits::default(), [b"HEAD /big HTTP/1.1\r\nHost: a\r\n\r\n".as_slice()]);
    let text = String::from_utf8(peer.sent).unwrap();
    assert!(
        text.contains("\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n")
            && text.contains("\r\nContent-Length: 20000\r\n")
    );
    assert!(text.ends_with("\r\n\r\n"), "{text}");
}
