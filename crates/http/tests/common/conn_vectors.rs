//! Several messages as bytes: persistence, pipelines, expectations, ignored fields, replies.

use super::{Vector, chunked, get_with};
use doorbell_http::Next::{Close, CloseClean, CloseLinger, Read};

pub(crate) fn all() -> Vec<Vector> {
    [persistence(), pipelines(), expectations(), ignored(), replies()].into_iter().flatten().collect()
}

pub(crate) fn persistence() -> Vec<Vector> {
    let request = |version: &str, connection: &str| {
        format!("GET / HTTP/{version}\r\nHost: a\r\nConnection: {connection}\r\n\r\n")
    };
    vec![
        Vector::new("1.1 close", request("1.1", "close"), &[200], CloseClean),
        Vector::new("1.1 Close among other options", request("1.1", "x , CLOSE,y"), &[200], CloseClean),
        Vector::new("1.1 keep-alive", request("1.1", "keep-alive"), &[200], Read),
        Vector::new("1.1 keep-alive and close", request("1.1", "keep-alive, close"), &[200], CloseClean),
        Vector::new(
            "1.1 close in a second field line",
            request("1.1", "x\r\nConnection: close"),
            &[200],
            CloseClean,
        ),
        Vector::new("1.1 closed is another word", request("1.1", "closed"), &[200], Read),
        Vector::new("1.0 keep-alive", request("1.0", "Keep-Alive"), &[200], Read),
        Vector::new("1.0 close and keep-alive", request("1.0", "close, keep-alive"), &[200], CloseClean),
        Vector::new("1.0 twice with keep-alive", request("1.0", "keep-alive").repeat(2), &[200, 200], Read),
        Vector::new("1.0 with bytes behind", "GET / HTTP/1.0\r\n\r\nx", &[200], CloseLinger),
        Vector::new("handler closes after", "GET /last HTTP/1.1\r\nHost: a\r\n\r\n", &[200], CloseClean),
        Vector::new("handler hangs up", "GET /hang HTTP/1.1\r\nHost: a\r\n\r\n", &[], Close),
        Vector::new(
            "handler hangs up later",
            "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /hang HTTP/1.1\r\nHost: a\r\n\r\n",
            &[200],
            CloseLinger,
        ),
    ]
}

pub(crate) fn pipelines() -> Vec<Vector> {
    let get = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n";
    vec![
        Vector::new("three in one segment", get.repeat(3), &[200, 200, 200], Read),
        Vector::new(
            "nothing after close",
            format!("{get}GET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n{get}"),
            &[200, 200],
            CloseLinger,
        ),
        Vector::new("nothing after an error", format!("{get}GET /2\r\n\r\n{get}"), &[200, 400], CloseLinger),
        Vector::new(
            "every kind",
            format!(
                "{get}HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET /none HTTP/1.1\r\nHost: a\r\n\r\nGET /big HTTP/1.1\r\nHost: a\r\n\r\nGET /bad HTTP/1.1\r\nHost: a\r\n\r\nHEAD /big HTTP/1.1\r\nHost: a\r\n\r\n{get}"
            ),
            &[200, 200, 204, 200, 500, 200, 200],
            Read,
        ),
        Vector::new("a half request at the end", format!("{get}GET /2 HTT"), &[200], Read),
        Vector::new(
            "wanted chunked bodies in a row",
            chunked(b"3\r\nabc\r\n0\r\n\r\n").repeat(3),
            &[200, 200, 200],
            Read,
        ),
    ]
}

pub(crate) fn expectations() -> Vec<Vector> {
    let post = |path: &str, lines: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n{lines}\r\n")
    };
    let expect = "Expect: 100-continue\r\n";
    vec![
        Vector::new("wanted", post("/want", expect), &[100], Read),
        Vector::new("wanted, sent at once", post("/want", expect) + "hello", &[100, 200], Read),
        Vector::new("wanted, chunked", chunked(b"").escape_with("Expect: 100-Continue\r\n"), &[100], Read),
        Vector::new("not wanted: the final status at once", post("/", expect), &[200], CloseLinger),
        Vector::new(
            "not wanted but sent",
            post("/", expect) + "hello" + "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            &[200],
            CloseLinger,
        ),
        Vector::new("without a body", get_with(expect.as_bytes()), &[200], Read),
        Vector::new(
            "ignored in HTTP/1.0",
            "POST /want HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
            &[200],
            CloseClean,
        ),
        Vector::new(
            "any value ignored in HTTP/1.0",
            "GET / HTTP/1.0\r\nExpect: magic\r\n\r\n",
            &[200],
            CloseClean,
        ),
        Vector::refused("another expectation", get_with(b"Expect: magic\r\n"), 417),
        Vector::refused("empty expectation", get_with(b"Expect:\r\n"), 417),
        Vector::refused("one more expectation", post("/want", "Expect: 100-continue, magic\r\n"), 417),
        Vector::refused("two lines", post("/want", "Expect: 100-continue\r\nExpect: magic\r\n"), 417),
        Vector::refused(
            "too large: 413, not 100",
            "POST /want HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\nExpect: 100-continue\r\n\r\n",
            413,
        ),
    ]
}

pub(crate) fn ignored() -> Vec<Vector> {
    let mut vectors = Vec::new();
    for lines in [
        "Upgrade: websocket\r\nConnection: Upgrade\r\n",
        "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
        "Upgrade: unknown\r\n",
        "Range: bytes=0-1\r\n",
        "TE: trailers\r\n",
        "Trailer: X\r\n",
        "Keep-Alive: timeout=5\r\n",
        "Proxy-Connection: close\r\n",
    ] {
        vectors.push(Vector::accepted(lines, get_with(lines.as_bytes())));
    }
    vectors.push(Vector::new(
        "Upgrade in 1.0",
        "GET / HTTP/1.0\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        &[200],
        CloseClean,
    ));
    vectors
        .push(Vector::accepted("Range with POST", "POST / HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n"));
    vectors
}

pub(crate) fn replies() -> Vec<Vector> {
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    vec![
        Vector::new("204", get("/none"), &[204], Read),
        Vector::new("a forbidden header becomes a 500", get("/bad"), &[500], Read),
        Vector::accepted("a large body", get("/big")),
        Vector::accepted("HEAD of a large body", "HEAD /big HTTP/1.1\r\nHost: a\r\n\r\n"),
    ]
}
/// Inserts a field line into a chunked request.
trait WithLine {
    fn escape_with(self, line: &str) -> Vec<u8>;
}

impl WithLine for Vec<u8> {
    fn escape_with(self, line: &str) -> Vec<u8> {
        String::from_utf8(self)
            .expect("text")
            .replace("Host: a\r\n", &format!("Host: a\r\n{line}"))
            .into_bytes()
    }
}
