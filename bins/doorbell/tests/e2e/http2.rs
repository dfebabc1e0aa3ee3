//! HTTP/2 and HTTP/1.1 on one port: with prior knowledge, with the preface split anywhere, by ALPN,
//! and with identical replies.

use std::io::Write as _;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use doorbell_testkit::peers::{Reply, Shape, exchange, wait_until};

use crate::frames::{DATA, GOAWAY, HEADERS, PING, PREFACE, Peer, SETTINGS, WINDOW_UPDATE, ask, frame, get};
use crate::https::Https;
use crate::pki::{ca, localhost};
use crate::support::{Doorbell, LIMIT, Scratch, on_both_engines, program, stdout};

on_both_engines! {
    curl_with_prior_knowledge
    curl_by_alpn
    the_preface_cut_anywhere
    both_protocols_on_one_port
    a_wrong_preface_is_not_answered_in_http1
    off_unless_asked_for
    many_requests_on_one_connection
    a_connection_that_says_nothing_is_closed
    an_old_connection_gets_goaway
    no_more_connections_than_allowed
    no_more_connections_of_one_address_than_allowed
    a_drain_ends_connections
    slow_clients_are_served
    guards_hold_and_the_log_is_written
}

const ROUTES: &str = "\n[route.health]\npath = [\"/livez\", \"/readyz\"]\nhealth = \"readyz\"\n\
    [route.hello]\npath = \"/hello\"\nreply = { body = \"hello\\n\" }\n\
    [route.large]\npath = \"/large\"\nreply = { body = \"LARGE\" }\n\
    [route.old]\npath = \"/old/{*rest}\"\nredirect = { host = \"new.test\" }\n";

/// A configuration whose listener has HTTP/2. `listener` extends the listener, and `rest` the file.
pub(crate) fn config(listener: &str, rest: &str) -> String {
    format!(
        "version = 1\n[lifecycle]\ndrain_delay = \"0s\"\n[listener.web]\nbind = \"127.0.0.1:0\"\nhttp2 = true\n\
         {listener}\n{rest}{ROUTES}"
    )
}

fn start(engine: &str) -> Doorbell {
    Doorbell::start_with(engine, &config("", "").replace("LARGE", &"x".repeat(50_000)))
}

fn curl_with_prior_knowledge(engine: &str) {
    let Some(curl) = program("curl") else { return };
    let doorbell = start(engine);
    let ask = |path: &str, args: &[&str]| {
        let url = doorbell.url(path);
        let fixed = ["-sS", "--http2-prior-knowledge", "-w", "|%{http_code} %{http_version}", &url];
        stdout(&curl, &[&fixed[..], args].concat())
    };
    assert_eq!(ask("/livez", &[]), "up\n|200 2");
    assert_eq!(ask("/hello", &[]), "hello\n|200 2");
    assert_eq!(ask("/nowhere", &[]), "not found\n|404 2");
    assert_eq!(ask("/hello", &["-X", "DELETE"]), "|405 2");
    assert_eq!(ask("/old/a?b=c", &["-w", "|%{redirect_url}"]), "|https://new.test/old/a?b=c");
    assert_eq!(ask("/large", &[]), format!("{}|200 2", "x".repeat(50_000)));
    let head = ask("/hello", &["-I"]);
    assert!(head.starts_with("HTTP/2 200") && head.contains("content-length: 6"), "{head}");
    let (body, url) = ("x".repeat(70_000), doorbell.url("/hello"));
    let scratch = Scratch::new();
    let file = format!("@{}", scratch.write("body", &body));
    let args = ["-sS", "--http2-prior-knowledge", "-w", "|%{http_code}", "--data-binary", &file, &url];
    assert_eq!(stdout(&curl, &args), "|413");
    // The same paths get the same replies by HTTP/1.1.
    let plain = stdout(&curl, &["-sS", "-w", "|%{http_code} %{http_version}", &doorbell.url("/hello")]);
    assert_eq!(plain, "hello\n|200 1.1");
}

