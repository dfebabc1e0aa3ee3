//! Tests every prober with a server that records the bytes and the end of the connection.
#![expect(clippy::disallowed_methods, reason = "a server that waits before it resets")]

mod limits;
mod problems;

use super::{Probe, Prober, Report, Target, Verdict};
use clap::ValueEnum as _;
use doorbell_checks::options::ProxyHeader;
use doorbell_http::prober::Prober as Known;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";

/// The server's observations of one connection.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    request: String,
    /// `fin` or `reset`.
    end: &'static str,
}

/// Sends a response on each connection in turn, and keeps it open until the client closes.
fn server(answers: Vec<Vec<u8>>) -> (SocketAddr, JoinHandle<Vec<Seen>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let serve = move || answers.iter().map(|answer| serve(&listener.accept().unwrap().0, answer)).collect();
    (addr, std::thread::spawn(serve))
}

fn serve(mut stream: &TcpStream, answer: &[u8]) -> Seen {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => request.push(byte[0]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                return Seen { request: String::new(), end: "reset" };
            }
            _ => break,
        }
    }
    stream.write_all(answer).unwrap();
    let end = match stream.read(&mut [0; 64]) {
        Ok(0) => "fin",
        Ok(_) => "more",
        Err(error) if error.kind() == ErrorKind::ConnectionReset => "reset",
        Err(_) => "nothing",
    };
    Seen { request: String::from_utf8(request).unwrap(), end }
}

fn http(addr: SocketAddr, path: &str, prober: Prober) -> Probe {
    Probe::of(Target::parse(&format!("http://{addr}{path}")).unwrap(), prober)
}

fn asked(answer: &[u8], prober: Prober, change: impl Fn(&mut Probe)) -> (Report, Seen, SocketAddr) {
    let (addr, server) = server(vec![answer.to_vec()]);
    let mut probe = http(addr, "/readyz?a=1", prober);
    change(&mut probe);
    let report = probe.run();
    let mut seen = server.join().unwrap();
    (report, seen.remove(0), addr)
}

#[test]
fn each_prober_sends_its_bytes_and_closes_in_its_way() {
    let version = env!("CARGO_PKG_VERSION");
    for (prober, expected, end) in [
        (
            Prober::Kubelet,
            "GET /readyz?a=1 HTTP/1.1\r\nHost: ADDR\r\nUser-Agent: kube-probe/1.34\r\nAccept: */*\r\nConnection: close\r\n\r\n"
                .to_owned(),
            "fin",
        ),
        (Prober::Haproxy, "OPTIONS /readyz?a=1 HTTP/1.0\r\n\r\n".into(), "reset"),
        (
            Prober::Elb,
            "GET /readyz?a=1 HTTP/1.1\r\nHost: ADDR\r\nConnection: close\r\nUser-Agent: ELB-HealthChecker/2.0\r\nAccept-Encoding: gzip, compressed\r\n\r\n"
                .into(),
            "fin",
        ),
        (
            Prober::Gcp,
            "GET /readyz?a=1 HTTP/1.1\r\nHost: ADDR\r\nUser-Agent: GoogleHC/1.0\r\nConnection: Keep-alive\r\n\r\n".into(),
            "fin",
        ),
        (
            Prober::Azure,
            "GET /readyz?a=1 HTTP/1.1\r\nHost: ADDR\r\nUser-Agent: Load Balancer Agent\r\nConnection: Keep-Alive\r\n\r\n".into(),
            "fin",
        ),
        (Prober::Envoy, "GET /readyz?a=1 HTTP/1.1\r\nhost: ADDR\r\nuser-agent: Envoy/HC\r\n\r\n".into(), "fin"),
        (
            Prober::Consul,
            "GET /readyz?a=1 HTTP/1.1\r\nHost: ADDR\r\nUser-Agent: Consul Health Check\r\nAccept: text/plain, text/*, */*\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
                .into(),
            "fin",
        ),
        (Prober::Apache, "GET /readyz?a=1 HTTP/1.0\r\nHost: ADDR\r\n\r\n".into(), "fin"),
        (
            Prober::Blackbox,
            "GET /readyz?a=1 HTTP/1.1\r\nHost: ADDR\r\nUser-Agent: Blackbox Exporter/0.23.0\r\nConnection: close\r\n\r\n"
                .into(),
            "fin",
        ),
        (
            Prober::Keepalived,
            "GET /readyz?a=1 HTTP/1.0\r\nUser-Agent: KeepAliveClient\r\nHost: ADDR\r\n\r\n".into(),
            "fin",
        ),
        (
            Prober::Route53,
            "GET /readyz?a=1 HTTP/1.1\r\nHost: ADDR\r\nUser-Agent: Amazon-Route53-Health-Check-Service (ref 00000000-0000-0000-0000-000000000000; report http://amzn.to/1vsZADi)\r\n\r\n"
                .into(),
            "fin",
        ),
        (
            Prober::Doorbell,
            format!(
                "GET /readyz?a=1 HTTP/1.1\r\nHost: ADDR\r\nUser-Agent: doorbell-probe/{version}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
            ),
            "fin",
        ),
    ] {
        let (report, seen, addr) = asked(OK, prober, |_| {});
        assert_eq!(seen, Seen { request: expected.replace("ADDR", &addr.to_string()), end }, "{prober:?}");
        assert_eq!((report.verdict, report.status), (Verdict::Healthy, Some(200)), "{prober:?}: {report:?}");
        assert_eq!(report.sent, seen.request.into_bytes());
        assert_eq!(report.received, OK);
        // The prober statistics detect each prober.
        let fields = seen_fields(&report.sent);
        let known = fields.iter().find_map(|(name, value)| (name == "user-agent").then_some(value));
        let known = known.and_then(|agent| Known::of_user_agent(agent.as_bytes())).map(Known::as_str);
        let value = prober.to_possible_value().unwrap();
        let is_nameless = matches!(prober, Prober::Apache | Prober::Haproxy);
        assert_eq!(known, (!is_nameless).then_some(value.get_name()), "{prober:?}");
    }
}

