//! Checks of real servers and their effect on probes, from the first run to the drain.

use std::time::{Duration, Instant};

use doorbell_testkit::peers::process::rss_bytes;
use doorbell_testkit::peers::{Reply, exchange, wait_until};
use rustix::process::Signal;

use crate::support::{Doorbell, LIMIT, Scratch, at_most, binary, on_auto, stdout};
use crate::upstream::{Does, Upstream};

on_auto! {
    an_http_check_decides_the_replies_to_probes
    a_check_needs_no_file
    formats_and_details
    a_drain_is_reported_by_audience
    the_grace_period_is_for_checks_without_a_result
    a_kubelet_makes_an_event_of_degraded
    slow_servers_time_out_and_delay_nothing
    a_request_is_what_the_file_says
    redirects_are_followed_on_the_same_host
}

/// Configuration with all details for probes on one port, and checks that run ten times a second.
pub(crate) const BASE: &str = r#"
version = 1

[runtime]
workers = 1

[lifecycle]
drain_delay = "0s"

[listener.probes]
bind = "127.0.0.1:0"

[route.readyz]
path = ["/readyz", "/readyz/{check}"]
health = "readyz"
details = "always"

[route.livez]
path = "/livez"
health = "livez"

[check_defaults]
interval = "100ms"
fast_interval = "100ms"
down_interval = "100ms"
timeout = "500ms"
max_age = "10s"
rise = 1
fall = 1
"#;

pub(crate) fn start(engine: &str, more: &str) -> Doorbell {
    Doorbell::start_with(engine, &format!("{BASE}{more}"))
}

fn http(url: &str) -> String {
    format!("[check.app]\ntype = \"http\"\nurl = \"{url}\"\n")
}

