//! A head that arrives in one piece has the same result as one that arrives byte by byte, for which
//! the fast path is not used.
//!
//! Does not know about: correct results; see `rules.rs`. The lines in these tests are followed by
//! enough bytes for the fast path.

use doorbell_http::parse::Head;
use doorbell_http::{Limits, RequestError};

const KUBELET: &str = "GET /livez HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: kube-probe/1.30\r\nAccept: */*\r\nConnection: close\r\n\r\n";
const HAPROXY: &str = "OPTIONS /livez?a=b HTTP/1.1\r\nhost: web.example\r\nx-haproxy-server-state: UP 1/3; address=127.0.0.1\r\nconnection: close\r\n\r\n";
const AUTHORIZED: &str = "GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer XJ7bXg1cV3yq8s0LQm5v2w\r\nAccept-Encoding: gzip\r\n\r\n";
const SHORT: &str = "GET / HTTP/1.0\r\nAccept: a\r\n\r\n";

type Verdict = Result<Option<usize>, RequestError>;

/// Parses byte by byte, up to the byte that determines the result.
fn dripped(input: &[u8], limits: &Limits) -> (Verdict, Head) {
    let mut head = Head::new();
    for end in 0..=input.len() {
        let verdict = head.parse(&input[..end], limits);
        if verdict != Ok(None) {
            return (verdict, head);
        }
    }
    (Ok(None), head)
}

fn check(input: &[u8], limits: &Limits) -> Verdict {
    let (expect, steps) = dripped(input, limits);
    let mut whole = Head::new();
    let verdict = whole.parse(input, limits);
    assert_eq!(verdict, expect, "{} under {limits:?}", input.escape_ascii());
    if let Ok(Some(_)) = verdict {
        assert_eq!(format!("{whole:?}"), format!("{steps:?}"), "{}", input.escape_ascii());
    }
    verdict
}

/// Every byte of a head, changed to every value, has the same result on both paths, even if more
/// input follows.
#[test]
fn one_changed_byte() {
    let limits = Limits::default();
    for request in [KUBELET, HAPROXY, AUTHORIZED, SHORT, &(KUBELET.to_owned() + KUBELET)] {
        let places = request.find("\r\n\r\n").unwrap() + 4;
        for place in 0..places {
            let mut input = request.as_bytes().to_vec();
            for byte in 0..=255 {
                input[place] = byte;
                let _ = check(&input, &limits);
            }
        }
    }
}

/// A head with one byte more or less, at every position, has the same result on both paths.
#[test]
fn one_byte_more_or_less() {
    let limits = Limits::default();
    for request in [KUBELET, HAPROXY, AUTHORIZED, SHORT] {
        for place in 0..request.len() {
            let mut input = request.as_bytes().to_vec();
            input.remove(place);
            let _ = check(&input, &limits);
            for byte in *b"\r\n\t :a9?#/.-\0\x7f\x80" {
                let mut input = request.as_bytes().to_vec();
                input.insert(place, byte);
                let _ = check(&input, &limits);
            }
        }
    }
}

