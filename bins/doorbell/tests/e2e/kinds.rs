//! Other kinds of checks: HTTPS, TCP, files, gRPC, pushed results.

use std::fs;

use doorbell_testkit::peers::wait_until;

use crate::checks::{ask, ask_with, await_answer, start};
use crate::pki::{Ca, ca, localhost};
use crate::support::{Doorbell, LIMIT, Scratch, on_auto};
use crate::upstream::{Does, Upstream};

on_auto! {
    https_is_checked_as_configured
    requests_use_http2_and_proxy_headers
    connections_and_their_data
    files_come_and_go
    grpc_services_are_checked
    an_application_pushes_results
    a_quorum_decides
    checks_beyond_the_limit_wait
}

fn https_is_checked_as_configured(engine: &str) {
    let scratch = Scratch::new();
    let (cert, key) = localhost().write(&scratch, "tls");
    let trusted = scratch.write("ca.crt", &ca().pem());
    let stranger = scratch.write("stranger.crt", &Ca::new("Stranger").pem());
    let upstream = Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[tls.web]\ncert = {cert:?}\nkey = {key:?}\n[listener.web]\nbind = \"127.0.0.1:0\"\ntls = \"web\"\n\
             [route.hello]\npath = \"/hello\"\nreply = {{ body = \"hello\\n\" }}\n"
        ),
    );
    let port = upstream.addr.port();
    let mut more = String::new();
    for (name, host, tls) in [
        ("by_name", "localhost", format!("ca = {trusted:?}")),
        ("by_address", "127.0.0.1", format!("ca = {trusted:?}, server_name = \"localhost\"")),
        ("anybody", "127.0.0.1", "verify = false".to_owned()),
        ("stranger", "localhost", format!("ca = {stranger:?}")),
        ("other_name", "localhost", format!("ca = {trusted:?}, server_name = \"example.com\"")),
    ] {
        more.push_str(&format!(
            "[check.{name}]\ntype = \"http\"\nseverity = \"degrading\"\nurl = \"https://{host}:{port}/hello\"\ntls = {{ {tls} }}\n\
             expect = {{ body_contains = \"hello\" }}\n"
        ));
    }
    let doorbell = start(engine, &more);
    for name in ["by_name", "by_address", "anybody"] {
        await_answer(&doorbell, &format!("/readyz/{name}"), (200, "ok"));
    }
    await_answer(&doorbell, "/readyz/stranger", (503, "down: TLS: invalid peer certificate: UnknownIssuer"));
    await_answer(&doorbell, "/readyz/other_name", (503, "down: TLS: invalid peer certificate: "));
    // A changed file is used without a reload.
    fs::write(&stranger, ca().pem()).unwrap();
    await_answer(&doorbell, "/readyz/stranger", (200, "ok"));
    let missing = scratch.write("none.crt", "nothing\n");
    let file = scratch.write(
        "a.toml",
        &format!(
            "version = 1\n[check.a]\ntype = \"http\"\nurl = \"https://a/\"\ntls = {{ ca = {missing:?} }}\n"
        ),
    );
    let refused = Doorbell::try_start(&["serve", "-c", &file, "--driver", engine]).unwrap_err();
    assert!(refused.contains("contains no certificate"), "{refused}");
}

