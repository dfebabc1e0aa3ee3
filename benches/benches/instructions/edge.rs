//! Instruction counts of the steps before a service: PROXY header, client address behind proxies,
//! rate limiter.
//!
//! Does not know about: time; `limit.rs` and `proxy.rs` measure it.
use doorbell_benches::guard::{AUTHORIZED, Scrape};
use doorbell_http::auth::Authorization;
use doorbell_http::forwarded::{ForwardedFrom, Networks, Origin, TrustedProxies};
use doorbell_http::limit::{
    CLIENT_V6_LEN, Credit, Decision, KeyBytes, LIFETIME_MIN, Leases, LimitFields, Limiter, LocalLimiter,
    OnError, Quota,
};
use doorbell_http::parse::Head;
use doorbell_http::proxy::{Parsed, ProxyError, parse};
use doorbell_http::{Limits, Next, Request, RequestError, Time};
use gungraun::{library_benchmark, library_benchmark_group};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::harness::at_most;

const V1: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n";
const V1_TCP6: &[u8] = b"PROXY TCP6 2001:db8::17 2001:db8:0:1::2 56324 443\r\n";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x02\x1f\x90\x01\xbb";
const V2_LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
const FORWARDED: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: probe\r\nAccept: */*\r\nX-Forwarded-For: 203.0.113.9, 192.0.2.1\r\n\
    X-Forwarded-Proto: https\r\nForwarded: for=192.0.2.1;proto=https\r\n\r\n";
/// [`AUTHORIZED`] without the token.
const UNAUTHORIZED: &[u8] =
    b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:18181\r\nUser-Agent: Prometheus/3.1.0\r\nAccept: */*\r\n\r\n";
const NOW: Time = Time::from_nanos(1_000_000_000_000);

/// A limiter that all workers share and one of a single worker, each for 1,024 keys, and the client
/// whose address is the key.
struct Asked {
    shared: Limiter,
    local: LocalLimiter,
    client: IpAddr,
}

impl Asked {
    fn known(burst: u32) -> Box<Self> {
        let quota = Quota::new(burst, 1, Duration::from_secs(1)).expect("a quota");
        let client = "2001:db8::17".parse().expect("an address");
        let (shared, local) = (Limiter::new(quota, 1024, [1, 2]), LocalLimiter::new(quota, 1024, [1, 2]));
        let mut asked = Box::new(Self { shared, local, client });
        asked.shared();
        asked.local();
        asked
    }

    /// A shared limiter whose table is full, so that a new key evicts another.
    fn new_key() -> Box<Self> {
        let mut asked = Self::known(2);
        for key in 0..100_000u32 {
            asked.shared.check(&key.to_le_bytes(), NOW);
        }
        asked.client = "192.0.2.1".parse().expect("an address");
        asked
    }

    /// A limiter that instances share. From `valid_until` on, its store counts as failed.
    fn leased(valid_until: Time) -> Box<Self> {
        let mut asked = Self::known(9);
        let credit = Credit { requests: 8, debt_max: Duration::from_secs(1) };
        let leases = Arc::new(Leases::new(64, LIFETIME_MIN, credit, OnError::Local));
        leases.set_valid_until(valid_until);
        asked.shared = Limiter::leased(*asked.shared.quota(), 1024, [1, 2], leases);
        asked.shared();
        asked
    }

    fn shared(&self) -> Decision {
        self.shared.check(KeyBytes::ip(self.client, CLIENT_V6_LEN).as_bytes(), NOW)
    }

    fn local(&mut self) -> Decision {
        self.local.check(KeyBytes::ip(self.client, CLIENT_V6_LEN).as_bytes(), NOW)
    }
}

/// A request behind a trusted proxy.
struct Behind {
    head: Head,
    proxies: TrustedProxies,
}

