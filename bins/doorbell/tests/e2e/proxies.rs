//! The client's address behind proxies: PROXY headers and forwarding fields, accepted from trusted
//! networks only.
//!
//! Does not know about: the detailed rules of the headers; programs that send them (see
//! `haproxy.rs`).

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;

use doorbell_testkit::peers::{PATIENCE, Reply, connect_from, wait_until};

use crate::frames::{self, Peer};
use crate::https::Https;
use crate::pki::localhost;
use crate::plain::{request, send_from};
use crate::support::{Doorbell, LIMIT, Scratch, on_both_engines, program, run};

on_both_engines! {
    a_proxy_header_gives_the_client
    a_proxy_header_is_required
    a_forwarding_field_gives_the_client
    only_requests_with_scheme_http_are_redirected_to_https
    curl_sends_a_proxy_header
    a_network_of_ipv6_is_one_client_to_every_limit
    a_proxy_header_before_tls_gives_the_client_of_the_handshake
}

const TRUSTED: Ipv4Addr = Ipv4Addr::LOCALHOST;
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const V2_LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// A server that allows each client one request, identified by address, and logs it. Only
/// [`TRUSTED`] is trusted.
fn serve(engine: &str, lines: &str) -> Doorbell {
    Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[log]\naccess = \"all\"\n[runtime]\nworkers = 2\n[limit.once]\nkey = \"ip\"\nrate = \"1/h\"\nburst = 1\n\
             [listener.web]\nbind = \"127.0.0.1:0\"\ntrusted_proxies = [\"127.0.0.1/32\", \"10.0.0.0/8\"]\n{lines}\n\
             [route.once]\npath = \"/{{*path}}\"\nlimit = \"once\"\nreply = {{ body = \"hello\\n\" }}\n"
        ),
    )
}

fn v2(client: Ipv4Addr) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x13".to_vec();
    header.extend(client.octets());
    header.extend([192, 0, 2, 1, 0xc7, 0x38, 0, 80]);
    // An unknown TLV: type 0xE0, four bytes.
    header.extend(b"\xe0\0\x04abcd");
    header
}

fn v1(client: Ipv4Addr) -> Vec<u8> {
    format!("PROXY TCP4 {client} 192.0.2.1 51000 80\r\n").into_bytes()
}

/// The status, or `None` if the connection was closed without a reply.
fn ask(doorbell: &Doorbell, source: Ipv4Addr, header: &[u8], path: &str) -> Option<u16> {
    let bytes = [header, &request(path, &[])].concat();
    send_from(source, doorbell.addr, &bytes).ok().map(|reply| reply.status)
}

/// Polls until there is a result.
fn poll<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    wait_until(LIMIT, || {
        found = ask();
        found.is_some()
    });
    found.expect("a result within the time limit")
}

fn assert_logged(doorbell: &Doorbell, client: &str, path: &str) {
    let (start, request) = (format!("{client} - "), format!("\"GET {path} HTTP/1.1\" "));
    let is_there =
        || doorbell.process.log().lines().any(|line| line.starts_with(&start) && line.contains(&request));
    assert!(wait_until(LIMIT, is_there).is_some(), "{client} {path}: {}", doorbell.process.log());
}

