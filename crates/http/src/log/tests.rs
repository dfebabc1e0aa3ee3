//! Tables of lines, filters and probers, and records with arbitrary bytes.

use super::*;
use crate::layer::ServiceExt;
use crate::parse::Head;
use crate::prober::{Prober, prober_of};
use crate::{
    Client, Conn, Date, Io, Limits, Method, Next, Out, Request, RequestError, Responder, Service, Status,
    Time, TlsInfo, TlsVersion, service_fn,
};
use proptest::prelude::*;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Mutex;

/// Stores records in memory.
#[derive(Default)]
struct Kept(Mutex<Vec<Record>>);

impl Sink for Kept {
    fn log(&self, record: &Record) {
        self.0.lock().unwrap().push(*record);
    }
}

const NOW: Time = Time::from_nanos(5_250_000_000);
/// Unix time at [`NOW`]: 1994-11-06 08:49:37.250 UTC.
const EPOCH_NANOS: i64 = 784_111_777_250_000_000;

fn lines(format: Format, record: &Record) -> String {
    let mut out = Vec::new();
    let renderer = Renderer::new(format).routes(vec!["probes".to_owned(), "a \"b\"".to_owned()]);
    renderer.render(record, Epoch::new(NOW, EPOCH_NANOS), &mut out);
    assert!(out.iter().all(|&byte| byte == b'\n' || matches!(byte, b' '..=b'~')), "{}", out.escape_ascii());
    assert_eq!(out.iter().position(|&byte| byte == b'\n'), Some(out.len() - 1), "{}", out.escape_ascii());
    String::from_utf8(out).unwrap()
}

fn text(record: &Record) -> String {
    lines(Format::Text, record)
}

fn json(record: &Record) -> serde_json::Value {
    serde_json::from_str(&lines(Format::Json, record)).unwrap()
}

/// Passes `input` from `client` to a new connection with `service`.
fn talk(service: &impl Service, client: &Client<'_>, input: &[u8]) {
    let (limits, date) = (Limits::default(), Date::new(784_111_777));
    let (mut carry, mut out) = (Vec::new(), Out::new());
    let mut conn = Conn::new(NOW, &limits);
    let io = Io {
        now: NOW,
        date: &date,
        limits: &limits,
        carry: &mut carry,
        out: &mut out,
        closing: false,
        client,
    };
    assert_ne!(conn.handle_input(input, io, service), Next::Flush, "small replies");
}

/// A service that replies with the status in the path; for `/close` it closes the connection.
fn by_path() -> impl Service {
    service_fn(|request, reply| match request.path().trim_start_matches('/') {
        "close" => reply.close(),
        code => {
            let status = code.parse().ok().and_then(Status::new).unwrap_or(Status::OK);
            reply.status(status).content("ok\n")
        }
    })
}

fn get(path: &str, lines: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n{lines}\r\n").into_bytes()
}

/// Returns the records of these requests.
fn logged(logger: Logger<&Kept>, kept: &Kept, client: &Client<'_>, requests: &[Vec<u8>]) -> Vec<Record> {
    let service = by_path().with(logger);
    for request in requests {
        talk(&service, client, request);
    }
    std::mem::take(&mut *kept.0.lock().unwrap())
}

fn one(client: &Client<'_>, request: &[u8]) -> Record {
    let kept = Kept::default();
    let records = logged(Logger::new(Filter::ALL, &kept), &kept, client, &[request.to_vec()]);
    let [record] = records.as_slice() else { panic!("{} records", records.len()) };
    *record
}

fn from(addr: &str) -> Client<'static> {
    Client::at(addr.parse().unwrap())
}

