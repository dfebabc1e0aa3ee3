//! Every kind that connects to a server against the same faults: the exact reason of each.
//! The tests of each kind have its other cases, and `real` has real servers.
//!
//! Other kinds have no connection, and a table of their own:
//!
//! | kind | down | hanging | half an answer | wrong protocol | expired certificate |
//! |---|---|---|---|---|---|
//! | udp | `datagrams` | `datagrams` | `datagrams` | `datagrams` | has no TLS |
//! | unix datagram | `datagrams` | `datagrams` | `datagrams` | `datagrams` | has no TLS |
//! | icmp | `icmp`: no route | `icmp` | `kinds/icmp.rs`: not a reply | `kinds/icmp.rs`: not a reply | has no TLS |
//! | process | `kinds/process.rs`: no process | runs: the check only reads `/proc` | `kinds/process.rs`: pid file | `kinds/process.rs`: other name | has no TLS |
//! | alias of this program | `alias`: each state | a read cannot hang | a state is whole | a state has a type | has no TLS |

use super::kinds::tls_config_with;
use super::watches::{await_request, field, frame};
use super::*;
use doorbell_testkit::peers::free_addr;
use options::{
    AliasCheck, DatabaseAccess, MailCheck, MailProtocol, MysqlCheck, PostgresCheck, ProxyHeader,
    RequestVersion, WebsocketCheck,
};
use rustls::{ServerConfig, ServerConnection};
use std::net::{Shutdown, TcpStream};

/// Makes a check, with TLS if there are options for it.
type Make = fn(SocketAddr, Option<ClientTls>) -> CheckKind;

/// A kind of check, and the parts of its protocol.
struct Row {
    name: &'static str,
    check: Make,
    /// Reads a request; `None` if the server sends first.
    reads: Option<fn(&mut TcpStream)>,
    /// The first half of a correct response.
    half: Vec<u8>,
    foreign: &'static [u8],
    /// Parts that the server sends before TLS, each after a request.
    before_tls: Vec<Vec<u8>>,
    /// Reads what a client sends before TLS without a response.
    skips: fn(&mut TcpStream),
}

/// What a server does after its parts.
#[derive(Clone)]
enum Then {
    /// Ends its side of the connection.
    End,
    Nothing,
    Tls(Arc<ServerConfig>, fn(&mut TcpStream)),
}

const HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
const SSH: &[u8] = b"SSH-2.0-OpenSSH_9.2\r\n";

/// The greeting of MySQL.
fn greeting() -> Vec<u8> {
    let content = b"\x0a11.4.2-MariaDB\0\x01\0\0\0abcdefgh\0\xff\xff\x2d\x02\0\xff\xff\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0caching_sha2_password\0";
    [&[u8::try_from(content.len()).unwrap(), 0, 0, 0], &content[..]].concat()
}

fn reads_some(stream: &mut TcpStream) {
    let _len = heard(stream);
}

/// Reads until these bytes.
fn reads_until(stream: &mut TcpStream, end: &[u8]) {
    let mut read = Vec::new();
    while !read.ends_with(end) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        read.push(byte[0]);
    }
}

fn reads_head(stream: &mut TcpStream) {
    reads_until(stream, b"\r\n\r\n");
}

fn scheme(tls: Option<&ClientTls>) -> &'static str {
    if tls.is_some() { "https" } else { "http" }
}

fn http(addr: SocketAddr, tls: Option<ClientTls>) -> HttpCheck {
    let url = url(format!("{}://{addr}/", scheme(tls.as_ref())));
    HttpCheck { tls: tls.unwrap_or_default(), ..HttpCheck::new(url) }
}

fn mail(protocol: MailProtocol, addr: SocketAddr, tls: Option<ClientTls>) -> CheckKind {
    MailCheck { starttls: tls.is_some(), tls, ..MailCheck::new(protocol, address(addr)) }.into()
}

/// A kind whose requests end like the head of an HTTP/1 request.
fn row(name: &'static str, check: Make, half: &[u8], foreign: &'static [u8]) -> Row {
    let (half, before_tls) = (half.to_vec(), Vec::new());
    Row { name, check, reads: Some(reads_head), half, foreign, before_tls, skips: |_| {} }
}