fn seen_fields(request: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(request).into_owned();
    let fields = text.lines().filter_map(|line| line.split_once(": "));
    fields.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect()
}

#[test]
fn checks_and_tools_of_grpc_are_known_by_name() {
    let place = doorbell_checks::options::Address::parse("a:1").unwrap();
    let own = doorbell_checks::options::GrpcCheck::new(place).user_agent;
    for (agent, expected) in [
        (own, Some(Known::Doorbell)),
        (Prober::Doorbell.grpc_agent(), Some(Known::Doorbell)),
        (Prober::GrpcHealthProbe.grpc_agent(), Some(Known::GrpcHealthProbe)),
        (Prober::Kubelet.grpc_agent(), Some(Known::Kubelet)),
        (Prober::Envoy.grpc_agent(), Some(Known::Envoy)),
        (Prober::Consul.grpc_agent(), None),
    ] {
        assert_eq!(agent.and_then(|agent| Known::of_user_agent(agent.as_bytes())), expected, "{agent:?}");
    }
}

#[test]
fn hosts_and_fields() {
    for (prober, expected) in [
        (
            Prober::Haproxy,
            "OPTIONS /readyz?a=1 HTTP/1.1\r\nhost: app.example\r\nx-b: 1\r\naccept: text/plain\r\nconnection: close\r\n\r\n",
        ),
        (
            Prober::Kubelet,
            "GET /readyz?a=1 HTTP/1.1\r\nHost: app.example\r\nUser-Agent: kube-probe/1.34\r\nAccept: text/plain\r\nX-B: 1\r\nConnection: close\r\n\r\n",
        ),
        (
            Prober::Keepalived,
            "GET /readyz?a=1 HTTP/1.0\r\nUser-Agent: KeepAliveClient\r\nHost: app.example\r\nx-b: 1\r\naccept: text/plain\r\n\r\n",
        ),
        (
            Prober::Envoy,
            "GET /readyz?a=1 HTTP/1.1\r\nhost: app.example\r\nuser-agent: Envoy/HC\r\nx-b: 1\r\naccept: text/plain\r\n\r\n",
        ),
    ] {
        let change = |probe: &mut Probe| {
            probe.host = Some("app.example".into());
            probe.headers = vec![("x-b".into(), "1".into()), ("accept".into(), "text/plain".into())];
        };
        let (_, seen, _) = asked(OK, prober, change);
        assert_eq!(seen.request, expected, "{prober:?}");
    }
    let without = |probe: &mut Probe| probe.headers = vec![("Accept".into(), String::new())];
    let (_, seen, _) = asked(OK, Prober::Kubelet, without);
    assert!(!seen.request.contains("Accept"), "{}", seen.request);
}