fn n(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

#[test]
fn text_is_combined_log_format_and_pairs() {
    let tls = TlsInfo {
        client_name: Some("al ice".to_owned()),
        version: TlsVersion::Tls13,
        resumed: true,
        ..TlsInfo::default()
    };
    let mapped = IpAddr::from([0, 0, 0, 0, 0, 0xffff, 0xc000, 0x207]);
    let with_tls = Client::at(mapped).with_tls(Some(&tls));
    let rows: [(&Client<'_>, &[u8], &str); 6] = [
        (
            &from("192.0.2.7"),
            b"GET /a?b HTTP/1.1\r\nHost: example.org\r\nUser-Agent: curl/8.9\r\n\r\n",
            "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b HTTP/1.1\" 200 3 \"-\" \"curl/8.9\" host=\"example.org\"\n",
        ),
        (
            &Client::UNKNOWN,
            b"OPTIONS / HTTP/1.0\r\n\r\n",
            "- - - [06/Nov/1994:08:49:37 +0000] \"OPTIONS / HTTP/1.0\" 200 3 \"-\" \"-\" probe=haproxy\n",
        ),
        (
            &from("2001:db8::1"),
            b"HEAD /404 HTTP/1.1\r\nHost: h:80\r\nUser-Agent: kube-probe/1.34\r\n\r\n",
            "2001:db8::1 - - [06/Nov/1994:08:49:37 +0000] \"HEAD /404 HTTP/1.1\" 404 0 \"-\" \"kube-probe/1.34\" host=\"h:80\" probe=kubelet\n",
        ),
        (
            &with_tls,
            b"GET /close HTTP/1.1\r\nHost: h\r\nUser-Agent: a\"b\\c\xff\td\r\n\r\n",
            "192.0.2.7 - al\\x20ice [06/Nov/1994:08:49:37 +0000] \"GET /close HTTP/1.1\" 000 0 \"-\" \"a\\x22b\\x5Cc\\xFF\\x09d\" host=\"h\" tls=1.3 resumed=yes\n",
        ),
        (
            &from("192.0.2.7"),
            b"GET / HTTP/1.1\r\n\r\n",
            "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"-\" 400 0 \"-\" \"-\" error=\"missing, repeated, malformed or contradictory Host\"\n",
        ),
        (
            &from("192.0.2.7"),
            b"GET http://x.test/abs?q HTTP/1.1\r\nHost: x.test\r\n\r\n",
            "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET http://x.test/abs?q HTTP/1.1\" 200 3 \"-\" \"-\" host=\"x.test\"\n",
        ),
    ];
    for (client, request, expect) in rows {
        let record = match RecordOf::parse(request) {
            RecordOf::Refused(error) => Record::refused(error, client, NOW),
            RecordOf::Replied => one(client, request),
        };
        assert_eq!(text(&record), expect);
    }
}

#[test]
fn a_request_that_came_by_http2_says_so() {
    let record = one(&Client::UNKNOWN, &get("/a", "")).by_http2();
    assert_eq!(record.version(), Some(crate::Version::Http2));
    assert!(text(&record).contains("\"GET /a HTTP/2.0\" 200"), "{}", text(&record));
    assert_eq!(json(&record)["version"], "2");
    let refused = Record::refused(RequestError::Host, &Client::UNKNOWN, NOW).by_http2();
    assert_eq!(refused.version(), None);
}

/// The source of a record. A refusal is logged by the owner of the [`Conn`], because the service
/// does not get the request.
enum RecordOf {
    Replied,
    Refused(RequestError),
}

impl RecordOf {
    fn parse(request: &[u8]) -> Self {
        match Head::new().parse(request, &Limits::default()) {
            Err(error) => Self::Refused(error),
            Ok(_) => Self::Replied,
        }
    }
}

#[test]
fn json_has_what_is_known_and_nothing_else() {
    let tls = TlsInfo { client_name: Some("a\"\\\n\u{e9}".to_owned()), ..TlsInfo::default() };
    let client = Client::at(IpAddr::from([192, 0, 2, 7])).with_tls(Some(&tls));
    let record = one(&client, b"GET /a?b HTTP/1.1\r\nHost: h\r\nUser-Agent: \"x\\\xe9\r\n\r\n");
    assert_eq!(
        json(&record),
        serde_json::json!({
            "time": "1994-11-06T08:49:37.250Z", "client": "192.0.2.7", "subject": "a\"\\\n\u{c3}\u{a9}", "method": "GET",
            "target": "/a?b", "version": "1.1", "host": "h", "user_agent": "\"x\\\u{e9}", "tls": "1.3", "status": 200, "bytes": 3,
        })
    );
    assert_eq!(
        json(&one(&Client::UNKNOWN, b"GET /close HTTP/1.0\r\nUser-Agent: Envoy/HC\r\n\r\n")),
        serde_json::json!({
            "time": "1994-11-06T08:49:37.250Z", "method": "GET", "target": "/close", "version": "1.0",
            "user_agent": "Envoy/HC", "prober": "envoy", "probe": true, "status": null, "bytes": 0,
        })
    );
    assert_eq!(
        json(&Record::refused(RequestError::Timeout, &from("::1"), Time::ZERO)),
        serde_json::json!({
            "time": "1994-11-06T08:49:32.000Z", "client": "::1", "status": 408, "bytes": 0,
            "error": "deadline passed inside a request",
        })
    );
}

#[test]
fn a_route_has_its_name_or_its_number() {
    let kept = Kept::default();
    let rows = [
        (0, "route=\"probes\" probe=yes\n", serde_json::json!("probes")),
        (1, "route=\"a \\x22b\\x22\" probe=yes\n", serde_json::json!("a \"b\"")),
        (7, "route=7 probe=yes\n", serde_json::json!(7)),
    ];
    for (index, expect, name) in rows {
        let logger = Logger::new(Filter::ALL, &kept).route(index).probe();
        let records = logged(logger, &kept, &Client::UNKNOWN, &[get("/", "")]);
        assert!(text(&records[0]).ends_with(expect), "{}", text(&records[0]));
        assert_eq!(json(&records[0])["route"], name);
        assert_eq!(json(&records[0])["probe"], serde_json::json!(true));
    }
}

#[test]
fn lines_about_losses() {
    for (format, dropped, failed) in [
        (
            Format::Text,
            "# 1994-11-06T08:49:37.250Z 12 lines dropped: too many at once\n",
            "# 1994-11-06T08:49:37.250Z 12 lines lost: they could not be written\n",
        ),
        (
            Format::Json,
            "{\"time\":\"1994-11-06T08:49:37.250Z\",\"dropped\":12}\n",
            "{\"time\":\"1994-11-06T08:49:37.250Z\",\"failed\":12}\n",
        ),
    ] {
        let (renderer, mut out) = (Renderer::new(format), Vec::new());
        renderer.render_dropped(12, EPOCH_NANOS / 1_000_000, &mut out);
        renderer.render_failed(12, EPOCH_NANOS / 1_000_000, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!("{dropped}{failed}"));
    }
}

#[test]
fn times_of_every_size_can_be_shown() {
    for (nanos, expect) in [
        (i64::MIN, "[21/Sep/1677:00:12:43 +0000]"),
        (-1, "[31/Dec/1969:23:59:59 +0000]"),
        (0, "[01/Jan/1970:00:00:00 +0000]"),
        (i64::MAX, "[11/Apr/2262:23:47:16 +0000]"),
    ] {
        let mut out = Vec::new();
        let record = Record::refused(RequestError::Host, &Client::UNKNOWN, Time::ZERO);
        Renderer::new(Format::Text).render(&record, Epoch::new(Time::ZERO, nanos), &mut out);
        assert!(String::from_utf8(out).unwrap().contains(expect), "{expect}");
    }
    let late = Record::refused(RequestError::Host, &Client::UNKNOWN, Time::MAX);
    assert!(text(&late).contains("2262"), "{}", text(&late));
}

#[test]
fn what_is_cut_off_is_marked() {
    let long = "x".repeat(300);
    let whole = one(&Client::UNKNOWN, &get(&format!("/{}", &long[..100]), "User-Agent: curl\r\n"));
    assert_eq!((whole.target().bytes.len(), whole.target().cut, whole.user_agent().cut), (101, false, false));

    let record = one(&Client::UNKNOWN, &get(&format!("/{long}"), &format!("User-Agent: {long}\r\n")));
    assert_eq!((record.target().bytes.len(), record.user_agent().bytes.len()), (159, 48));
    assert!(text(&record).contains("xx\\... HTTP/1.1\" 200 3 \"-\" \"xx"), "{}", text(&record));
    assert!(text(&record).contains("xx\\...\" host=\"h\""), "{}", text(&record));
    assert_eq!(json(&record)["cut"], serde_json::json!(["target", "user_agent"]));

    let forger = one(&Client::UNKNOWN, &get("/", "User-Agent: a\\...\r\n"));
    assert!(text(&forger).contains("\"a\\x5C...\""), "{}", text(&forger));
}

#[test]
fn errors_are_shown_and_successes_are_as_the_filter_says() {
    let requests = [
        get("/200", ""),
        get("/308", "User-Agent: curl\r\n"),
        get("/204", "User-Agent: kube-probe/1.34\r\n"),
        get("/404", ""),
        get("/503", "User-Agent: kube-probe/1.34\r\n"),
        get("/close", ""),
    ];
    for (filter, expect) in [
        (Filter::OFF, [].as_slice()),
        (Filter::OFF.one_in(n(1)), &[]),
        (Filter::ERRORS, &[404, 503, 0]),
        (Filter::ERRORS.one_in(n(1)), &[200, 308, 404, 503, 0]),
        (Filter::ALL, &[200, 308, 204, 404, 503, 0]),
        (Filter::ALL.one_in(n(1)), &[200, 308, 204, 404, 503, 0]),
        (Filter::ALL.one_in(n(2)), &[200, 204, 404, 503, 0]),
        (Filter::ALL.one_in(n(4)), &[200, 404, 503, 0]),
    ] {
        let kept = Kept::default();
        let records = logged(Logger::new(filter, &kept), &kept, &Client::UNKNOWN, &requests);
        let statuses: Vec<u16> =
            records.iter().map(|record| record.status().map_or(0, Status::code)).collect();
        assert_eq!(statuses, expect, "{filter:?}");
    }
}

#[test]
fn a_sample_is_every_nth_that_is_no_probe() {
    let kept = Kept::default();
    let logger = Logger::new(Filter::ERRORS.one_in(n(3)), &kept);
    let requests: Vec<_> = (0..20)
        .map(|i| get(&format!("/{i}"), if i % 2 == 0 { "User-Agent: Consul Health Check\r\n" } else { "" }))
        .collect();
    let records = logged(logger, &kept, &Client::UNKNOWN, &requests);
    let targets: Vec<_> = records.iter().map(|record| record.target().bytes).collect();
    assert_eq!(targets, [b"/1".as_slice(), b"/7", b"/13", b"/19"]);

    let logger = Logger::new(Filter::ERRORS.one_in(n(1)), &kept).probe();
    assert!(logged(logger, &kept, &Client::UNKNOWN, &requests).is_empty(), "a route for probes");
}

#[test]
fn the_client_is_asked_for_only_if_something_is_shown() {
    let kept = Kept::default();
    assert!(!by_path().with(Logger::new(Filter::OFF, &kept)).wants_client());
    assert!(by_path().with(Logger::new(Filter::ERRORS, &kept)).wants_client());
}

#[test]
fn refusals_are_errors_and_reach_the_service_too() {
    struct Hears<'a>(&'a Mutex<Vec<RequestError>>);
    impl Service for Hears<'_> {
        fn refused(&self, error: RequestError, _: &Client<'_>, _: Time) {
            self.0.lock().unwrap().push(error);
        }
        fn call<'a>(&self, _: &Request<'_>, reply: Responder<'a>) -> crate::Replied<'a> {
            reply.close()
        }
    }
    for (filter, expect) in [(Filter::OFF, 0), (Filter::ERRORS, 1), (Filter::ALL, 1)] {
        let (kept, heard) = (Kept::default(), Mutex::default());
        let service = Hears(&heard).with(Logger::new(filter, &kept));
        service.refused(RequestError::TargetTooLong, &from("192.0.2.1"), NOW);
        let records = kept.0.lock().unwrap();
        assert_eq!(records.len(), expect);
        assert!(records.iter().all(|record| record.status() == Some(Status::URI_TOO_LONG)
            && record.error() == Some(RequestError::TargetTooLong)
            && record.method().is_none()
            && record.version().is_none()));
        assert_eq!(*heard.lock().unwrap(), [RequestError::TargetTooLong]);
    }
}