fn requests_use_http2_and_proxy_headers(engine: &str) {
    let scratch = Scratch::new();
    let (cert, key) = localhost().write(&scratch, "tls");
    let upstream = Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[tls.web]\ncert = {cert:?}\nkey = {key:?}\n\
             [listener.plain]\nbind = \"127.0.0.1:0\"\nhttp2 = true\n\
             [listener.web]\nbind = \"127.0.0.1:0\"\nhttp2 = true\ntls = \"web\"\n\
             [listener.old]\nbind = \"127.0.0.1:0\"\ntls = \"web\"\n\
             [listener.proxied]\nbind = \"127.0.0.1:0\"\nproxy_protocol = \"require\"\ntrusted_proxies = [\"127.0.0.1/32\"]\n\
             [route.hello]\nlistener = [\"plain\", \"web\", \"old\", \"proxied\"]\npath = \"/hello\"\nreply = {{ body = \"hello\\n\" }}\n"
        ),
    );
    let url = |listener: usize, scheme: &str| format!("{scheme}://{}/hello", upstream.addr_of(listener));
    let mut more = String::new();
    for (name, url, lines) in [
        (
            "h2c",
            url(0, "http"),
            "http_version = \"HTTP/2\"\nexpect = { http_version = \"HTTP/2\", body_contains = \"hello\" }",
        ),
        ("h2", url(1, "https"), "http_version = \"HTTP/2\"\nexpect = { http_version = \"HTTP/2\" }"),
        ("auto", url(1, "https"), "http_version = \"auto\"\nexpect = { http_version = \"HTTP/2\" }"),
        ("old", url(2, "https"), "http_version = \"auto\"\nexpect = { http_version = \"HTTP/1.1\" }"),
        ("host", url(0, "http"), "http_version = \"HTTP/2\"\nheaders = { Host = \"shop.internal\" }"),
        ("v1", url(3, "http"), "proxy_protocol = \"v1\""),
        ("v2", url(3, "http"), "proxy_protocol = \"v2\""),
        ("local", url(3, "http"), "proxy_protocol = \"local\""),
        ("without", url(3, "http"), ""),
        ("only_h1", url(2, "https"), "http_version = \"HTTP/2\""),
    ] {
        more.push_str(&format!(
            "[check.{name}]\ntype = \"http\"\nseverity = \"degrading\"\nurl = \"{url}\"\ntls = {{ verify = false }}\n{lines}\n"
        ));
    }
    let doorbell = start(engine, &more);
    for name in ["h2c", "h2", "auto", "old", "host", "v1", "v2", "local"] {
        await_answer(&doorbell, &format!("/readyz/{name}"), (200, "ok"));
    }
    for name in ["without", "only_h1"] {
        await_answer(&doorbell, &format!("/readyz/{name}"), (503, "down: "));
    }
}

fn connections_and_their_data(engine: &str) {
    let ping = b"\x02\0\0PING".to_vec();
    let says = Upstream::start(Does::Echoes { wanted: ping, says: b"..\xffPONG\r\n".to_vec() });
    let hung = Upstream::start(Does::Hang);
    let more = format!(
        "[check.open]\ntype = \"tcp\"\naddress = \"{hung}\"\n\
         [check.good]\ntype = \"tcp\"\naddress = \"{says}\"\nsend_hex = \"02 0000 50494e47\"\nexpect = {{ hex = \"ff 504f\" }}\n\
         [check.other]\ntype = \"tcp\"\naddress = \"{says}\"\nsend_hex = \"02 0000 50494e47\"\nexpect = {{ contains = \"ping\" }}\nseverity = \"degrading\"\n\
         [check.silent]\ntype = \"tcp\"\naddress = \"{hung}\"\nexpect = {{ contains = \"PONG\" }}\nseverity = \"degrading\"\n\
         [check.closed]\ntype = \"tcp\"\naddress = \"127.0.0.1:{closed}\"\nseverity = \"degrading\"\n\
         [check.nowhere]\ntype = \"tcp\"\naddress = \"nowhere.invalid:80\"\nseverity = \"degrading\"\n",
        hung = hung.addr,
        says = says.addr,
        closed = crate::support::free_port(),
    );
    let doorbell = start(engine, &more);
    await_answer(&doorbell, "/readyz", (200, "degraded\n"));
    for (name, status, text) in [
        ("open", 200, "ok"),
        ("good", 200, "ok"),
        ("other", 503, "down: the connection ended without \"ping\", but with \"..\\xffPONG\\r\\n\"\n"),
        ("silent", 503, "down: no response within 500ms\n"),
        ("closed", 503, ": connection refused\n"),
        ("nowhere", 503, "down: n"),
    ] {
        await_answer(&doorbell, &format!("/readyz/{name}"), (status, text));
    }
}

fn files_come_and_go(engine: &str) {
    let scratch = Scratch::new();
    let (ready, stop) = (scratch.path("ready"), scratch.path("stop"));
    let more = format!(
        "[check.ready]\ntype = \"file\"\npath = {ready:?}\nexpect = {{ contains = \"done\" }}\n\
         [check.stop]\ntype = \"file\"\npath = {stop:?}\nexpect = {{ exists = false }}\n"
    );
    let doorbell = start(engine, &more);
    await_answer(&doorbell, "/readyz", (503, "ready: down (the file does not exist)\nstop: up\n"));
    fs::write(&ready, "almost done").unwrap();
    await_answer(&doorbell, "/readyz", (200, "up\n"));
    fs::write(&stop, "").unwrap();
    await_answer(&doorbell, "/readyz/stop", (503, "down: the file exists\n"));
    fs::remove_file(&stop).unwrap();
    await_answer(&doorbell, "/readyz", (200, "up\n"));
    fs::write(&ready, "").unwrap();
    await_answer(&doorbell, "/readyz/ready", (503, "down: the file lacks \"done\"\n"));
}