#[test]
fn each_prober_accepts_its_own_statuses() {
    let reply = |status: u16| format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n").into_bytes();
    for (status, well) in [
        (200, "apache azure blackbox consul doorbell elb envoy gcp haproxy keepalived kubelet route53"),
        (204, "apache blackbox consul doorbell haproxy keepalived kubelet route53"),
        (302, "apache doorbell haproxy kubelet route53"),
        (429, "consul"),
        (503, ""),
    ] {
        for prober in Prober::value_variants().iter().copied().filter(|prober| prober.speaks_http()) {
            let value = prober.to_possible_value().unwrap();
            let name = value.get_name();
            let (report, _, _) = asked(&reply(status), prober, |_| {});
            let expected =
                if well.split(' ').any(|one| one == name) { Verdict::Healthy } else { Verdict::Unhealthy };
            assert_eq!(
                (report.verdict, report.status),
                (expected, Some(status)),
                "{name} {status}: {}",
                report.reason
            );
        }
    }
    let (report, _, _) = asked(&reply(503), Prober::Gcp, |probe| probe.statuses = Some(vec![500..=503]));
    assert_eq!(report.verdict, Verdict::Healthy);
}

#[test]
fn answers_of_all_kinds() {
    for (answer, expected) in [
        ("HTTP/1.1 200\r\n\r\n", Verdict::TimedOut),
        ("HTTP/1.1 204 No Content\r\n\r\n", Verdict::Healthy),
        ("HTTP/1.1 200 OK\nContent-Length: 2\n\nok", Verdict::Healthy),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nok", Verdict::Healthy),
        ("HTTP/1.1 503 No\nContent-Length: 0\r\n\n", Verdict::Unhealthy),
        ("HTTP/1.1 200 OK\nContent-Length: 2\n", Verdict::TimedOut),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            Verdict::Healthy,
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nok\n\r\n0\r\n\r\n", Verdict::Healthy),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nok\n\r\n", Verdict::TimedOut),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", Verdict::TimedOut),
        ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", Verdict::ProtocolFailed),
        ("HTTP/2 200\r\n\r\n", Verdict::ProtocolFailed),
        ("HTTP/1.1 20\r\n\r\n", Verdict::ProtocolFailed),
        ("SSH-2.0-x\r\n", Verdict::ProtocolFailed),
        ("ok\n", Verdict::ProtocolFailed),
        ("", Verdict::TimedOut),
    ] {
        let (report, _, _) =
            asked(answer.as_bytes(), Prober::Kubelet, |probe| probe.timeout = Duration::from_millis(200));
        assert_eq!(report.verdict, expected, "{answer:?}: {}", report.reason);
    }
    // The probe reads as much content as the kubelet, so an incomplete long body is healthy.
    let long = [b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n".as_slice(), &[b'x'; 20_000]].concat();
    let (report, _, _) = asked(&long, Prober::Kubelet, |_| {});
    assert_eq!(report.verdict, Verdict::Healthy, "{}", report.reason);
}