#[test]
fn a_handler_that_panics_is_a_500_in_the_log() {
    let kept = Kept::default();
    let panics = service_fn(|_, _| panic!("on purpose"));
    let service = panics.with(Logger::new(Filter::ERRORS, &kept).route(3));
    let talked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        talk(&service, &Client::UNKNOWN, &get("/x", ""));
    }));
    assert!(talked.is_err());
    let records = kept.0.lock().unwrap();
    assert_eq!(
        (records.len(), records[0].status(), records[0].is_panic()),
        (1, Some(Status::INTERNAL_SERVER_ERROR), true)
    );
    assert!(text(&records[0]).ends_with("host=\"h\" route=3 panic=yes\n"), "{}", text(&records[0]));
}

#[test]
fn a_layer_inside_can_name_the_subject_and_the_route() {
    let kept = Kept::default();
    let logger = Logger::new(Filter::ALL, &kept);
    let service = service_fn(|request, reply| {
        let answered = reply.status(Status::OK).content("hello");
        let entry = Entry { subject: Some("token-7"), route: Some(9), ..Entry::new(request, &answered) };
        logger.answered(&entry);
        answered
    });
    talk(&service, &Client::UNKNOWN, &get("/", ""));
    let record = kept.0.lock().unwrap()[0];
    assert_eq!(
        (record.subject().bytes, record.route(), record.content_len()),
        (b"token-7".as_slice(), Some(9), 5)
    );
}

