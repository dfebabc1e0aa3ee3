//! The admin listener: its views, permissions, and access by Prometheus and browsers.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use doorbell_testkit::peers::{Reply, exchange, misbehave, wait_until};
use serde_json::Value;

use crate::support::{Doorbell, LIMIT, StopAtEnd, on_auto, on_both_engines};

on_auto! {
    everything_is_shown
    probers_are_counted
    operators_send_commands
    results_are_pushed_to_a_check
    a_token_is_needed_where_there_is_one
    the_page_shows_problems_first
    a_page_of_another_site_sees_and_changes_nothing
    a_proxy_on_this_machine_changes_nothing
    a_hostile_reason_is_only_text
    events_are_streamed
}

on_both_engines! {
    probes_during_a_thousand_changes_a_second_are_whole
}

/// A check with pushed results, and a route that accepts them.
const CONFIG: &str = r#"
version = 1

[runtime]
workers = 2

[lifecycle]
drain_delay = "0s"

[admin]
bind = "127.0.0.1:0"

[listener.probes]
bind = "127.0.0.1:0"

[check.app]
type = "ttl"
ttl = "1h"
initial = "fully-up"
rise = 1
fall = 1

[health.readyz]
require = ["app"]

[route.readyz]
path = "/readyz"
health = "readyz"
details = "always"

[route.livez]
path = "/livez"
health = "livez"

[route.push]
path = "/push/{check}/{result}"
push = true
"#;

pub(crate) const KUBELET: &str = "GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:18181\r\nUser-Agent: kube-probe/1.34\r\nAccept: */*\r\nConnection: close\r\n\r\n";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

pub(crate) fn start(engine: &str) -> (Doorbell, SocketAddr) {
    start_with(engine, CONFIG)
}

fn start_with(engine: &str, config: &str) -> (Doorbell, SocketAddr) {
    let doorbell = Doorbell::start_with(engine, config);
    let admin = doorbell.addr_of(1);
    (doorbell, admin)
}

pub(crate) fn ask(addr: SocketAddr, request: &str) -> Reply {
    let answer = exchange(addr, request.as_bytes()).unwrap().bytes;
    Reply::parse(&answer, request.starts_with("HEAD"))
        .unwrap_or_else(|| panic!("{request}: {}", answer.escape_ascii()))
}

fn send(addr: SocketAddr, method: &str, path: &str, fields: &str) -> (u16, String) {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n{fields}\r\n");
    let reply = ask(addr, &request);
    (reply.status, String::from_utf8(reply.body).unwrap())
}

pub(crate) fn get(addr: SocketAddr, path: &str) -> (u16, String) {
    send(addr, "GET", path, "")
}

pub(crate) fn post(addr: SocketAddr, path: &str) -> (u16, String) {
    send(addr, "POST", path, "")
}

