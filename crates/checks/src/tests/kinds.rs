//! Each kind of check against correct peers and against faulty peers.

#![expect(clippy::disallowed_methods, reason = "slow peers sleep, and the duration of runs is measured")]

use super::*;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant as Clock;

fn found(kind: impl Into<CheckKind>) -> (Outcome, String) {
    let finding = block_on(runner(kind).run());
    (finding.outcome, finding.reason)
}

pub(super) fn is(kind: impl Into<CheckKind>, outcome: Outcome, reason: &str) {
    is_within(TIMEOUT, kind, outcome, reason);
}

pub(super) fn is_within(timeout: Duration, kind: impl Into<CheckKind>, outcome: Outcome, reason: &str) {
    let kind = kind.into();
    let found = block_on(runner_within(timeout, kind.clone()).run());
    assert!(
        found.outcome == outcome && found.reason.contains(reason),
        "{kind:?}\n{found:?}, expected {outcome:?} {reason:?}"
    );
}

fn redis(addr: SocketAddr) -> RedisCheck {
    RedisCheck::new(address(addr))
}

fn tcp(addr: SocketAddr) -> TcpCheck {
    TcpCheck::new(address(addr))
}

fn tls(addr: SocketAddr) -> TlsCheck {
    TlsCheck { tls: unverified(), ..TlsCheck::new(address(addr)) }
}

pub(super) fn secret(text: &str) -> Option<Secret> {
    Some(Secret::new(text.to_owned()))
}

#[test]
fn content_of_the_maximum_length_is_whole() {
    let cut = " in its first 5 bytes";
    for (length, suffix) in [("Content-Length: 5", ""), ("Content-Length: 6", cut)] {
        let addr = says(format!("HTTP/1.1 200 OK\r\n{length}\r\n\r\nabcdef"));
        let mut check = HttpCheck::new(url(format!("http://{addr}/")));
        check.body_bytes = 5;
        check.expect.body_contains = Some("z".to_owned());
        is(check, Outcome::Failure, &format!("the content lacks \"z\"{suffix}"));
    }
}

/// Interim responses without end are a failure, also if they arrive together with a response.
#[test]
fn interim_responses_are_limited() {
    let some = |count: usize| {
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
        says(format!("{}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", interim.repeat(count / 2)))
    };
    let endless = || {
        server(|stream| {
            let mut stream = heard(stream).try_clone().unwrap();
            std::thread::spawn(move || while stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").is_ok() {});
        })
    };
    let http = |addr: SocketAddr| HttpCheck::new(url(format!("http://{addr}/")));
    let reason = "more than 8 interim responses (1xx)";
    is(http(some(8)), Outcome::Success, "");
    is(http(some(10)), Outcome::Failure, reason);
    is(http(endless()), Outcome::Failure, reason);
    #[cfg(feature = "websocket")]
    {
        let websocket = options::WebsocketCheck::new(url(format!("http://{}/", endless())));
        is(websocket, Outcome::Failure, reason);
    }
}

/// A server that sends these bytes after the first input and keeps the connection open.
pub(super) fn says(answer: impl Into<Vec<u8>>) -> SocketAddr {
    let answer = answer.into();
    server(move |stream| heard(stream).write_all(&answer).unwrap())
}

/// A server that sends these bytes and resets the connection.
pub(super) fn resets(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            if !answer.is_empty() {
                stream.write_all(answer).unwrap();
            }
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
    });
    addr
}

/// A server that sends bytes without end.
pub(super) fn floods(piece: &'static [u8]) -> SocketAddr {
    server(move |stream| {
        let mut stream = stream.try_clone().unwrap();
        std::thread::spawn(move || while stream.write_all(piece).is_ok() {});
    })
}

