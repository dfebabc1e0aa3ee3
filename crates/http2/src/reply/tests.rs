//! Tests the conversion of HTTP/2 requests for the service, and of its replies for HTTP/2.

use super::*;
use crate::flood_limits::{Budget, FloodLimits};
use doorbell::Offload;
use doorbell::http::{Method, Replied, Reply, Request, Responder, Service, service_fn};
use doorbell::offload::{Class, Executor, JobReply as Then, Pump};
use http_body_util::{BodyExt as _, Full};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// A service that records its requests.
fn echo(asked: &Arc<Mutex<String>>) -> Http1 {
    let asked = Arc::clone(asked);
    Http1::new(service_fn(move |request, reply| {
        let fields: Vec<_> = request
            .headers()
            .iter()
            .map(|(name, value)| {
                format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
            })
            .collect();
        *asked.lock().unwrap() = format!(
            "{:?} {} {:?} {:?} {}",
            request.method(),
            request.target(),
            request.host(),
            request.client().addr(),
            fields.join(" ")
        );
        if request.method() == Method::Post {
            return reply.status(Status::CREATED).header("Location", "/a").empty();
        }
        reply.status(Status::OK).header("X-A", "1").header("X-A", "2").content("hello\n")
    }))
}

fn account() -> Account {
    Account::new(FloodLimits::new(Budget::default(), Time::ZERO))
}

fn ask(request: hyper::http::request::Builder, body: &'static [u8]) -> (u16, String, HeaderMap, Vec<u8>) {
    let asked = Arc::new(Mutex::new(String::new()));
    let http = echo(&asked);
    let client = Client::at(IpAddr::from([192, 0, 2, 7]));
    let limits = Limits { body_bytes_max: 10, ..Limits::default() };
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (account, counters) = (account(), Counters::default());
    let context = RequestContext {
        http: &http,
        limits: &limits,
        account: &account,
        counters: &counters,
        client: &client,
    };
    let response = runtime.block_on(reply_to(&context, &parts, Full::new(Bytes::from_static(body))));
    let (parts, body) = response.unwrap().into_parts();
    let body = runtime.block_on(body.collect()).unwrap().to_bytes().to_vec();
    let asked = asked.lock().unwrap().clone();
    (parts.status.as_u16(), asked, parts.headers, body)
}

fn get(uri: &str) -> hyper::http::request::Builder {
    hyper::Request::get(uri)
}