/// Kinds that speak HTTP.
fn over_http() -> Vec<Row> {
    let settings = frame(4, 0, 0, &[]);
    let grpc_fields = [vec![0x88], field("content-type", "application/grpc")].concat();
    let http_half: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{\"status\"";
    vec![
        Row {
            skips: |stream| reads_until(stream, b"\n"),
            ..row(
                "http proxy",
                |addr, tls| HttpCheck { proxy_protocol: Some(ProxyHeader::V1), ..http(addr, tls) }.into(),
                http_half,
                SSH,
            )
        },
        Row {
            reads: Some(await_request),
            ..row(
                "http/2",
                |addr, tls| HttpCheck { http_version: RequestVersion::Http2, ..http(addr, tls) }.into(),
                &[settings.clone(), frame(1, 4, 1, &[0x88]), frame(0, 0, 1, b"x")].concat(),
                HTTP,
            )
        },
        Row {
            reads: Some(await_request),
            ..row(
                "grpc unary",
                |addr, tls| {
                    let method = Some("/csi.v1.Identity/Probe".to_owned());
                    GrpcCheck { method, tls, ..GrpcCheck::new(address(addr)) }.into()
                },
                &[settings, frame(1, 4, 1, &grpc_fields), frame(0, 0, 1, &[0, 0, 0, 0, 4, 8])].concat(),
                HTTP,
            )
        },
        row(
            "websocket",
            |addr, tls| {
                let url = url(format!("{}://{addr}/", scheme(tls.as_ref())));
                WebsocketCheck { tls: tls.unwrap_or_default(), ..WebsocketCheck::new(url) }.into()
            },
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: web",
            SSH,
        ),
        row(
            "alias",
            |addr, tls| {
                let url = url(format!("{}://{addr}/", scheme(tls.as_ref())));
                AliasCheck { tls: tls.unwrap_or_default(), ..AliasCheck::at(url) }.into()
            },
            http_half,
            SSH,
        ),
    ]
}

/// Kinds whose connections begin in plain text.
fn of_sessions() -> Vec<Row> {
    let text = |parts: &[&str]| parts.iter().map(|part| part.as_bytes().to_vec()).collect::<Vec<_>>();
    vec![
        Row {
            reads: Some(reads_some),
            before_tls: text(&["S"]),
            ..row(
                "postgres",
                |addr, tls| {
                    let access = DatabaseAccess { tls, ..DatabaseAccess::default() };
                    PostgresCheck { access, ..PostgresCheck::new(address(addr)) }.into()
                },
                b"R\0\0\0\x08",
                HTTP,
            )
        },
        Row {
            reads: None,
            before_tls: vec![greeting()],
            // The request for TLS.
            skips: |stream| stream.read_exact(&mut [0; 36]).unwrap(),
            ..row(
                "mysql",
                |addr, tls| {
                    let access = DatabaseAccess { tls, ..DatabaseAccess::default() };
                    MysqlCheck { access, ..MysqlCheck::new(address(addr)) }.into()
                },
                &greeting()[..20],
                SSH,
            )
        },
        Row {
            reads: None,
            before_tls: text(&["220 mail\r\n", "250 mail\r\n", "220 go on\r\n"]),
            ..row("smtp starttls", |addr, tls| mail(MailProtocol::Smtp, addr, tls), b"220 ma", SSH)
        },
        Row {
            reads: None,
            before_tls: text(&["* OK ready\r\n", "a OK\r\n", "a OK begin\r\n"]),
            ..row("imap starttls", |addr, tls| mail(MailProtocol::Imap, addr, tls), b"* OK re", SSH)
        },
        Row {
            reads: None,
            before_tls: text(&["+OK ready\r\n", "+OK begin\r\n"]),
            ..row("pop3 starttls", |addr, tls| mail(MailProtocol::Pop3, addr, tls), b"+OK re", SSH)
        },
    ]
}

/// A server that sends these parts, each but the first after a request.
fn sends(reads: Option<fn(&mut TcpStream)>, parts: Vec<Vec<u8>>, then: Then) -> SocketAddr {
    server(move |stream| {
        for (number, part) in parts.iter().enumerate() {
            match reads {
                Some(reads) => reads(stream),
                None if number > 0 => reads_some(stream),
                None => {}
            }
            stream.write_all(part).unwrap();
        }
        match then.clone() {
            Then::End => stream.shutdown(Shutdown::Write).unwrap(),
            Then::Nothing => {}
            Then::Tls(config, skips) => {
                skips(stream);
                // The client refuses the certificate.
                let _refused = ServerConnection::new(config).unwrap().complete_io(stream);
            }
        }
    })
}

/// The result of a row with each fault, one in a line.
fn results(row: &Row, ca: &ClientTls, expired: &Arc<ServerConfig>) -> Vec<String> {
    let (half, foreign) = (vec![row.half.clone()], vec![row.foreign.to_vec()]);
    let plain = [&row.before_tls[..], &[HTTP.to_vec()]].concat();
    let reads = row.reads.map(|_| reads_some as fn(&mut TcpStream));
    let tls = |then| sends(reads, row.before_tls.clone(), then);
    let faults = [
        ("down", free_addr(), None, TIMEOUT),
        ("hanging", sends(row.reads, Vec::new(), Then::Nothing), None, SOON),
        ("half, end", sends(row.reads, half.clone(), Then::End), None, TIMEOUT),
        ("half, hanging", sends(row.reads, half, Then::Nothing), None, SOON),
        ("wrong protocol", sends(row.reads, foreign, Then::Nothing), None, TIMEOUT),
        ("no TLS", sends(reads, plain, Then::Nothing), Some(ca), TIMEOUT),
        ("TLS cut", tls(Then::End), Some(ca), TIMEOUT),
        ("expired", tls(Then::Tls(Arc::clone(expired), row.skips)), Some(ca), TIMEOUT),
    ];
    let result = |(fault, addr, tls, timeout): (_, SocketAddr, Option<&ClientTls>, _)| {
        let finding = block_on(runner_within(timeout, (row.check)(addr, tls.cloned())).run());
        let reason = finding.reason.replace(&addr.to_string(), "ADDR");
        format!("{:<14} {fault:<14} {:<7} {reason}", row.name, finding.outcome.as_str())
    };
    std::thread::scope(|scope| {
        let runs = faults.map(|fault| scope.spawn(move || result(fault)));
        runs.map(|run| run.join().unwrap()).into()
    })
}

const EXPECTED: &str = r#"
http proxy     down           failure ADDR: connection refused
http proxy     hanging        timeout no response within 1s
http proxy     half, end      failure the connection ended before the response was complete
http proxy     half, hanging  timeout no end of the response within 1s
http proxy     wrong protocol failure the response is not HTTP/1
http proxy     no TLS         failure TLS: the server does not speak TLS here: is this the right port?
http proxy     TLS cut        failure TLS: the connection ended before the handshake was complete
http proxy     expired        failure TLS: the certificate has expired
http/2         down           failure ADDR: connection refused
http/2         hanging        timeout no response within 1s
http/2         half, end      failure the connection ended before the response was complete
http/2         half, hanging  timeout no end of the response within 1s
http/2         wrong protocol failure the server speaks HTTP/1 here, not HTTP/2: is this the right port?
http/2         no TLS         failure TLS: the server does not speak TLS here: is this the right port?
http/2         TLS cut        failure TLS: the connection ended before the handshake was complete
http/2         expired        failure TLS: the certificate has expired
grpc unary     down           failure ADDR: connection refused
grpc unary     hanging        timeout no response within 1s
grpc unary     half, end      failure Unknown: the connection ended before the response was complete
grpc unary     half, hanging  timeout no response within 1s
grpc unary     wrong protocol failure Unavailable: the server speaks HTTP/1 here, not HTTP/2: is this the right port?
grpc unary     no TLS         failure TLS: the server does not speak TLS here: is this the right port?
grpc unary     TLS cut        failure TLS: the connection ended before the handshake was complete
grpc unary     expired        failure TLS: the certificate has expired
websocket      down           failure ADDR: connection refused
websocket      hanging        timeout no response within 1s
websocket      half, end      failure the connection ended before the response was complete
websocket      half, hanging  timeout no response within 1s
websocket      wrong protocol failure the response is not HTTP/1
websocket      no TLS         failure TLS: the server does not speak TLS here: is this the right port?
websocket      TLS cut        failure TLS: the connection ended before the handshake was complete
websocket      expired        failure TLS: the certificate has expired
alias          down           failure ADDR: connection refused
alias          hanging        timeout no response within 1s
alias          half, end      failure the connection ended before the response was complete
alias          half, hanging  timeout no end of the response within 1s
alias          wrong protocol failure the response is not HTTP/1
alias          no TLS         failure TLS: the server does not speak TLS here: is this the right port?
alias          TLS cut        failure TLS: the connection ended before the handshake was complete
alias          expired        failure TLS: the certificate has expired
postgres       down           failure ADDR: connection refused
postgres       hanging        timeout no response within 1s
postgres       half, end      failure the connection ended before the response was complete
postgres       half, hanging  timeout no response within 1s
postgres       wrong protocol failure the response is not PostgreSQL
postgres       no TLS         failure TLS: the server does not speak TLS here: is this the right port?
postgres       TLS cut        failure TLS: the connection ended before the handshake was complete
postgres       expired        failure TLS: the certificate has expired
mysql          down           failure ADDR: connection refused
mysql          hanging        timeout no response within 1s
mysql          half, end      failure the connection ended before the response was complete
mysql          half, hanging  timeout no response within 1s
mysql          wrong protocol failure the response is not MySQL
mysql          no TLS         failure TLS: the server does not speak TLS here: is this the right port?
mysql          TLS cut        failure TLS: the connection ended before the handshake was complete
mysql          expired        failure TLS: the certificate has expired
smtp starttls  down           failure ADDR: connection refused
smtp starttls  hanging        timeout no response within 1s
smtp starttls  half, end      failure the connection ended within a line, after "220 ma"
smtp starttls  half, hanging  timeout no response within 1s
smtp starttls  wrong protocol failure the response is not SMTP: "SSH-2.0-OpenSSH_9.2"
smtp starttls  no TLS         failure TLS: the server does not speak TLS here: is this the right port?
smtp starttls  TLS cut        failure TLS: the connection ended before the handshake was complete
smtp starttls  expired        failure TLS: the certificate has expired
imap starttls  down           failure ADDR: connection refused
imap starttls  hanging        timeout no response within 1s
imap starttls  half, end      failure the connection ended within a line, after "* OK re"
imap starttls  half, hanging  timeout no response within 1s
imap starttls  wrong protocol failure the response is not IMAP: "SSH-2.0-OpenSSH_9.2"
imap starttls  no TLS         failure TLS: the server does not speak TLS here: is this the right port?
imap starttls  TLS cut        failure TLS: the connection ended before the handshake was complete
imap starttls  expired        failure TLS: the certificate has expired
pop3 starttls  down           failure ADDR: connection refused
pop3 starttls  hanging        timeout no response within 1s
pop3 starttls  half, end      failure the connection ended within a line, after "+OK re"
pop3 starttls  half, hanging  timeout no response within 1s
pop3 starttls  wrong protocol failure the response is not POP3: "SSH-2.0-OpenSSH_9.2"
pop3 starttls  no TLS         failure TLS: the server does not speak TLS here: is this the right port?
pop3 starttls  TLS cut        failure TLS: the connection ended before the handshake was complete
pop3 starttls  expired        failure TLS: the certificate has expired
"#;

#[test]
fn each_fault_has_its_reason() {
    let (expired, certificate) = tls_config_with(-1);
    let path = std::env::temp_dir().join(format!("doorbell-faults-{}.pem", std::process::id()));
    std::fs::write(&path, certificate).unwrap();
    let ca = ClientTls {
        ca: Some(path.clone()),
        server_name: Some("localhost".to_owned()),
        ..ClientTls::default()
    };
    let found: Vec<String> =
        [over_http(), of_sessions()].iter().flatten().flat_map(|row| results(row, &ca, &expired)).collect();
    std::fs::remove_file(&path).unwrap();
    let expected: Vec<&str> = EXPECTED.trim().lines().collect();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected);
    }
}