fn a_proxy_header_gives_the_client(engine: &str) {
    let doorbell = serve(engine, "proxy_protocol = \"accept\"");
    for (row, header) in [v1 as fn(Ipv4Addr) -> Vec<u8>, v2].into_iter().enumerate() {
        let row = u8::try_from(row).unwrap();
        let (one, two) = (Ipv4Addr::new(203, 0, 113, row), Ipv4Addr::new(198, 51, 100, row));
        let path = format!("/{row}");
        assert_eq!(ask(&doorbell, TRUSTED, &header(one), &path), Some(200));
        assert_eq!(ask(&doorbell, TRUSTED, &header(one), "/again"), Some(429), "{one} was here");
        assert_eq!(ask(&doorbell, TRUSTED, &header(two), "/other"), Some(200));
        assert_logged(&doorbell, &one.to_string(), &path);
        assert_logged(&doorbell, &two.to_string(), "/other");
    }
    // Requests of the proxy itself: without a header, and with a LOCAL header.
    assert_eq!(ask(&doorbell, TRUSTED, &[], "/plain"), Some(200));
    assert_eq!(ask(&doorbell, TRUSTED, V2_LOCAL, "/local"), Some(429));
    assert_logged(&doorbell, "127.0.0.1", "/local");
    // A header from an untrusted address is refused by name. Without a header the peer is the
    // client.
    for header in [v1(Ipv4Addr::new(203, 0, 113, 99)), v2(Ipv4Addr::new(203, 0, 113, 99))] {
        assert_eq!(ask(&doorbell, STRANGER, &header, "/forged"), Some(400));
    }
    let cause = "error=\"PROXY header from a peer that is not a trusted proxy\"";
    let is_logged = || doorbell.process.log().matches(cause).count() == 2;
    assert!(wait_until(LIMIT, is_logged).is_some(), "{}", doorbell.process.log());
    assert_eq!(ask(&doorbell, STRANGER, &[], "/stranger"), Some(200));
    assert_logged(&doorbell, "127.0.0.2", "/stranger");
    assert!(!doorbell.process.log().contains("203.0.113.99"));
}

fn a_proxy_header_is_required(engine: &str) {
    let doorbell = serve(engine, "proxy_protocol = \"require\"");
    let client = Ipv4Addr::new(203, 0, 113, 7);
    for header in [v1(client), v2(client)] {
        assert_eq!(ask(&doorbell, STRANGER, &header, "/stranger"), None);
    }
    assert_eq!(ask(&doorbell, TRUSTED, &[], "/bare"), None);
    assert_eq!(ask(&doorbell, TRUSTED, b"PROXY TCP5 nonsense\r\n", "/nonsense"), None);
    assert_eq!(ask(&doorbell, TRUSTED, V2_LOCAL, "/local"), Some(200));
    assert_eq!(ask(&doorbell, TRUSTED, &v2(client), "/client"), Some(200));
    assert_logged(&doorbell, "203.0.113.7", "/client");
}

fn a_forwarding_field_gives_the_client(engine: &str) {
    let fields = [
        ("x-forwarded-for", "X-Forwarded-For: ", "203.0.113.7, 10.1.2.3", "Forwarded: for=198.51.100.9"),
        (
            "forwarded",
            "Forwarded: ",
            "for=\"[2001:db8::7]:4711\";proto=https, for=10.1.2.3",
            "X-Forwarded-For: 198.51.100.9",
        ),
    ];
    for (which, name, value, other) in fields {
        let doorbell = serve(engine, &format!("forwarded = {which:?}"));
        let client = if which == "forwarded" { "2001:db8::7" } else { "203.0.113.7" };
        let ask = |source: Ipv4Addr, path: &str, fields: &[&str]| {
            send_from(source, doorbell.addr, &request(path, fields)).unwrap().status
        };
        let field = format!("{name}{value}");
        // The client's own values are on the left, and not trusted.
        let lied = format!("{name}{}192.0.2.66, {value}", if which == "forwarded" { "for=" } else { "" });
        assert_eq!(ask(TRUSTED, "/one", &[&field]), 200);
        assert_eq!(ask(TRUSTED, "/two", &[&lied]), 429, "the same client");
        assert_logged(&doorbell, client, "/one");
        assert_eq!(
            ask(TRUSTED, "/other", &[other]),
            200,
            "the other field is ignored: the client is the proxy itself"
        );
        assert_logged(&doorbell, "127.0.0.1", "/other");
        assert_eq!(ask(STRANGER, "/stranger", &[&field]), 200, "an untrusted peer has its own quota");
        assert_logged(&doorbell, "127.0.0.2", "/stranger");
        let free = field.replace("203.0.113.7", "203.0.113.8").replace("db8::7", "db8::8");
        assert_eq!(ask(STRANGER, "/again", &[&free]), 429, "an untrusted peer cannot change its address");
        assert!(!doorbell.process.log().contains("192.0.2.66 - "));
    }
}

