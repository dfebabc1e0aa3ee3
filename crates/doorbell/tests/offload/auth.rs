//! `Offload::require_auth`: which tokens are verified in a job, and which get a reply without a
//! job.

use std::io::Write as _;
use std::time::Duration;

use doorbell::http::Service;
use doorbell::http::auth::jwt::{Algorithm, JwtPolicy, Key};
use doorbell::http::auth::{Policy, Tokens};
use doorbell::http::layer::ServiceExt as _;
use doorbell::offload::{Class, Offload};
use doorbell::{Engine, Http1, Replied, Request, Responder, Server, Status, service_fn};
use jsonwebtoken::{EncodingKey, Header, encode};
use rcgen::KeyPair;
use serde_json::json;

use crate::hand::{Hand, reply, rest, send, until};
use crate::promise::{anywhere, builder, on_both_engines};

on_both_engines! {
    only_the_request_with_the_signature_waits_for_the_job
    a_token_without_such_a_signature_needs_no_job
    a_full_queue_admits_no_request
    the_body_that_a_service_wants_comes_through
}

const STATIC: &str = "a-static-token-of-operator-0123456";

/// The key pair of an issuer.
struct Issuer(KeyPair);

impl Issuer {
    fn new() -> Self {
        Self(KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap())
    }

    fn sign(&self, subject: &str) -> String {
        // Expires in the year 2100.
        let claims = json!({ "iss": "i", "aud": "a", "sub": subject, "exp": 4_102_444_800_u64 });
        let key = EncodingKey::from_ec_der(&self.0.serialize_der());
        encode(&Header::new(jsonwebtoken::Algorithm::ES256), &claims, &key).unwrap()
    }

    /// Starts a server with one worker that requires a token of this issuer or a static token, for
    /// all paths except `/open`.
    fn serve(&self, engine: Engine, hand: &Hand, queue_max: usize) -> Server {
        let key = Key::pem(Algorithm::Es256, self.0.public_key_pem().as_bytes()).unwrap();
        let tokens = JwtPolicy::builder().key(key).issuer("i").audience("a").build().unwrap();
        let mut list = Tokens::new();
        let _advice = list.add("operator", STATIC.as_bytes()).unwrap();
        let policy = Policy::either("api", list, tokens).unwrap();
        let jobs = Offload::builder().queue_max(Class::Normal, queue_max).build_on(hand.clone());
        let secret = service_fn(|request, reply| {
            let name = request.identity().unwrap_or("nobody");
            reply.status(Status::OK).content(format!("{} for {name}", request.path()))
        });
        let guarded = secret.with(jobs.require_auth(policy));
        let service = service_fn(move |request, reply| match request.path() {
            "/open" => reply.status(Status::OK).content("open"),
            _ => doorbell::Handler::call(&guarded, request, reply),
        });
        builder(engine).listen(anywhere(), Http1::new(service)).start().unwrap()
    }
}

/// A service that requests information about the client and the trace, and never replies.
struct Asks(bool);

impl Service for Asks {
    fn wants_client(&self) -> bool {
        self.0
    }

    fn takes_trace(&self) -> bool {
        self.0
    }

    fn call<'a>(&self, _: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        reply.status(Status::NOT_FOUND).empty()
    }
}

#[test]
fn a_guarded_service_gets_the_information_it_requests() {
    for asks in [false, true] {
        let mut list = Tokens::new();
        let _advice = list.add("operator", STATIC.as_bytes()).unwrap();
        let jobs = Offload::builder().build_on(Hand::default());
        let guarded = Asks(asks).with(jobs.require_auth(Policy::bearer("api", list).unwrap()));
        assert_eq!((guarded.wants_client(), guarded.takes_trace()), (asks, asks));
    }
}

fn the_body_that_a_service_wants_comes_through(engine: Engine) {
    let mut list = Tokens::new();
    let _advice = list.add("operator", STATIC.as_bytes()).unwrap();
    let jobs = Offload::builder().build_on(Hand::default());
    let echo = service_fn(|request, reply| reply.status(Status::OK).content(request.body())).with_body();
    let service = echo.with(jobs.require_auth(Policy::bearer("api", list).unwrap()));
    let server = builder(engine).listen(anywhere(), Http1::new(service)).start().unwrap();
    let head =
        format!("POST / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {STATIC}\r\nContent-Length: 4\r\n\r\n");
    let got = reply(&mut send(&server, &[head.as_bytes(), b"body"].concat()));
    assert_eq!((got.status, got.body.as_slice()), (200, &b"body"[..]));
}

fn with(path: &str, token: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n").into_bytes()
}

fn only_the_request_with_the_signature_waits_for_the_job(engine: Engine) {
    let (hand, issuer) = (Hand::default(), Issuer::new());
    let server = issuer.serve(engine, &hand, 8);
    let mut good = send(&server, &with("/a", &issuer.sign("alice")));
    let mut bad = send(&server, &with("/a", &Issuer::new().sign("alice")));
    until(&server, |stats| stats.jobs_queued == 2);
    // Until the job runs no token is verified, and the ring thread serves other requests.
    let mut open = send(&server, b"GET /open HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(reply(&mut open).body, b"open");
    for stream in [&good, &bad] {
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(stream.peek(&mut [0]).is_err(), "no reply without the job");
    }
    // The verification happens on the thread that runs the job, which is the thread of this test.
    hand.run_one();
    hand.run_one();
    let got = reply(&mut good);
    assert_eq!((got.status, got.body.as_slice()), (200, &b"/a for alice"[..]));
    let got = reply(&mut bad);
    let challenge = "Bearer realm=\"api\", error=\"invalid_token\"";
    assert_eq!((got.status, got.field("www-authenticate")), (401, Some(challenge)));
    // Both connections stay open.
    for (stream, status) in [(&mut good, 200), (&mut bad, 200)] {
        stream.write_all(&with("/b", &issuer.sign("bob"))).unwrap();
        hand.run_one();
        assert_eq!(reply(stream).status, status);
    }
    server.stop().unwrap();
}

fn a_token_without_such_a_signature_needs_no_job(engine: Engine) {
    let (hand, issuer) = (Hand::default(), Issuer::new());
    let server = issuer.serve(engine, &hand, 8);
    let token = issuer.sign("alice");
    let (_, rest_of_token) = token.split_once('.').unwrap();
    // `{"alg":"HS256"}` and `{"alg":"none"}`.
    let other = ["eyJhbGciOiJIUzI1NiJ9", "eyJhbGciOiJub25lIn0"].map(|head| format!("{head}.{rest_of_token}"));
    for (token, status) in
        [(STATIC, 200), (&STATIC[1..], 401), ("a.b.c", 401), (&*other[0], 401), (&*other[1], 401)]
    {
        let mut stream = send(&server, &with("/a", token));
        assert_eq!(reply(&mut stream).status, status, "{token}");
    }
    let mut stream = send(&server, b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(reply(&mut stream).status, 401);
    assert_eq!(server.stats().jobs_queued, 0);
    server.stop().unwrap();
}

fn a_full_queue_admits_no_request(engine: Engine) {
    let (hand, issuer) = (Hand::default(), Issuer::new());
    let server = issuer.serve(engine, &hand, 1);
    let first = send(&server, &with("/a", &issuer.sign("alice")));
    until(&server, |stats| stats.jobs_queued == 1);
    let mut second = send(&server, &with("/a", &issuer.sign("alice")));
    let got = reply(&mut second);
    assert_eq!((got.status, got.field("retry-after").is_some()), (503, true));
    server.stop().unwrap();
    assert!(rest(first).bytes.is_empty());
}
