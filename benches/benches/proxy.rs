//! Parsing PROXY headers.

use criterion::{Criterion, criterion_group, criterion_main};
use doorbell_http::proxy::{Parsed, parse};
use std::hint::black_box;

fn header(c: &mut Criterion) {
    let signature = b"\r\n\r\n\0\r\nQUIT\n".as_slice();
    let inet = [signature, b"\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x02\x1f\x90\x01\xbb"].concat();
    let tlvs = [
        signature,
        b"\x21\x11\0\x1d\xc0\0\x02\x01\xc6\x33\x64\x02\x1f\x90\x01\xbb\xea\0\x0e\x01vpce-01234567",
    ]
    .concat();
    let rows: [(&str, &[u8], bool); 6] = [
        ("proxy/v1 TCP4", b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n", true),
        ("proxy/v1 TCP6", b"PROXY TCP6 2001:db8::17 2001:db8:0:1::2 56324 443\r\n", true),
        ("proxy/v2 LOCAL", b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", true),
        ("proxy/v2 TCP4", &inet, true),
        ("proxy/v2 TCP4, TLV", &tlvs, true),
        ("proxy/not a header", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", false),
    ];
    for (name, bytes, complete) in rows {
        assert_eq!(matches!(parse(bytes), Ok(Parsed::Complete(_))), complete, "{name}");
        c.bench_function(name, |b| b.iter(|| parse(black_box(bytes))));
    }
}

criterion_group!(benches, header);
criterion_main!(benches);