/// Hosts around the limits of the fast path have the same result on both paths; `true` marks valid
/// hosts.
#[test]
fn hosts() {
    let mut hosts: Vec<(String, bool)> = [
        ("a", true),
        ("a:", true),
        ("a:1", true),
        ("a:12345", true),
        ("a:65535", true),
        ("a:00080", true),
        ("a:65536", false),
        ("a:99999", false),
        ("a:123456", false),
        ("a:8o", false),
        ("a:80:80", false),
        ("", false),
        (":80", false),
        ("a/b", false),
        ("a b", false),
        ("a_b", true),
        ("a%41", true),
        ("a%4", false),
        ("[::1]:80", true),
        ("-.-", true),
    ]
    .map(|(host, good)| (host.to_owned(), good))
    .into();
    for len in 1..40 {
        hosts.push(("h".repeat(len), true));
        hosts.push(("h".repeat(len) + ":65535", true));
        hosts.push(("h".repeat(len) + ":65536", false));
        hosts.push(("h".repeat(len) + "@", false));
    }
    for (host, good) in hosts {
        for name in ["Host: ", "host:", "HOST:\t ", "hOsT: "] {
            for end in ["\r\n", " \r\n", "\t\r\n"] {
                for tail in [
                    "\r\n",
                    "Accept: */*\r\n\r\n",
                    "X: a value that is long enough for every look ahead\r\n\r\n",
                ] {
                    let input = format!("GET / HTTP/1.1\r\n{name}{host}{end}{tail}");
                    let verdict = check(input.as_bytes(), &Limits::default());
                    let expect = if good { Ok(Some(input.len())) } else { Err(RequestError::Host) };
                    assert_eq!(verdict, expect, "{input:?}");
                }
            }
        }
    }
}

/// Lines of all kinds, in pairs and in any order, have the same result on both paths.
#[test]
fn pairs_of_lines() {
    let lines = [
        "Host: a.example\r\n",
        "host: b:1\r\n",
        "Connection: close\r\n",
        "connection: Close, x\r\n",
        "Connection: keep-alive\r\n",
        "Accept: */*\r\n",
        "accept: \r\n",
        "Accept:\ta\tb\r\n",
        "User-Agent: kube-probe/1.30 with a name that takes more than two looks\r\n",
        "user-agent:x\r\n",
        "User-Agent : x\r\n",
        "Content-Length: 5\r\n",
        "Content-Length: x\r\n",
        "content_length: 5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Expect: 100-continue\r\n",
        "Expect: other\r\n",
        "Accept: \u{e9}t\u{e9}\r\n",
        "X-Long-Name-Of-More-Than-One-Look: 1\r\n",
        "X1: 1\r\n",
        "Authorization: Bearer abc\r\n",
        "AUTHORIZATION: a\r\n",
        "authorization:\tBasic x \r\n",
        "Authorization: \r\n",
        "Authorizatiom: a\r\n",
        "Accept-Encoding: gzip\r\n",
        " folded\r\n",
        ": nameless\r\n",
        "nothing\r\n",
        "Accept: a\n",
        "Accept: a\rb\r\n",
        "\u{0}: a\r\n",
    ];
    for start in ["GET /x HTTP/1.1", "GET / HTTP/1.0", "POST http://a.example/ HTTP/1.1", "HEAD /?q HTTP/1.1"]
    {
        for first in lines {
            for second in lines {
                for tail in ["", "\r\n", "Accept: a tail that is long enough\r\n\r\n"] {
                    let input = format!("{start}\r\n{first}{second}{tail}");
                    for fields_max in [0, 1, 2, 100] {
                        let _ = check(input.as_bytes(), &Limits { fields_max, ..Limits::default() });
                    }
                }
            }
        }
    }
}

/// Limits around the size of the head have the same result on both paths.
#[test]
fn limits() {
    for request in [KUBELET, HAPROXY, AUTHORIZED, SHORT] {
        for fields_max in 0..6 {
            let verdict = check(request.as_bytes(), &Limits { fields_max, ..Limits::default() });
            let fields = request.matches("\r\n").count() - 2;
            assert_eq!(verdict.is_ok(), fields <= fields_max as usize, "{fields_max}: {request}");
        }
        for max in 1..request.len() + 2 {
            let verdict = check(request.as_bytes(), &Limits { head_bytes_max: max, ..Limits::default() });
            assert_eq!(verdict.is_ok(), request.len() <= max, "{max}: {request}");
            let limits = Limits { request_line_bytes_max: max, ..Limits::default() };
            let verdict = check(request.as_bytes(), &limits);
            assert_eq!(verdict.is_ok(), request.find("\r\n").unwrap() + 2 <= max, "{max}: {request}");
        }
    }
}