pub(crate) fn json(addr: SocketAddr, path: &str) -> Value {
    let (status, text) = get(addr, path);
    assert_eq!(status, 200, "{path}: {text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn everything_is_shown(engine: &str) {
    let (doorbell, admin) = start(engine);
    assert_eq!(get(admin, "/livez"), (200, "ok\n".to_owned()));
    assert_eq!(get(admin, "/healthz").0, 200);
    assert_eq!(get(admin, "/readyz"), (200, "up\n".to_owned()));
    assert_eq!(get(admin, "/startupz"), (200, "ready\n".to_owned()));
    let status = json(admin, "/-/status");
    assert_eq!((&status["lifecycle"], &status["endpoints"][0]["name"]), (&"ready".into(), &"readyz".into()));
    assert_eq!(status["workers"].as_array().unwrap().len(), 2);
    let checks = json(admin, "/-/checks");
    assert_eq!((&checks[0]["name"], &checks[0]["kind"]), (&"app".into(), &"ttl".into()));
    assert_eq!(json(admin, "/-/checks/app/history")["name"], "app");
    assert_eq!(json(admin, "/-/probers").as_array().unwrap().len(), 0);
    let page = ask(admin, &format!("GET /-/ HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n"));
    let policy = page.field("content-security-policy").unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let html = String::from_utf8(page.body).unwrap();
    for part in [
        "<!doctype html>",
        "name=\"viewport\"",
        "readyz",
        "livez",
        ">app<",
        "All endpoints are up.",
        "http-equiv=\"refresh\"",
    ] {
        assert!(html.contains(part), "{part} in {html}");
    }
    assert!(!html.contains("<h2>Links"), "no link is configured");
    let outside = html
        .match_indices("http")
        .filter(|(at, _)| html[*at..].starts_with("http://") || html[*at..].starts_with("https://"));
    assert_eq!(outside.filter(|(at, _)| !html[*at..].starts_with("http://www.w3.org/2000/svg")).count(), 0);
    assert!(!html.contains("<style") && html.matches("<script").count() == 1, "{html}");
    assert_eq!(
        (get(admin, "/-/style.css").0, get(admin, "/-/script.js").0, get(admin, "/-/fragment").0),
        (200, 200, 200)
    );
    let head = ask(admin, &format!("HEAD /-/ HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n"));
    assert_eq!((head.status, head.body.len()), (200, 0));
    let root = ask(admin, &format!("GET / HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n"));
    assert_eq!((root.status, root.field("location")), (302, Some("/-/")));
    for path in
        ["/nothing", "/-/nothing", "/-/checks/", "/-/checks/nothing", "/-/checks/%ff", "/-/checks/../status"]
    {
        assert_eq!(get(admin, path).0, 404, "{path}");
    }
    for (method, path) in [("POST", "/metrics"), ("DELETE", "/-/"), ("PUT", "/-/drain"), ("POST", "/nothing")]
    {
        assert_eq!(send(admin, method, path, "").0, 405, "{method} {path}");
    }
    let long = format!("GET /-/ HTTP/1.1\r\nHost: {admin}\r\nX: {}\r\n\r\n", "x".repeat(40 << 10));
    let refused = exchange(admin, long.as_bytes()).unwrap().bytes;
    assert!(refused.is_empty() || refused.starts_with(b"HTTP/1.1 431"), "{}", refused.escape_ascii());
    assert_eq!(get(doorbell.addr, "/-/status").0, 404, "the admin views are not on the probe listener");
}

fn probers_are_counted(engine: &str) {
    let (doorbell, admin) = start(engine);
    let state = |word: &str| {
        format!(
            "GET /readyz HTTP/1.1\r\nhost: web\r\nx-haproxy-server-state: {word}; address=127.0.0.1; port=80; name=b/s1; node=vm; weight=1/1; scur=0/0; qcur=0\r\nconnection: close\r\n\r\n"
        )
    };
    for _ in 0..12 {
        assert_eq!(ask(doorbell.addr, KUBELET).status, 200);
    }
    assert_eq!(ask(doorbell.addr, &state("UP 1/3")).status, 200);
    assert_eq!(ask(doorbell.addr, "OPTIONS /readyz HTTP/1.0\r\n\r\n").status, 200);
    assert_eq!(ask(doorbell.addr, "GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").status, 200);
    let down = |note: &str| {
        ask(
            doorbell.addr,
            &format!(
                "POST /push/app/{note} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            ),
        )
        .status
    };
    assert_eq!(down("fail?note=gone"), 204);
    assert!(wait_until(LIMIT, || ask(doorbell.addr, KUBELET).status == 503).is_some());
    // The workers' clock is coarse, so the order of two probes within one tick is undefined.
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(ask(doorbell.addr, KUBELET).status, 503);
    ask(doorbell.addr, &state("DOWN"));
    let probers = json(admin, "/-/probers");
    let find = |endpoint: &str, prober: &str| {
        let mut all = probers.as_array().unwrap().iter();
        all.find(|one| one["endpoint"] == endpoint && one["prober"] == prober).cloned()
    };
    let kubelet = find("readyz", "kubelet").unwrap();
    assert!(kubelet["count"].as_u64() >= Some(13) && kubelet["verdict"] == "down", "{kubelet}");
    let haproxy = find("readyz", "haproxy").unwrap();
    assert_eq!((&haproxy["count"], &haproxy["their_view"]), (&3.into(), &"b/s1@vm down".into()));
    assert_eq!(find("livez", "other").unwrap()["count"], 1);
    assert!(find("livez", "kubelet").is_none());
    let (_, metrics) = get(admin, "/metrics");
    for line in [
        "doorbell_probes_total{endpoint=\"livez\",prober=\"other\",verdict=\"up\"} 1",
        "doorbell_probes_total{endpoint=\"readyz\",prober=\"haproxy\",verdict=\"down\"} 1",
        "doorbell_lb_view_state{endpoint=\"readyz\",lb=\"b/s1@vm\",state=\"down\"} 1",
        "doorbell_lb_view_state{endpoint=\"readyz\",lb=\"b/s1@vm\",state=\"up\"} 0",
        "doorbell_endpoint_up{endpoint=\"readyz\"} 0",
        "doorbell_check_state{check=\"app\",state=\"down\"} 1",
    ] {
        assert!(metrics.lines().any(|found| found.trim_end_matches(".0") == line), "{line} in\n{metrics}");
    }
    let (_, page) = get(admin, "/-/");
    assert!(page.contains("kubelet") && page.contains("their view: b/s1@vm down"), "{page}");
}

/// The admin listener accepts pushed results even if no route does.
fn results_are_pushed_to_a_check(engine: &str) {
    let config = CONFIG.split("[route.push]").next().unwrap();
    let more = "[check.run]\ntype = \"tcp\"\naddress = \"127.0.0.1:1\"\nseverity = \"info\"\n";
    let (doorbell, admin) = start_with(engine, &format!("{config}{more}"));
    let check = || {
        let view = json(admin, "/-/checks/app");
        (view["state"].as_str().unwrap().to_owned(), view["reason"].as_str().unwrap().to_owned())
    };
    let kubelet_status = || ask(doorbell.addr, KUBELET).status;
    for (result, state, status) in [
        ("fail", "down", 503),
        ("pass", "up", 200),
        ("warn", "degraded", 200),
        ("maintenance", "maintenance", 503),
    ] {
        let path = format!("/-/checks/app/{result}?note=as+told%21&latency=20ms");
        let method = if result == "fail" { "PUT" } else { "POST" };
        assert_eq!(send(admin, method, &path, "").0, 200, "{result}");
        assert!(wait_until(LIMIT, || check().0 == state).is_some(), "{result}: {:?}", check());
        assert_eq!(kubelet_status(), status, "{result}");
        assert!(result == "pass" || check().1 == "as told!", "{result}: {:?}", check());
    }
    let (_, metrics) = get(admin, "/metrics");
    for line in [
        "doorbell_check_duration_seconds_count{check=\"app\",phase=\"processing\"} 4",
        "doorbell_check_duration_seconds_sum{check=\"app\",phase=\"processing\"} 0.08",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} in\n{metrics}");
    }
    for (method, path, expected) in [
        ("POST", "/-/checks/app/pass?latency=soon", 400),
        ("GET", "/-/checks/app/pass", 404),
        ("DELETE", "/-/checks/app/pass", 405),
        ("POST", "/-/checks/app/good", 404),
        ("POST", "/-/checks/app/history", 405),
        ("PUT", "/-/checks/app/run", 405),
        ("POST", "/-/checks/nobody/pass", 404),
        ("POST", "/-/checks/%ff/pass", 405),
        ("POST", "/-/checks/run/pass", 501),
    ] {
        let (status, text) = send(admin, method, path, "");
        assert_eq!(status, expected, "{method} {path}: {text}");
    }
    // A request needs permission to change state.
    let path = "/-/checks/app/pass";
    assert_eq!(send(admin, "POST", path, "Origin: https://evil.example\r\n").0, 403);
    assert_eq!(
        (kubelet_status(), get(admin, "/readyz")),
        (503, (503, "maintenance\n".to_owned())),
        "the same verdict"
    );
    assert_eq!((post(admin, path).0, wait_until(LIMIT, || kubelet_status() == 200).is_some()), (200, true));
}

fn operators_send_commands(engine: &str) {
    let (mut doorbell, admin) = start(engine);
    let kubelet_status = || ask(doorbell.addr, KUBELET).status;
    let connected = || {
        let mut stream = TcpStream::connect(doorbell.addr).unwrap();
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        misbehave::read_replies(&mut stream, 1, false).unwrap();
        stream
    };
    let kept = connected();
    let began = Instant::now();
    let (status, text) = post(admin, "/-/drain?wait=400ms");
    assert!(status == 200 && text.contains("draining"), "{text}");
    assert!(began.elapsed() >= Duration::from_millis(400));
    // The wait ends as soon as no connection is open.
    let waits = std::thread::spawn(move || post(admin, "/-/drain?wait=60s"));
    std::thread::sleep(Duration::from_millis(300));
    assert!(!waits.is_finished(), "the drain must wait for the connected client");
    drop(kept);
    assert!(
        wait_until(LIMIT, || waits.is_finished()).is_some(),
        "the wait must end before its limit of a minute"
    );
    assert_eq!(waits.join().unwrap().0, 200);
    assert_eq!((kubelet_status(), get(admin, "/readyz").0, get(admin, "/livez").0), (503, 503, 200));
    assert_eq!((post(admin, "/-/undrain").0, kubelet_status()), (200, 200));
    assert_eq!(
        (get(admin, "/-/drain").0, kubelet_status()),
        (200, 503),
        "a preStop hook of Kubernetes sends GET"
    );
    assert_eq!((post(admin, "/-/ready").0, kubelet_status()), (200, 200));
    assert_eq!(
        (post(admin, "/-/drain?target=readyz&reason=new+fans&for=1h&wait=1s").0, kubelet_status()),
        (200, 503)
    );
    let status = json(admin, "/-/status");
    assert_eq!((&status["lifecycle"], &status["drains"][0]["reason"]), (&"ready".into(), &"new fans".into()));
    assert!(get(admin, "/-/").1.contains("readyz: draining, requests are still served."));
    assert_eq!((post(admin, "/-/undrain?target=readyz").0, kubelet_status()), (200, 200));
    assert_eq!(post(admin, "/-/drain?target=app").0, 501, "a check");
    assert_eq!(
        (post(admin, "/-/maint?target=readyz&reason=disk+swap&for=1h").0, kubelet_status()),
        (200, 503)
    );
    assert!(get(admin, "/-/").1.contains("disk swap"));
    assert_eq!((post(admin, "/-/ready?target=readyz").0, kubelet_status()), (200, 200));
    assert_eq!(post(admin, "/-/maint?target=nothing").0, 404);
    assert_eq!(post(admin, "/-/drain?wait=soon").0, 400);
    assert_eq!(post(admin, "/-/checks/nothing/run").0, 404);
    for fields in ["Origin: https://evil.example\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
        assert_eq!((send(admin, "GET", "/-/drain", fields).0, kubelet_status()), (403, 200), "{fields}");
    }
    let renamed = ask(admin, "POST /-/drain HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert_eq!((renamed.status, kubelet_status()), (403, 200));
    for _ in 0..50 {
        assert_eq!(send(admin, "GET", "/-/drain", "Origin: https://evil.example\r\n").0, 403);
    }
    let refused = doorbell.process.log().matches("\"message\":\"refused: ").count();
    assert!((1..=10).contains(&refused), "refusals are logged at most once a second: {refused}");
    // The end of the drain also ends a wait.
    let _kept = connected();
    let waits = std::thread::spawn(move || post(admin, "/-/drain?wait=60s"));
    assert!(wait_until(LIMIT, || get(admin, "/readyz").0 == 503).is_some());
    assert_eq!(post(admin, "/-/undrain").0, 200);
    assert_eq!(waits.join().unwrap().0, 200);
    assert_eq!(post(admin, "/quitquitquit").0, 200);
    let (status, _) = doorbell.process.wait();
    assert!(status.success(), "{}", doorbell.process.log());
}

fn a_token_is_needed_where_there_is_one(engine: &str) {
    let config = CONFIG.replace("[admin]\n", &format!("[admin]\ntoken = \"{TOKEN}\"\n"));
    let (doorbell, admin) = start_with(engine, &config);
    let kubelet_status = || ask(doorbell.addr, KUBELET).status;
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let wrong = format!("Authorization: Bearer {}\r\n", TOKEN.replace('f', "e"));
    for (method, fields) in [("GET", ""), ("POST", ""), ("POST", wrong.as_str())] {
        assert_eq!((send(admin, method, "/-/drain", fields).0, kubelet_status()), (401, 200));
    }
    assert_eq!((send(admin, "GET", "/-/drain", &bearer).0, kubelet_status()), (200, 503));
    let proxied = format!("{bearer}X-Forwarded-For: 10.1.2.3\r\n");
    assert_eq!((send(admin, "POST", "/-/undrain", &proxied).0, kubelet_status()), (200, 200));
    assert_eq!(
        (get(admin, "/-/status").0, get(admin, "/metrics").0),
        (200, 200),
        "visible to authorized clients"
    );
    assert_eq!(post(admin, "/-/quit").0, 401);
    assert!(!doorbell.process.log().contains(TOKEN));
}

fn the_page_shows_problems_first(engine: &str) {
    let more = "[check.zzz]\ntype = \"ttl\"\nttl = \"1h\"\ninitial = \"fully-up\"\nfall = 1\nrise = 1\n\
        [health.aaa]\nrequire = [\"app\"]\n\
        on_drain = { kubelet = \"ignore\", load_balancer = \"ignore\", default = \"ignore\" }\n";
    let config = CONFIG.replace("require = [\"app\"]", "require = [\"app\", \"zzz\"]");
    let config = config
        .replace("bind = \"127.0.0.1:0\"\n\n[check", "bind = [\"127.0.0.1:0\", \"127.0.0.1:0\"]\n\n[check");
    let doorbell = Doorbell::start_with(engine, &format!("{config}{more}"));
    let admin = doorbell.addr_of(2);
    let page = || get(admin, "/-/").1;
    let place = |page: &str, part: &str| page.find(part).unwrap_or_else(|| panic!("{part} in {page}"));
    assert_eq!(post(admin, "/-/drain?target=aaa").0, 200);
    let drained = page();
    assert!(drained.contains("aaa: draining, but on_drain ignores it for every prober."), "{drained}");
    assert!(drained.contains("all probers <b class=\"num\">up 200</b>"), "{drained}");
    assert_eq!(post(admin, "/-/undrain?target=aaa").0, 200);
    let first = |page: &str, one: &str, other: &str| {
        let (one, other) = (format!("<span class=\"name\">{one}<"), format!("<span class=\"name\">{other}<"));
        place(page, &one) < place(page, &other)
    };
    assert!(first(&page(), "app", "zzz"), "checks are in the configured order while all pass");
    assert_eq!(post(admin, "/-/checks/zzz/fail").0, 200);
    assert!(wait_until(LIMIT, || ask(doorbell.addr, KUBELET).status == 503).is_some());
    let down = page();
    assert!(down.contains("Endpoints that are down: readyz. Failing: zzz."), "{down}");
    assert!(first(&down, "zzz", "app") && place(&down, "<h3>readyz<") < place(&down, "<h3>aaa<"), "{down}");
    assert!(!down.contains(">ready<") || place(&down, ">ready<") > place(&down, "<h2>Events<"), "{down}");
    let addr = doorbell.addr_of(1);
    assert!(
        down.contains(&format!("<span>{addr} <small></small></span>")),
        "each address has its own element: {down}"
    );
}

/// Requests of a browser on this machine that another site causes: GET requests after DNS
/// rebinding, and POST requests from a page of that site.
fn a_page_of_another_site_sees_and_changes_nothing(engine: &str) {
    let hosts = "[admin]\nhosts = [\"doorbell.example\"]\n";
    let (doorbell, admin) = start_with(engine, &CONFIG.replace("[admin]\n", hosts));
    let asked = |addr, method: &str, path: &str, fields: &str| {
        ask(addr, &format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n{fields}\r\n")).status
    };
    let port = admin.port();
    for path in ["/-/status", "/metrics", "/-/", "/-/checks", "/-/events?since=0", "/livez", "/nothing"] {
        for host in ["evil.example", "localhost.evil.example:80"] {
            assert_eq!(asked(admin, "GET", path, &format!("Host: {host}\r\n")), 403, "{path} {host}");
        }
    }
    for host in [format!("localhost:{port}"), format!("[::1]:{port}"), "Doorbell.Example".to_owned()] {
        assert_eq!(asked(admin, "GET", "/-/status", &format!("Host: {host}\r\n")), 200, "{host}");
    }
    let absolute =
        "GET http://evil.example/-/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(ask(admin, absolute).status, 403);
    let kubelet_status = || ask(doorbell.addr, KUBELET).status;
    let own = doorbell.addr;
    let result = "/push/app/fail";
    for fields in [
        format!("Host: {own}\r\nOrigin: https://evil.example\r\n"),
        format!("Host: {own}\r\nOrigin: null\r\n"),
        format!("Host: {own}\r\nSec-Fetch-Site: cross-site\r\n"),
        "Host: evil.example\r\nOrigin: http://evil.example\r\n".to_owned(),
    ] {
        assert_eq!(asked(own, "POST", result, &fields), 403, "{fields}");
    }
    assert_eq!(kubelet_status(), 200);
    // Programs other than browsers may use any Host, and pages of this server may send requests.
    assert_eq!(asked(own, "POST", "/push/app/pass", "Host: app\r\n"), 204);
    assert_eq!(asked(own, "POST", result, &format!("Host: {own}\r\nOrigin: http://{own}\r\n")), 204);
    assert!(wait_until(LIMIT, || kubelet_status() == 503).is_some());
}

fn a_proxy_on_this_machine_changes_nothing(engine: &str) {
    let (doorbell, admin) = start(engine);
    let kubelet_status = || ask(doorbell.addr, KUBELET).status;
    for fields in ["X-Forwarded-For: 10.1.2.3\r\n", "Forwarded: for=10.1.2.3\r\n", "Via: 1.1 proxy\r\n"] {
        let (status, text) = send(admin, "POST", "/-/drain", fields);
        assert_eq!((status, kubelet_status()), (403, 200), "{fields}");
        assert!(text.contains("admin.token"), "{text}");
        assert_eq!(send(admin, "POST", "/-/checks/app/fail", fields).0, 403, "{fields}");
        assert_eq!(send(admin, "GET", "/-/status", fields).0, 200, "{fields}");
    }
}

fn a_hostile_reason_is_only_text(engine: &str) {
    let (doorbell, admin) = start(engine);
    let note = "%3Cscript%3Ealert(1)%3C%2Fscript%3E%22%27%26%3Cimg+src%3Dx+onerror%3Dalert(2)%3E";
    let push = format!(
        "POST /push/app/fail?note={note} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(ask(doorbell.addr, &push).status, 204);
    assert!(wait_until(LIMIT, || json(admin, "/-/checks")[0]["state"] == "down").is_some());
    let reason = json(admin, "/-/checks/app")["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("<script>alert(1)</script>"), "{reason}");
    assert_eq!(post(admin, &format!("/-/maint?target=readyz&reason={note}")).0, 200);
    for path in ["/-/", "/-/fragment"] {
        let (_, page) = get(admin, path);
        assert!(
            page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;&lt;img src=x"),
            "{page}"
        );
        assert!(!page.contains("<script>alert") && !page.contains("<img"), "{page}");
    }
}

fn events_are_streamed(engine: &str) {
    let (_doorbell, admin) = start(engine);
    let follow = |fields: &str, query: &str| {
        let mut stream = TcpStream::connect(admin).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        write!(stream, "GET /-/events{query} HTTP/1.1\r\nHost: {admin}\r\n{fields}\r\n").unwrap();
        BufReader::new(stream)
    };
    let next = |reader: &mut BufReader<TcpStream>, start: &str| {
        reader.by_ref().lines().map_while(Result::ok).find(|line| line.starts_with(start)).unwrap()
    };
    let mut reader = follow("", "");
    assert!(next(&mut reader, "content-type").contains("text/event-stream"));
    next(&mut reader, "retry");
    assert_eq!(post(admin, "/-/maint?target=readyz&reason=why").0, 200);
    let id: u64 = next(&mut reader, "id: ")["id: ".len()..].parse().unwrap();
    let event: Value = serde_json::from_str(&next(&mut reader, "data: ")["data: ".len()..]).unwrap();
    assert_eq!((&event["number"], &event["reason"]), (&id.into(), &"why".into()), "{event}");
    // A reconnecting client sends the ID of the last event.
    let mut again = follow(&format!("Last-Event-ID: {}\r\n", id - 1), "");
    assert_eq!(next(&mut again, "id: "), format!("id: {id}"));
    let mut all = follow("", "?since=0");
    assert_eq!(next(&mut all, "id: "), "id: 1");
    let mut others: Vec<_> = (0..20).map(|_| follow("", "")).collect();
    let answers: BTreeSet<String> = others.iter_mut().map(|reader| next(reader, "HTTP/1.1 ")).collect();
    assert!(answers.iter().any(|line| line.contains("503")), "{answers:?}");
    drop((others, reader, again, all));
    assert!(wait_until(LIMIT, || next(&mut follow("", ""), "HTTP/1.1 ").contains("200")).is_some());
}

/// Each probe gets one of the two states and never a mixture. After the last change it gets the
/// last state.
fn probes_during_a_thousand_changes_a_second_are_whole(engine: &str) {
    const SECONDS: u64 = 2;
    let (doorbell, admin) = start(engine);
    let (runs, probes, pushes) = (AtomicBool::new(true), AtomicUsize::new(0), AtomicUsize::new(0));
    let addr = doorbell.addr;
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&runs);
        let (runs, probes, pushes) = (&runs, &probes, &pushes);
        for _ in 0..2 {
            scope.spawn(move || {
                while runs.load(Ordering::Relaxed) {
                    let reply = ask(addr, KUBELET);
                    let body = String::from_utf8(reply.body).unwrap();
                    let shown = (reply.status, body.as_str());
                    let whole = shown == (200, "up\napp: up\n") || shown == (503, "down\napp: down (gone)\n");
                    assert!(whole, "{shown:?}");
                    probes.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_micros(500));
                }
            });
        }
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.set_nodelay(true).unwrap();
        let (began, mut buf) = (Instant::now(), [0; 4096]);
        for at in 0..SECONDS * 1_000 {
            let result = if at % 2 == 0 { "fail?note=gone" } else { "pass" };
            write!(stream, "POST /push/app/{result} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
                .unwrap();
            let read = stream.read(&mut buf).unwrap();
            assert!(buf[..read].starts_with(b"HTTP/1.1 204"), "{}", buf[..read].escape_ascii());
            pushes.fetch_add(1, Ordering::Relaxed);
            // Limits the rate to a thousand changes a second.
            std::thread::sleep(Duration::from_millis(at).saturating_sub(began.elapsed()));
            if at % 500 == 499 {
                stream = TcpStream::connect(addr).unwrap();
            }
        }
    });
    let (probes, pushes) = (probes.into_inner(), pushes.into_inner());
    assert!(
        wait_until(LIMIT, || ask(addr, KUBELET).status == 200).is_some(),
        "the last pushed result was a pass"
    );
    let events = json(admin, "/-/status")["event"].as_u64().unwrap();
    assert_eq!(pushes as u64, SECONDS * 1_000);
    assert!(events >= pushes as u64, "{events} events of {pushes} results");
    assert!(probes > 100, "{probes} probes");
}
