//! Metrics after real traffic: exact counts, which a reload keeps.

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use doorbell_testkit::peers::{exchange, free_addr, misbehave, wait_until};
use rustix::net::sockopt::set_socket_linger;
use rustix::process::Signal;

use crate::https::Https;
use crate::pki::localhost;
use crate::plain::{get, send};
use crate::support::{Doorbell, LIMIT, Scratch, free_port, on_auto, on_both_engines};

on_auto! {
    requests_are_counted_by_route
    pipelined_requests_are_counted_one_by_one
    connections_of_tcp_probes_are_counted_as_they_end
    a_reload_keeps_all_counts
    runs_of_checks_are_counted_by_result_and_timed_by_part
    handshakes_and_certificates
    ports_beside_the_listeners
}

on_both_engines! { connections_are_counted_by_listener }

/// The value of a series with all its labels.
fn value(admin: SocketAddr, series: &str) -> Option<f64> {
    let text = String::from_utf8(get(admin, "/metrics", &[]).body).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.map(|value| value.parse().unwrap())
}

/// Waits for these values, because a connection is counted shortly after its client has seen the
/// end.
pub(crate) fn expect(admin: SocketAddr, expected: &[(&str, f64)]) {
    let found = || expected.iter().map(|(series, _)| value(admin, series)).collect::<Vec<_>>();
    let wanted: Vec<_> = expected.iter().map(|(_, value)| Some(*value)).collect();
    let is_so = wait_until(LIMIT, || found() == wanted);
    assert!(is_so.is_some(), "{expected:?}: {:?}", found());
}

/// Configuration of routes on these listeners.
fn routes(listeners: &[&str]) -> String {
    format!(
        "[route.hello]\nlistener = {listeners:?}\npath = \"/hello\"\nreply = {{ body = \"hello\\n\" }}\n\
         [limit.few]\nkey = \"ip\"\nrate = \"1/h\"\nburst = 2\n\
         [route.few]\nlistener = {listeners:?}\npath = \"/few\"\nlimit = \"few\"\nreply = {{ body = \"few\\n\" }}\n"
    )
}

/// Configuration with listeners `a`, `b`, and `p`, which requires a PROXY header, and an admin
/// listener.
fn config(more: &str) -> String {
    format!(
        "version = 1\n[runtime]\nworkers = 2\n[lifecycle]\nreload = \"SIGHUP\"\n[admin]\nbind = \"127.0.0.1:0\"\n\
         [listener.a]\nbind = \"127.0.0.1:0\"\n[listener.b]\nbind = \"127.0.0.1:0\"\n\
         [listener.p]\nbind = \"127.0.0.1:0\"\nproxy_protocol = \"require\"\ntrusted_proxies = \"127.0.0.1\"\n{}{more}",
        routes(&["a", "b", "p"])
    )
}