#[test]
fn the_kubelet_follows_its_own_host_only() {
    let redirect =
        |to: &str| format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes();
    let (addr, server) = server(vec![redirect("/other"), OK.to_vec()]);
    let report = http(addr, "/", Prober::Kubelet).run();
    let seen = server.join().unwrap();
    assert_eq!((report.verdict, report.status), (Verdict::Healthy, Some(200)));
    assert!(seen[1].request.starts_with("GET /other HTTP/1.1\r\n"), "{seen:?}");
    let latin1 = b"HTTP/1.1 302 Found\r\nLocation: /caf\xe9\r\nContent-Length: 0\r\n\r\n".to_vec();
    for (answer, path) in [(redirect("/caf\u{e9}"), "/caf%C3%A9"), (latin1, "/caf%E9")] {
        let (addr, server) = self::server(vec![answer, OK.to_vec()]);
        let report = http(addr, "/", Prober::Kubelet).run();
        assert_eq!(report.verdict, Verdict::Healthy, "{}", report.reason);
        let seen = server.join().unwrap();
        assert!(seen[1].request.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{seen:?}");
    }
    let (report, _, _) = asked(&redirect("http://warning.invalid/"), Prober::Kubelet, |_| {});
    assert_eq!((report.verdict, report.status), (Verdict::Healthy, Some(302)));
    assert!(report.reason.contains("Probe terminated redirects"), "{}", report.reason);
}

#[test]
fn redirects_are_followed_up_to_the_limit_of_the_prober() {
    let redirect = b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n".to_vec();
    for (prober, redirects_max) in [(Prober::Blackbox, 10), (Prober::Consul, 9), (Prober::Kubelet, 9)] {
        let (addr, server) = server(vec![redirect.clone(); redirects_max + 1]);
        let report = http(addr, "/", prober).run();
        assert_eq!(report.verdict, Verdict::Unhealthy, "{prober:?}");
        assert_eq!(report.reason, format!("more than {redirects_max} redirects"));
        assert_eq!(server.join().unwrap().len(), redirects_max + 1);
    }
}

#[test]
fn credentials_are_not_sent_to_another_port() {
    let redirect =
        |to: &str| format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes();
    for prober in [Prober::Kubelet, Prober::Consul, Prober::Blackbox] {
        let (other, without_credentials) = server(vec![OK.to_vec()]);
        let (first, home) = server(vec![redirect("../same"), redirect(&format!("http://{other}/next"))]);
        let mut probe = http(first, "/a/b", prober);
        probe.headers = [("Authorization", "Bearer x"), ("Cookie", "id=1"), ("X-Team", "a")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let report = probe.run();
        assert_eq!(report.verdict, Verdict::Healthy, "{}", report.reason);
        let mut all = home.join().unwrap();
        all.extend(without_credentials.join().unwrap());
        assert!(all[1].request.starts_with("GET /same HTTP/1.1\r\n"), "{all:?}");
        for (field, expected) in
            [("Authorization", [true, true, false]), ("Cookie", [true, true, false]), ("X-Team", [true; 3])]
        {
            let found: Vec<bool> = all.iter().map(|seen| seen.request.contains(field)).collect();
            assert_eq!(found, expected, "{field} {prober:?}");
        }
    }
    let (report, _, _) = asked(&redirect(""), Prober::Kubelet, |_| {});
    assert_eq!((report.verdict, report.status), (Verdict::Healthy, Some(302)), "{}", report.reason);
}

#[test]
fn azure_takes_a_reset_for_a_no() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let resetting = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut some = [0; 512];
            assert!(stream.read(&mut some).unwrap() > 0);
            stream.write_all(OK).unwrap();
            // A client that waits for the end has received the response before the reset.
            std::thread::sleep(Duration::from_millis(50));
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
    });
    assert_eq!(http(addr, "/", Prober::Elb).run().verdict, Verdict::Healthy);
    let report = http(addr, "/", Prober::Azure).run();
    resetting.join().unwrap();
    assert_eq!(report.verdict, Verdict::Unhealthy, "{}", report.reason);
}

