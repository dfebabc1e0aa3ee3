//! Details of health replies, and recognized probers: gRPC clients and HAProxy's agent-check. Also
//! header fields that depend on the state, and probes that exclude checks.

use std::net::SocketAddr;
use std::time::Duration;

use doorbell_testkit::peers::{Reply, wait_until};
use serde_json::Value;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::admin::{get, json, post};
use crate::agents::{self, await_line, tell};
use crate::checks::ask_with;
use crate::grpc::{block_on, call, check, next, watch};
use crate::http2::config;
use crate::support::{Doorbell, LIMIT, on_auto};

on_auto! {
    grpc_probers_are_known_and_told_apart
    agent_checks_are_counted
    fields_follow_the_state
    checks_are_left_out
}

const GRPC: &str = "[admin]\nbind = \"127.0.0.1:0\"\n[check.app]\ntype = \"ttl\"\nttl = \"1h\"\ninitial = \"fully-up\"\n\
    [health.readyz]\nrequire = [\"app\"]\non_drain = { kubelet = \"ignore\" }\n\
    [grpc]\nservices = { orders = \"readyz\", alive = \"livez\" }\n\
    [route.push]\npath = \"/-/checks/{check}/{result}\"\npush = true\n";

/// A client with a prober's user agent. tonic appends its own name, as grpc-go does.
async fn prober(doorbell: &Doorbell, user_agent: &'static str) -> Channel {
    let endpoint = Endpoint::from_shared(doorbell.url("")).unwrap().user_agent(user_agent).unwrap();
    endpoint.connect_timeout(LIMIT).connect().await.unwrap()
}

/// The probers of an endpoint, with their counts and last verdicts.
fn probers(admin: SocketAddr, endpoint: &str) -> Vec<(String, u64, String)> {
    let all = json(admin, "/-/probers");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rows = all.as_array().unwrap().iter().filter(|row| row["endpoint"] == endpoint);
    rows.map(|row| (text(&row["prober"]), row["count"].as_u64().unwrap(), text(&row["verdict"]))).collect()
}

fn row(prober: &str, count: u64, verdict: &str) -> (String, u64, String) {
    (prober.to_owned(), count, verdict.to_owned())
}