/// Values of `User-Agent`, and the prober they identify.
const ROWS: &[(&str, Option<Prober>)] = &[
    ("kube-probe/1.34", Some(Prober::Kubelet)),
    ("ELB-HealthChecker/2.0", Some(Prober::Elb)),
    ("GoogleHC/1.0", Some(Prober::Google)),
    (
        "GoogleStackdriverMonitoring-UptimeChecks(https://cloud.google.com/monitoring)",
        Some(Prober::GoogleUptime),
    ),
    ("Envoy/HC", Some(Prober::Envoy)),
    ("Consul Health Check", Some(Prober::Consul)),
    ("Amazon-Route53-Health-Check-Service (ref x; report y)", Some(Prober::Route53)),
    ("Blackbox Exporter/0.25.0", Some(Prober::Blackbox)),
    ("Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)", Some(Prober::UptimeRobot)),
    ("Load Balancer Agent", Some(Prober::Azure)),
    ("Gatus/1.0", Some(Prober::Gatus)),
    ("Uptime-Kuma/1.23.13", Some(Prober::UptimeKuma)),
    ("check_http/v2.3.3 (monitoring-plugins 2.3.3)", Some(Prober::MonitoringPlugins)),
    ("Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)", Some(Prober::Pingdom)),
    ("kube-lifecycle/1.34", Some(Prober::KubeLifecycle)),
    ("KeepAliveClient", Some(Prober::Keepalived)),
    ("HAProxy", Some(Prober::Haproxy)),
    ("HAProxy/2.6", Some(Prober::Haproxy)),
    ("grpc_health_probe grpc-go/1.75.1", Some(Prober::GrpcHealthProbe)),
    // The same programs over gRPC, where a library adds its own name. A client with only the
    // library's name is unknown.
    ("kube-probe/1.34 grpc-go/1.72.1", Some(Prober::Kubelet)),
    ("grpc-go/1.71.0", None),
    ("grpc-java-netty/1.60.0", None),
    ("grpc-python/1.60.0 grpc-c/37.0.0 (linux; chttp2)", None),
    ("grpc-node-js/1.10.0", None),
    ("tonic/0.14.0", None),
    ("grpc_health", None),
    ("g", None),
    ("doorbell/0.1.0", Some(Prober::Doorbell)),
    ("doorbell-probe/0.1.0", Some(Prober::Doorbell)),
    ("doorbell-healthcheck/0.1.0", Some(Prober::Doorbell)),
    ("doorbell-load/0.1.0", None),
    (
        "Mozilla/5.0 (compatible;Cloudflare-Healthchecks/1.0;+https://www.cloudflare.com/; healthcheck-id: 1)",
        Some(Prober::Cloudflare),
    ),
    (
        "Mozilla/5.0 (compatible; Cloudflare-Healthchecks/1.0; +https://www.cloudflare.com/; healthcheck-id: 1)",
        Some(Prober::Cloudflare),
    ),
    ("", None),
    ("M", None),
    ("Mozilla/5.0+", None),
    ("kube-", None),
    ("k", None),
    ("E", None),
    ("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", None),
    ("Googlebot/2.1", None),
    ("x kube-probe/1.34", None),
];