impl Behind {
    fn new(from: ForwardedFrom) -> Box<Self> {
        let mut head = Head::new();
        assert_eq!(head.parse(FORWARDED, &Limits::default()), Ok(Some(FORWARDED.len())));
        let networks = Networks::parse(["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]).expect("networks");
        Box::new(Self { head, proxies: TrustedProxies::new(networks, from) })
    }

    fn origin(&self) -> Origin {
        self.proxies.origin_of(&Request::new(FORWARDED, &self.head, b""), IpAddr::from([10, 0, 0, 1]))
    }
}

type Verdict = Result<Option<usize>, RequestError>;

fn parsed(bytes: &[u8]) -> (Verdict, Head) {
    let mut head = Head::new();
    (head.parse(std::hint::black_box(bytes), &Limits::default()), head)
}

/// The fields of a scrape with a token.
struct Fields {
    head: Head,
}

impl Fields {
    fn new() -> Box<Self> {
        let mut head = Head::new();
        assert_eq!(head.parse(AUTHORIZED, &Limits::default()), Ok(Some(AUTHORIZED.len())));
        Box::new(Self { head })
    }

    fn request(&self) -> Request<'_> {
        Request::new(std::hint::black_box(AUTHORIZED), &self.head, b"")
    }
}

// The fixture is returned so that its drop is not counted.
#[library_benchmark]
#[bench::known(args = (Asked::known(9)), config = at_most(232))]
#[bench::denied(args = (Asked::known(1)), config = at_most(224))]
#[bench::new_key(args = (Asked::new_key()), config = at_most(390))]
#[bench::leased(args = (Asked::leased(Time::MAX)), config = at_most(390))]
#[bench::store_failed(args = (Asked::leased(Time::ZERO)), config = at_most(334))]
fn shared(asked: Box<Asked>) -> (Decision, Box<Asked>) {
    (asked.shared(), asked)
}

#[library_benchmark]
#[bench::known(args = (Asked::known(9)), config = at_most(239))]
#[bench::denied(args = (Asked::known(1)), config = at_most(236))]
fn local(mut asked: Box<Asked>) -> (Decision, Box<Asked>) {
    (asked.local(), asked)
}

#[library_benchmark]
#[bench::admitted(args = (Asked::known(9)), config = at_most(502))]
fn fields(asked: Box<Asked>) -> (LimitFields, Box<Asked>) {
    (asked.shared().fields(asked.shared.quota()), asked)
}

#[library_benchmark]
#[bench::v1(args = (V1), config = at_most(2_285))]
#[bench::v1_tcp6(args = (V1_TCP6), config = at_most(4_055))]
#[bench::v2(args = (V2), config = at_most(230))]
#[bench::v2_local(args = (V2_LOCAL), config = at_most(160))]
#[bench::none(args = (FORWARDED), config = at_most(30))]
fn header(bytes: &[u8]) -> Result<Parsed, ProxyError> {
    parse(bytes)
}

#[library_benchmark]
#[bench::forwarded(args = (Behind::new(ForwardedFrom::Forwarded)), config = at_most(3_950))]
#[bench::x_forwarded_for(args = (Behind::new(ForwardedFrom::XForwardedFor)), config = at_most(3_540))]
fn origin(behind: Box<Behind>) -> (Origin, Box<Behind>) {
    (behind.origin(), behind)
}

// The difference between the rows is the cost of parsing the field `Authorization`. A request with
// the field pays this cost even if no guard reads the field.
#[library_benchmark]
#[bench::with_authorization(args = (AUTHORIZED), config = at_most(551))]
#[bench::without(args = (UNAUTHORIZED), config = at_most(427))]
fn head(bytes: &[u8]) -> (Verdict, Head) {
    parsed(bytes)
}

// The token is in the last of four fields.
#[library_benchmark]
#[bench::of_4(args = (Fields::new()), config = at_most(30))]
fn authorization(fields: Box<Fields>) -> (bool, Box<Fields>) {
    (Authorization::of(&fields.request()) == Authorization::Absent, fields)
}

#[library_benchmark]
#[bench::of_4(args = (Fields::new()), config = at_most(203))]
fn absent(fields: Box<Fields>) -> (bool, Box<Fields>) {
    (fields.request().header("x-api-key").is_none(), fields)
}

// The same request on the same connection to the same service: without guards, and with a static
// token and a limiter.
#[library_benchmark]
#[bench::plain(args = (Scrape::plain("192.0.2.1")), config = at_most(804))]
#[bench::guarded_v4(args = (Scrape::guarded("192.0.2.1")), config = at_most(1_128))]
#[bench::guarded_v6(args = (Scrape::guarded("2001:db8::17")), config = at_most(1_167))]
fn scrape(mut scrape: Box<Scrape>) -> (Next, Box<Scrape>) {
    (scrape.handle(), scrape)
}

library_benchmark_group!(
    name = edge,
    benchmarks = [shared, local, fields, header, origin, head, authorization, absent, scrape]
);

/// Asserts that the counted operations give the correct results.
pub(crate) fn check_replies() {
    for (burst, allowed) in [(9, true), (1, false)] {
        let mut asked = Asked::known(burst);
        assert_eq!(asked.shared().is_allowed(), allowed);
        assert_eq!(asked.local().is_allowed(), allowed);
    }
    let full = Asked::new_key();
    let evicted = full.shared.counts().evicted_live;
    assert!(full.shared().is_allowed());
    assert_eq!(full.shared.counts().evicted_live, evicted + 1);
    for header in [V1, V1_TCP6, V2, V2_LOCAL] {
        assert!(
            matches!(parse(header), Ok(Parsed::Complete(header_found)) if header_found.len == header.len())
        );
    }
    for (bytes, has_token) in [(AUTHORIZED, true), (UNAUTHORIZED, false)] {
        let (verdict, head) = parsed(bytes);
        assert_eq!(verdict, Ok(Some(bytes.len())));
        assert!(AUTHORIZED.starts_with(bytes.trim_ascii_end()));
        assert_eq!(Authorization::of(&Request::new(bytes, &head, b"")) != Authorization::Absent, has_token);
    }
    let fields = Fields::new();
    assert!(matches!(Authorization::of(&fields.request()), Authorization::One([.., b'K'])));
    assert!(fields.request().header("x-api-key").is_none());
    for mut scrape in
        [Scrape::plain("192.0.2.1"), Scrape::guarded("192.0.2.1"), Scrape::guarded("2001:db8::17")]
    {
        assert_eq!(scrape.handle(), Next::Read);
        assert!(scrape.output().starts_with(b"HTTP/1.1 200 "), "{}", scrape.output().escape_ascii());
    }
    for from in [ForwardedFrom::Forwarded, ForwardedFrom::XForwardedFor] {
        assert_eq!(Behind::new(from).origin().addr, IpAddr::from([192, 0, 2, 1]));
    }
}
