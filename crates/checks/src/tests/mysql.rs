//! MySQL checks against correct peers and against faulty peers.
//!
//! Does not know about: MariaDB itself, see `real`.

use super::kinds::{floods, is, is_within, says, secret, silent, tls_config};
use super::*;
use options::{DatabaseAccess, MysqlCheck};

pub(super) fn with_access(check: &MysqlCheck, change: impl FnOnce(&mut DatabaseAccess)) -> MysqlCheck {
    let mut check = check.clone();
    change(&mut check.access);
    check
}

const SHA2: &str = "caching_sha2_password";

/// A refused login, as a server sends it.
const DENIED: &[u8] = b"\xff\x15\x04#28000Access denied for user 'doorbell'";

fn mysql(addr: SocketAddr) -> MysqlCheck {
    MysqlCheck::new(address(addr))
}

fn user(addr: SocketAddr) -> MysqlCheck {
    let access = DatabaseAccess { password: secret("secret"), ..DatabaseAccess::default() };
    MysqlCheck { username: Some("u".to_owned()), access, ..mysql(addr) }
}

fn packet(number: u8, content: &[u8]) -> Vec<u8> {
    [&[u8::try_from(content.len()).unwrap(), 0, 0, number], content].concat()
}

fn greeting(tls: bool, method: &str) -> Vec<u8> {
    let mut content = b"\x0a11.4.2-MariaDB\0\x01\0\0\0abcdefgh\0\xff".to_vec();
    content.extend_from_slice(&[if tls { 0xff } else { 0xf7 }, 45, 2, 0, 0xff, 0xff, 21]);
    content.extend_from_slice(b"\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0");
    content.extend_from_slice(method.as_bytes());
    content.push(0);
    packet(0, &content)
}

/// A server that greets and answers each packet of the client in turn.
fn speaks(method: &'static str, answers: Vec<Vec<u8>>) -> SocketAddr {
    server(move |stream| {
        stream.write_all(&greeting(false, method)).unwrap();
        for answer in &answers {
            // The check may have ended.
            let _gone = heard(stream).write_all(answer);
        }
    })
}

/// A server that sends these bytes first.
fn greets(bytes: impl Into<Vec<u8>>) -> SocketAddr {
    let bytes = bytes.into();
    server(move |stream| stream.write_all(&bytes).unwrap())
}

fn row(value: &str) -> Vec<u8> {
    let row = [&[u8::try_from(value.len()).unwrap()], value.as_bytes()].concat();
    let mark = [0xfe, 0, 0, 2, 0];
    [packet(1, &[1]), packet(2, b"\x03def"), packet(3, &mark), packet(4, &row), packet(5, &mark)].concat()
}

#[test]
fn the_result_of_a_login_is_enough() {
    let native = "mysql_native_password";
    let switch = packet(2, b"\xfemysql_native_password\0abcdefghijklmnopqrst\0");
    is(mysql(speaks(native, vec![packet(2, DENIED)])), Outcome::Success, "");
    is(mysql(speaks(SHA2, vec![packet(2, b"\0\0\0\x02\0\0\0")])), Outcome::Success, "");
    is(mysql(speaks("other", vec![switch, packet(4, DENIED)])), Outcome::Success, "");
    let offline = packet(2, b"\xff\xd8\x0b#HY000offline");
    is(mysql(speaks(native, vec![offline])), Outcome::Failure, "offline (3032)");
    let full = greets(packet(0, b"\xff\x10\x04Too many connections"));
    is(mysql(full), Outcome::Failure, "Too many connections (1040)");
    let blocked = greets(packet(0, b"\xff\x69\x04Host 'x' is blocked because of many connection errors"));
    is(mysql(blocked), Outcome::Failure, "Host 'x' is blocked because of many connection errors (1129)");
}