#[test]
fn known_probers_are_identified_by_their_requests() {
    for &(user_agent, expect) in ROWS {
        let request = get("/", &format!("User-Agent: {user_agent}\r\n"));
        assert_eq!(with_request(&request, prober_of), expect, "{user_agent}");
        let long = get(&format!("/{}", "x".repeat(300)), &format!("User-Agent: {user_agent}\r\n"));
        let record = one(&Client::UNKNOWN, &long);
        assert_eq!(
            (record.prober(), record.is_probe()),
            (expect, expect.is_some()),
            "of a record: {user_agent}"
        );
    }
    let known: std::collections::BTreeSet<_> = ROWS.iter().filter_map(|(_, prober)| *prober).collect();
    assert_eq!(known.len() + 1, Prober::ALL.len(), "all probers except the one without a user agent");
    for (request, expect) in [
        ("OPTIONS / HTTP/1.0\r\n\r\n", Some(Prober::Haproxy)),
        ("GET /readyz HTTP/1.0\r\n\r\n", Some(Prober::Haproxy)),
        ("HEAD / HTTP/1.0\r\n\r\n", Some(Prober::Haproxy)),
        ("GET / HTTP/1.1\r\nhost: web\r\nx-haproxy-server-state: UP\r\n\r\n", Some(Prober::Haproxy)),
        ("OPTIONS / HTTP/1.0\r\nHost: a\r\n\r\n", None),
        ("GET / HTTP/1.0\r\nHost: a\r\n\r\n", None),
        ("DELETE / HTTP/1.0\r\n\r\n", None),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", None),
        ("OPTIONS / HTTP/1.1\r\nHost: a\r\n\r\n", None),
    ] {
        assert_eq!(with_request(request.as_bytes(), prober_of), expect, "{request}");
        assert_eq!(one(&Client::UNKNOWN, request.as_bytes()).prober(), expect, "of a record: {request}");
    }
}