pub(crate) fn ask_with(doorbell: &Doorbell, head: &str) -> Reply {
    let got = exchange(doorbell.addr, format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    let to_head = head.starts_with("HEAD ");
    Reply::parse(&got.bytes, to_head).unwrap_or_else(|| panic!("{:?}", String::from_utf8_lossy(&got.bytes)))
}

/// Requests a path and returns the status and the body.
pub(crate) fn ask(doorbell: &Doorbell, path: &str) -> (u16, String) {
    let reply = ask_with(doorbell, &format!("GET {path} HTTP/1.1\r\nHost: a"));
    (reply.status, String::from_utf8(reply.body).unwrap())
}

/// Waits until the reply has this status and its body starts with this text.
pub(crate) fn await_answer(doorbell: &Doorbell, path: &str, expected: (u16, &str)) {
    let mut last = None;
    let came = wait_until(LIMIT, || {
        let (status, body) = ask(doorbell, path);
        let fits = status == expected.0 && body.contains(expected.1);
        last = Some((status, body));
        fits
    });
    assert!(came.is_some(), "expected {expected:?}, got {last:?}\n{}", doorbell.process.log());
}

fn an_http_check_decides_the_replies_to_probes(engine: &str) {
    let upstream = Upstream::start(Does::reply(503, "starting"));
    let doorbell = start(engine, &http(&upstream.url("/healthz")));
    await_answer(&doorbell, "/readyz", (503, "down\napp: down (status 503, expected 200-299)\n"));
    assert_eq!(ask(&doorbell, "/livez"), (200, "up\n".to_owned()));
    upstream.now(Does::reply(200, "fine"));
    await_answer(&doorbell, "/readyz", (200, "up\napp: up\n"));
    assert_eq!(ask(&doorbell, "/readyz/app"), (200, "ok".to_owned()));
    assert_eq!(ask(&doorbell, "/readyz/apps").0, 404);
    upstream.now(Does::reply(500, "broken"));
    await_answer(&doorbell, "/readyz/app", (503, "down: status 500, expected 200-299\n"));
    // After the change, the reply shows its reason.
    upstream.now(Does::reply(200, "fine"));
    await_answer(&doorbell, "/readyz", (200, "up"));
    let addr = upstream.addr;
    drop(upstream);
    await_answer(&doorbell, "/readyz", (503, &format!("app: down ({addr}: connection refused)\n")));
    let log = doorbell.process.log();
    for line in ["check app: up", "check app: down", "health readyz: up", "health readyz: down"] {
        assert!(log.contains(line), "{line}: {log}");
    }
    let totals = doorbell.totals();
    let checks = totals["checks"].as_str().unwrap();
    assert!(checks.contains("failed=") && checks.contains("runs="), "{checks}");
}

fn a_check_needs_no_file(engine: &str) {
    let upstream = Upstream::start(Does::reply(500, ""));
    let url = upstream.url("/healthz");
    let tcp = format!("tcp://{}", upstream.addr);
    let args = ["serve", "--listen", "127.0.0.1:0", "--driver", engine, "--check", &url, "--check", &tcp];
    let doorbell = Doorbell::try_start(&args).unwrap_or_else(|log| panic!("{log}"));
    await_answer(&doorbell, "/readyz", (503, "down\n"));
    assert_eq!(ask(&doorbell, "/readyz/check-1").0, 404, "single checks are details");
    assert_eq!(ask(&doorbell, "/livez"), (200, "up\n".to_owned()));
    upstream.now(Does::reply(200, ""));
    await_answer(&doorbell, "/readyz", (200, "up\n"));
    let refused = Doorbell::try_start(&["serve", "--check", "example"]).unwrap_err();
    assert!(refused.contains("expected http://HOST:PORT/PATH"), "{refused}");
}

fn formats_and_details(engine: &str) {
    let upstream = Upstream::start(Does::reply(200, ""));
    let more = r#"
[auth.ops]
tokens = { alice = "0123456789abcdef0123456789abcdef" }

[route.seen]
path = ["/seen", "/seen/{check}"]
health = "readyz"
details_auth = "ops"

[route.auto]
path = ["/auto", "/auto/{check}"]
health = "readyz"
format = "auto"
details = "never"
"#;
    let doorbell = start(engine, &(http(&upstream.url("/")) + more));
    await_answer(&doorbell, "/readyz", (200, "app: up"));
    let get = |path: &str, field: &str| {
        let reply = ask_with(&doorbell, &format!("GET {path} HTTP/1.1\r\nHost: a{field}"));
        let content_type = reply.field("content-type").unwrap().to_owned();
        (content_type, String::from_utf8(reply.body).unwrap())
    };
    let (json, text) = ("application/health+json", "text/plain; charset=utf-8");
    assert_eq!(get("/readyz?verbose", ""), (text.to_owned(), "[+]app ok\nreadyz check passed\n".to_owned()));
    let (content_type, body) = get("/readyz?format=json", "");
    assert_eq!(content_type, json);
    assert!(body.starts_with("{\"status\":\"pass\",") && body.contains("\"app:responseTime\""), "{body}");
    assert_eq!(get("/auto", ""), (text.to_owned(), "up\n".to_owned()));
    let accepted = get("/auto", "\r\nAccept: application/health+json");
    assert_eq!(accepted, (json.to_owned(), "{\"status\":\"pass\"}".to_owned()));
    assert!(get("/auto", "\r\nAccept: application/vnd.spring-boot.actuator.v3+json").1.contains("\"UP\""));
    let token = "\r\nAuthorization: Bearer 0123456789abcdef0123456789abcdef";
    assert_eq!(get("/seen", "").1, "up\n");
    assert_eq!(get("/seen", token).1, "up\napp: up\n");
    assert_eq!(get("/seen", "\r\nAuthorization: Bearer x").1, "up\n");
    upstream.now(Does::reply(500, ""));
    await_answer(&doorbell, "/readyz", (503, "down"));
    assert_eq!(get("/seen/app", token).1, "down: status 500, expected 200-299\n");
    // The reply for a single check also uses the requested format.
    let single = r#"{"status":"fail","description":"down","output":"status 500, expected 200-299"}"#;
    assert_eq!(get("/seen/app?format=json", token), (json.to_owned(), single.to_owned()));
    let component = r#"{"status":"DOWN","details":{"state":"down","reason":"status 500, expected 200-299"}}"#;
    assert_eq!(get("/seen/app?format=spring", token).1, component);
    // Existing and unknown checks get identical replies.
    for (route, field) in
        [("/seen", ""), ("/seen", "\r\nAuthorization: Bearer x"), ("/auto", ""), ("/auto", token)]
    {
        for method in ["GET", "HEAD", "OPTIONS"] {
            let [known, unknown] = ["app", "none"].map(|check| {
                let reply =
                    ask_with(&doorbell, &format!("{method} {route}/{check} HTTP/1.1\r\nHost: a{field}"));
                let fields = reply.head.lines().filter(|line| !line.starts_with("Date:")).collect::<String>();
                (reply.status, fields, reply.body)
            });
            assert_eq!(known, unknown, "{method} {route}{field}");
            assert_eq!(known.0, 404, "{method} {route}{field}");
        }
    }
    let options = ask_with(&doorbell, "OPTIONS /readyz HTTP/1.1\r\nHost: a");
    assert_eq!((options.status, options.field("allow")), (503, Some("GET, HEAD, OPTIONS")));
}

fn a_drain_is_reported_by_audience(engine: &str) {
    let upstream = Upstream::start(Does::reply(200, ""));
    let more = "\n[health.readyz]\nrequire = [\"app\"]\non_drain = { default = 599, kubelet = \"ignore\" }\n";
    let config = format!("{BASE}{}{more}", http(&upstream.url("/")));
    let config = config.replace("drain_delay = \"0s\"", "drain_delay = \"10s\"");
    let mut doorbell = Doorbell::start_with(engine, &config);
    await_answer(&doorbell, "/readyz", (200, "up"));
    doorbell.process.signal(Signal::TERM);
    await_answer(&doorbell, "/readyz", (599, "drain\napp: up\n"));
    let probe = |agent: &str| {
        let head = format!("GET /readyz HTTP/1.1\r\nHost: a\r\nUser-Agent: {agent}");
        ask_with(&doorbell, &head).status
    };
    assert_eq!((probe("kube-probe/1.34"), probe("ELB-HealthChecker/2.0"), probe("curl/8")), (200, 599, 599));
    assert_eq!(ask(&doorbell, "/livez"), (200, "up\n".to_owned()));
    // Checks keep running during the drain, and audiences that ignore the drain see their results.
    upstream.now(Does::reply(500, ""));
    let failed = wait_until(LIMIT, || probe("kube-probe/1.34") == 503);
    assert!(failed.is_some(), "{}", doorbell.process.log());
    doorbell.process.signal(Signal::INT);
    assert_eq!(doorbell.process.wait().0.code(), Some(0));
}

fn a_kubelet_makes_an_event_of_degraded(engine: &str) {
    let upstream = Upstream::start(Does::reply(200, ""));
    let more = "\n[health.readyz]\ndegrading = [\"app\"]\ndegraded_via = \"kube-warning\"\n\
                [auth.ops]\ntokens = { alice = \"0123456789abcdef0123456789abcdef\" }\n\
                [route.guarded]\npath = \"/guarded\"\nhealth = \"readyz\"\ndetails_auth = \"ops\"\n";
    let doorbell = start(engine, &(http(&upstream.url("/")) + more));
    await_answer(&doorbell, "/readyz", (200, "up\napp: up\n"));
    // Header fields exactly as a kubelet sends them.
    let agent = "User-Agent: kube-probe/1.34\r\nAccept: */*";
    let kubelet = |path: &str| {
        ask_with(&doorbell, &format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{agent}", doorbell.addr))
    };
    assert_eq!(kubelet("/readyz").status, 200);
    upstream.now(Does::reply(500, ""));
    await_answer(&doorbell, "/readyz", (200, "degraded\napp: down (status 500, expected 200-299)\n"));
    // The replies of routes are updated one after the other.
    await_answer(&doorbell, "/guarded", (200, "degraded\n"));
    await_answer(&doorbell, "/readyz/app", (503, "down"));
    for path in ["/readyz", "/readyz?verbose"] {
        let reply = kubelet(path);
        assert_eq!((reply.status, reply.field("location")), (302, Some("http://degraded.invalid/")));
        assert_eq!(reply.field("cache-control"), Some("no-store"));
        assert_eq!(reply.body, b"readyz is degraded: app down (status 500, expected 200-299)");
    }
    // Any client can send the kubelet's user agent, so reasons need the token.
    let kubelet_with =
        |field: &str| ask_with(&doorbell, &format!("GET /guarded HTTP/1.1\r\nHost: a\r\n{agent}{field}"));
    let anonymous = kubelet_with("");
    assert_eq!((anonymous.status, &*anonymous.body), (302, &b"readyz is degraded"[..]));
    let known = kubelet_with("\r\nAuthorization: Bearer 0123456789abcdef0123456789abcdef");
    assert_eq!(known.body, b"readyz is degraded: app down (status 500, expected 200-299)");
    // The warning appears neither on the path of a single check nor on an endpoint without the
    // check.
    assert_eq!((kubelet("/readyz/app").status, kubelet("/livez").status), (503, 200));
    let out = stdout(&binary(), &["probe", &format!("http://{}/readyz", doorbell.addr), "--as", "kubelet"]);
    assert!(
        out.contains("healthy")
            && out.contains("Probe terminated redirects, Response body: readyz is degraded"),
        "{out}"
    );
    upstream.now(Does::reply(200, ""));
    await_answer(&doorbell, "/readyz", (200, "up\napp: up\n"));
    assert_eq!(kubelet("/readyz").status, 200);
}

/// Four servers that hang in different ways, and one that works.
fn slow_servers_time_out_and_delay_nothing(engine: &str) {
    let hung = Upstream::start(Does::Hang);
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n".to_vec();
    let slow_head = Upstream::start(Does::Trickles(Vec::new(), head.clone(), Duration::from_millis(300)));
    let slow_body = Upstream::start(Does::Trickles(head, vec![b'x'; 99], Duration::from_millis(15)));
    let endless = Upstream::start(Does::Endless);
    let good = Upstream::start(Does::reply(200, ""));
    let mut more = String::new();
    let servers =
        [("hung", &hung), ("head", &slow_head), ("body", &slow_body), ("endless", &endless), ("good", &good)];
    for (name, upstream) in servers {
        let url = upstream.url("/");
        more.push_str(&format!(
            "[check.{name}]\ntype = \"http\"\nurl = \"{url}\"\nmax_body = \"1MiB\"\nseverity = \"degrading\"\n"
        ));
    }
    let doorbell = start(engine, &more);
    await_answer(&doorbell, "/readyz", (200, "hung: down (no response within 500ms)"));
    await_answer(&doorbell, "/readyz", (200, "head: down (no response within 500ms)"));
    await_answer(&doorbell, "/readyz", (200, "body: down (no end of the response within 500ms)"));
    // The reply is longer than `max_body`, but the part that is read matches.
    await_answer(&doorbell, "/readyz", (200, "endless: up"));
    await_answer(&doorbell, "/readyz", (200, "good: up"));
    let mut longest = Duration::ZERO;
    for _ in 0..200 {
        let from = Instant::now();
        assert_eq!(ask(&doorbell, "/readyz").0, 200);
        longest = longest.max(from.elapsed());
    }
    at_most(format_args!("{engine}: probe during hanging checks"), longest, Duration::from_millis(400));
    let memory = rss_bytes(&doorbell.process.pid()).unwrap();
    assert!(memory < 64 << 20, "{memory} bytes");
    let before = good.conns();
    wait_until(LIMIT, || good.conns() >= before + 10).expect("the working server must still be checked");
}

fn a_request_is_what_the_file_says(engine: &str) {
    let upstream = Upstream::start(Does::reply(429, r#"{"state": {"db": "UP"}}"#));
    let more = "method = \"HEAD\"\nbearer = \"0123456789abcdef\"\nheaders = { Host = \"app.internal\", X-Asked-By = \"doorbell\" }\n\
                degraded = { status = \"429\" }\n";
    let doorbell = start(engine, &(http(&upstream.url("/x?y=1")) + more));
    await_answer(&doorbell, "/readyz", (200, "degraded\napp: degraded (status 429)\n"));
    let request = upstream.last_request();
    assert!(request.starts_with("HEAD /x?y=1 HTTP/1.1\r\n"), "{request}");
    for field in [
        "host: app.internal\r\n",
        "authorization: Bearer 0123456789abcdef\r\n",
        "x-asked-by: doorbell\r\n",
        "connection: close\r\n",
        "user-agent: doorbell/",
    ] {
        assert!(request.contains(field), "{field}: {request}");
    }
    assert_eq!(request.matches("host:").count(), 1, "{request}");
    let other = Upstream::start(Does::reply(200, r#"{"state": {"db": "DOWN"}}"#));
    let more = "expect = { json = { \"/state/db\" = \"UP\" } }\n";
    let doorbell = start(engine, &(http(&other.url("/")) + more));
    await_answer(&doorbell, "/readyz/app", (503, "/state/db is \"DOWN\", expected \"UP\""));
    other.now(Does::reply(200, r#"{"state": {"db": "UP"}}"#));
    await_answer(&doorbell, "/readyz/app", (200, "ok"));
}

fn redirects_are_followed_on_the_same_host(engine: &str) {
    let target = Upstream::start(Does::reply(200, "here"));
    let to = |location: &str| {
        Does::Says(format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n").into())
    };
    let first = Upstream::start(to(&target.url("/other")));
    let doorbell = start(engine, &http(&first.url("/")));
    await_answer(&doorbell, "/readyz/app", (200, "ok"));
    assert!(target.last_request().starts_with("GET /other HTTP/1.1\r\n"), "{}", target.last_request());
    assert!(
        target.last_request().contains(&format!("host: {}\r\n", target.addr)),
        "{}",
        target.last_request()
    );
    first.now(to("http://localhost:9/"));
    await_answer(&doorbell, "/readyz/app", (503, "status 302, expected 200-299"));
    first.now(Does::reply(200, ""));
    await_answer(&doorbell, "/readyz/app", (200, "ok"));
    first.now(to("/again"));
    await_answer(&doorbell, "/readyz/app", (503, "more than 10 redirects"));
    let scratch = Scratch::new();
    let file = scratch.write("a.toml", &format!("{BASE}{}", http("not a url")));
    let refused = Doorbell::try_start(&["serve", "-c", &file, "--driver", engine]).unwrap_err();
    assert!(refused.contains("is not a URL that can be requested"), "{refused}");
}

/// A check without a result does not count as down during the grace period, and counts as down
/// after it. A result takes effect immediately.
fn the_grace_period_is_for_checks_without_a_result(engine: &str) {
    const GRACE: Duration = Duration::from_secs(3);
    let base = BASE.replace("[lifecycle]\n", "[lifecycle]\nstartup_grace = \"3s\"\n");
    let silent = "[check.app]\ntype = \"ttl\"\nttl = \"1h\"\n";
    let began = Instant::now();
    let doorbell = Doorbell::start_with(engine, &format!("{base}{silent}"));
    assert_eq!(ask(&doorbell, "/readyz").0, 200, "in grace");
    assert_eq!(ask(&start(engine, silent), "/readyz").0, 503, "without it");
    wait_until(LIMIT, || ask(&doorbell, "/readyz").0 == 503).expect("the grace period must end");
    // The clock of states has steps of up to 4 ms.
    assert!(began.elapsed() + Duration::from_millis(50) >= GRACE, "{:?}", began.elapsed());
    let long = base.replace("\"3s\"", "\"1h\"");
    let failing = Doorbell::start_with(engine, &format!("{long}{}", http("http://127.0.0.1:1/")));
    wait_until(LIMIT, || ask(&failing, "/readyz").0 == 503)
        .expect("a failed result must take effect during the grace period");
}