#[test]
fn connections_alone() {
    let tcp = |addr, prober| Probe::of(Target::parse(&format!("tcp://{addr}")).unwrap(), prober);
    for (prober, end) in [(Prober::Kubelet, "fin"), (Prober::Haproxy, "reset")] {
        let (addr, server) = server(vec![Vec::new()]);
        assert_eq!(tcp(addr, prober).run().verdict, Verdict::Healthy);
        let seen = server.join().unwrap();
        assert_eq!(seen, [Seen { request: String::new(), end }], "{prober:?}");
    }
    let nobody = doorbell_testkit::peers::free_addr();
    let report = tcp(nobody, Prober::Doorbell).run();
    assert_eq!(report.verdict, Verdict::ConnectFailed);
    assert!(report.reason.ends_with("connection refused"), "{}", report.reason);
    let missing = Probe::of(Target::parse("unix:/nonexistent/socket").unwrap(), Prober::Doorbell).run();
    assert_eq!(missing.verdict, Verdict::ConnectFailed);
    let grpc = Probe::of(Target::parse(&format!("grpc://{nobody}/x")).unwrap(), Prober::Doorbell).run();
    assert_eq!(grpc.verdict, Verdict::ConnectFailed, "{}", grpc.reason);
    let udp = |addr| Probe::of(Target::parse(&format!("udp://{addr}")).unwrap(), Prober::Doorbell).run();
    let refused = udp(nobody);
    assert_eq!(refused.verdict, Verdict::ConnectFailed);
    assert!(refused.reason.ends_with("connection refused"), "{}", refused.reason);
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let sent = udp(peer.local_addr().unwrap());
    assert_eq!((sent.verdict, sent.reason.as_str()), (Verdict::Healthy, "no ICMP error"));
}

/// Starts a server that responds NOT_FOUND, and returns the head of the call.
fn grpc_server() -> (SocketAddr, JoinHandle<hyper::http::request::Parts>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let serve = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let seen = std::sync::Mutex::new(None);
            let answer = |request: hyper::Request<hyper::body::Incoming>| {
                *seen.lock().unwrap() = Some(request.into_parts().0);
                let reply = hyper::Response::builder()
                    .header("content-type", "application/grpc")
                    .header("grpc-status", "5")
                    .body(http_body_util::Empty::<bytes::Bytes>::new());
                std::future::ready(reply)
            };
            let server = hyper::server::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new());
            let io = hyper_util::rt::TokioIo::new(stream);
            // An error only means that the client closed the connection.
            let _left = server.serve_connection(io, hyper::service::service_fn(answer)).await;
            seen.into_inner().unwrap().unwrap()
        })
    };
    (addr, std::thread::spawn(serve))
}

#[test]
fn grpc_probes_send_the_user_agent_of_the_prober() {
    let own = concat!("doorbell-probe/", env!("CARGO_PKG_VERSION"));
    for (prober, agent) in [
        (Prober::Blackbox, "grpc-go/1.72.1"),
        (Prober::Consul, "grpc-go/1.72.1"),
        (Prober::Doorbell, own),
        (Prober::Elb, "ELB-HealthChecker/2.0"),
        (Prober::Envoy, "Envoy/HC"),
        (Prober::Gcp, "GoogleHC/1.0"),
        (Prober::GrpcHealthProbe, "grpc_health_probe grpc-go/1.72.1"),
        (Prober::Kubelet, "kube-probe/1.34 grpc-go/1.72.1"),
    ] {
        let (addr, server) = grpc_server();
        let report = Probe::of(Target::parse(&format!("grpc://{addr}/shop.Cart")).unwrap(), prober).run();
        assert_eq!(report.verdict, Verdict::Unhealthy, "{prober:?}: {}", report.reason);
        assert_eq!(report.reason, "the server does not know this service", "{prober:?}");
        let seen = server.join().unwrap();
        assert_eq!(seen.uri.path(), "/grpc.health.v1.Health/Check", "{prober:?}");
        assert_eq!(field(&seen, "user-agent"), agent, "{prober:?}");
        assert_eq!(seen.uri.authority().unwrap().as_str(), addr.to_string(), "{prober:?}");
        // The metrics contain all names and the status code.
        let metrics = report.exported(&Probe::of(Target::parse("grpc://a:1").unwrap(), prober));
        for line in ["probe_success 0", "probe_grpc_status_code 5", "probe_grpc_ssl 0", "probe_ip_protocol 4"]
        {
            assert!(metrics.lines().any(|one| one == line), "{prober:?} {line}: {metrics}");
        }
        assert!(
            !report.phases.connect.is_zero() && !report.phases.processing.is_zero(),
            "{:?}",
            report.phases
        );
    }
}