/// Covers each kind of reply: fixed, rendered, behind a guard, and after a job.
fn requests_are_counted_by_route(engine: &str) {
    let doorbell = Doorbell::start_with(
        engine,
        &config(
            "[route.old]\nlistener = [\"a\", \"b\"]\npath = \"/old/{rest}\"\nredirect = { host = \"new.test\" }\n\
             [route.live]\nlistener = \"a\"\npath = \"/livez\"\nhealth = \"livez\"\n\
             [auth.ops]\ntokens = { alice = \"0123456789abcdef0123456789abcdef\" }\n\
             [route.guarded]\nlistener = \"a\"\npath = \"/guarded\"\nhealth = \"livez\"\nauth = \"ops\"\n\
             [check.one]\ntype = \"file\"\npath = \"/\"\ninitial = \"fully-up\"\n\
             [route.ready]\nlistener = \"a\"\npath = [\"/readyz\", \"/readyz/{check}\"]\nhealth = \"readyz\"\ndetails = \"always\"\n",
        ),
    );
    let [a, b, admin] = [0, 1, 3].map(|position| doorbell.addr_of(position));
    let ask = |server: SocketAddr, method: &str, path: &str, times: usize| {
        for _ in 0..times {
            let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            let _reply = exchange(server, request.as_bytes()).unwrap();
        }
    };
    ask(a, "GET", "/hello", 7);
    ask(a, "HEAD", "/hello", 2);
    ask(b, "GET", "/hello", 3);
    ask(a, "GET", "/old/x", 4);
    ask(b, "GET", "/old/y", 1);
    ask(a, "GET", "/few", 5);
    ask(a, "GET", "/nothing", 2);
    ask(a, "PUT", "/hello", 1);
    ask(a, "GET", "/livez", 6);
    ask(a, "GET", "/guarded", 3);
    assert_eq!(get(a, "/guarded", &["Authorization: Bearer 0123456789abcdef0123456789abcdef"]).status, 200);
    ask(a, "GET", "/readyz", 2);
    ask(a, "GET", "/readyz/one", 3);
    ask(a, "HEAD", "/readyz/one", 1);
    ask(a, "GET", "/readyz/two", 2);
    let series = |listener: &str, route: &str, method: &str, code: u16| {
        format!(
            "doorbell_http_requests_total{{listener=\"{listener}\",route=\"{route}\",method=\"{method}\",code=\"{code}\"}}"
        )
    };
    let expected = [
        (series("a", "hello", "GET", 200), 7.0),
        (series("a", "hello", "HEAD", 200), 2.0),
        (series("b", "hello", "GET", 200), 3.0),
        (series("a", "old", "GET", 308), 4.0),
        (series("b", "old", "GET", 308), 1.0),
        (series("a", "few", "GET", 200), 2.0),
        (series("a", "few", "GET", 429), 3.0),
        (series("a", "guarded", "GET", 401), 3.0),
        ("doorbell_probes_total{endpoint=\"livez\",prober=\"other\",verdict=\"up\"}".to_owned(), 7.0),
        (series("a", "ready", "GET", 200), 3.0),
        (series("a", "ready", "HEAD", 200), 1.0),
        (series("a", "ready", "GET", 404), 2.0),
        (series("a", "", "GET", 404), 2.0),
        (series("a", "", "PUT", 405), 1.0),
        ("doorbell_redirects_total{route=\"old\",code=\"308\"}".to_owned(), 5.0),
        ("doorbell_http_requests_uncounted_total".to_owned(), 0.0),
        ("doorbell_requests_total{protocol=\"http1\"}".to_owned(), 43.0),
    ];
    expect(admin, &expected.each_ref().map(|(series, value)| (series.as_str(), *value)));
    for route in ["live", "guarded"] {
        assert_eq!(value(admin, &series("a", route, "GET", 200)), None, "probes are counted by prober");
    }
}

/// Equal requests that arrive together are counted, limited and replied to like any others.
fn pipelined_requests_are_counted_one_by_one(engine: &str) {
    let live = "[route.live]\nlistener = \"a\"\npath = \"/livez\"\nhealth = \"livez\"\n";
    let doorbell = Doorbell::start_with(engine, &config(live));
    let [a, admin] = [0, 3].map(|position| doorbell.addr_of(position));
    let mut stream = TcpStream::connect(a).unwrap();
    let mut ask = |path: &str, status: u16| {
        let batch = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").repeat(16);
        stream.write_all(batch.as_bytes()).unwrap();
        let replies = misbehave::read_replies(&mut stream, 16, false).unwrap();
        String::from_utf8(replies).unwrap().matches(&format!("HTTP/1.1 {status} ")).count()
    };
    // The head of a request is cached after some repetitions.
    for (path, status) in [("/hello", 200), ("/livez", 200), ("/nothing", 404)].repeat(10) {
        assert_eq!(ask(path, status), 16, "{path}");
    }
    assert_eq!(ask("/few", 200), 2, "each request counts towards a limit");
    let series = |route: &str, code: u16| {
        format!(
            "doorbell_http_requests_total{{listener=\"a\",route=\"{route}\",method=\"GET\",code=\"{code}\"}}"
        )
    };
    let expected = [
        (series("hello", 200), 160.0),
        (series("", 404), 160.0),
        (series("few", 200), 2.0),
        (series("few", 429), 14.0),
        ("doorbell_probes_total{endpoint=\"livez\",prober=\"other\",verdict=\"up\"}".to_owned(), 160.0),
        ("doorbell_requests_total{protocol=\"http1\"}".to_owned(), 496.0),
    ];
    expect(admin, &expected.each_ref().map(|(series, value)| (series.as_str(), *value)));
}