#[test]
fn published_sources_are_known() {
    use Prober::{Azure, Google};
    for (addr, expect) in [
        ("168.63.129.16", Some(Azure)),
        ("::ffff:168.63.129.16", Some(Azure)),
        ("168.63.129.17", None),
        ("35.191.0.0", Some(Google)),
        ("35.191.255.255", Some(Google)),
        ("35.190.255.255", None),
        ("35.192.0.0", None),
        ("130.211.3.255", Some(Google)),
        ("130.211.4.0", None),
        ("::ffff:130.211.0.1", Some(Google)),
        ("2600:2d00:1:1::5", Some(Google)),
        ("2600:2d00:1:b029:ffff::", Some(Google)),
        ("2600:2d00:1:2::", None),
        ("127.0.0.1", None),
    ] {
        assert_eq!(Prober::of_source(addr.parse().unwrap()), expect, "{addr}");
    }
}

fn with_request<T>(bytes: &[u8], f: impl FnOnce(&Request<'_>) -> T) -> T {
    let mut head = Head::new();
    assert_eq!(head.parse(bytes, &Limits::default()), Ok(Some(bytes.len())), "{}", bytes.escape_ascii());
    f(&Request::new(bytes, &head, b""))
}

#[test]
fn names_of_probers_are_distinct_and_plain() {
    let names: std::collections::BTreeSet<_> = Prober::ALL.iter().map(|prober| prober.as_str()).collect();
    assert_eq!(names.len(), Prober::ALL.len());
    assert!(names.iter().all(|name| name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))));
}

/// The bytes represented by a JSON string of the log.
fn bytes_of(value: &serde_json::Value) -> Vec<u8> {
    value.as_str().unwrap_or_default().chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect()
}

