//! Bodies as bytes: transfer codings, lengths, chunks, trailers.

use super::{Vector, chunked};
use doorbell_http::Next::{CloseClean, CloseLinger, Read};

pub(crate) fn all() -> Vec<Vector> {
    [encodings(), lengths(), bodies(), chunks(), chunk_extensions(), trailers()]
        .into_iter()
        .flatten()
        .collect()
}

pub(crate) fn encodings() -> Vec<Vector> {
    let request = |lines: &[u8]| [b"POST / HTTP/1.1\r\nHost: a\r\n", lines, b"\r\n0\r\n\r\n"].concat();
    let mut vectors = Vec::new();
    for value in ["chunked", "Chunked", "CHUNKED", "\tchunked \t"] {
        vectors.push(Vector::accepted(value, request(format!("Transfer-Encoding: {value}\r\n").as_bytes())));
    }
    for value in ["gzip", "xchunked", "chunkedx", "chunke", "x", "br"] {
        vectors.push(Vector::refused(
            value,
            request(format!("Transfer-Encoding: {value}\r\n").as_bytes()),
            501,
        ));
    }
    for lines in [
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n".as_slice(),
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip\r\nContent-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked, chunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: chunked, gzip\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding: identity\r\n",
        b"Transfer-Encoding:\r\n",
        b"Transfer-Encoding: chunked ;q=1\r\n",
        b"Transfer-Encoding: chunked;q=1\r\n",
        b"Transfer-Encoding: ,chunked\r\n",
        b"Transfer-Encoding: chunked,\r\n",
        b"Transfer-Encoding: \x0bchunked\r\n",
        b"Transfer-Encoding: \"chunked\"\r\n",
        b"Transfer-Encoding: chunked chunked\r\n",
        b"Transfer-Encoding: 'chunked' x\r\n",
        b"Transfer-Encoding: chun\r\n ked\r\n",
        b"Transfer-Encoding: gzip;q=1\r\n",
        b"Transfer-Encoding: \xa0chunked\r\n",
        b"Transfer-Encoding: chunked\0\r\n",
    ] {
        vectors.push(Vector::refused(&lines.escape_ascii().to_string(), request(lines), 400));
    }
    vectors.push(Vector::refused(
        "chunked in HTTP/1.0",
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ));
    vectors.push(Vector::refused(
        "gzip in HTTP/1.0",
        "POST / HTTP/1.0\r\nTransfer-Encoding: gzip\r\n\r\n",
        400,
    ));
    vectors
}