fn connections_are_counted_by_listener(engine: &str) {
    let doorbell = Doorbell::start_with(engine, &config(""));
    let [a, b, p, admin] = [0, 1, 2, 3].map(|position| doorbell.addr_of(position));
    for _ in 0..5 {
        assert_eq!(get(a, "/hello", &[]).status, 200);
    }
    let mut kept: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(b).unwrap()).collect();
    for stream in &mut kept {
        stream.write_all(b"GET /hello HTTP/1.1\r\nHost: b\r\n\r\n").unwrap();
        misbehave::read_replies(stream, 1, false).unwrap();
    }
    let hello = "GET /hello HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n";
    for _ in 0..3 {
        let behind = format!("PROXY TCP4 192.0.2.7 192.0.2.1 51000 80\r\n{hello}");
        assert_eq!(send(p, behind.as_bytes()).unwrap().status, 200);
    }
    assert_eq!(
        exchange(p, hello.as_bytes()).unwrap().bytes,
        b"",
        "a connection without a PROXY header gets no reply"
    );
    for status in [200, 200, 429, 429, 429] {
        assert_eq!(get(a, "/few", &[]).status, status);
    }
    expect(
        admin,
        &[
            ("doorbell_connections_accepted_total{listener=\"a\"}", 10.0),
            ("doorbell_connections_accepted_total{listener=\"b\"}", 2.0),
            ("doorbell_connections_accepted_total{listener=\"p\"}", 4.0),
            ("doorbell_connections_active{listener=\"a\"}", 0.0),
            ("doorbell_connections_active{listener=\"b\"}", 2.0),
            ("doorbell_connections_closed_total{listener=\"a\",reason=\"done\"}", 10.0),
            ("doorbell_connections_closed_total{listener=\"p\",reason=\"done\"}", 3.0),
            ("doorbell_connections_closed_total{listener=\"p\",reason=\"proxy_header\"}", 1.0),
            ("doorbell_connections_closed_total{listener=\"b\",reason=\"done\"}", 0.0),
            ("doorbell_proxy_protocol_total{listener=\"p\",version=\"v1\",result=\"taken\"}", 3.0),
            ("doorbell_proxy_protocol_total{listener=\"p\",version=\"none\",result=\"refused\"}", 1.0),
            ("doorbell_proxy_protocol_total{listener=\"a\",version=\"v1\",result=\"taken\"}", 0.0),
            ("doorbell_accept_errors_total{listener=\"a\",errno=\"EMFILE\"}", 0.0),
            ("doorbell_rate_limit_decisions_total{limiter=\"few\",decision=\"allow\"}", 2.0),
            ("doorbell_rate_limit_decisions_total{limiter=\"few\",decision=\"deny\"}", 3.0),
            ("doorbell_rate_limit_keys{limiter=\"few\"}", 1.0),
        ],
    );
    drop(kept);
    let cause = if engine == "epoll" { "forced" } else { "ok" };
    let driver = format!("doorbell_driver_info{{worker=\"1\",driver=\"{engine}\",cause=\"{cause}\"}}");
    expect(
        admin,
        &[
            (&driver, 1.0),
            ("doorbell_connections_active{listener=\"b\"}", 0.0),
            ("doorbell_connections_closed_total{listener=\"b\",reason=\"client_fin\"}", 2.0),
        ],
    );
}

/// Probes end with FIN and RST, before the first byte and after a reply, with and without deferred
/// accept.
fn connections_of_tcp_probes_are_counted_as_they_end(engine: &str) {
    let more = "[listener.now]\nbind = \"127.0.0.1:0\"\ntcp = { defer_accept = false }\n\
                [route.now]\nlistener = \"now\"\npath = \"/hello\"\nreply = { body = \"hello\\n\" }\n";
    let doorbell = Doorbell::start_with(engine, &config(more));
    let [a, now, admin] = [0, 3, 4].map(|position| doorbell.addr_of(position));
    let reset = |stream: TcpStream| set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    let ask = |stream: &mut TcpStream, more: &str| {
        stream.write_all(format!("GET /hello HTTP/1.1\r\nHost: a\r\n{more}\r\n").as_bytes()).unwrap();
        misbehave::read_replies(stream, 1, false).unwrap();
    };
    for server in [a, now] {
        for _ in 0..5 {
            drop(TcpStream::connect(server).unwrap());
        }
        for _ in 0..7 {
            reset(TcpStream::connect(server).unwrap());
        }
        for _ in 0..4 {
            let mut kept = TcpStream::connect(server).unwrap();
            ask(&mut kept, "");
            reset(kept);
        }
        for _ in 0..3 {
            let mut closed = TcpStream::connect(server).unwrap();
            ask(&mut closed, "Connection: close\r\n");
            reset(closed);
        }
    }
    let closed = |listener: &str, reason: &str| {
        format!("doorbell_connections_closed_total{{listener=\"{listener}\",reason=\"{reason}\"}}")
    };
    let accepted = |listener: &str| format!("doorbell_connections_accepted_total{{listener=\"{listener}\"}}");
    let expected = [
        (accepted("now"), 19.0),
        (closed("now", "empty"), 12.0),
        (closed("now", "reset_after_reply"), 4.0),
        (closed("now", "done"), 3.0),
        // With deferred accept a FIN counts as data, but a reset before any data is never reported.
        (accepted("a"), 12.0),
        (closed("a", "empty"), 5.0),
        (closed("a", "reset_after_reply"), 4.0),
        (closed("a", "done"), 3.0),
        (closed("a", "client_reset"), 0.0),
    ];
    // Allows time for connections that must not be counted.
    thread::sleep(Duration::from_millis(100));
    expect(admin, &expected.each_ref().map(|(series, value)| (series.as_str(), *value)));
}