fn curl_by_alpn(engine: &str) {
    let Some(curl) = program("curl") else { return };
    let scratch = Scratch::new();
    let ca_file = scratch.write("ca.crt", &ca().pem());
    let (cert, key) = localhost().write(&scratch, "tls");
    let tls = format!("[tls.a]\ncert = {cert:?}\nkey = {key:?}\nhandshakes_per_ip = \"off\"\n");
    let doorbell = Doorbell::start_with(engine, &config("tls = \"a\"", &tls));
    let url = format!("https://localhost:{}/hello", doorbell.addr.port());
    for (args, version) in [
        (&["--http2"][..], "2"),
        (&["--http1.1"], "1.1"),
        (&["--no-alpn"], "1.1"),
        (&["--http2", "--tls-max", "1.2"], "2"),
    ] {
        let fixed = ["-sS", "--cacert", &ca_file, "-w", "|%{http_version}", &url];
        assert_eq!(stdout(&curl, &[&fixed[..], args].concat()), format!("hello\n|{version}"), "{args:?}");
    }
    // A connection without ALPN stays on the worker.
    assert_eq!(Https::new(doorbell.addr).get("/hello").unwrap().status, 200);
    let totals = doorbell.totals();
    assert_eq!(totals["http2_requests"], 2, "{totals}");
}

fn the_preface_cut_anywhere(engine: &str) {
    let doorbell = start(engine);
    let hello = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &get(1, "/hello")].concat();
    for cut in 1..hello.len() {
        let stream = TcpStream::connect(doorbell.addr).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut peer = Peer(stream);
        peer.write(&hello[..cut]).unwrap();
        // The server must receive the first piece alone.
        thread::sleep(Duration::from_millis(10));
        peer.write(&hello[cut..]).unwrap();
        let reply = peer.reply(1).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        assert_eq!(reply, (true, b"hello\n".to_vec()), "cut at {cut}");
    }
    // The same bytes, sent one at a time.
    let stream = TcpStream::connect(doorbell.addr).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut peer = Peer(stream);
    for byte in &hello {
        peer.write(&[*byte]).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(peer.reply(1).unwrap(), (true, b"hello\n".to_vec()));
}

fn both_protocols_on_one_port(engine: &str) {
    let doorbell = start(engine);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(ask(doorbell.addr, "/livez").unwrap(), (true, b"up\n".to_vec()));
                    let request = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
                    let reply = exchange(doorbell.addr, request).unwrap();
                    assert_eq!(Reply::parse(&reply.bytes, false).unwrap().status, 200);
                }
            });
        }
    });
    let totals = doorbell.totals();
    assert_eq!((&totals["connections"], &totals["http2_requests"]), (&400.into(), &200.into()), "{totals}");
}

/// A damaged preface gets no HTTP/1 reply. An invalid HTTP/1 request gets one.
fn a_wrong_preface_is_not_answered_in_http1(engine: &str) {
    let doorbell = start(engine);
    let said = |bytes: &[u8]| exchange(doorbell.addr, bytes).unwrap().bytes;
    let wrong: [&[u8]; 4] = [
        b"INVALID CONNECTION PREFACE\r\n\r\n",
        b"PRI * HTTP/2.1\r\n\r\nSM\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nMS\r\n\r\n",
        b"PRI * HTTP/2.0\r\nHost: a\r\n\r\n",
    ];
    for bytes in wrong {
        let said = said(bytes);
        assert!(!said.starts_with(b"HTTP"), "{:?}: {:?}", bytes.escape_ascii(), said.escape_ascii());
    }
    for (bytes, status) in [(&b"GET /a b HTTP/1.1\r\n\r\n"[..], "400"), (b"GET / HTTP/2.0\r\n\r\n", "505")] {
        assert!(
            said(bytes).starts_with(format!("HTTP/1.1 {status} ").as_bytes()),
            "{:?}",
            bytes.escape_ascii()
        );
    }
    assert!(doorbell.totals()["refused"].as_str().unwrap().contains("http2_protocol=4"));
}