fn field<'a>(seen: &'a hyper::http::request::Parts, name: &str) -> &'a str {
    seen.headers.get(name).map_or("", |value| value.to_str().unwrap())
}

#[test]
fn by_grpc_fields_are_metadata_and_the_host_is_the_authority() {
    let target = |addr| Target::parse(&format!("grpc://{addr}")).unwrap();
    let (addr, server) = grpc_server();
    let fields = [("X-B", "1"), ("x-b", "2"), ("User-Agent", "me")];
    let headers = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let host = Some("orders.example:443".to_owned());
    let report = Probe { headers, host, ..Probe::of(target(addr), Prober::Kubelet) }.run();
    assert_eq!(report.verdict, Verdict::Unhealthy, "{}", report.reason);
    let seen = server.join().unwrap();
    assert_eq!(seen.uri.authority().unwrap().as_str(), "orders.example:443");
    assert_eq!(seen.headers.get_all("x-b").iter().collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(seen.headers.get_all("user-agent").iter().collect::<Vec<_>>(), ["me"]);
    let (addr, server) = grpc_server();
    let headers = vec![("user-agent".to_owned(), String::new())];
    Probe { headers, ..Probe::of(target(addr), Prober::Kubelet) }.run();
    assert!(!server.join().unwrap().headers.contains_key("user-agent"));
}

#[test]
fn haproxy_says_how_it_sees_the_server() {
    let node = rustix::system::uname();
    let node = node.nodename().to_str().unwrap();
    for (host, expected) in [
        (None, "OPTIONS /readyz?a=1 HTTP/1.0\r\nx-haproxy-server-state: STATE\r\n\r\n"),
        (
            Some("web"),
            "OPTIONS /readyz?a=1 HTTP/1.1\r\nhost: web\r\nx-haproxy-server-state: STATE\r\nconnection: close\r\n\r\n",
        ),
    ] {
        let change = |probe: &mut Probe| {
            probe.send_state = true;
            probe.host = host.map(str::to_owned);
        };
        let (_, seen, addr) = asked(OK, Prober::Haproxy, change);
        let (ip, port) = (addr.ip(), addr.port());
        let state = format!(
            "UP; address={ip}; port={port}; name=doorbell/probe; node={node}; weight=1/1; scur=0/0; qcur=0"
        );
        assert_eq!(seen.request, expected.replace("STATE", &state));
    }
}

#[test]
fn a_proxy_header_comes_first() {
    let (report, seen, addr) = asked(OK, Prober::Haproxy, |probe| probe.proxy_header = Some(ProxyHeader::V1));
    assert_eq!((report.verdict, seen.end), (Verdict::Healthy, "reset"), "{}", report.reason);
    let (header, request) = seen.request.split_once("\r\n").unwrap();
    let port = header.strip_prefix("PROXY TCP4 127.0.0.1 127.0.0.1 ").unwrap();
    let port = port.strip_suffix(&format!(" {}", addr.port())).unwrap();
    assert!(port.parse::<u16>().is_ok_and(|port| port != 0), "{header}");
    assert_eq!(request, "OPTIONS /readyz?a=1 HTTP/1.0\r\n\r\n");
    assert_eq!(report.sent, seen.request.as_bytes());
    // A plain TCP probe also sends the header.
    let (addr, server) = server(vec![Vec::new()]);
    let tcp = Target::parse(&format!("tcp://{addr}")).unwrap();
    let report = Probe { proxy_header: Some(ProxyHeader::Local), ..Probe::of(tcp, Prober::Doorbell) }.run();
    assert_eq!((report.verdict, report.sent.len()), (Verdict::Healthy, 16), "{}", report.reason);
    assert!(server.join().unwrap()[0].request.starts_with("\r\n\r\n"));
}

#[test]
fn a_reason_has_no_control_characters() {
    for (scheme, answer) in [
        ("redis", "-ERR \x1b]0;title\x07\x1b[31mred\r\n"),
        ("smtp", "554 \x1b[31mred\r\n"),
        ("http", "HTTP/1.1 503 \x1b[31mred\r\nContent-Length: 0\r\n\r\n"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = format!("{scheme}://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            let _ = stream.read(&mut [0; 64]);
        });
        let report = Probe::of(Target::parse(&target).unwrap(), Prober::Doorbell).run();
        server.join().unwrap();
        assert_ne!(report.verdict, Verdict::Healthy, "{scheme}");
        assert!(!report.reason.contains(char::is_control), "{scheme}: {:?}", report.reason);
        assert!(report.reason.contains("[31mred") || scheme == "http", "{scheme}: {:?}", report.reason);
    }
}

#[test]
fn redis_says_pong() {
    for (answer, expected) in [
        ("+PONG\r\n", Verdict::Healthy),
        ("-NOAUTH Authentication required.\r\n", Verdict::Unhealthy),
        ("-LOADING Redis is loading\r\n", Verdict::Unhealthy),
        ("HTTP/1.1 400 Bad Request\r\n\r\n", Verdict::ProtocolFailed),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 14];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            request
        });
        let report = Probe::of(
            Target::Redis(doorbell_checks::options::HostPort::parse(&addr.to_string(), None).unwrap()),
            Prober::Doorbell,
        )
        .run();
        assert_eq!(&server.join().unwrap(), b"*1\r\n$4\r\nPING\r\n");
        assert_eq!(report.verdict, expected, "{answer:?}: {}", report.reason);
    }
}