fn a_reload_keeps_all_counts(engine: &str) {
    let scratch = Scratch::new();
    let file = scratch.write("doorbell.toml", &config(""));
    let doorbell = Doorbell::try_start(&["serve", "-c", &file, "--driver", engine]).unwrap();
    let [a, admin] = [0, 3].map(|position| doorbell.addr_of(position));
    let hash = || {
        let text = String::from_utf8(get(admin, "/metrics", &[]).body).unwrap();
        let line = text.lines().find(|line| line.starts_with("doorbell_config_info{")).unwrap();
        line.to_owned()
    };
    let before = hash();
    for more in ["[route.new]\nlistener = \"a\"\npath = \"/new\"\nreply = { body = \"new\\n\" }\n", ""] {
        assert_eq!(get(a, "/hello", &[]).status, 200);
        get(a, "/few", &[]);
        let generation = value(admin, "doorbell_config_generation").unwrap();
        fs::write(&file, config(more)).unwrap();
        doorbell.process.signal(Signal::HUP);
        expect(admin, &[("doorbell_config_generation", generation + 1.0)]);
        assert_eq!(hash() == before, more.is_empty(), "the hash covers the configuration in use");
    }
    assert_eq!(get(a, "/hello", &[]).status, 200);
    expect(
        admin,
        &[
            ("doorbell_connections_accepted_total{listener=\"a\"}", 5.0),
            ("doorbell_connections_closed_total{listener=\"a\",reason=\"done\"}", 5.0),
            ("doorbell_connections_active{listener=\"a\"}", 0.0),
            ("doorbell_http_requests_total{listener=\"a\",route=\"hello\",method=\"GET\",code=\"200\"}", 3.0),
            ("doorbell_rate_limit_decisions_total{limiter=\"few\",decision=\"allow\"}", 2.0),
            ("doorbell_rate_limit_decisions_total{limiter=\"few\",decision=\"deny\"}", 0.0),
            ("doorbell_config_last_reload_successful", 1.0),
        ],
    );
}