#[test]
fn requests_and_replies_are_converted_exactly() {
    let request = get("http://example.org:81/a%20b?c=d").header("accept", "*/*").header("te", "trailers");
    let (status, asked, headers, body) = ask(request, b"");
    assert_eq!(
        (status, asked.as_str()),
        (200, "Get /a%20b?c=d Some(\"example.org:81\") Some(192.0.2.7) host=example.org:81 accept=*/*")
    );
    assert_eq!(headers.get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!((headers["content-length"].as_bytes(), body.as_slice()), (&b"6"[..], &b"hello\n"[..]));
    assert!(headers.contains_key("date") && !headers.contains_key("connection"));
}

#[test]
fn a_reply_to_head_has_no_content_but_its_length() {
    let (status, _, headers, body) = ask(hyper::Request::head("http://a/"), b"");
    assert_eq!((status, headers["content-length"].as_bytes(), body.len()), (200, &b"6"[..], 0));
}

#[test]
fn host_is_the_authority_and_nothing_else() {
    for (uri, host, expected) in [
        ("http://a/", None, 200),
        ("http://a/", Some("a"), 200),
        ("http://a/", Some("A"), 200),
        ("http://a/", Some("b"), 400),
        ("http://a:80/", Some("a"), 200),
        ("https://a/", Some("a:443"), 200),
        ("http://a:443/", Some("a"), 400),
        ("/", Some("b"), 200),
        ("/", Some("b/c"), 400),
        ("/", None, 400),
    ] {
        let request = host.into_iter().fold(get(uri), |request, host| request.header("host", host));
        assert_eq!(ask(request, b"").0, expected, "{uri} {host:?}");
    }
}

#[test]
fn the_rules_of_the_machine_hold() {
    assert_eq!(ask(hyper::Request::builder().method("CONNECT").uri("a:1"), b"").0, 501);
    assert_eq!(ask(hyper::Request::builder().method("BREW").uri("http://a/"), b"").0, 501);
    assert_eq!(ask(hyper::Request::builder().method("TRACE").uri("http://a/"), b"").0, 405);
    assert_eq!(ask(hyper::Request::options("*").header("host", "a"), b"").0, 200);
    assert_eq!(ask(get("http://a/").header("transfer_encoding", "chunked"), b"").0, 400);
    let many = (0..101).fold(get("http://a/"), |request, count| request.header(format!("x-{count}"), "1"));
    assert_eq!(ask(many, b"").0, 431);
    for (target, status) in [("/%00", 400), ("/a\\b", 400), ("/?%00\\", 200)] {
        assert_eq!(ask(get(&format!("http://a{target}")), b"").0, status, "{target}");
    }
    let long = format!("http://a/{}", "a".repeat(9000));
    assert_eq!(ask(get(&long), b"").0, 414);
}

/// A fragment in the path is dropped (see the decision in the module).
#[test]
fn a_fragment_is_cut_before_the_request_gets_here() {
    for uri in ["http://a/b#c", "http://a/b?c#d"] {
        let (status, asked, ..) = ask(get(uri), b"");
        let target = asked.split(' ').nth(1).map(str::to_owned);
        assert_eq!(
            (status, target.as_deref()),
            (200, uri.strip_prefix("http://a").and_then(|uri| uri.split('#').next()))
        );
    }
}

#[test]
fn a_body_is_read_within_its_limit() {
    let post = || hyper::Request::post("http://a/");
    let (status, asked, headers, _) = ask(post(), b"0123456789");
    assert_eq!((status, headers["location"].as_bytes()), (201, &b"/a"[..]));
    assert!(!asked.contains("length"), "{asked}");
    assert_eq!(ask(post(), b"0123456789a").0, 413);
    assert_eq!(ask(post().header("content-length", "11"), b"").0, 413);
    assert_eq!(ask(post().header("expect", "100-continue"), b"0123").0, 201);
    assert_eq!(ask(post().header("expect", "other"), b"0123").0, 417);
}

/// A service that records the requests that did not reach it.
struct Refused(Arc<Mutex<Vec<RequestError>>>);

impl Service for Refused {
    fn call<'a>(&self, _: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        reply.status(Status::OK).empty()
    }

    fn refused(&self, error: RequestError, _: &Client<'_>, _: Time) {
        self.0.lock().unwrap().push(error);
    }
}

/// A body that never arrives.
struct Late;

impl Body for Late {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Pending
    }
}

#[test]
fn each_refused_request_is_counted_and_reported() {
    let reported = Arc::new(Mutex::new(Vec::new()));
    let http = Http1::new(Refused(Arc::clone(&reported)));
    let limits =
        Limits { body_bytes_max: 1, body_idle_timeout: Duration::from_millis(1), ..Limits::default() };
    let (account, counters, client) = (account(), Counters::default(), &Client::UNKNOWN);
    let context =
        RequestContext { http: &http, limits: &limits, account: &account, counters: &counters, client };
    let parts = |path| hyper::Request::post(path).header("host", "a").body(()).unwrap().into_parts().0;
    let full = |content| Full::new(Bytes::from_static(content));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let replies = [
        runtime.block_on(reply_to(&context, &parts("/"), full(b"long"))),
        runtime.block_on(reply_to(&context, &parts("/"), Late)),
        runtime.block_on(reply_to(&context, &parts("/%00"), full(b""))),
    ];
    assert_eq!(replies.map(|reply| reply.unwrap().status().as_u16()), [413, 408, 400]);
    let expected = [RequestError::BodyTooLarge, RequestError::Timeout, RequestError::Target];
    assert_eq!(*reported.lock().unwrap(), expected);
    assert_eq!(expected.map(|error| http.refusals().of(error)), [1; 3]);
}

/// Stores jobs until the test runs them.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Pump>>>);

impl Executor for Kept {
    fn threads(&self) -> usize {
        1
    }

    fn spawn(&self, pump: Pump) {
        self.0.lock().unwrap().push(pump);
    }
}