/// `Prober::Doorbell` probes targets of other protocols, such as databases, by one run of a check.
#[test]
fn databases_are_probed() {
    let starting = b"E\0\0\0\x30C57P03\0Mthe database system is starting up\0\0".as_slice();
    for (answer, expected, reason) in [
        (b"R\0\0\0\x0c\0\0\0\x05salt".as_slice(), Verdict::Healthy, "answered"),
        (starting, Verdict::Unhealthy, "the database system is starting up (57P03)"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _len = stream.read(&mut [0; 64]).unwrap();
            stream.write_all(answer).unwrap();
        });
        let report = Probe::of(Target::parse(&format!("postgres://{addr}")).unwrap(), Prober::Doorbell).run();
        server.join().unwrap();
        assert_eq!((report.verdict, report.reason.as_str()), (expected, reason));
        let gone = Probe::of(Target::parse(&format!("mysql://{addr}")).unwrap(), Prober::Doorbell).run();
        assert_eq!(gone.verdict, Verdict::ConnectFailed, "{}", gone.reason);
    }
}

#[test]
fn targets() {
    for (text, expected) in [
        ("http://a/x", Some("http://a/x")),
        ("https://a:8443", Some("https://a:8443/")),
        ("tcp://[::1]:5", Some("tcp://[::1]:5")),
        ("redis://a", Some("redis://a:6379")),
        ("grpc://a:5/shop.Cart", Some("grpc://a:5/shop.Cart")),
        ("grpc://a:5", Some("grpc://a:5")),
        ("grpcs://a:5/shop.Cart", Some("grpcs://a:5/shop.Cart")),
        ("grpcs://a", None),
        ("postgres://db", Some("postgres://db")),
        ("mysql://[::1]:3307", Some("mysql://[::1]:3307")),
        ("smtp://mx", Some("smtp://mx")),
        ("wss://a/socket", Some("wss://a/socket")),
        ("postgres://u:p@db", None),
        ("ws://", None),
        ("unix:/run/x.sock", Some("unix:/run/x.sock")),
        ("unix:", None),
        ("udp://a:5", Some("udp://a:5")),
        ("icmp://a.test", Some("icmp://a.test")),
        ("icmp://[2001:db8::1]", Some("icmp://2001:db8::1")),
        ("udp://a", None),
        ("icmp://a:5", None),
        ("tcp://a", None),
        ("a:5", None),
        ("", None),
    ] {
        assert_eq!(Target::parse(text).map(|target| target.to_string()).as_deref(), expected, "{text:?}");
    }
}