#[test]
fn what_is_not_mysql_fails() {
    let strange = "the response is not MySQL";
    is(mysql(greets("HTTP/1.1 400 Bad Request\r\n\r\n")), Outcome::Failure, strange);
    is(mysql(greets("220 mail ESMTP ready\r\n")), Outcome::Failure, strange);
    is(mysql(greets(packet(1, b"\x0a8.0\0"))), Outcome::Failure, strange);
    is(mysql(greets(packet(0, b"\x0a8.0\0"))), Outcome::Failure, strange);
    is(mysql(greets(packet(0, b""))), Outcome::Failure, strange);
    is(mysql(floods(b"\xff")), Outcome::Failure, strange);
    is(mysql(speaks(SHA2, vec![packet(2, b"\x09")])), Outcome::Failure, strange);
    is(mysql(speaks(SHA2, vec![packet(2, b"\xfe")])), Outcome::Failure, strange);
    is_within(SOON, mysql(silent()), Outcome::Timeout, "no response within 1s");
    is_within(SOON, mysql(says("x")), Outcome::Timeout, "no response within 1s");
    is_within(SOON, mysql(greets(&greeting(true, SHA2)[..20])), Outcome::Timeout, "no response within 1s");
    is_within(SOON, mysql(speaks(SHA2, vec![])), Outcome::Timeout, "no response within 1s");
    let cut = server(|stream| {
        stream.write_all(&greeting(true, SHA2)[..20]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
    });
    is(mysql(cut), Outcome::Failure, "the connection ended before the response was complete");
}

#[test]
fn a_login_and_a_command() {
    let (ok, pong) = (packet(2, b"\0\0\0\x02\0\0\0"), packet(1, b"\0\0\0\x02\0\0\0"));
    is(user(speaks(SHA2, vec![ok.clone(), pong.clone()])), Outcome::Success, "");
    let cached = [packet(2, b"\x01\x03"), packet(3, b"\0\0\0\x02\0\0\0")].concat();
    is(user(speaks(SHA2, vec![cached, pong.clone()])), Outcome::Success, "");
    let full = vec![packet(2, b"\x01\x04"), packet(4, b"\0\0\0\x02\0\0\0"), pong];
    is(user(speaks(SHA2, full)), Outcome::Success, "");
    is(
        user(speaks(SHA2, vec![packet(2, DENIED)])),
        Outcome::Failure,
        "Access denied for user 'doorbell' (1045)",
    );
    let other = packet(2, b"\xfeclient_ed25519\0abcdefghijklmnopqrstuvwxyz012345\0");
    let reason = "the login method \"client_ed25519\" is not supported";
    is(user(speaks(SHA2, vec![other])), Outcome::Failure, reason);
    let repeats = packet(2, b"\xff\x15\x04#28000no 'secret'");
    is(user(speaks(SHA2, vec![repeats])), Outcome::Failure, "no '*** (1045)");
    let busy = packet(1, b"\xff\x1d\x04#08S01Server shutdown in progress");
    is(user(speaks(SHA2, vec![ok.clone(), busy])), Outcome::Failure, "Server shutdown in progress (1053)");
    for (value, wanted, outcome, reason) in [
        ("0", true, Outcome::Success, ""),
        ("1", false, Outcome::Success, ""),
        ("1", true, Outcome::Failure, "the server is read-only"),
        ("NO_LOCK", true, Outcome::Failure, "the server is read-only"),
        ("OFF", false, Outcome::Failure, "the server accepts writes, expected read-only"),
    ] {
        let addr = speaks(SHA2, vec![ok.clone(), row(value)]);
        is(with_access(&user(addr), |access| access.writable = Some(wanted)), outcome, reason);
    }
}

/// A server that accepts TLS, with a certificate that expires in this many days.
fn tls_server(days: i64) -> SocketAddr {
    let config = tls_config(days);
    server(move |stream| {
        stream.write_all(&greeting(true, SHA2)).unwrap();
        let mut request = [0; 36];
        stream.read_exact(&mut request).unwrap();
        let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = rustls::StreamOwned::new(session, stream.try_clone().unwrap());
        // A client that does not trust the certificate ends here.
        if stream.read(&mut [0; 1024]).is_ok() {
            stream.write_all(&packet(3, DENIED)).unwrap();
        }
    })
}

#[test]
fn tls_begins_after_the_greeting() {
    let tls = |addr, tls| with_access(&mysql(addr), |access| access.tls = Some(tls));
    is(tls(tls_server(30), unverified()), Outcome::Success, "");
    is(tls(tls_server(30), ClientTls::default()), Outcome::Failure, "TLS: invalid peer certificate: ");
    let certificate =
        CertificateRule { expires_after: Some(Duration::from_secs(86_400)), ..CertificateRule::default() };
    let expired = with_access(&tls(tls_server(-1), unverified()), |access| access.certificate = certificate);
    is(expired, Outcome::Failure, "the certificate has expired");
    is(tls(speaks(SHA2, vec![]), unverified()), Outcome::Failure, "the server does not support TLS");
}
