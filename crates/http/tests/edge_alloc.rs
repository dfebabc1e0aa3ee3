//! The steps before the call of a service make no allocation: PROXY header, origin, key, limit,
//! fields.
//!
//! Does not know about: the connection; see `alloc.rs`.

use allocation_counter::measure;
use doorbell_http::forwarded::{ForwardedFrom, Networks, TrustedProxies};
use doorbell_http::limit::{Key, Limiter, LocalLimiter, Quota};
use doorbell_http::parse::Head;
use doorbell_http::proxy::{Parsed, parse};
use doorbell_http::{Limits, Request, Time};
use std::hint::black_box;
use std::net::IpAddr;
use std::time::Duration;

#[test]
fn no_allocation_before_the_service() {
    let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.9, 192.0.2.1\r\nX-Forwarded-For: 10.0.0.2\r\n\
        X-Forwarded-Proto: https\r\nForwarded: for=\"[2001:db8::1]:443\";proto=https, for=10.0.0.2\r\n\
        Authorization: Bearer 0123456789abcdef\r\nX-Api-Key: key\r\n\r\n";
    let mut head = Head::new();
    assert_eq!(head.parse(bytes, &Limits::default()), Ok(Some(bytes.len())));
    let request = Request::new(bytes, &head, b"");
    let networks = Networks::parse(["10.0.0.0/8", "fd00::/8"]).expect("networks");
    let proxies = [ForwardedFrom::Forwarded, ForwardedFrom::XForwardedFor]
        .map(|from| TrustedProxies::new(networks.clone(), from));
    let keys = [Key::Ip, Key::Prefix { v4_len: 24, v6_len: 64 }, Key::Token, Key::Header("x-api-key".into())];
    let quota = Quota::new(3, 1, Duration::from_secs(1)).expect("a quota");
    let (shared, mut local) = (Limiter::new(quota, 16, [1, 2]), LocalLimiter::new(quota, 16, [1, 2]));
    let peer: IpAddr = "10.0.0.1".parse().expect("an address");
    let mut refused = 0;
    let info = measure(|| {
        for round in 0..100u32 {
            let headers: [&[u8]; 3] =
                [b"PROXY TCP6 ::1 ::2 1 2\r\n", b"PROXY TCP4 what", b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"];
            for header in headers {
                assert!(!matches!(black_box(parse(header)), Ok(Parsed::NotProxy)));
            }
            for proxies in &proxies {
                let origin = proxies.origin_of(&request, peer);
                assert_ne!(origin.addr, peer);
                for key in &keys {
                    let key = key.named(&request).unwrap_or_else(|| key.of_addr(origin.addr, 64));
                    let now = Time::from_nanos(u64::from(round) * 1_000_000);
                    let decision = shared.check(key.as_bytes(), now);
                    assert_eq!(local.check(key.as_bytes(), now), decision);
                    black_box(decision.fields(&quota).lines().len());
                    refused += u32::from(!decision.is_allowed());
                }
            }
        }
    });
    assert_eq!(info.count_total, 0, "{info:?}");
    assert!(refused > 100);
}