fn grpc_services_are_checked(engine: &str) {
    let scratch = Scratch::new();
    let (cert, key) = localhost().write(&scratch, "tls");
    let trusted = scratch.write("ca.crt", &ca().pem());
    let upstream = Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[tls.web]\ncert = {cert:?}\nkey = {key:?}\n\
             [listener.plain]\nbind = \"127.0.0.1:0\"\nhttp2 = true\n\
             [listener.web]\nbind = \"127.0.0.1:0\"\nhttp2 = true\ntls = \"web\"\n\
             [listener.unix]\nbind = \"unix:{}\"\nhttp2 = true\n\
             [health.cart]\ninitial = \"down\"\n[grpc]\nservices = {{ \"shop.Cart\" = \"cart\" }}\n",
            scratch.path("grpc.sock").display()
        ),
    );
    let http1 = Upstream::start(Does::reply(200, ""));
    let hung = Upstream::start(Does::Hang);
    let (plain, tls) = (upstream.addr_of(0).to_string(), upstream.addr_of(1).to_string());
    let socket = format!("unix:{}", scratch.path("grpc.sock").display());
    let method = |name: &str, more: &str| format!("method = \"/grpc.health.v1.Health/{name}\"\n{more}");
    let mut more = String::new();
    for (name, addr, lines) in [
        ("overall", &plain, String::new()),
        ("cart", &plain, "service = \"shop.Cart\"".to_owned()),
        ("nobody", &plain, "service = \"shop.Nobody\"".to_owned()),
        ("tls", &tls, format!("tls = {{ ca = {trusted:?}, server_name = \"localhost\" }}")),
        ("http1", &http1.addr.to_string(), String::new()),
        ("hung", &hung.addr.to_string(), String::new()),
        ("method", &socket, method("Check", "expect = { reply = [\"\", \"08 01\"] }")),
        // The field `service` with the text "shop.Cart".
        (
            "message",
            &socket,
            method(
                "Check",
                "request = \"0a 09 73686f702e43617274\"\nexpect = { reply = \"08 01\" }\n\
                 metadata = { x-probe = \"e2e\" }\nauthority = \"cart.internal\"",
            ),
        ),
        ("status", &socket, method("Check", "request = \"0a 01 78\"\nexpect = { status = \"NOT_FOUND\" }")),
        ("stranger", &plain, method("Ring", "")),
    ] {
        more.push_str(&format!(
            "[check.{name}]\ntype = \"grpc\"\nseverity = \"degrading\"\naddress = \"{addr}\"\n{lines}\n"
        ));
    }
    let doorbell = start(engine, &more);
    for (name, status, text) in [
        ("overall", 200, "ok"),
        ("tls", 200, "ok"),
        ("cart", 503, "down: NOT_SERVING\n"),
        ("nobody", 503, "down: the server does not know this service\n"),
        ("http1", 503, "down: "),
        ("hung", 503, "down: no response within 500ms\n"),
        ("method", 200, "ok"),
        ("message", 503, "down: unexpected message \"0802\" (2 bytes)\n"),
        ("status", 200, "ok"),
        ("stranger", 503, "down: the server has no method /grpc.health.v1.Health/Ring\n"),
    ] {
        await_answer(&doorbell, &format!("/readyz/{name}"), (status, text));
    }
}

