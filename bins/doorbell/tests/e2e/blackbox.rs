//! Probes for Prometheus: metrics, allowed targets, and caching.

use std::io::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::checks::{ask, ask_with};
use crate::support::{Doorbell, Scratch, on_auto, program};
use crate::upstream::{Does, Upstream};

on_auto! {
    targets_are_probed_and_the_metrics_have_the_right_names
    forbidden_targets_are_not_connected_to
    identical_requests_share_a_probe
    a_failure_is_not_shared_with_requests_that_have_more_time
    targets_that_misbehave
    modules_have_their_own_requests_and_expectations
    modules_send_datagrams
}

/// Starts an instance; the second address is that of `[blackbox]`.
fn start(engine: &str, more: &str) -> Doorbell {
    let config = format!(
        "version = 1\n[runtime]\nworkers = 1\n[lifecycle]\ndrain_delay = \"0s\"\n[listener.plain]\nbind = \"127.0.0.1:0\"\nhttp2 = true\n\
         [blackbox]\nbind = \"127.0.0.1:0\"\ntargets = [\"127.0.0.0/8\"]\n{more}"
    );
    let mut doorbell = Doorbell::start_with(engine, &config);
    doorbell.addr = doorbell.addr_of(1);
    doorbell
}

fn value(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

fn asked(doorbell: &Doorbell, query: &str) -> (u16, String) {
    // The port accepts its own address as Host. Any other name could come from DNS rebinding.
    let reply = ask_with(doorbell, &format!("GET /probe{query} HTTP/1.1\r\nHost: {}", doorbell.addr));
    (reply.status, String::from_utf8(reply.body).unwrap())
}

fn probe(doorbell: &Doorbell, query: &str) -> String {
    let (status, text) = asked(doorbell, &format!("?{query}"));
    assert_eq!(status, 200, "{query}: {text}");
    text
}

fn targets_are_probed_and_the_metrics_have_the_right_names(engine: &str) {
    let doorbell = start(engine, "cache = \"0s\"\n");
    let good = Upstream::start(Does::Says(
        b"HTTP/1.1 200 OK\r\nLast-Modified: Thu, 01 Jan 1970 00:01:00 GMT\r\nContent-Length: 5\r\n\r\nhello"
            .to_vec(),
    ));
    let text = probe(&doorbell, &format!("target={}&module=http_2xx", good.addr));
    for (name, expected) in [
        ("probe_success", 1.0),
        ("probe_http_status_code", 200.0),
        ("probe_http_version", 1.1),
        ("probe_http_content_length", 5.0),
        ("probe_http_uncompressed_body_length", 5.0),
        ("probe_http_redirects", 0.0),
        ("probe_http_ssl", 0.0),
        ("probe_http_last_modified_timestamp_seconds", 60.0),
        ("probe_failed_due_to_regex", 0.0),
        ("probe_ip_protocol", 4.0),
        ("probe_timeout_seconds", 9.5),
    ] {
        assert_eq!(value(&text, name), Some(expected), "{name}\n{text}");
    }
    let phases = ["connect", "processing", "resolve", "tls", "transfer"];
    let phases = phases
        .map(|phase| value(&text, &format!("probe_http_duration_seconds{{phase=\"{phase}\"}}")).unwrap());
    let all = value(&text, "probe_duration_seconds").unwrap();
    assert!(phases.iter().sum::<f64>() <= all && phases[1] > 0.0, "{text}");
    assert!(good.last_request().starts_with("GET / HTTP/1.1\r\n"));
    let first = Upstream::start(Does::Says(
        format!("HTTP/1.1 302 Found\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n", good.url("/other")).into(),
    ));
    let text = probe(&doorbell, &format!("target={}&module=http_post_2xx", first.url("/")));
    assert_eq!(
        (value(&text, "probe_success"), value(&text, "probe_http_redirects")),
        (Some(1.0), Some(1.0)),
        "{text}"
    );
    assert!(
        good.last_request().starts_with("GET /other HTTP/1.1\r\n")
            && first.last_request().starts_with("POST / ")
    );
    let bad = Upstream::start(Does::reply(503, ""));
    let text = probe(&doorbell, &format!("target={}", bad.addr));
    assert_eq!(
        (value(&text, "probe_success"), value(&text, "probe_http_status_code")),
        (Some(0.0), Some(503.0))
    );
    let text = probe(&doorbell, &format!("target={}&module=tcp_connect", bad.addr));
    assert_eq!((value(&text, "probe_success"), value(&text, "probe_http_status_code")), (Some(1.0), None));
    // The target is this server's own HTTP/2 listener.
    let grpc = probe(&doorbell, &format!("target={}&module=grpc_plain", doorbell.addr_of(0)));
    for (name, expected) in [
        ("probe_success", 1.0),
        ("probe_grpc_status_code", 0.0),
        ("probe_grpc_ssl", 0.0),
        ("probe_grpc_healthcheck_response{serving_status=\"SERVING\"}", 1.0),
        ("probe_grpc_healthcheck_response{serving_status=\"NOT_SERVING\"}", 0.0),
    ] {
        assert_eq!(value(&grpc, name), Some(expected), "{name}\n{grpc}");
    }
    let gone = probe(&doorbell, "target=nowhere.invalid&module=http_2xx");
    assert_eq!((value(&gone, "probe_success"), value(&gone, "probe_ip_protocol")), (Some(0.0), Some(0.0)));
    [text, grpc].iter().for_each(|text| check_with_promtool(text));
}

fn check_with_promtool(text: &str) {
    let Some(promtool) = program("promtool") else { return };
    let mut child = Command::new(&promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn forbidden_targets_are_not_connected_to(engine: &str) {
    let doorbell = start(
        engine,
        "cache = \"0s\"\nmodules = [\"http_2xx\", \"tcp_connect\"]\n\
         [blackbox.module.names]\ntype = \"dns\"\nname = \"a.test\"\n\
         [blackbox.module.echo]\ntype = \"icmp\"\n[blackbox.module.datagram]\ntype = \"udp\"\n",
    );
    for query in ["192.0.2.1&module=names", "192.0.2.1&module=echo", "192.0.2.1:1&module=datagram"] {
        assert_eq!(asked(&doorbell, &format!("?target={query}")).0, 403, "{query}");
    }
    for target in [
        "192.0.2.1",
        "169.254.169.254/latest/meta-data/",
        "http://[::1]:1/",
        "http://[::ffff:192.0.2.1]/",
        "http://0.0.0.0:1/",
        "http://2130706433.example@127.0.0.1/",
        "unix:/run/a.sock",
        "file:///etc/passwd",
    ] {
        let (status, text) = asked(&doorbell, &format!("?target={target}"));
        assert_eq!(status, 403, "{target}: {text}");
    }
    // An allowed target that redirects to a forbidden address.
    let away = Does::Says(
        b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n".to_vec(),
    );
    let leads = Upstream::start(away);
    // The target itself is allowed, so the forbidden redirect counts as a failed probe.
    let text = probe(&doorbell, &format!("target={}", leads.addr));
    assert_eq!((value(&text, "probe_success"), leads.conns()), (Some(0.0), 1), "{text}");
    for (query, expected) in [
        ("", "Target parameter is missing\n"),
        ("?module=http_2xx", "Target parameter is missing\n"),
        ("?target=a&module=grpc", "Unknown module \"grpc\"\n"),
        ("?target=a&target=b", "Target parameter is given twice\n"),
    ] {
        assert_eq!(asked(&doorbell, query), (400, expected.to_owned()), "{query}");
    }
    assert_eq!(ask(&doorbell, "/-/healthy"), (200, "Healthy".to_owned()));
    assert_eq!(ask(&doorbell, "/metrics").0, 404);
}

/// Concurrent requests, and requests within the cache time.
fn identical_requests_share_a_probe(engine: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let conns = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&conns);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(300));
            let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let doorbell = start(engine, "cache = \"2s\"\n");
    let from = Instant::now();
    let texts: Vec<String> = std::thread::scope(|scope| {
        let asking: Vec<_> =
            (0..20).map(|_| scope.spawn(|| probe(&doorbell, &format!("target={addr}")))).collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(
        texts.iter().all(|text| *text == texts[0] && value(text, "probe_success") == Some(1.0)),
        "{}",
        texts[0]
    );
    assert_eq!(probe(&doorbell, &format!("target={addr}")), texts[0]);
    if from.elapsed() < Duration::from_secs(2) {
        assert_eq!(conns.load(Ordering::Relaxed), 1);
    }
    std::thread::sleep(Duration::from_millis(2100));
    assert_ne!(probe(&doorbell, &format!("target={addr}")), texts[0]);
    assert_eq!(conns.load(Ordering::Relaxed), 2);
}

/// A scraper with a short timeout gets a failure, which later scrapers do not get.
fn a_failure_is_not_shared_with_requests_that_have_more_time(engine: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::sleep(Duration::from_millis(300));
            let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let doorbell = start(engine, "cache = \"1m\"\n");
    let head = format!("GET /probe?target={addr} HTTP/1.1\r\nHost: {}", doorbell.addr);
    let hasty = ask_with(&doorbell, &format!("{head}\r\nX-Prometheus-Scrape-Timeout-Seconds: 0.6"));
    assert_eq!(value(&String::from_utf8(hasty.body).unwrap(), "probe_success"), Some(0.0));
    assert_eq!(value(&probe(&doorbell, &format!("target={addr}")), "probe_success"), Some(1.0));
}

fn modules_have_their_own_requests_and_expectations(engine: &str) {
    let scratch = Scratch::new();
    let secret = scratch.write("secret", "hunter2\n");
    let doorbell = start(
        engine,
        &format!(
            "cache = \"0s\"\nmodules = [\"http_2xx\", \"tcp_connect\"]\n\
             [blackbox.module.shop]\ntype = \"http\"\nmethod = \"PUT\"\nbody = \"ring\"\nbearer = \"${{file:{secret}}}\"\n\
             headers = {{ X-Probe = \"shop\" }}\nfollow_redirects = \"all\"\nexpect = {{ body_matches = '^up$' }}\n\
             [blackbox.module.http_2xx]\ntype = \"http\"\nexpect = {{ status = \"503\" }}\n\
             [blackbox.module.mail]\ntype = \"tcp\"\nsend = \"NOOP\\r\\n\\r\\n\"\ntimeout = \"300ms\"\nexpect = {{ matches = '^220 ' }}\n\
             [blackbox.module.own_grpc]\ntype = \"grpc\"\nmethod = \"/grpc.health.v1.Health/Check\"\nexpect = {{ reply = \"08 01\" }}\n"
        ),
    );
    let success = |target: &str, module: &str| {
        let text = probe(&doorbell, &format!("target={target}&module={module}"));
        (value(&text, "probe_success"), value(&text, "probe_failed_due_to_regex"))
    };
    let (up, down) = (Upstream::start(Does::reply(200, "up")), Upstream::start(Does::reply(503, "down")));
    assert_eq!(success(&up.url("/x"), "shop"), (Some(1.0), Some(0.0)));
    let request = up.last_request().to_ascii_lowercase();
    for part in ["put /x http/1.1\r\n", "\r\nx-probe: shop\r\n", "\r\nauthorization: bearer hunter2\r\n"] {
        assert!(request.contains(part), "{part:?} in {request}");
    }
    let other = Upstream::start(Does::reply(200, "no"));
    assert_eq!(success(&other.url("/"), "shop"), (Some(0.0), Some(1.0)));
    assert_eq!(success(&down.url("/"), "shop"), (Some(0.0), Some(0.0)), "the status is wrong");
    // A redirect to another origin gets no credentials.
    let leads = Upstream::start(Does::Says(
        format!("HTTP/1.1 302 F\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n", up.url("/y")).into(),
    ));
    assert_eq!(success(&leads.url("/"), "shop").0, Some(1.0));
    let request = up.last_request().to_ascii_lowercase();
    assert!(request.starts_with("get /y ") && !request.contains("authorization"), "{request}");
    // A module with the name of a built-in one replaces it.
    assert_eq!(success(&down.url("/"), "http_2xx").0, Some(1.0));
    assert_eq!(success(&up.url("/"), "http_2xx").0, Some(0.0));
    let mail = Upstream::start(Does::Says(b"220 mail\r\n".to_vec()));
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(success(&mail.addr.to_string(), "mail"), (Some(1.0), Some(0.0)));
    let text = probe(&doorbell, &format!("target={}&module=mail", silent.local_addr().unwrap()));
    assert_eq!(
        (value(&text, "probe_success"), value(&text, "probe_timeout_seconds")),
        (Some(0.0), Some(0.3)),
        "{text}"
    );
    let grpc = probe(&doorbell, &format!("target={}&module=own_grpc", doorbell.addr_of(0)));
    assert_eq!(
        (value(&grpc, "probe_success"), value(&grpc, "probe_grpc_status_code")),
        (Some(1.0), Some(0.0))
    );
    assert_eq!(asked(&doorbell, "?target=192.0.2.1&module=shop").0, 403);
    assert_eq!(asked(&doorbell, "?target=a&module=grpc").0, 400);
}

/// A datagram with and without a required reply.
fn modules_send_datagrams(engine: &str) {
    let doorbell = start(
        engine,
        "cache = \"0s\"\n[blackbox.module.statsd]\ntype = \"udp\"\nsend = \"ping\"\nwait = \"5s\"\ntimeout = \"10s\"\n\
         [blackbox.module.pong]\ntype = \"udp\"\nsend = \"ping\"\nexpect = { matches = '^pong' }\n",
    );
    let success = |target: &str, module: &str| {
        let text = probe(&doorbell, &format!("target={target}&module={module}"));
        (value(&text, "probe_success"), value(&text, "probe_failed_due_to_regex"))
    };
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = peer.local_addr().unwrap();
    std::thread::spawn(move || {
        for reply in [b"pong", b"nope"] {
            let (_len, from) = peer.recv_from(&mut [0; 8]).unwrap();
            peer.send_to(reply, from).unwrap();
        }
    });
    assert_eq!(success(&at.to_string(), "pong"), (Some(1.0), Some(0.0)));
    assert_eq!(success(&at.to_string(), "pong"), (Some(0.0), Some(1.0)));
    let closed = crate::support::free_addr();
    assert_eq!(success(&closed.to_string(), "statsd"), (Some(0.0), Some(0.0)));
    // The scrape timeout is shorter than the wait: no error in a tenth of it is a success.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let head = format!(
        "GET /probe?module=statsd&target={} HTTP/1.1\r\nHost: {}",
        silent.local_addr().unwrap(),
        doorbell.addr
    );
    let hasty = ask_with(&doorbell, &format!("{head}\r\nX-Prometheus-Scrape-Timeout-Seconds: 3"));
    assert_eq!(value(&String::from_utf8(hasty.body).unwrap(), "probe_success"), Some(1.0));
}

fn targets_that_misbehave(engine: &str) {
    let doorbell = start(engine, "timeout = \"300ms\"\n");
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n".to_vec();
    for does in [
        Does::Hang,
        Does::Trickles(head, vec![b'x'; 99], Duration::from_millis(20)),
        Does::Says(b"SSH-2.0-x\r\n\r\n".to_vec()),
        Does::Says(b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n".to_vec()),
    ] {
        let upstream = Upstream::start(does.clone());
        let text = probe(&doorbell, &format!("target={}", upstream.addr));
        assert_eq!(value(&text, "probe_success"), Some(0.0), "{does:?}\n{text}");
    }
    let endless = Upstream::start(Does::Endless);
    let text = probe(&doorbell, &format!("target={}", endless.addr));
    assert!(
        value(&text, "probe_http_uncompressed_body_length").is_some_and(|len| len <= 262_144.0),
        "{text}"
    );
}