fn runs_of_checks_are_counted_by_result_and_timed_by_part(engine: &str) {
    let paces =
        "interval = \"1h\"\ndown_interval = \"1h\"\nfast_interval = \"1h\"\njitter = 0\nrise = 1\nfall = 1";
    let upstream = Doorbell::start_with(engine, &config(""));
    let config = format!(
        "version = 1\n[admin]\nbind = \"127.0.0.1:0\"\n[listener.web]\nbind = \"127.0.0.1:0\"\n\
         [check.up]\ntype = \"http\"\nurl = \"http://{}/hello\"\n{paces}\n\
         [check.wrong]\ntype = \"http\"\nurl = \"http://{}/missing\"\n{paces}\n\
         [check.gone]\ntype = \"tcp\"\naddress = \"127.0.0.1:{}\"\n{paces}\n\
         [check.told]\ntype = \"ttl\"\nttl = \"1h\"\nrise = 1\nfall = 1\n\
         [health.readyz]\nrequire = [\"up\", \"wrong\", \"gone\", \"told\"]\n\
         [route.readyz]\npath = \"/readyz\"\nhealth = \"readyz\"\n\
         [route.push]\npath = \"/push/{{check}}/{{result}}\"\npush = true\n",
        upstream.addr,
        upstream.addr,
        free_port(),
    );
    let doorbell = Doorbell::start_with(engine, &config);
    let admin = doorbell.addr_of(1);
    for result in ["pass", "pass", "fail", "pass", "warn"] {
        let push = format!(
            "POST /push/told/{result} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(send(doorbell.addr, push.as_bytes()).unwrap().status, 204);
    }
    expect(
        admin,
        &[
            ("doorbell_check_attempts_total{check=\"up\",result=\"success\",reason=\"none\"}", 1.0),
            ("doorbell_check_attempts_total{check=\"wrong\",result=\"failure\",reason=\"verdict\"}", 1.0),
            ("doorbell_check_attempts_total{check=\"gone\",result=\"failure\",reason=\"connect\"}", 1.0),
            ("doorbell_check_attempts_total{check=\"told\",result=\"success\",reason=\"none\"}", 3.0),
            ("doorbell_check_attempts_total{check=\"told\",result=\"failure\",reason=\"verdict\"}", 1.0),
            ("doorbell_check_attempts_total{check=\"told\",result=\"degraded\",reason=\"verdict\"}", 1.0),
            ("doorbell_check_transitions_total{check=\"told\",to=\"down\"}", 1.0),
            ("doorbell_check_transitions_total{check=\"told\",to=\"up\"}", 2.0),
            ("doorbell_check_transitions_total{check=\"told\",to=\"degraded\"}", 1.0),
            ("doorbell_check_transitions_total{check=\"gone\",to=\"down\"}", 1.0),
            ("doorbell_check_duration_seconds_count{check=\"up\",phase=\"resolve\"}", 1.0),
            ("doorbell_check_duration_seconds_count{check=\"up\",phase=\"connect\"}", 1.0),
            ("doorbell_check_duration_seconds_count{check=\"up\",phase=\"processing\"}", 1.0),
            ("doorbell_check_duration_seconds_count{check=\"up\",phase=\"transfer\"}", 1.0),
            ("doorbell_check_duration_seconds_count{check=\"gone\",phase=\"connect\"}", 1.0),
            ("doorbell_check_duration_seconds_bucket{le=\"+Inf\",check=\"up\",phase=\"connect\"}", 1.0),
            ("doorbell_check_schedule_lag_seconds_count", 3.0),
            ("doorbell_check_overruns_total{check=\"up\"}", 0.0),
            ("doorbell_egress_connects_total{result=\"connected\"}", 2.0),
            ("doorbell_egress_connects_total{result=\"refused\"}", 1.0),
        ],
    );
    assert_eq!(
        value(admin, "doorbell_check_duration_seconds_count{check=\"gone\",phase=\"transfer\"}"),
        None
    );
}

fn handshakes_and_certificates(engine: &str) {
    let scratch = Scratch::new();
    let (cert, key) = localhost().write(&scratch, "tls");
    let tls = format!("[tls.main]\ncert = {cert:?}\nkey = {key:?}\nhandshakes_per_ip = \"off\"\n");
    let server = format!(
        "version = 1\n[admin]\nbind = \"127.0.0.1:0\"\n{tls}[listener.web]\nbind = \"127.0.0.1:0\"\ntls = \"main\"\n{}",
        routes(&["web"])
    );
    let doorbell = Doorbell::start_with(engine, &server);
    let [web, admin] = [0, 1].map(|position| doorbell.addr_of(position));
    for _ in 0..3 {
        assert_eq!(Https::new(web).get("/hello").unwrap().status, 200);
    }
    let _told = exchange(web, b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    expect(
        admin,
        &[
            ("doorbell_tls_handshakes_total{listener=\"web\",version=\"1.3\",result=\"done\"}", 3.0),
            ("doorbell_tls_handshakes_total{listener=\"web\",version=\"1.2\",result=\"done\"}", 0.0),
            ("doorbell_tls_handshakes_total{listener=\"web\",version=\"none\",result=\"plain_http\"}", 1.0),
            ("doorbell_tls_handshakes_resumed_total{listener=\"web\"}", 0.0),
            ("doorbell_tls_handshakes_active{listener=\"web\"}", 0.0),
        ],
    );
    let ends = value(admin, "doorbell_tls_certificate_not_after_timestamp_seconds{tls=\"main\"}").unwrap();
    // A `tls` check reports the same certificate.
    let checker = format!(
        "version = 1\n[admin]\nbind = \"127.0.0.1:0\"\n[listener.web]\nbind = \"127.0.0.1:0\"\n\
         [check.web]\ntype = \"tls\"\naddress = \"{web}\"\ntls = {{ verify = false }}\ninterval = \"1h\"\n\
         [health.readyz]\nrequire = [\"web\"]\n[route.readyz]\npath = \"/readyz\"\nhealth = \"readyz\"\n"
    );
    let checker = Doorbell::start_with(engine, &checker);
    expect(
        checker.addr_of(1),
        &[
            ("doorbell_check_certificate_not_after_timestamp_seconds{check=\"web\"}", ends),
            ("doorbell_check_duration_seconds_count{check=\"web\",phase=\"tls\"}", 1.0),
        ],
    );
}

/// TCP gates and `/probe`, before and after a reload that changes the configuration of both.
fn ports_beside_the_listeners(engine: &str) {
    let [gate, fin, other, blackbox] = [(); 4].map(|()| free_addr());
    let ports = |cache: &str, more: &str| {
        config(&format!(
            "[check.db]\ntype = \"ttl\"\nttl = \"1h\"\nrise = 1\nfall = 1\n[health.readyz]\nrequire = [\"db\"]\n\
             [route.push]\nlistener = \"a\"\npath = \"/push/{{check}}/{{result}}\"\nmethods = [\"POST\"]\npush = true\n\
             [tcp_gate.lb]\nbind = \"{gate}\"\n[tcp_gate.fin]\nbind = \"{fin}\"\nwhen_down = \"accept-and-fin\"\n\
             [blackbox]\nbind = \"{blackbox}\"\ntargets = [\"127.0.0.1\"]\nmodules = [\"tcp_connect\"]\ncache = \"{cache}\"\n{more}"
        ))
    };
    let scratch = Scratch::new();
    let file = scratch.write("doorbell.toml", &ports("1h", ""));
    let doorbell = Doorbell::try_start(&["serve", "-c", &file, "--driver", engine]).unwrap();
    let admin = doorbell.addr_of(3);
    let push = |result: &str| {
        let request = format!("POST /push/db/{result} HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
        exchange(doorbell.addr, request.as_bytes()).unwrap();
    };
    let knock = |addr: SocketAddr| drop(TcpStream::connect(addr).unwrap());
    let probe = |query: &str| get(blackbox, &format!("/probe?{query}"), &[]).status;

    knock(fin);
    expect(
        admin,
        &[
            ("doorbell_tcp_gate_listeners{gate=\"lb\"}", 0.0),
            ("doorbell_tcp_gate_listeners{gate=\"fin\"}", 1.0),
            ("doorbell_tcp_gate_connections_total{gate=\"fin\",result=\"ended\"}", 1.0),
        ],
    );
    push("pass");
    expect(admin, &[("doorbell_tcp_gate_listeners{gate=\"lb\"}", 1.0)]);
    let crowd: Vec<_> = (0..70).map(|_| TcpStream::connect(gate).unwrap()).collect();
    let held = "doorbell_tcp_gate_connections_total{gate=\"lb\",result=\"held\"}";
    expect(admin, &[(held, 64.0), ("doorbell_tcp_gate_connections_total{gate=\"lb\",result=\"full\"}", 6.0)]);
    drop(crowd);

    let target = format!("target={}&module=tcp_connect", doorbell.addr);
    assert_eq!([probe(&target), probe(&target), probe("target=127.0.0.1:1&module=tcp_connect")], [200; 3]);
    assert_eq!([probe("target=192.0.2.1:1&module=tcp_connect"), probe("module=no")], [403, 400]);
    let probes = |module: &str, result: &str| {
        format!("doorbell_blackbox_probes_total{{module=\"{module}\",result=\"{result}\"}}")
    };
    let ours = ["success", "cached", "failure", "not_allowed"].map(|result| probes("tcp_connect", result));
    let expected: Vec<_> = ours.iter().map(|series| (series.as_str(), 1.0)).collect();
    expect(admin, &expected);
    expect(admin, &[(&probes("unknown", "invalid"), 1.0)]);

    fs::write(&file, ports("0s", &format!("[tcp_gate.other]\nbind = \"{other}\"\n"))).unwrap();
    doorbell.process.signal(Signal::HUP);
    expect(admin, &[("doorbell_tcp_gate_listeners{gate=\"other\"}", 1.0)]);
    assert_eq!([probe(&target), probe(&target)], [200; 2], "`cache = \"0s\"` must disable caching");
    knock(gate);
    expect(
        admin,
        &[(&ours[0], 3.0), (&ours[1], 1.0), (held, 65.0), ("doorbell_tcp_gate_listeners{gate=\"lb\"}", 1.0)],
    );
}