/// Without `http2` the preface is a request of an unknown HTTP version.
fn off_unless_asked_for(engine: &str) {
    let doorbell = Doorbell::start(engine);
    let mut stream = TcpStream::connect(doorbell.addr).unwrap();
    stream.write_all(PREFACE).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 505 "), "{text}");
    let threads = std::fs::read_dir(format!("/proc/{}/task", doorbell.process.pid())).unwrap();
    let names = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("comm")).unwrap());
    assert!(!names.into_iter().any(|name| name.trim() == "http2"), "the HTTP/2 runtime must not exist");
}

fn many_requests_on_one_connection(engine: &str) {
    let rest = "[http2]\nmax_requests = 300\n";
    let doorbell = Doorbell::start_with(engine, &config("", rest));
    let mut peer = Peer::connect(doorbell.addr, &[]).unwrap();
    for count in 0..299 {
        peer.write(&get(count * 2 + 1, "/hello")).unwrap();
        assert_eq!(peer.reply(count * 2 + 1).unwrap(), (true, b"hello\n".to_vec()), "{count}");
    }
    // The last request gets its reply, and the client gets GOAWAY.
    peer.write(&get(599, "/hello")).unwrap();
    let mut kinds = Vec::new();
    while let Ok(frame) = peer.read() {
        kinds.push(frame.kind);
        if frame.kind == PING {
            peer.write(&self::frame(PING, 1, 0, &frame.content)).unwrap();
        }
    }
    assert!([GOAWAY, HEADERS, DATA].iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    assert!(doorbell.totals()["refused"].as_str().unwrap().contains("http2_used_up=1"));
}

fn a_connection_that_says_nothing_is_closed(engine: &str) {
    let listener = "timeouts = { header = \"500ms\" }\nkeep_alive = { idle = \"1s\" }";
    let doorbell = Doorbell::start_with(engine, &config(listener, ""));
    let mut silent = Peer(TcpStream::connect(doorbell.addr).unwrap());
    silent.write(&PREFACE[..20]).unwrap();
    assert_eq!(silent.ending(LIMIT), (true, false));
    let mut idle = Peer::connect(doorbell.addr, &[]).unwrap();
    idle.write(&get(1, "/hello")).unwrap();
    idle.reply(1).unwrap();
    assert_eq!(idle.ending(LIMIT), (true, true));
    let totals = doorbell.totals();
    assert_eq!(totals["refused"], "http2_idle=1 http2_silent=1", "{totals}");
}

fn no_more_connections_than_allowed(engine: &str) {
    let doorbell = Doorbell::start_with(engine, &config("", "[http2]\nmax_connections = 3\n"));
    let open = |expected: usize| {
        let peers: Vec<_> = (0..expected)
            .map(|_| {
                let mut peer = Peer::connect(doorbell.addr, &[]).unwrap();
                peer.write(&get(1, "/hello")).unwrap();
                peer.reply(1).map(|_| peer)
            })
            .collect();
        peers
    };
    let peers = open(3);
    assert!(peers.iter().all(Result::is_ok));
    // A connection over the limit is refused with a GOAWAY.
    let mut peer = Peer::connect(doorbell.addr, &[]).unwrap();
    let frames = [peer.read().unwrap(), peer.read().unwrap()];
    assert_eq!(frames.map(|frame| frame.kind), [SETTINGS, GOAWAY]);
    assert_eq!(peer.ending(LIMIT), (true, false));
    drop(peers);
    // The permits are released once the HTTP/2 runtime has processed the end of the connections.
    wait_until(LIMIT, || open(1).iter().all(Result::is_ok)).unwrap();
    assert!(Shape::Curl.probe(doorbell.addr, "/livez").is_ok());
}

fn an_old_connection_gets_goaway(engine: &str) {
    let doorbell = Doorbell::start_with(engine, &config("keep_alive = { max_age = \"1s\" }", ""));
    let mut peer = Peer::connect(doorbell.addr, &[]).unwrap();
    peer.write(&get(1, "/hello")).unwrap();
    assert!(peer.reply(1).unwrap().0);
    assert_eq!(peer.ending(LIMIT), (true, true));
    assert_eq!(doorbell.totals()["refused"], "http2_aged=1");
}

fn no_more_connections_of_one_address_than_allowed(engine: &str) {
    let doorbell = Doorbell::start_with(engine, &config("", "[connections]\nper_ip_max = 2\n"));
    let mut peers = Vec::new();
    for _ in 0..2 {
        let mut peer = Peer::connect(doorbell.addr, &[]).unwrap();
        peer.write(&get(1, "/hello")).unwrap();
        assert!(peer.reply(1).unwrap().0);
        peers.push(peer);
    }
    let mut third = Peer::connect(doorbell.addr, &[]).unwrap();
    assert_eq!(third.ending(LIMIT), (true, true), "a third connection must get GOAWAY");
    drop(peers);
    wait_until(LIMIT, || ask(doorbell.addr, "/hello").is_ok()).unwrap();
    assert!(doorbell.totals()["refused"].as_str().unwrap().contains("http2_per_ip="));
}

fn a_drain_ends_connections(engine: &str) {
    let doorbell = start(engine);
    let mut peer = Peer::connect(doorbell.addr, &[]).unwrap();
    peer.write(&get(1, "/hello")).unwrap();
    peer.reply(1).unwrap();
    let watcher = thread::spawn(move || peer.ending(LIMIT));
    let totals = doorbell.totals();
    assert_eq!(watcher.join().unwrap(), (true, true), "{totals}");
    assert_eq!(totals["refused"], "", "{totals}");
}

fn guards_hold_and_the_log_is_written(engine: &str) {
    let scratch = Scratch::new();
    let log = scratch.path("access.log");
    let rest = format!(
        "[log]\naccess = \"all\"\naccess_file = {log:?}\n[limit.few]\nrate = \"2/h\"\n\
         [route.few]\npath = \"/few\"\nlimit = \"few\"\nreply = {{ body = \"few\\n\" }}\n"
    );
    let doorbell = Doorbell::start_with(engine, &config("", &rest));
    let good: Vec<bool> = (0..4).map(|_| ask(doorbell.addr, "/few").unwrap().0).collect();
    assert_eq!(good, [true, true, false, false]);
    let totals = doorbell.totals();
    assert!(totals["refused"].as_str().unwrap().contains("rate_limited=2"), "{totals}");
    let lines = std::fs::read_to_string(log).unwrap();
    assert_eq!(
        lines.lines().filter(|line| line.contains("127.0.0.1") && line.contains("/few HTTP/2.0")).count(),
        4,
        "{lines}"
    );
}

/// A client with a small or late window gets the whole reply, even if it takes several times the
/// window timeout.
fn slow_clients_are_served(engine: &str) {
    let doorbell = Doorbell::start_with(engine, &config("", "").replace("LARGE", &"x".repeat(900)));
    let window = |len: u32| [&[0, 4][..], &len.to_be_bytes()].concat();
    for (first, grants, pause) in [(100, 8, 500), (0, 9, 400), (1, 9, 450)] {
        let mut peer = Peer::connect(doorbell.addr, &window(first)).unwrap();
        peer.write(&get(1, "/large")).unwrap();
        let mut writer = Peer(peer.0.try_clone().unwrap());
        let grant = thread::spawn(move || {
            for _ in 0..grants {
                thread::sleep(Duration::from_millis(pause));
                writer.write(&frame(WINDOW_UPDATE, 0, 1, &100_u32.to_be_bytes())).unwrap();
            }
        });
        let (good, content) = peer.reply(1).unwrap();
        assert!(good && content == b"x".repeat(900), "{first} and {grants} times 100: {}", content.len());
        grant.join().unwrap();
    }
    let totals = doorbell.totals();
    assert_eq!(totals["refused"], "", "{totals}");
}