#[test]
fn a_request_that_waits_for_a_job_does_not_time_out() {
    let kept = Kept::default();
    let timeout = Duration::from_millis(500);
    let jobs = Offload::builder().queue_max(Class::Normal, 1).timeout(timeout).build_on(kept.clone());
    let http = Http1::new(service_fn(move |request, reply| {
        let path = request.path().to_owned();
        let reply = reply.header("X-Layer", "yes");
        jobs.run(request, reply, move || match path.as_str() {
            "/then" => Then::then(|reply| reply.status(Status::ACCEPTED).content("then\n")),
            "/panic" => panic!("panic of a job"),
            _ => Reply::text(Status::OK, "reply\n").into(),
        })
    }));
    let (limits, account, counters) = (Limits::default(), account(), Counters::default());
    let context = RequestContext {
        http: &http,
        limits: &limits,
        account: &account,
        counters: &counters,
        client: &Client::UNKNOWN,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let ask = |path: &str| {
        let (parts, ()) = get(path).header("host", "a").body(()).unwrap().into_parts();
        let context = &context;
        async move { reply_to(context, &parts, Full::new(Bytes::new())).await }
    };
    let run = || core::mem::take(&mut *kept.0.lock().unwrap()).into_iter().for_each(Pump::run);
    runtime.block_on(async {
        for (path, status) in [("/reply", 200), ("/then", 202), ("/panic", 500)] {
            let (reply, ()) = tokio::join!(ask(path), async { run() });
            let reply = reply.unwrap();
            assert_eq!(reply.status(), status, "{path}");
            assert_eq!(reply.headers().contains_key("x-layer"), status != 500, "{path}");
        }
        // One request times out; the queue is full for a concurrent request.
        let (late, busy) = tokio::join!(ask("/reply"), ask("/reply"));
        for reply in [late.unwrap(), busy.unwrap()] {
            assert_eq!(
                (reply.status(), reply.headers()["retry-after"].as_bytes()),
                (StatusCode::SERVICE_UNAVAILABLE, &b"1"[..])
            );
        }
    });
    let fields: Vec<_> = counters.fields().filter(|(_, count)| *count > 0).collect();
    let expected = vec![("http2_jobs_panicked", 1), ("http2_jobs_refused", 1), ("http2_jobs_timed_out", 1)];
    assert_eq!((fields, counters.jobs()), (expected, 4));
    run();
    // A client that disconnects cancels a job that has not started.
    runtime.block_on(async {
        let gone = tokio::time::timeout(Duration::from_millis(1), ask("/panic")).await;
        assert!(gone.is_err());
        run();
    });
    assert_eq!(counters.fields().map(|(_, count)| count).sum::<u64>(), 3);
}

/// An invalid reply is replaced as by a worker, whether it is immediate or the result of a job.
#[test]
fn an_invalid_reply_is_a_500_that_is_counted() {
    let kept = Kept::default();
    let jobs = Offload::builder().build_on(kept.clone());
    let http = Http1::new(service_fn(move |request, reply| match request.path() {
        "/job" => jobs.run(request, reply, || Reply::text(Status::OK, "x").header("X-A", "a\r\nb")),
        _ => reply.status(Status::OK).header("Content-Length", "1").empty(),
    }));
    let (limits, account, counters) = (Limits::default(), account(), Counters::default());
    let client = &Client::UNKNOWN;
    let context =
        RequestContext { http: &http, limits: &limits, account: &account, counters: &counters, client };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for path in ["/", "/job", "/"] {
        let (parts, ()) = get(path).header("host", "a").body(()).unwrap().into_parts();
        let run = || core::mem::take(&mut *kept.0.lock().unwrap()).into_iter().for_each(Pump::run);
        let reply = runtime.block_on(async {
            let (reply, ()) =
                tokio::join!(reply_to(&context, &parts, Full::new(Bytes::new())), async { run() });
            reply.unwrap()
        });
        assert_eq!(reply.status(), 500, "{path}");
    }
    let fields: Vec<_> = counters.fields().filter(|(_, count)| *count > 0).collect();
    assert_eq!(fields, [("http2_handler_misuses", 3)]);
}