/// A server that sends one byte at a time.
pub(super) fn trickles(byte: u8) -> SocketAddr {
    server(move |stream| {
        let mut stream = stream.try_clone().unwrap();
        std::thread::spawn(move || {
            while stream.write_all(&[byte]).is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
    })
}

fn https(addr: SocketAddr) -> HttpCheck {
    HttpCheck { tls: unverified(), ..HttpCheck::new(url(format!("https://{addr}/"))) }
}

pub(super) fn silent() -> SocketAddr {
    server(|_| {})
}

#[test]
fn redis_replies_become_reasons() {
    let with_password = |addr| RedisCheck { password: secret("x"), ..redis(addr) };
    let key = Some("m".to_owned());
    is(redis(says("+PONG\r\n")), Outcome::Success, "");
    let both = with_password(says("+OK\r\n+PONG\r\n:0\r\n"));
    is(RedisCheck { maintenance_key: key.clone(), ..both }, Outcome::Success, "");
    let maintained = RedisCheck { maintenance_key: key, ..redis(says("+PONG\r\n:1\r\n")) };
    is(maintained, Outcome::Maintenance, "key \"m\" exists");
    is(with_password(says("-WRONGPASS no\r\n")), Outcome::Failure, "AUTH: WRONGPASS no");
    let unknown = says("-ERR unknown command 'AUTH', with args beginning with: 'p w 0123456789abc\r\n");
    let long = RedisCheck { password: secret("p w 0123456789abcdef"), ..redis(unknown) };
    is(long, Outcome::Failure, "with args beginning with: '***");
    is(redis(says("-NOAUTH Authentication required.\r\n")), Outcome::Failure, "NOAUTH Authentication");
    is(redis(says("-LOADING wait\r\n")), Outcome::Failure, "LOADING wait");
    is(redis(says("+PANG\r\n")), Outcome::Failure, "the answer is \"PANG\", expected \"PONG\"");
    is(redis(says("HTTP/1.1 400 Bad\r\n")), Outcome::Failure, "the response is not a Redis reply");
    is(redis(floods(b"x")), Outcome::Failure, "more than 512 bytes without a line end");
    is(redis(floods(b"+\r\n")), Outcome::Failure, "the answer is nothing");
    is_within(SOON, redis(trickles(b'+')), Outcome::Timeout, "no response within 1s");
    is_within(SOON, redis(silent()), Outcome::Timeout, "no response within 1s");
    is(redis(resets(b"")), Outcome::Failure, "");
    is(redis(resets(b"+PO")), Outcome::Failure, "");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    let addr = server(move |stream| {
        let mut bytes = [0; 1024];
        let len = stream.read(&mut bytes).unwrap();
        heard.lock().unwrap().extend_from_slice(&bytes[..len]);
        stream.write_all(b"+OK\r\n+PONG\r\n").unwrap();
    });
    let user = RedisCheck { username: Some("u".to_owned()), password: secret("p w"), ..redis(addr) };
    is(user, Outcome::Success, "");
    let sent = String::from_utf8(asked.lock().unwrap().clone()).unwrap();
    assert_eq!(sent, "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$3\r\np w\r\n*1\r\n$4\r\nPING\r\n");
}

#[test]
fn unix_sockets_are_addresses() {
    let dir = std::env::temp_dir().join(format!("doorbell-unix-check-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("a.sock");
    let socket = Address::Unix(path.clone());
    is(TcpCheck::new(socket.clone()), Outcome::Failure, "no such file or directory");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut bytes = [0; 1024];
            let len = stream.read(&mut bytes).unwrap_or(0);
            if bytes[..len].starts_with(b"GET /x HTTP/1.1\r\n") && contains_host(&bytes[..len]) {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
            } else {
                stream.write_all(b"+PONG\r\n").unwrap();
            }
        }
    });
    is(RedisCheck::new(socket.clone()), Outcome::Success, "");
    let payload = Payload { send: b"a".to_vec(), ..contains("PONG") };
    is(TcpCheck { payload, ..TcpCheck::new(socket.clone()) }, Outcome::Success, "");
    let expect = HttpExpect { body_contains: Some("ok".to_owned()), ..HttpExpect::default() };
    let http = HttpCheck { address: Some(socket), expect, ..HttpCheck::new(url("http://app.internal/x")) };
    is(http, Outcome::Success, "");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn responses_are_matched_with_an_expression() {
    let tcp = |addr: SocketAddr, matches: &str, part: &str| {
        let matches = Some(Pattern::new(matches).unwrap());
        TcpCheck { payload: Payload { send: b"x".to_vec(), matches, ..contains(part) }, ..tcp(addr) }
    };
    let mail = says("220 mail ESMTP ready\r\n");
    is(tcp(mail, r"^220 \S+ ESMTP", ""), Outcome::Success, "");
    is(tcp(mail, "^220", "ready"), Outcome::Success, "");
    is_within(SOON, tcp(mail, "^250", ""), Outcome::Timeout, "no response within 1s");
    is_within(SOON, tcp(mail, "^220", "never"), Outcome::Timeout, "no response within 1s");
    is(tcp(resets(b"554 no\r\n"), "^220", ""), Outcome::Failure, "");
    // A response in pieces, and one that is longer than the search limit.
    is(tcp(trickles(b'+'), "[+]{5}", ""), Outcome::Success, "");
    let reason = "64 KiB received without anything that matches \"yes\"";
    is(tcp(floods(b"no"), "yes", ""), Outcome::Failure, reason);
    is(tcp(floods(b"no"), "no", "yes"), Outcome::Failure, "64 KiB received without \"yes\"");
    let ended = server(|stream| {
        heard(stream).write_all(b"421 busy\r\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
    });
    is(
        tcp(ended, "^220", ""),
        Outcome::Failure,
        "the connection ended without anything that matches \"^220\", but with \"421 busy",
    );
}

fn contains_host(request: &[u8]) -> bool {
    expectations::contains(request, b"host: app.internal\r\n")
}

/// A TLS server whose certificate expires in this many days.
fn tls_server(days_left: i64) -> SocketAddr {
    slow_tls_server(days_left, Duration::ZERO)
}

/// A server as from [`tls_server`], with a delay before the handshake.
fn slow_tls_server(days_left: i64, thinks: Duration) -> SocketAddr {
    let config = tls_config(days_left);
    tls_server_with(thinks, move || Arc::clone(&config))
}

pub(super) fn tls_config(days_left: i64) -> Arc<ServerConfig> {
    tls_config_with(days_left).0
}

/// The configuration of a server, and its certificate as PEM.
pub(super) fn tls_config_with(days_left: i64) -> (Arc<ServerConfig>, String) {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let now = i64::try_from(certificate::now().as_secs()).unwrap();
    let at = |days: i64| {
        x509_parser::time::ASN1Time::from_timestamp(now + days * 86_400 + 60).unwrap().to_datetime()
    };
    (params.not_before, params.not_after) = (at(-30), at(days_left));
    let key = KeyPair::generate().unwrap();
    let cert = params.self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
    (Arc::new(config), cert.pem())
}

/// A server with a configuration for each connection.
pub(super) fn tls_server_with(
    thinks: Duration,
    config: impl Fn() -> Arc<ServerConfig> + Send + Clone + 'static,
) -> SocketAddr {
    server(move |stream| {
        let (config, mut stream) = (config(), stream.try_clone().unwrap());
        std::thread::spawn(move || {
            std::thread::sleep(thinks);
            let mut session = rustls::ServerConnection::new(config).unwrap();
            while session.complete_io(&mut stream).is_ok_and(|(read, written)| read + written > 0) {
                let mut some = [0; 1024];
                let len = session.reader().read(&mut some).unwrap_or(0);
                if len > 0 {
                    session.writer().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
                }
            }
        });
    })
}

/// A resumed session would have the certificate of the first handshake.
#[test]
fn each_run_gets_the_certificate_of_now() {
    let (good, mut expired) = (tls_config(30), (*tls_config(-1)).clone());
    expired.session_storage = Arc::clone(&good.session_storage);
    let turns = Arc::new(Mutex::new(vec![Arc::new(expired), good]));
    let addr = tls_server_with(Duration::ZERO, move || turns.lock().unwrap().pop().unwrap());
    let rule = CertificateRule { expires_after: Some(Duration::ZERO), ..CertificateRule::default() };
    let runner = runner_within(TIMEOUT, HttpCheck { certificate: rule, ..https(addr) });
    let outcomes = [(); 2].map(|()| block_on(runner.run()).outcome);
    assert_eq!(outcomes, [Outcome::Success, Outcome::Failure]);
}

#[test]
fn certificates_are_looked_at() {
    let day = Duration::from_secs(86_400);
    let certificate = CertificateRule { expires_after: Some(day * 2), expires_within: Some(day * 14) };
    let timeout = Duration::from_millis(900);
    for (days, outcome, reason) in [
        (30, Outcome::Success, ""),
        (13, Outcome::Degraded, "the certificate expires in 13d, below the minimum of 14d"),
        (1, Outcome::Failure, "the certificate expires in 1d, below the minimum of 2d"),
        (-1, Outcome::Failure, "the certificate has expired"),
    ] {
        let addr = tls_server(days);
        let shaken = runner_within(timeout, TlsCheck { certificate, ..tls(addr) });
        let RunResult { finding, certificate: ends, .. } = block_on(shaken.run_as(Progress::begin()));
        assert!(
            finding.outcome == outcome && finding.reason.starts_with(reason.split(',').next().unwrap()),
            "{days}: {finding:?}"
        );
        assert_eq!(finding.reason.is_empty(), reason.is_empty());
        assert!(ends.is_some());
        let https = runner_within(timeout, HttpCheck { certificate, ..https(addr) });
        assert_eq!(block_on(https.run()).outcome, outcome, "{days}");
    }
    is(tls(says("HTTP/1.1 400 Bad Request\r\n\r\n")), Outcome::Failure, "TLS: ");
    is(tls(floods(b"\x16\x03\x03\xff\xff")), Outcome::Failure, "TLS: ");
    is_within(SOON, tls(silent()), Outcome::Timeout, "no TLS handshake within 1s");
    is(tls(trickles(0x16)), Outcome::Failure, "TLS: ");
    is(tls(resets(b"")), Outcome::Failure, "");
}

/// With TLS 1.3, the refusal of a client certificate follows the handshake.
#[test]
fn a_refused_client_certificate_is_a_failure() {
    let dir = std::env::temp_dir().join(format!("doorbell-client-certificates-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let issue = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
        (cert, key)
    };
    let identity = |name: &str| {
        let (cert, key) = issue(name);
        let [cert_file, key_file] = ["cert", "key"].map(|part| dir.join(format!("{name}.{part}")));
        std::fs::write(&cert_file, cert.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        (cert, ClientTls { cert: Some(cert_file), key: Some(key_file), ..unverified() })
    };
    let ((known, good), (_, bad)) = (identity("good.test"), identity("bad.test"));
    let (cert, key) = issue("localhost");
    let server = |version, tickets| {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(known.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let config =
            ServerConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
        let config = config.with_client_cert_verifier(verifier.build().unwrap());
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut config = config.with_single_cert(vec![cert.der().clone()], key).unwrap();
        config.send_tls13_tickets = tickets;
        let config = Arc::new(config);
        tls_server_with(Duration::ZERO, move || Arc::clone(&config))
    };
    let check = |addr, tls: &ClientTls| TlsCheck { tls: tls.clone(), ..TlsCheck::new(address(addr)) };
    for (version, tickets) in
        [(&rustls::version::TLS12, 0), (&rustls::version::TLS13, 0), (&rustls::version::TLS13, 2)]
    {
        let addr = server(version, tickets);
        is(check(addr, &bad), Outcome::Failure, "TLS: received fatal alert: ");
        // The server keeps the connection open and sends nothing but tickets.
        is(check(addr, &good), Outcome::Success, "");
    }
    // A ticket ends the wait.
    let long = runner_within(TIMEOUT * 15, check(server(&rustls::version::TLS13, 2), &good));
    assert!(block_on(long.run()).latency < TIMEOUT * 7);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn the_worst_verdict_counts() {
    let addr = slow_tls_server(13, Duration::from_millis(30));
    let (ms, day) = (Duration::from_millis, Duration::from_secs(86_400));
    let within = CertificateRule { expires_within: Some(day * 14), ..CertificateRule::default() };
    let latency = |fails, degraded| LatencyRule { fails_above: fails, degraded_above: degraded };
    let late = TlsCheck { latency: latency(Some(ms(10)), None), certificate: within, ..tls(addr) };
    is(late.clone(), Outcome::Failure, "above the maximum of 10ms");
    let slow = TlsCheck { latency: latency(Some(ms(3000)), Some(ms(10))), ..late };
    is(slow, Outcome::Degraded, "the certificate expires in 13d");
    let after = CertificateRule { expires_after: Some(day * 20), ..CertificateRule::default() };
    let status = || HttpDegraded { status: statuses("200"), ..HttpDegraded::default() };
    let http = |certificate, degraded| HttpCheck { certificate, degraded, ..https(addr) };
    is(http(after, status()), Outcome::Failure, "the certificate expires in 13d");
    let slow = HttpDegraded { max_latency: Some(ms(10)), ..HttpDegraded::default() };
    is(http(after, slow), Outcome::Failure, "the certificate expires in 13d");
    // At equal severity the fault of the response comes first.
    is(http(within, status()), Outcome::Degraded, "status 200");
}

fn dns(addr: SocketAddr) -> DnsCheck {
    DnsCheck::new(HostPort::parse(&addr.to_string(), None).unwrap(), "a.example".to_owned())
}

/// A name server that replies to each query with the datagrams that `answer` returns. `answer` gets
/// the number of the query and its content.
fn names(answer: impl Fn(usize, &[u8]) -> Vec<Vec<u8>> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        for number in 0.. {
            let Ok((len, from)) = socket.recv_from(&mut bytes) else { return };
            for answer in answer(number, &bytes[..len]) {
                let _gone = socket.send_to(&answer, from);
            }
        }
    });
    addr
}

/// The answer to `question` with these flags and addresses.
fn answered(question: &[u8], flags: [u8; 2], addrs: &[[u8; 4]]) -> Vec<u8> {
    let name_end = 12 + question[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
    let mut answer = question[..name_end + 4].to_vec();
    answer[2..4].copy_from_slice(&flags);
    answer[6..12].copy_from_slice(&[0, u8::try_from(addrs.len()).unwrap(), 0, 0, 0, 0]);
    for addr in addrs {
        answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend_from_slice(addr);
    }
    answer
}

const ANSWER: [u8; 2] = [0x81, 0x80];

#[test]
fn name_servers_are_asked() {
    let with = |addr, wanted: &str| DnsCheck { contains: vec![wanted.to_owned()], ..dns(addr) };
    let gone = |addr| DnsCheck { code: DnsCode::NxDomain, min_answers: 0, ..dns(addr) };
    let two = |_: usize, question: &[u8]| vec![answered(question, ANSWER, &[[10, 0, 0, 1], [10, 0, 0, 2]])];
    is(dns(names(two)), Outcome::Success, "");
    is(with(names(two), "10.0.0.2"), Outcome::Success, "");
    let reason = "10.0.0.3 is not among the answers: 10.0.0.1..";
    is(with(names(two), "10.0.0.3"), Outcome::Failure, reason);
    let three = DnsCheck { min_answers: 3, ..dns(names(two)) };
    is(three, Outcome::Failure, "2 answers, expected at least 3");
    let sixth = DnsCheck { record: DnsRecord::Aaaa, ..dns(names(two)) };
    is(sixth, Outcome::Failure, "0 answers, expected at least 1");
    is(gone(names(two)), Outcome::Failure, "the answer is NOERROR, expected NXDOMAIN");
    let none = |_: usize, question: &[u8]| vec![answered(question, [0x81, 0x83], &[])];
    is(dns(names(none)), Outcome::Failure, "the answer is NXDOMAIN, expected NOERROR");
    is(gone(names(none)), Outcome::Success, "");
    // The first question is lost and sent again.
    let lossy =
        move |number: usize, question: &[u8]| if number == 0 { vec![] } else { two(number, question) };
    is(dns(names(lossy)), Outcome::Success, "");
    // Unrelated answers come first; a few are ignored.
    let guessed = move |_: usize, question: &[u8]| {
        let mut other = answered(question, ANSWER, &[[6, 6, 6, 6]]);
        other[0] ^= 1;
        let mut all = vec![b"".to_vec(), vec![0; 3], other];
        all.extend(two(0, question));
        all
    };
    is(with(names(guessed), "10.0.0.1"), Outcome::Success, "");
    let flood = |_: usize, _: &[u8]| vec![vec![0xff; 600]; 200];
    let (outcome, reason) = found(dns(names(flood)));
    assert!([Outcome::Failure, Outcome::Timeout].contains(&outcome), "{reason}");
    is_within(SOON, dns(names(|_, _| vec![])), Outcome::Timeout, "no response within 1s");
    let closed = doorbell_testkit::peers::free_addr();
    let refused = block_on(runner(dns(closed)).run());
    assert!(refused.reason.ends_with("connection refused") && refused.latency < TIMEOUT / 3, "{refused:?}");
    // A compression pointer that points at itself.
    let looped = |_: usize, question: &[u8]| {
        let mut answer = answered(question, ANSWER, &[]);
        let len = u8::try_from(answer.len()).unwrap();
        answer[7] = 1;
        answer.extend_from_slice(&[0xc0, len, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4]);
        vec![answer]
    };
    is(dns(names(looped)), Outcome::Failure, "the answer cannot be parsed");
}

/// A truncated answer is requested over TCP, on the same port number.
#[test]
fn long_answers_of_name_servers_come_over_tcp() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let udp = UdpSocket::bind(addr).unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        while let Ok((len, from)) = udp.recv_from(&mut bytes) {
            udp.send_to(&answered(&bytes[..len], [0x83, 0x80], &[]), from).unwrap();
        }
    });
    std::thread::spawn(move || {
        for (number, mut stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let mut len = [0; 2];
            stream.read_exact(&mut len).unwrap();
            let mut question = vec![0; usize::from(u16::from_be_bytes(len))];
            stream.read_exact(&mut question).unwrap();
            let answer = answered(&question, ANSWER, &[[10, 0, 0, 9]; 100]);
            let len = if number == 0 { u16::try_from(answer.len()).unwrap() } else { u16::MAX };
            stream.write_all(&[&len.to_be_bytes()[..], &answer].concat()).unwrap();
        }
    });
    let dns = DnsCheck { min_answers: 60, ..dns(addr) };
    is(dns.clone(), Outcome::Success, "");
    is(dns, Outcome::Failure, "an answer of 65535 bytes is too long");
}

fn exec(command: &[&str]) -> ExecCheck {
    let command = command.iter().map(|&part| part.to_owned()).collect();
    ExecCheck { command, degraded_exit_code: None }
}

fn children_of(pid: u32) -> Vec<String> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok())
        .filter(|stat| {
            stat.rsplit(')').next().unwrap().split_ascii_whitespace().nth(1) == Some(&pid.to_string())
        })
        .collect()
}

#[test]
fn programs_leave_no_processes() {
    let marker = std::env::temp_dir().join(format!("doorbell-exec-check-{}", std::process::id()));
    let _old = std::fs::remove_file(&marker);
    let marked = marker.display();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let found = |script: &str, timeout: Duration| {
        let finding = runtime.block_on(runner_within(timeout, exec(&["/bin/sh", "-c", script])).run());
        (finding.outcome, finding.reason)
    };
    let (long, short) = (Duration::from_secs(5), Duration::from_millis(200));
    assert_eq!(found("exit 0", long), (Outcome::Success, String::new()));
    assert_eq!(found("echo slow; exit 1", long), (Outcome::Failure, "exit code 1: slow".to_owned()));
    assert_eq!(found("echo gone >&2; exit 2", long), (Outcome::Failure, "exit code 2: gone".to_owned()));
    assert_eq!(found("kill -9 $$", long), (Outcome::Failure, "killed by signal 9".to_owned()));
    // Longer than the part that is kept, and than the capacity of a pipe.
    let (outcome, reason) = found(
        "i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789; i=$((i+1)); done; exit 2",
        long,
    );
    assert_eq!(
        (outcome, &*reason),
        (Outcome::Failure, "exit code 2: 0123456789012345678901234567890123456789")
    );
    // Descendants are killed with the program, even one that holds its output.
    let begun = Clock::now();
    assert_eq!(found(&format!("(sleep 1; touch {marked}) & exit 0"), long).0, Outcome::Success);
    assert_eq!(
        found(&format!("(sleep 1; touch {marked}) & sleep 9"), short),
        (Outcome::Timeout, "no end within 200ms".to_owned())
    );
    for flood in ["while :; do echo x; done", "yes & yes & yes & yes"] {
        let (outcome, reason) = found(flood, short);
        assert_eq!((outcome, &*reason), (Outcome::Timeout, "no end within 200ms"));
    }
    figures::at_most("four programs, of which three are killed", begun.elapsed(), Duration::from_secs(4));
    let gone = runner(exec(&["/nonexistent"]));
    let finding = runtime.block_on(gone.run());
    assert_eq!(
        (finding.outcome, &*finding.reason),
        (Outcome::Error, "/nonexistent: no such file or directory")
    );
    // Killed programs leave no zombies.
    runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1200)).await });
    assert!(!marker.exists(), "a killed process continued");
    let left = children_of(std::process::id());
    assert!(left.iter().all(|stat| !stat.contains("(sh)") && !stat.contains("(sleep)")), "{left:?}");
}