/// Sends one request on a connection that stays open. Returns `None` if the connection is closed
/// without a reply.
fn ask_and_stay(doorbell: &Doorbell, header: &[u8], path: &str) -> Option<(TcpStream, u16)> {
    let mut stream = connect_from(TRUSTED, doorbell.addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(header).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    loop {
        if let Some(reply) = Reply::parse(&bytes, false) {
            return Some((stream, reply.status));
        }
        let mut part = [0; 1024];
        match stream.read(&mut part) {
            Ok(0) => return None,
            Ok(len) => bytes.extend(&part[..len]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Covers connections of HTTP/1 and HTTP/2, handshakes, and requests.
fn a_network_of_ipv6_is_one_client_to_every_limit(engine: &str) {
    let scratch = Scratch::new();
    let (cert, key) = localhost().write(&scratch, "tls");
    for (line, is_one) in [("", true), ("client_ipv6_prefix = 128", false)] {
        let listener =
            "bind = \"127.0.0.1:0\"\ntrusted_proxies = [\"127.0.0.1/32\"]\nproxy_protocol = \"require\"";
        let doorbell = Doorbell::start_with(
            engine,
            &format!(
                "version = 1\n[runtime]\nworkers = 2\n{line}\n[limit.once]\nrate = \"1/h\"\nburst = 1\n\
                 [tls.a]\ncert = {cert:?}\nkey = {key:?}\nhandshakes_per_ip = \"1/h\"\n\
                 [listener.plain]\n{listener}\nhttp2 = true\n[connections]\nper_ip_max = 1\n\
                 [listener.tls]\n{listener}\ntls = \"a\"\n\
                 [route.once]\nlistener = \"plain\"\npath = \"/once\"\nlimit = \"once\"\nreply = {{}}\n\
                 [route.any]\nlistener = [\"plain\", \"tls\"]\npath = \"/hello\"\nreply = {{}}\n"
            ),
        );
        let https = Https::new(doorbell.addr_of(1));
        let by = |host: u16| format!("PROXY TCP6 2001:db8::{host} 2001:db8::ffff 51000 80\r\n").into_bytes();
        let kept = |host| ask_and_stay(&doorbell, &by(host), "/hello");
        let first = kept(1).unwrap();
        assert_eq!(first.1, 200);
        let second = kept(2);
        let status = second.as_ref().map(|(_, status)| *status);
        assert_eq!(status == Some(200), !is_one, "{engine} {line}: {status:?}");
        drop((first, second));
        let over_http2 = |host| {
            let mut peer = Peer::connect_behind(&by(host), doorbell.addr, &[])?;
            peer.write(&frames::get(1, "/hello"))?;
            let (good, _) = peer.reply(1)?;
            assert!(good);
            Ok::<_, std::io::Error>(peer)
        };
        // A permit is released once the end of the connection has been processed.
        let first = poll(|| over_http2(1).ok());
        assert_eq!(over_http2(2).is_ok(), !is_one, "{engine} {line}: HTTP/2");
        drop(first);
        let once = |host: u16| ask(&doorbell, TRUSTED, &by(host), "/once");
        assert_eq!(poll(|| once(1).filter(|status| *status != 503)), 200);
        let second = poll(|| once(2).filter(|status| *status != 503));
        assert_eq!(second, if is_one { 429 } else { 200 }, "{engine} {line}: requests");
        // The connection of the last request may still count.
        assert_eq!(poll(|| https.get_behind(&by(1), "/hello").ok()).status, 200);
        assert_eq!(https.get_behind(&by(2), "/hello").is_ok(), !is_one, "{engine} {line}: handshakes");
    }
}

/// Behind a load balancer that terminates TLS, requests arrive in plain text with the original
/// scheme in a field.
fn only_requests_with_scheme_http_are_redirected_to_https(engine: &str) {
    let doorbell = Doorbell::start_with(
        engine,
        "version = 1\n[listener.web]\nbind = \"127.0.0.1:0\"\nforwarded = \"x-forwarded-for\"\n\
         trusted_proxies = \"127.0.0.1/32\"\n[route.https]\nhosts = [\"localhost\"]\nredirect = {}\n\
         [route.away]\nhosts = [\"localhost\"]\npath = \"/old\"\nredirect = { path = \"/new\" }\n",
    );
    for (source, path, fields, expected) in [
        (TRUSTED, "/a?b", &["X-Forwarded-Proto: http"][..], Some("https://localhost/a?b")),
        (TRUSTED, "/a?b", &["X-Forwarded-Proto: https"], None),
        (TRUSTED, "/a?b", &["X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: https"], None),
        (TRUSTED, "/a", &["X-Forwarded-Proto: http, https"], None),
        (TRUSTED, "/a", &[], Some("https://localhost/a")),
        (STRANGER, "/a", &["X-Forwarded-Proto: https"], Some("https://localhost/a")),
        (TRUSTED, "/old", &["X-Forwarded-Proto: https"], Some("https://localhost/new")),
    ] {
        let reply = send_from(source, doorbell.addr, &request(path, fields)).unwrap();
        assert_eq!(reply.field("location"), expected, "{source} {path} {fields:?}");
        assert_eq!(reply.status, if expected.is_some() { 308 } else { 404 }, "{source} {path} {fields:?}");
    }
}

fn curl_sends_a_proxy_header(engine: &str) {
    let Some(curl) = program("curl") else { return };
    for demand in ["accept", "require"] {
        let doorbell = serve(engine, &format!("proxy_protocol = {demand:?}"));
        let ask = |args: &[&str]| status(&curl, &doorbell, args);
        assert_eq!(ask(&["--haproxy-protocol"]), "200");
        assert_eq!(ask(&["--haproxy-protocol"]), "429", "curl must send its own address");
        assert_eq!(ask(&[]), if demand == "accept" { "429" } else { "000" });
    }
}

fn status(curl: &Path, doorbell: &Doorbell, args: &[&str]) -> String {
    let url = doorbell.url("/curl");
    let fixed = ["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url];
    String::from_utf8(run(curl, &[&fixed[..], args].concat()).stdout).unwrap()
}

/// Handshakes are counted by the address in the header, which is also logged.
fn a_proxy_header_before_tls_gives_the_client_of_the_handshake(engine: &str) {
    let scratch = Scratch::new();
    let (cert, key) = localhost().write(&scratch, "tls");
    let doorbell = Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[runtime]\nworkers = 2\n[log]\naccess = \"all\"\n[tls.web]\ncert = {cert:?}\nkey = {key:?}\nhandshakes_per_ip = \"3/h\"\n\
             [listener.web]\nbind = \"127.0.0.1:0\"\ntls = \"web\"\nproxy_protocol = \"require\"\ntrusted_proxies = \"127.0.0.1\"\n\
             [route.hello]\npath = \"/{{name}}\"\nreply = {{ body = \"{{client}}\" }}\n"
        ),
    );
    let https = Https::new(doorbell.addr);
    for (row, header) in [v1 as fn(Ipv4Addr) -> Vec<u8>, v2].into_iter().enumerate() {
        let row = u8::try_from(row).unwrap();
        for client in [Ipv4Addr::new(203, 0, 113, row), Ipv4Addr::new(198, 51, 100, row)] {
            let ask = |n: usize| https.get_behind(&header(client), &format!("/{n}"));
            for n in 0..3 {
                let reply = ask(n)
                    .unwrap_or_else(|error| panic!("{client} {n}: {error}\n{}", doorbell.process.log()));
                assert_eq!((reply.status, reply.body), (200, client.to_string().into_bytes()));
                assert_logged(&doorbell, &client.to_string(), &format!("/{n}"));
            }
            assert!(ask(3).is_err(), "{client} has used its three handshakes");
        }
    }
    assert!(https.get("/bare").is_err(), "a connection without a header must be refused");
    let log = doorbell.process.log();
    assert!(!log.contains("127.0.0.1 - ") && !log.contains("GET /3"), "{log}");
}