/// The bytes represented by an escaped text.
fn unescape(text: &str) -> Vec<u8> {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bytes, including those that no request can contain, are rendered as one line and can be
    /// recovered from it.
    #[test]
    fn any_bytes_are_one_line_and_can_be_read_back(
        subject in proptest::collection::vec(any::<u8>(), 0..60),
        host in proptest::collection::vec(any::<u8>(), 0..80),
        target in proptest::collection::vec(any::<u8>(), 0..300),
        user_agent in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut record = with_request(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", |request| {
            let (status, content_len) = (Some(Status::OK), 7);
            Record::answered(&Entry { status, content_len, ..Entry::unanswered(request) })
        });
        record.put_texts(Some(&subject), Some(&host), &target, Some(&user_agent));
        let value = json(&record);
        let clips = [record.subject(), record.host(), record.target(), record.user_agent()];
        let names = ["subject", "host", "target", "user_agent"];
        for ((clip, name), sent) in clips.iter().zip(names).zip([&subject, &host, &target, &user_agent]) {
            prop_assert_eq!(&bytes_of(&value[name]), clip.bytes);
            prop_assert_eq!(clip.bytes, &sent[..clip.bytes.len()]);
            prop_assert_eq!(clip.cut, clip.bytes.len() < sent.len());
            let marked = value["cut"].as_array().is_some_and(|cut| cut.iter().any(|cut| cut == name));
            prop_assert_eq!(marked, clip.cut);
        }
        let kept = clips.iter().map(|clip| clip.bytes.len()).sum::<usize>();
        prop_assert!(kept <= Record::TEXT_BYTES_MAX);

        // Splitting and joining restores the record; the second part exists only if needed.
        let (head, tail) = record.to_parts();
        prop_assert_eq!((head.has_tail(), tail.is_some()), (kept > 80, kept > 80));
        prop_assert_eq!(text(&Record::from_parts(&head, tail.as_ref())), text(&record));

        // `addr - subject [time] "GET target HTTP/1.1" 200 7 "-" "user agent" host="host"`
        let line = text(&record).replace("\\...", "");
        let quoted: Vec<&str> = line.split('"').collect();
        prop_assert_eq!(quoted.len(), if host.is_empty() { 7 } else { 9 });
        let sent = format!("GET {} HTTP/1.1", quoted[1].strip_prefix("GET ").unwrap().strip_suffix(" HTTP/1.1").unwrap());
        prop_assert_eq!(sent.len(), quoted[1].len());
        prop_assert_eq!(unescape(&quoted[1][4..quoted[1].len() - 9]), record.target().bytes);
        prop_assert_eq!(unescape(quoted[5]), if user_agent.is_empty() { b"-" } else { record.user_agent().bytes });
        prop_assert_eq!(line.split(" [").next().unwrap().split(' ').count(), 3);
    }

    #[test]
    fn any_request_is_one_line(input in proptest::collection::vec(any::<u8>(), 0..200), path in "/[!-~]{0,40}") {
        let path = path.replace(['#', '\\'], "").replace("%00", "");
        let kept = Kept::default();
        let service = by_path().with(Logger::new(Filter::ALL, &kept));
        talk(&service, &from("192.0.2.1"), &input);
        let field: Vec<u8> = input.iter().copied().filter(|byte| matches!(byte, 9 | 32..=126 | 128..)).collect();
        let request = [b"GET ", path.as_bytes(), b" HTTP/1.1\r\nHost: h\r\nUser-Agent: ", &field, b"\r\n\r\n"].concat();
        talk(&service, &from("192.0.2.1"), &request);
        let records = kept.0.lock().unwrap();
        prop_assert_eq!(records.len(), 1, "{}", request.escape_ascii());
        prop_assert_eq!(records[0].method(), Some(Method::Get));
        text(&records[0]);
        prop_assert_eq!(bytes_of(&json(&records[0])["user_agent"]), records[0].user_agent().bytes);
    }
}

#[test]
fn a_later_subject_takes_space_from_the_other_texts_only() {
    let long = format!("/{}", "x".repeat(300));
    for (target, host) in
        [("/a", "h"), (long.as_str(), "host-of-a-name-that-is-longer-than-what-is-kept-of-hosts")]
    {
        let bytes =
            format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: curl/8\r\n\r\n").into_bytes();
        let mut head = Head::new();
        assert!(head.parse(&bytes, &Limits::default()).is_ok());
        let request = Request::new(&bytes, &head, b"");
        let of = |subject: Option<&str>| Record::answered(&Entry { subject, ..Entry::unanswered(&request) });
        let certificate = "c".repeat(50);
        let texts = |record: &Record| {
            [record.subject(), record.host(), record.target(), record.user_agent()]
                .map(|clip| (clip.bytes.escape_ascii().to_string(), clip.cut))
        };
        for name in ["alice", "", &"n".repeat(40)] {
            let mut record = of(None);
            record.name(name);
            assert_eq!(texts(&record), texts(&of(Some(name))), "{name}");
            // A subject added later replaces an earlier one, such as the name of a certificate.
            let mut record = of(Some(&certificate));
            record.name(name);
            assert_eq!(texts(&record)[0], texts(&of(Some(name)))[0], "{name}");
        }
    }
}