#[test]
fn a_program_outlives_its_runtime_by_no_zombie() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let runner = runner_within(Duration::from_secs(60), exec(&["tail", "-f", "/dev/null"]));
    let tails = || children_of(std::process::id()).iter().filter(|stat| stat.contains("(tail)")).count();
    runtime.block_on(async {
        let _run = tokio::spawn(async move { runner.run().await });
        while tails() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    runtime.shutdown_background();
    doorbell_testkit::peers::wait_until(Duration::from_secs(30), || tails() == 0).unwrap();
}

#[cfg(feature = "process")]
#[test]
fn processes_of_this_machine_are_found() {
    let sleep = || std::process::Command::new("/bin/sleep").arg("60").spawn().unwrap();
    let (mut one, mut other) = (sleep(), sleep());
    let at_least = |min_processes| ProcessCheck { min_processes, ..ProcessCheck::named("sleep") };
    is(at_least(2), Outcome::Success, "");
    is(ProcessCheck::named("doorbell-none"), Outcome::Failure, "0 processes have the name \"doorbell-none\"");
    let path = std::env::temp_dir().join(format!("doorbell-pid-check-{}", std::process::id()));
    std::fs::write(&path, format!("{}\n", one.id())).unwrap();
    let named =
        |name: &str| ProcessCheck { name: Some(name.to_owned()), ..ProcessCheck::of_pid_file(path.clone()) };
    is(named("sleep"), Outcome::Success, "");
    is(named("nginx"), Outcome::Failure, "is \"sleep\", not \"nginx\": the pid file is stale");
    one.kill().unwrap();
    // Not reaped yet.
    let zombie = || block_on(runner(named("sleep")).run()).reason.ends_with("is a zombie: it has exited");
    assert!(doorbell_testkit::peers::wait_until(TIMEOUT, zombie).is_some());
    one.wait().unwrap();
    is(named("sleep"), Outcome::Failure, "does not exist: the pid file is stale");
    other.kill().unwrap();
    other.wait().unwrap();
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn gauges_read_this_machine() {
    let gauge = |metric: Metric, path: &str, bad_is: BadIs, down: Level| {
        let path = PathBuf::from(path);
        GaugeCheck { metric, path, bad_is, down, up: down, degraded: None }
    };
    let (byte, too_much) = (Level::Count(1), Level::MilliPercent(101_000));
    let below = |metric, path, down| gauge(metric, path, BadIs::Below, down);
    is(below(Metric::DiskFree, "/", byte), Outcome::Success, "");
    is(below(Metric::DiskFree, "/", too_much), Outcome::Failure, "%, down below 101%");
    is(below(Metric::DiskFree, "/nonexistent", byte), Outcome::Error, "no such file or directory");
    let least = below(Metric::MemoryAvailable, "", Level::MilliPercent(1));
    is(GaugeCheck { degraded: Some(too_much), ..least }, Outcome::Degraded, "degraded below 101%");
    let reason = "/nonexistent has no memory.max: not a control group of version 2, or the root group";
    is(below(Metric::MemoryAvailable, "/nonexistent", byte), Outcome::Error, reason);
    let above = |metric, down| gauge(metric, "", BadIs::Above, down);
    is(above(Metric::Load, Level::Milli(100_000_000)), Outcome::Success, "");
    is(above(Metric::OpenFiles, Level::Count(0)), Outcome::Failure, ", down above 0");
}
