//! Heads as bytes: line ends, request line, `Host`, field lines.

use super::{Vector, get_with};
use doorbell_http::Next::{CloseClean, Read};

pub(crate) fn all() -> Vec<Vector> {
    [line_ends(), versions(), methods(), targets(), absolute_targets(), hosts(), fields()]
        .into_iter()
        .flatten()
        .collect()
}

pub(crate) fn line_ends() -> Vec<Vector> {
    let mut vectors = vec![
        Vector::accepted("one empty line first", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        Vector::accepted("two empty lines first", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        Vector::new(
            "two requests with two empty lines each",
            b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2),
            &[200, 200],
            Read,
        ),
    ];
    for (name, input) in [
        ("three empty lines first", "\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("bare LF first", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("bare CR first", "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n"),
        ("bare LF after a field", "GET / HTTP/1.1\r\nHost: a\n\r\n"),
        ("bare LF at the end", "GET / HTTP/1.1\r\nHost: a\r\n\n"),
        ("bare LF everywhere", "GET / HTTP/1.1\nHost: a\n\n"),
        ("CR alone everywhere", "GET / HTTP/1.1\rHost: a\r\r"),
        ("CR inside a request line", "GET /\rx HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("CR inside a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n"),
        ("CR inside a name", "GET / HTTP/1.1\r\nHost: a\r\nX\rY: b\r\n\r\n"),
        ("CR CR LF", "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n"),
        ("CR CR LF after a field", "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n"),
        ("CR x at the end", "GET / HTTP/1.1\r\nHost: a\r\n\rx"),
        ("space before the first field", "GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
        ("tab before the first field", "GET / HTTP/1.1\r\n\tHost: a\r\n\r\n"),
        ("space before the request line", " GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("folded line", "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n"),
        ("line folded with a tab", "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n\tb\r\n\r\n"),
        ("folded Host", "GET / HTTP/1.1\r\nHost:\r\n a\r\n\r\n"),
        ("line of one space", "GET / HTTP/1.1\r\nHost: a\r\n \r\n\r\n"),
    ] {
        vectors.push(Vector::refused(name, input, 400));
    }
    vectors
}

pub(crate) fn versions() -> Vec<Vector> {
    let request = |version: &str| format!("GET / {version}\r\nHost: a\r\n\r\n");
    let mut vectors = vec![
        Vector::accepted("HTTP/1.1", request("HTTP/1.1")),
        Vector::new("HTTP/1.0", request("HTTP/1.0"), &[200], CloseClean),
        Vector::refused("HTTP/0.9", "GET /\r\n", 400),
        Vector::refused("HTTP/0.9 with an empty line", "GET /\r\n\r\n", 400),
        Vector::refused("h2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ];
    for version in ["HTTP/1.2", "HTTP/1.5", "HTTP/1.9"] {
        vectors.push(Vector::accepted(version, request(version)));
    }
    for version in ["HTTP/2.0", "HTTP/9.9", "HTTP/3.1", "HTTP/0.9", "HTTP/0.0"] {
        vectors.push(Vector::refused(version, request(version), 505));
    }
    for version in [
        "http/1.1",
        "Http/1.1",
        "HTTP/1",
        "HTTP/1.",
        "HTTP/.1",
        "HTTP/01.1",
        "HTTP/1.01",
        "HTTP/1.10",
        "HTTP/ 1.1",
        "HTTP /1.1",
        "HTTP/1.1 ",
        "HTTP/1.1 x",
        "HTTP/1.1\t",
        "HTTP/1,1",
        "HTTP/11",
        "HTTP/-1.1",
        "HTTP/1.x",
        "HTTP/x.1",
        "HTTPS/1.1",
        "HTP/1.1",
        "",
        "HTTP/2",
        "HTTP/2.0 x",
        "HTTP\\1.1",
        "XHTTP/1.1",
        "HTTP/1.1\0",
    ] {
        vectors.push(Vector::refused(&format!("version {version:?}"), request(version), 400));
    }
    vectors
}

pub(crate) fn methods() -> Vec<Vector> {
    let request = |method: &str| format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut vectors = Vec::new();
    for method in ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH"] {
        vectors.push(Vector::accepted(method, request(method)));
    }
    vectors.push(Vector::new(
        "TRACE is not allowed, and the connection stays open",
        request("TRACE"),
        &[405],
        Read,
    ));
    vectors.push(Vector::new(
        "TRACE with a body",
        "TRACE / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nabGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        &[405, 200],
        Read,
    ));
    for method in [
        "get",
        "Get",
        "BREW",
        "PROPFIND",
        "M-SEARCH",
        "!#$%&'*+-.^_`|~",
        "G",
        "GETX",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF",
    ] {
        vectors.push(Vector::refused(&format!("unknown method {method}"), request(method), 501));
    }
    vectors.push(Vector::refused("method of 33 bytes", request(&"M".repeat(33)), 501));
    vectors.push(Vector::refused("method of 100 KB", request(&"M".repeat(100_000)), 501));
    vectors.push(Vector::refused("CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 501));
    for method in ["G@T", "G\0T", "GE T", "\"GET\"", "GET,", "G\u{e9}T", "{}", "GET:", "(GET)", "G\x7fT", ""]
    {
        vectors.push(Vector::refused(&format!("method {method:?}"), request(method), 400));
    }
    vectors.push(Vector::refused("unknown method and no Host", "BREW / HTTP/1.1\r\n\r\n", 400));
    vectors
}

pub(crate) fn targets() -> Vec<Vector> {
    let request = |target: &[u8]| [b"GET ", target, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
    let mut vectors = vec![
        Vector::accepted("OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
        Vector::new("OPTIONS / in HTTP/1.0 without Host", "OPTIONS / HTTP/1.0\r\n\r\n", &[200], CloseClean),
        Vector::refused("POST *", "POST * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Vector::refused("OPTIONS *x", "OPTIONS *x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Vector::refused("CONNECT without a port", "CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Vector::refused("CONNECT with a path", "CONNECT /a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Vector::refused("two spaces after the method", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Vector::refused("two spaces before the version", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Vector::refused("tab after the method", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Vector::refused("tab before the version", "GET /\tHTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Vector::refused("no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Vector::refused("empty target", "GET  HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Vector::refused("method alone", "GET\r\nHost: a\r\n\r\n", 400),
        Vector::refused("method and space", "GET \r\nHost: a\r\n\r\n", 400),
    ];
    for target in [
        "/",
        "/?",
        "/?a=b?c",
        "//evil",
        "/a/../b",
        "/?%00",
        "/%c0%af",
        "/%zz",
        "/a;b=c,d",
        "/a:b@c!$&'()*+",
        "/[x]",
        "/{x}|^`\"<>",
        "/~_.-",
    ] {
        vectors.push(Vector::accepted(&format!("target {target}"), request(target.as_bytes())));
    }
    for target in [
        b"*".as_slice(),
        b"foo",
        b"foo:80",
        b"?a",
        b"/a b",
        b"/#frag",
        b"/a#",
        b"#",
        b"\\",
        b"/\0",
        b"/\x01",
        b"/\x1f",
        b"/\x7f",
        b"/\x80",
        b"/\xff",
        b"/\xc0\xaf",
        b"/\xc3\xa9",
        b"/a\tb",
        b"/a\x0bb",
        b"/a\x0cb",
        b"ftp://a/",
        b"//",
        b"http:/",
        b"http:a",
    ] {
        let status = if target == b"//" { 200 } else { 400 };
        let name = format!("target {}", target.escape_ascii());
        vectors.push(if status == 200 {
            Vector::accepted(&name, request(target))
        } else {
            Vector::refused(&name, request(target), status)
        });
    }
    vectors.extend(ambiguous_targets());
    vectors
}

/// Targets with a backslash or an encoded NUL, in a path and in a query.
fn ambiguous_targets() -> Vec<Vector> {
    let request = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    let long = "/a-path-of-more-than-sixteen-bytes";
    let path = ["/a\\b", "/\\evil.test/", "/%00", "/a/%00?q"].map(str::to_owned).into_iter();
    let path = path.chain([format!("{long}%00"), format!("{long}\\"), format!("{long}%00{long}")]);
    let refused = path.map(|target| Vector::refused(&format!("target {target}"), request(&target), 400));
    let query = ["/?{x}|^`\"<>\\", "/?%00", "/a%0?0", "/%0"];
    let accepted = query.map(|target| Vector::accepted(&format!("target {target}"), request(target)));
    refused.chain(accepted).collect()
}

pub(crate) fn absolute_targets() -> Vec<Vector> {
    let request = |target: &str, host: &str| format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let mut vectors = vec![
        Vector::refused("mismatch", request("http://b/", "a"), 400),
        Vector::refused("the port differs from that of Host", request("http://a:81/", "a:80"), 400),
        Vector::refused("absolute without Host", "GET http://a/ HTTP/1.1\r\n\r\n", 400),
        Vector::new(
            "absolute in HTTP/1.0 without Host",
            "GET http://a/ HTTP/1.0\r\n\r\n",
            &[200],
            CloseClean,
        ),
        Vector::accepted("OPTIONS for a whole server", "OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n"),
    ];
    for (target, host) in [
        ("http://a/", "a"),
        ("http://a", "a"),
        ("http://a?q", "a"),
        ("HTTP://A/x?y", "a"),
        ("https://a:8443/", "A:8443"),
        ("http://[::1]:80/", "[::1]:80"),
        ("http://a:80/", "a"),
        ("http://a/", "a:80"),
        ("http://a:/", "a"),
        ("HTTPS://a:443/", "a"),
        ("https://[::1]/", "[::1]:443"),
        ("http://127.0.0.1/", "127.0.0.1"),
    ] {
        vectors.push(Vector::accepted(target, request(target, host)));
    }
    for (target, host) in [
        ("http://a:443/", "a"),
        ("https://a:80/", "a"),
        ("http://a/b\\c", "a"),
        ("http://a/%00", "a"),
        ("http://u@a/", "a"),
        ("http://u:p@a/", "a"),
        ("http:///", "a"),
        ("http://", "a"),
        ("http://?x", "a"),
        ("http://a:99999/", "a:99999"),
        ("http://a#f", "a"),
        ("http://a/#f", "a"),
        ("http://[::1/", "a"),
        ("http://:80/", "a"),
        ("http://a,b/", "a"),
        ("ws://a/", "a"),
        ("://a/", "a"),
        ("http://a\\b/", "a"),
    ] {
        vectors.push(Vector::refused(target, request(target, host), 400));
    }
    vectors
}

pub(crate) fn hosts() -> Vec<Vector> {
    let request = |host: &str| format!("GET / HTTP/1.1\r\nHost:{host}\r\n\r\n");
    let mut vectors = vec![
        Vector::refused("no Host", "GET / HTTP/1.1\r\n\r\n", 400),
        Vector::refused("no Host in 1.2", "GET / HTTP/1.2\r\nX: y\r\n\r\n", 400),
        Vector::refused("Host twice, the same", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        Vector::refused("Host twice", "GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", 400),
        Vector::refused("Host twice in 1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        Vector::refused("bad Host in 1.0", "GET / HTTP/1.0\r\nHost: a b\r\n\r\n", 400),
        Vector::new("no Host in 1.0", "GET / HTTP/1.0\r\n\r\n", &[200], CloseClean),
        Vector::accepted("HOST", "GET / HTTP/1.1\r\nHOST: a\r\n\r\n"),
    ];
    for host in [
        " a",
        "a",
        "\ta\t ",
        " a:80",
        " a:",
        " 10.0.0.1:8080",
        " [::1]",
        " [2001:db8::1]:443",
        " any.example.",
        " a_b",
        " a%41",
        " a;b",
    ] {
        vectors.push(Vector::accepted(&format!("Host {host:?}"), request(host)));
    }
    for host in [
        "",
        " ",
        " a b",
        " a/b",
        " u@a",
        " a,b",
        " a, a",
        " http://a",
        " a:b",
        " a:80:80",
        " a:65536",
        " :80",
        " [::1",
        " ::1",
        " [::1]x",
        " a?b",
        " a#b",
        " a\\b",
        " \"a\"",
        " a%",
        " a%4",
        " a%zz",
        " \u{e9}",
        " <a>",
        " [g::1]",
        " []",
        " a\tb",
        " [::1%25lo]",
    ] {
        vectors.push(Vector::refused(&format!("Host {host:?}"), request(host), 400));
    }
    vectors
}

pub(crate) fn fields() -> Vec<Vector> {
    let mut vectors = Vec::new();
    for line in [
        b"X:\r\n".as_slice(),
        b"X: \r\n",
        b"X:y\r\n",
        b"X:\ty \t\r\n",
        b"X: a\tb\r\n",
        b"X: \x80\xff\r\n",
        b"X: \xc3\xa9\r\n",
        b"X: a:b:c\r\n",
        b"!#$%&'*+-.^_`|~09azAZ: x\r\n",
        b"X_Y: z\r\n",
        b"X: y\r\nX: y\r\n",
        b"Content-Typ_: x\r\n",
        b"X: \" \\ , ; =\r\n",
        b"Content_Type: x\r\n",
    ] {
        vectors.push(Vector::accepted(&format!("field {}", line.escape_ascii()), get_with(line)));
    }
    for line in [
        b"Host : a\r\n".as_slice(),
        b"Content-Length : 5\r\n",
        b"X : y\r\n",
        b"X\t: y\r\n",
        b": x\r\n",
        b":\r\n",
        b"X[]: y\r\n",
        b"X\tY: z\r\n",
        b"X Y: z\r\n",
        b"\xc3\xa9: x\r\n",
        b"X\xff: y\r\n",
        b"nocolon\r\n",
        b"X\r\n",
        b"X\0: y\r\n",
        b"X\x7f: y\r\n",
        b"(X): y\r\n",
        b"X/Y: z\r\n",
        b"\"X\": y\r\n",
        b"X;: y\r\n",
        b"X@: y\r\n",
        b"X: a\0\r\n",
        b"X: \0b\r\n",
        b"X: \x07\r\n",
        b"X: a\x7f\r\n",
        b"X: a\x0bb\r\n",
        b"X: a\x0cb\r\n",
        b"X: \x1b[0m\r\n",
        b"X: \x01\r\n",
        b"X: a\x08b\r\n",
        b"Transfer_Encoding: chunked\r\n",
        b"transfer_encoding: x\r\n",
        b"Content_Length: 5\r\n",
        b"content_length: 0\r\n",
        b"Transfer-Encoding\x0b: chunked\r\n",
        b"Transfer-Encoding\0: chunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"\x0bTransfer-Encoding: chunked\r\n",
        b"Content-Length\xa0: 5\r\n",
        b"TRANSFER_ENCODING: chunked\r\n",
    ] {
        vectors.push(Vector::refused(&format!("field {}", line.escape_ascii()), get_with(line), 400));
    }
    vectors
}
