//! PostgreSQL checks against correct peers and against faulty peers.
//!
//! Does not know about: PostgreSQL itself, see `real`.

use super::kinds::{floods, is, is_within, resets, says, secret, silent, tls_config, trickles};
use super::*;
use options::{DatabaseAccess, PostgresCheck};

pub(super) fn with_access(check: &PostgresCheck, change: impl FnOnce(&mut DatabaseAccess)) -> PostgresCheck {
    let mut check = check.clone();
    change(&mut check.access);
    check
}

fn postgres(addr: SocketAddr) -> PostgresCheck {
    PostgresCheck::new(address(addr))
}

fn user(addr: SocketAddr) -> PostgresCheck {
    PostgresCheck { username: Some("u".to_owned()), ..postgres(addr) }
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[tag], &len[..], body].concat()
}

fn request(method: u32) -> Vec<u8> {
    message(b'R', &method.to_be_bytes())
}

fn md5() -> Vec<u8> {
    message(b'R', b"\0\0\0\x05salt")
}

fn error(code: &str, text: &str) -> Vec<u8> {
    message(b'E', format!("SFATAL\0C{code}\0M{text}\0\0").as_bytes())
}

/// The end of a login, a value, and the end of the query.
fn session(value: &str) -> Vec<u8> {
    let (ready, name) = (message(b'Z', b"I"), message(b'S', b"server_version\x0015\0"));
    let row = [&[0, 1, 0, 0, 0][..], &[u8::try_from(value.len()).unwrap()], value.as_bytes()].concat();
    [request(0), name, ready.clone(), message(b'D', &row), message(b'C', b"SELECT 1\0"), ready].concat()
}

#[test]
fn the_request_to_log_in_is_enough() {
    is(postgres(says(md5())), Outcome::Success, "");
    is(postgres(says(message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0"))), Outcome::Success, "");
    is(postgres(says(request(7))), Outcome::Success, "");
    is(postgres(says(session("1"))), Outcome::Success, "");
    for code in ["28000", "28P01", "3D000"] {
        is(postgres(says(error(code, "no such user"))), Outcome::Success, "");
    }
    let starting = says(error("57P03", "the database system is starting up"));
    is(postgres(starting), Outcome::Failure, "the database system is starting up (57P03)");
    let full = says(error("53300", "sorry, too many clients already"));
    is(postgres(full), Outcome::Failure, "sorry, too many clients already (53300)");
}

#[test]
fn what_is_not_postgres_fails() {
    let strange = "the response is not PostgreSQL";
    is(postgres(says("HTTP/1.1 400 Bad Request\r\n\r\n")), Outcome::Failure, strange);
    is(postgres(says(message(b'?', b""))), Outcome::Failure, strange);
    is(postgres(says(message(b'D', b"\0\0"))), Outcome::Failure, strange);
    is(postgres(floods(b"x")), Outcome::Failure, strange);
    is(postgres(floods(b"\0")), Outcome::Failure, strange);
    is(postgres(resets(b"")), Outcome::Failure, "");
    is(postgres(resets(b"R\0\0\0\x08\0")), Outcome::Failure, "");
    is_within(SOON, postgres(silent()), Outcome::Timeout, "no response within 1s");
    is_within(SOON, postgres(says(&md5()[..8])), Outcome::Timeout, "no response within 1s");
    is_within(SOON, postgres(trickles(b'N')), Outcome::Failure, strange);
    is_within(SOON, postgres(floods(b"N\0\0\0\x05\0")), Outcome::Timeout, "no response within 1s");
    let cut = server(|stream| {
        heard(stream).write_all(b"R\0\0\0\x08").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
    });
    is(postgres(cut), Outcome::Failure, "the connection ended before the response was complete");
}

#[test]
fn a_login_and_a_query() {
    let writable = |addr, writable| with_access(&user(addr), |access| access.writable = Some(writable));
    is(user(says(session("1"))), Outcome::Success, "");
    is(writable(says(session("off")), true), Outcome::Success, "");
    is(writable(says(session("on")), false), Outcome::Success, "");
    is(writable(says(session("on")), true), Outcome::Failure, "the server is read-only");
    let primary = "the server accepts writes, expected read-only";
    is(writable(says(session("off")), false), Outcome::Failure, primary);
    let no_row = [request(0), message(b'Z', b"I"), message(b'Z', b"I")].concat();
    is(user(says(no_row)), Outcome::Failure, "the server returned no row");
    is(user(says(request(3))), Outcome::Failure, "the server asks for a password");
    is(user(says(error("28P01", "no"))), Outcome::Failure, "no (28P01)");

    let with = |addr| with_access(&user(addr), |access| access.password = secret("p w 0123456789abcdef"));
    let clear = [request(3), session("1")].concat();
    is(with(says(clear)), Outcome::Success, "");
    is(with(says([request(5), b"salt".to_vec()].concat())), Outcome::Failure, "is not PostgreSQL");
    let unsupported = "the server asks for a login method that is not supported";
    is(with(says(request(7))), Outcome::Failure, unsupported);
    is(with(says(message(b'R', b"\0\0\0\x0aOTHER\0\0"))), Outcome::Failure, unsupported);
    is(with(says(message(b'R', b"\0\0\0\x0bx"))), Outcome::Failure, "is not PostgreSQL");
    let scram =
        [&message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0")[..], &message(b'R', b"\0\0\0\x0br=x,s=x,i=1")];
    is(with(says(scram.concat())), Outcome::Failure, "login: invalid nonce");
    // SCRAM must not start again, and must not succeed before the server has proved that it knows
    // the password.
    let sasl = message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0");
    is(with(says(sasl.repeat(2))), Outcome::Failure, "is not PostgreSQL");
    is(with(says([sasl, session("1")].concat())), Outcome::Failure, "is not PostgreSQL");
    let repeats = error("28P01", "bad password 'p w 0123456789abc");
    is(with(says([request(3), repeats].concat())), Outcome::Failure, "bad password '*** (28P01)");
}

/// A server that accepts TLS, with a certificate that expires in this many days.
fn tls_server(days: i64) -> SocketAddr {
    let config = tls_config(days);
    server(move |stream| {
        heard(stream).write_all(b"S").unwrap();
        let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = rustls::StreamOwned::new(session, stream.try_clone().unwrap());
        // A client that does not trust the certificate ends here.
        if stream.read(&mut [0; 1024]).is_ok() {
            stream.write_all(&md5()).unwrap();
        }
    })
}

#[test]
fn tls_begins_after_a_request() {
    let tls = |addr, tls| with_access(&postgres(addr), |access| access.tls = Some(tls));
    is(tls(tls_server(30), unverified()), Outcome::Success, "");
    is(tls(tls_server(30), ClientTls::default()), Outcome::Failure, "TLS: invalid peer certificate: ");
    let certificate =
        CertificateRule { expires_after: Some(Duration::from_secs(86_400)), ..CertificateRule::default() };
    let expired = with_access(&tls(tls_server(-1), unverified()), |access| access.certificate = certificate);
    is(expired, Outcome::Failure, "the certificate has expired");
    is(tls(says("N"), unverified()), Outcome::Failure, "the server refuses TLS");
    is(tls(says(error("57P03", "x")), unverified()), Outcome::Failure, "the server refuses TLS");
    is(tls(says("HTTP/1.1 400"), unverified()), Outcome::Failure, "the response is not PostgreSQL");
    is(tls(says("SS"), unverified()), Outcome::Failure, "TLS: ");
    is_within(SOON, tls(says("S"), unverified()), Outcome::Timeout, "no TLS handshake within 1s");
}