fn grpc_probers_are_known_and_told_apart(engine: &str) {
    let doorbell = Doorbell::start_with(engine, &config("", GRPC));
    let admin = doorbell.addr_of(1);
    const KUBELET: &str = "kube-probe/1.34 grpc-go/1.72.1";
    const ALB: &str = "ELB-HealthChecker/2.0";
    let (yes, no) = (Ok(ServingStatus::Serving), Ok(ServingStatus::NotServing));
    block_on(async {
        let ask = async |user_agent, service| {
            check(&mut HealthClient::new(prober(&doorbell, user_agent).await), service).await
        };
        for (user_agent, service) in
            [(KUBELET, ""), (KUBELET, "orders"), ("Envoy/HC", "orders"), (ALB, ""), ("grpc_health_probe", "")]
        {
            assert_eq!(ask(user_agent, service).await, yes, "{user_agent} {service:?}");
        }
        assert!(ask("Envoy/HC", "nobody").await.is_err());
        let list =
            call(prober(&doorbell, "GoogleHC/1.0").await, "/grpc.health.v1.Health/List").await.unwrap();
        assert_eq!(list.services(), ["", "alive", "orders"]);
        // A drain has the same effect on a Watch as on a Check.
        let mut by_envoy = HealthClient::new(prober(&doorbell, "Envoy/HC").await);
        let mut by_kubelet = HealthClient::new(prober(&doorbell, KUBELET).await);
        let mut envoy = watch(&mut by_envoy, "orders").await;
        let mut kubelet = watch(&mut by_kubelet, "orders").await;
        assert_eq!((next(&mut envoy).await, next(&mut kubelet).await), (yes, yes));
        assert_eq!(post(admin, "/-/drain").0, 200);
        assert_eq!(next(&mut envoy).await, no);
        for (user_agent, expected) in [(KUBELET, yes), ("Envoy/HC", no), (ALB, no), ("grpc_health_probe", no)]
        {
            assert_eq!(ask(user_agent, "orders").await, expected, "{user_agent}");
        }
        assert_eq!(ask(ALB, "alive").await, yes);
        let quiet = tokio::time::timeout(Duration::from_millis(200), kubelet.message()).await;
        assert!(quiet.is_err(), "a drain is not reported to the kubelet: {quiet:?}");
    });
    let expected = [
        row("elb", 2, "drain"),
        row("envoy", 3, "drain"),
        row("gcp", 1, "up"),
        row("grpc-health-probe", 2, "drain"),
        row("kubelet", 4, "up"),
    ];
    assert_eq!(probers(admin, "readyz"), expected);
    assert_eq!(probers(admin, "livez"), [row("elb", 1, "up"), row("gcp", 1, "up")]);
    let metrics = get(admin, "/metrics").1;
    for line in [
        "doorbell_probes_total{endpoint=\"readyz\",prober=\"kubelet\",verdict=\"up\"} 4",
        "doorbell_probes_total{endpoint=\"readyz\",prober=\"envoy\",verdict=\"drain\"} 1",
        "doorbell_probes_total{endpoint=\"readyz\",prober=\"envoy\",verdict=\"up\"} 2",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

fn agent_checks_are_counted(engine: &str) {
    let more = "[agent.plain]\nbind = \"127.0.0.1:0\"\n[agent.named]\nbind = \"127.0.0.1:0\"\nhealth = \"livez\"\nselect_by_send = true\n\
                [admin]\nbind = \"127.0.0.1:0\"\n";
    let doorbell = Doorbell::start_with(engine, &format!("{}{more}", agents::CONFIG));
    let [plain, named, admin] = [1, 2, 3].map(|position| doorbell.addr_of(position));
    assert_eq!(probers(admin, "readyz"), []);
    await_line(plain, b"", "down ready # db\n");
    assert_eq!(probers(admin, "readyz"), [row("haproxy", 1, "down")]);
    tell(&doorbell, "db/pass");
    tell(&doorbell, "cache/pass");
    let mut count = 1;
    let came = wait_until(LIMIT, || {
        count += 1;
        agents::line(named, b"readyz\n") == "up ready 100%\n"
    });
    assert!(came.is_some());
    assert_eq!(probers(admin, "readyz"), [row("haproxy", count, "up")]);
    // An unknown name selects no endpoint.
    assert!(agents::line(named, b"nobody\n").starts_with("down # there is no"));
    assert_eq!(agents::line(named, b"\n"), "up ready 100%\n");
    assert!(
        matches!(probers(admin, "livez").as_slice(), [(name, _, verdict)] if name == "haproxy" && verdict == "up")
    );
    assert_eq!(probers(admin, "readyz"), [row("haproxy", count, "up")]);
    let metrics = get(admin, "/metrics").1;
    assert!(
        metrics.contains("doorbell_probes_total{endpoint=\"readyz\",prober=\"haproxy\",verdict=\"up\"}"),
        "{metrics}"
    );
}

/// Two checks with pushed results, and a route for each kind of prober.
fn health(more: &str) -> String {
    let readyz = "[health.readyz]\n";
    assert!(agents::CONFIG.contains(readyz));
    let seen =
        "[route.seen]\npath = [\"/seen\", \"/seen/{check}\"]\nhealth = \"readyz\"\ndetails = \"always\"\n";
    format!("{}{seen}", agents::CONFIG.replace(readyz, &format!("{readyz}{more}")))
}

fn get_as(doorbell: &Doorbell, head: &str) -> Reply {
    ask_with(doorbell, head)
}

fn fields_follow_the_state(engine: &str) {
    let more =
        "retry_after = \"7s\"\nenvoy_degraded = true\nendpoint_weight = true\nstatus = { degraded = 203 }\n";
    let doorbell = Doorbell::start_with(engine, &health(more));
    let envoy = "GET /readyz HTTP/1.1\r\nHost: orders\r\nUser-Agent: Envoy/HC";
    let haproxy = "OPTIONS /readyz HTTP/1.1\r\nHost: a";
    let kubelet = "GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: kube-probe/1.34\r\nAccept: */*";
    let json = "GET /seen?format=json HTTP/1.1\r\nHost: a\r\nUser-Agent: GoogleHC/1.0";
    let await_fields = |code: u16, expected: [Option<&str>; 3]| {
        let mut last = None;
        for head in [envoy, haproxy, kubelet, json] {
            let came = wait_until(LIMIT, || {
                let reply = get_as(&doorbell, head);
                let field = |name| reply.field(name).map(str::to_owned);
                let fields = [
                    field("retry-after"),
                    field("x-envoy-degraded"),
                    field("x-load-balancing-endpoint-weight"),
                ];
                let fits = reply.status == code && fields.iter().map(Option::as_deref).eq(expected);
                last = Some((reply.status, fields));
                fits
            });
            assert!(came.is_some(), "{head}: {last:?} instead of {code} {expected:?}");
        }
    };
    await_fields(503, [Some("7"), None, Some("0")]);
    tell(&doorbell, "db/pass");
    await_fields(203, [None, Some("true"), Some("60")]);
    let single = get_as(&doorbell, "GET /seen/cache HTTP/1.1\r\nHost: a");
    assert_eq!((single.status, single.field("retry-after")), (503, Some("7")));
    tell(&doorbell, "cache/pass");
    await_fields(200, [None, None, Some("100")]);
    let single = get_as(&doorbell, "GET /seen/cache HTTP/1.1\r\nHost: a");
    assert_eq!(
        (single.status, single.field("retry-after"), single.field("x-envoy-degraded")),
        (200, None, None)
    );
    tell(&doorbell, "db/fail");
    await_fields(503, [Some("7"), None, Some("0")]);
    // Without configuration the reply has none of these fields.
    let doorbell = Doorbell::start_with(engine, &health(""));
    let reply = get_as(&doorbell, envoy);
    let fields =
        ["retry-after", "x-envoy-degraded", "x-load-balancing-endpoint-weight"].map(|name| reply.field(name));
    assert_eq!((reply.status, fields), (503, [None; 3]));
}

fn checks_are_left_out(engine: &str) {
    let doorbell = Doorbell::start_with(engine, &health("retry_after = \"7s\"\n"));
    let get = |target: &str| {
        let reply =
            get_as(&doorbell, &format!("GET {target} HTTP/1.1\r\nHost: a\r\nUser-Agent: kube-probe/1.34"));
        let retry_after = reply.field("retry-after").is_some();
        assert_eq!(retry_after, reply.status == 503);
        assert_eq!(reply.field("cache-control"), Some("no-store"));
        (reply.status, String::from_utf8(reply.body).unwrap())
    };
    let cache = "[-]cache failed (degrading): unknown\n";
    let db = "[-]db failed: unknown\n";
    for (target, code, expected) in [
        ("/seen?verbose", 503, format!("{db}{cache}readyz check failed\n")),
        ("/seen?verbose&exclude=cache", 503, format!("{db}[+]cache excluded: ok\nreadyz check failed\n")),
        ("/seen?verbose&exclude=db", 200, format!("[+]db excluded: ok\n{cache}readyz check passed\n")),
        (
            "/seen?exclude=db&verbose&exclude=zz&exclude=%61%22a",
            200,
            format!(
                "[+]db excluded: ok\n{cache}warn: some health checks cannot be excluded: no matches for \"a?a\",\"zz\"\n\
                 readyz check passed\n"
            ),
        ),
        ("/seen?exclude=db", 200, "degraded\ncache: unknown\n".to_owned()),
        ("/seen?exclude=db&exclude=cache", 200, "up\n".to_owned()),
        // Clients without details get the verdict, but not the names of checks.
        ("/readyz?verbose&exclude=db", 503, "readyz check failed\n".to_owned()),
        ("/readyz?exclude=nobody", 503, "down\n".to_owned()),
    ] {
        assert_eq!(get(target), (code, expected), "{target}");
    }
    let options = get_as(&doorbell, "OPTIONS /seen?exclude=db HTTP/1.1\r\nHost: a");
    assert_eq!((options.status, options.field("allow")), (200, Some("GET, HEAD, OPTIONS")));
    tell(&doorbell, "db/pass");
    tell(&doorbell, "cache/pass");
    let came = wait_until(LIMIT, || get("/seen?exclude=db&verbose").1.contains("[+]cache ok"));
    assert!(came.is_some());
}