pub(crate) fn lengths() -> Vec<Vector> {
    let request = |lines: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\nhello");
    let mut vectors = vec![
        Vector::accepted("5", request("Content-Length: 5\r\n")),
        Vector::accepted("5 with white space", request("content-length:\t 5 \r\n")),
        Vector::refused(
            "2^63 is well-formed but too large",
            request("Content-Length: 9223372036854775808\r\n"),
            413,
        ),
        Vector::accepted("0", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"),
    ];
    for value in [
        "",
        " ",
        "+5",
        "-5",
        "-0",
        "5_0",
        "0x5",
        "0o5",
        "5 5",
        "5,5",
        "5, 6",
        "5, 5",
        "5;",
        "05",
        "00",
        "5.0",
        "5e0",
        "five",
        "9223372036854775809",
        "18446744073709551616",
        "99999999999999999999",
        "\u{661}",
        "5\x0b",
        "'5'",
        ",5",
        "5,",
        "0 5",
        "1e3",
    ] {
        vectors.push(Vector::refused(
            &format!("Content-Length {value:?}"),
            request(&format!("Content-Length: {value}\r\n")),
            400,
        ));
    }
    for (first, second) in [("5", "5"), ("5", "6"), ("0", "5"), ("5", "0")] {
        let lines = format!("Content-Length: {first}\r\nContent-Length: {second}\r\n");
        vectors.push(Vector::refused(&lines, request(&lines), 400));
    }
    vectors
}

pub(crate) fn bodies() -> Vec<Vector> {
    let host = "HTTP/1.1\r\nHost: a\r\n";
    let get = format!("GET / {host}\r\n");
    let five = format!("{host}Content-Length: 5\r\n\r\nhello");
    let chunked = format!("{host}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    let old = "HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello";
    let inner = format!("{host}Content-Length: 19\r\n\r\nGET /x HTTP/1.1\r\n\r\n");
    let once = [200].as_slice();
    let twice = [200, 200].as_slice();
    let mut vectors = Vec::new();
    for (name, input, expect, next) in [
        (
            "shorter than its length",
            format!("POST /want {host}Content-Length: 9\r\n\r\nhello"),
            [].as_slice(),
            Read,
        ),
        ("skipped and shorter", format!("POST / {host}Content-Length: 9\r\n\r\nhello"), &[], Read),
        ("no length: a request follows", format!("POST /want {host}\r\n{get}"), twice, Read),
        ("no length: something follows", format!("POST /want {host}\r\nhello"), once, Read),
        ("wanted, then a request", format!("POST /want {five}{get}"), twice, Read),
        ("skipped, then a request", format!("POST / {five}{get}"), twice, Read),
        ("looks like a request", format!("POST / {inner}{get}"), twice, Read),
        ("with GET", format!("GET / {five}{get}"), twice, Read),
        ("with HEAD", format!("HEAD / {five}{get}"), twice, Read),
        ("skipped and chunked", format!("POST / {chunked}{get}"), twice, Read),
        ("wanted and chunked", format!("POST /want {chunked}{get}"), twice, Read),
        ("in HTTP/1.0", format!("POST /want {old}"), once, CloseClean),
        ("in HTTP/1.0, more than its length", format!("POST /want {old}x"), once, CloseLinger),
    ] {
        vectors.push(Vector::new(name, input, expect, next));
    }
    vectors
}

pub(crate) fn chunks() -> Vec<Vector> {
    let mut vectors = Vec::new();
    for body in [
        b"0\r\n\r\n".as_slice(),
        b"5\r\nhello\r\n0\r\n\r\n",
        b"a\r\n0123456789\r\n0\r\n\r\n",
        b"A\r\n0123456789\r\n0\r\n\r\n",
        b"00005\r\nhello\r\n000\r\n\r\n",
        b"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n",
        b"2\r\n\r\n\r\n0\r\n\r\n",
        b"0000000000000000\r\n\r\n",
        b"5\r\n0\r\n\r\n\r\n0\r\n\r\n",
    ] {
        vectors.push(Vector::accepted(&format!("chunked {}", body.escape_ascii()), chunked(body)));
    }
    for body in [
        b"\r\n".as_slice(),
        b"g\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"+5\r\nhello\r\n0\r\n\r\n",
        b"-1\r\n",
        b"5_0\r\n",
        b"_5\r\n",
        b" 5\r\nhello\r\n0\r\n\r\n",
        b"5 \r\nhello\r\n0\r\n\r\n",
        b"5\t\r\n",
        b"5\rhello\r\n",
        b"5\nhello\r\n0\r\n\r\n",
        b"5\r\nhello0\r\n\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"5\r\nhello\r0\r\n\r\n",
        b"5\r\nhello!\r\n0\r\n\r\n",
        b"3\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\r\n0\r\n\n",
        b"5\r\nhello\r\n0\n\r\n",
        b"5\r\nhello\r\n\r\n",
        b"00000000000000005\r\nhello\r\n",
        b"10000000000000005\r\n",
        b"FFFFFFFFFFFFFFFFF\r\n",
        b"5\0\r\n",
        b"5,\r\n",
        b"5.\r\n",
        b"\xef\xbc\x95\r\n",
        b"5\r\nhello\r\n0\r\n\rx",
        b"5\x0b\r\n",
        b"5\r\r\n",
    ] {
        vectors.push(Vector::refused(&format!("chunked {}", body.escape_ascii()), chunked(body), 400));
    }
    for body in [
        b"".as_slice(),
        b"5",
        b"5\r",
        b"5\r\n",
        b"5\r\nhel",
        b"5\r\nhello",
        b"5\r\nhello\r",
        b"5\r\nhello\r\n",
        b"5\r\nhello\r\n0\r\n",
        b"0\r\n\r",
    ] {
        vectors.push(Vector::new(&format!("chunked, cut {}", body.escape_ascii()), chunked(body), &[], Read));
    }
    vectors
}

pub(crate) fn chunk_extensions() -> Vec<Vector> {
    let body = |ext: &[u8]| chunked(&[b"5", ext, b"\r\nhello\r\n0\r\n\r\n"].concat());
    let mut vectors = Vec::new();
    for ext in [
        ";a",
        ";a=b",
        ";a=\"b c\"",
        ";a=\"\\\"\"",
        ";a;b=c;d=\"e\"",
        ";a=\"\"",
        ";a=\"\t\u{e9};\"",
        ";!#$=%&'",
    ] {
        vectors.push(Vector::accepted(&format!("extension {ext}"), body(ext.as_bytes())));
    }
    vectors.push(Vector::accepted("extension of the last chunk", chunked(b"0;a=b\r\n\r\n")));
    for ext in [
        b";".as_slice(),
        b"; ",
        b" ;a",
        b"\t;a",
        b";a =b",
        b";a= b",
        b"; a",
        b";a=",
        b";=b",
        b";;",
        b";a;",
        b";[",
        b";a=[",
        b";a\0",
        b";a\x01=b",
        b";a\n",
        b";a=\"b\n\"",
        b";a=\"b",
        b";a=\"b\"c",
        b";a=b\"c\"",
        b";a=\"\\\n\"",
        b";\xff",
        b";a=\xff",
        b";a=\"\x7f\"",
        b";a\rb",
        b";a=b ",
        b";a==b",
        b";\n",
    ] {
        vectors.push(Vector::refused(&format!("extension {}", ext.escape_ascii()), body(ext), 400));
    }
    vectors
}

pub(crate) fn trailers() -> Vec<Vector> {
    let body = |trailers: &[u8]| {
        chunked(&[b"1\r\na\r\n0\r\n", trailers, b"\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n"].concat())
    };
    let mut vectors = Vec::new();
    for lines in [
        "",
        "X: y\r\n",
        "X:\r\nY:z\r\n",
        "Content-Length: 9\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Host: c\r\n",
        "Connection: close\r\n",
    ] {
        vectors.push(Vector::new(
            &format!("trailers {lines:?} are dropped"),
            body(lines.as_bytes()),
            &[200, 200],
            Read,
        ));
    }
    for lines in [
        b"X\r\n".as_slice(),
        b" X: y\r\n",
        b"X: y\n",
        b"X : y\r\n",
        b": y\r\n",
        b"X: y\r\n z\r\n",
        b"X: \0\r\n",
        b"X: \x7f\r\n",
        b"X: a\rb\r\n",
        b"\xff: y\r\n",
        b"\n",
    ] {
        vectors.push(Vector::refused(&format!("trailers {}", lines.escape_ascii()), body(lines), 400));
    }
    vectors
}