fn an_application_pushes_results(engine: &str) {
    let more = "[check.worker]\ntype = \"ttl\"\nttl = \"1s\"\n\
                [check.app]\ntype = \"file\"\npath = \"/\"\n\
                [route.push]\npath = \"/-/checks/{check}/{result}\"\npush = true\n\
                [route.json]\npath = \"/json\"\nhealth = \"readyz\"\nformat = \"health+json\"\ndetails = \"always\"\n";
    let doorbell = start(engine, more);
    let tell = |target: &str| ask_with(&doorbell, &format!("PUT {target} HTTP/1.1\r\nHost: a")).status;
    assert_eq!(ask(&doorbell, "/readyz/worker"), (503, "unknown\n".to_owned()));
    assert_eq!(tell("/-/checks/worker/pass"), 204);
    await_answer(&doorbell, "/readyz/worker", (200, "ok"));
    assert_eq!(tell("/-/checks/worker/warn?note=queue+is%20long"), 204);
    await_answer(&doorbell, "/readyz/worker", (200, "degraded: queue is long\n"));
    assert_eq!(tell("/-/checks/worker/fail?note=broken"), 204);
    await_answer(&doorbell, "/readyz/worker", (503, "down: broken\n"));
    assert_eq!(tell("/-/checks/worker/fail?latency=1250ms&note=slow"), 204);
    await_answer(&doorbell, "/readyz/worker", (503, "down: slow\n"));
    assert_eq!(tell("/-/checks/worker/pass?latency=soon"), 400);
    let (_, json) = ask(&doorbell, "/json");
    assert!(json.contains("\"observedValue\":1250"), "{json}");
    assert_eq!(tell("/-/checks/worker/maintenance"), 204);
    await_answer(&doorbell, "/readyz", (503, "maintenance\n"));
    assert_eq!(tell("/-/checks/worker/pass"), 204);
    await_answer(&doorbell, "/readyz/worker", (200, "ok"));
    // A check without pushed results becomes stale and fails.
    await_answer(&doorbell, "/readyz/worker", (503, "stale\n"));
    assert_eq!(tell("/-/checks/worker/pass"), 204);
    await_answer(&doorbell, "/readyz/worker", (200, "ok"));
    for (target, status) in
        [("/-/checks/worker/good", 400), ("/-/checks/nobody/pass", 404), ("/-/checks/app/pass", 404)]
    {
        assert_eq!(tell(target), status, "{target}");
    }
    assert_eq!(ask(&doorbell, "/-/checks/worker/pass").0, 405, "a GET must not push a result");
    for result in ["fail", "pass"].into_iter().cycle().take(20) {
        let wanted = if result == "pass" { 200 } else { 503 };
        assert_eq!(tell(&format!("/-/checks/worker/{result}")), 204);
        wait_until(LIMIT, || ask(&doorbell, "/readyz").0 == wanted).expect("the pushed result is reported");
    }
    let totals = doorbell.totals();
    assert!(totals["checks"].as_str().unwrap().contains("pushed=27"), "{totals}");
}

fn a_quorum_decides(engine: &str) {
    let servers = [(); 3].map(|()| Upstream::start(Does::reply(200, "")));
    let mut more = String::new();
    for (at, server) in servers.iter().enumerate() {
        more.push_str(&format!("[check.db{at}]\ntype = \"http\"\nurl = \"{}\"\n", server.url("/")));
    }
    more.push_str(
        "[health.readyz]\nquorum = { of = [\"db0\", \"db1\", \"db2\"], min = \"50%\" }\nstatus = { by_check = { db1 = 551 } }\n",
    );
    let doorbell = start(engine, &more);
    await_answer(&doorbell, "/readyz", (200, "up\n"));
    servers[0].now(Does::reply(500, ""));
    await_answer(&doorbell, "/readyz", (200, "degraded\n"));
    servers[1].now(Does::reply(500, ""));
    await_answer(&doorbell, "/readyz", (551, "down\n"));
    servers[0].now(Does::reply(200, ""));
    await_answer(&doorbell, "/readyz", (200, "degraded\n"));
}

fn checks_beyond_the_limit_wait(engine: &str) {
    let hung = Upstream::start(Does::Hang);
    let good = Upstream::start(Does::reply(200, ""));
    let mut more = String::new();
    for at in 0..6 {
        let url = hung.url("/");
        more.push_str(&format!("[check.hung{at}]\ntype = \"http\"\nurl = \"{url}\"\nseverity = \"info\"\n"));
    }
    more.push_str(&format!("[check.good]\ntype = \"http\"\nurl = \"{}\"\n", good.url("/")));
    let config =
        format!("{}{more}", crate::checks::BASE).replace("workers = 1", "workers = 1\nchecks_in_flight = 2");
    let doorbell = Doorbell::start_with(engine, &config);
    await_answer(&doorbell, "/readyz", (200, "good: up"));
    await_answer(&doorbell, "/readyz/hung5", (503, "no response within 500ms"));
    assert!(good.conns() > 0);
    let totals = doorbell.totals();
    let checks = totals["checks"].as_str().unwrap();
    assert!(checks.contains("waited=") && checks.contains("overruns="), "{checks}");
}
