//! Mail checks against correct peers and against faulty peers.
//!
//! Does not know about: mail servers themselves, see `real`.

use super::kinds::{floods, is, is_within, silent, tls_config, trickles};
use super::*;
use options::{MailCheck, MailProtocol};
use std::sync::Mutex;

fn mail(protocol: MailProtocol, addr: SocketAddr) -> MailCheck {
    MailCheck::new(protocol, address(addr))
}

/// A server that greets and answers each command in turn.
fn speaks(greeting: &'static str, answers: &'static [&'static str]) -> SocketAddr {
    server(move |stream| {
        stream.write_all(greeting.as_bytes()).unwrap();
        for answer in answers {
            // The check may have ended.
            let _gone = heard(stream).write_all(answer.as_bytes());
        }
    })
}

#[test]
fn smtp_greets_and_takes_ehlo() {
    let smtp = |greeting, answers| mail(MailProtocol::Smtp, speaks(greeting, answers));
    const EHLO: &[&str] = &["250-mail\r\n250-SIZE 1000\r\n250 STARTTLS\r\n"];
    is(smtp("220 mail ESMTP\r\n", EHLO), Outcome::Success, "");
    is(smtp("220-mail\r\n220 ready\r\n", &["250 mail\r\n"]), Outcome::Success, "");
    is(smtp("421 4.3.2 too many connections\r\n", &[]), Outcome::Failure, "421 4.3.2 too many connections");
    is(smtp("554-no\r\n554 never\r\n", &[]), Outcome::Failure, "554 never");
    is(smtp("220 mail\r\n", &["502 no EHLO\r\n"]), Outcome::Failure, "EHLO: 502 no EHLO");
    let strange = "the response is not SMTP: \"HTTP/1.1 400 Bad Request\"";
    is(smtp("HTTP/1.1 400 Bad Request\r\n\r\n", &[]), Outcome::Failure, strange);
    is(smtp("220 a\r\n220 b\r\n", &[]), Outcome::Failure, "the server sent more than one reply");
    is_within(SOON, smtp("220 mail", &[]), Outcome::Timeout, "no response within 1s");
    is_within(SOON, smtp("220 mail\r\n", &["250-mail\r\n"]), Outcome::Timeout, "no response within 1s");
    let endless = "a reply of more than 128 lines";
    is(mail(MailProtocol::Smtp, floods(b"250-x\r\n")), Outcome::Failure, endless);
    let long = "more than 8192 bytes without a line end";
    is(mail(MailProtocol::Smtp, floods(b"2")), Outcome::Failure, long);
    let cut = server(|stream| {
        stream.write_all(b"220 ma").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let reason = "the connection ended within a line, after \"220 ma\"";
    is(mail(MailProtocol::Smtp, cut), Outcome::Failure, reason);
    for protocol in [MailProtocol::Imap, MailProtocol::Pop3, MailProtocol::Smtp] {
        is_within(SOON, mail(protocol, silent()), Outcome::Timeout, "no response within 1s");
        is_within(SOON, mail(protocol, trickles(b'2')), Outcome::Timeout, "no response within 1s");
    }
}

#[test]
fn imap_and_pop3_greet() {
    let imap = |greeting, answers| mail(MailProtocol::Imap, speaks(greeting, answers));
    is(imap("* OK ready\r\n", &["* CAPABILITY x\r\na OK done\r\n"]), Outcome::Success, "");
    is(imap("* PREAUTH hello\r\n", &["a OK\r\n"]), Outcome::Success, "");
    is(imap("* BYE too busy\r\n", &[]), Outcome::Failure, "* BYE too busy");
    is(imap("* OK ready\r\n", &["* BYE shutdown\r\n"]), Outcome::Failure, "NOOP: * BYE shutdown");
    is(imap("* OK ready\r\n", &["a BAD what\r\n"]), Outcome::Failure, "NOOP: a BAD what");
    is(imap("+OK ready\r\n", &[]), Outcome::Failure, "the response is not IMAP: \"+OK ready\"");
    let pop3 = |greeting| mail(MailProtocol::Pop3, speaks(greeting, &[]));
    is(pop3("+OK ready\r\n"), Outcome::Success, "");
    is(pop3("-ERR [SYS/TEMP] later\r\n"), Outcome::Failure, "-ERR [SYS/TEMP] later");
    is(pop3("* OK ready\r\n"), Outcome::Failure, "the response is not POP3: \"* OK ready\"");
}

/// The check ends the session with QUIT and does not reset the connection.
#[test]
fn a_session_ends_politely() {
    let heard = Arc::new(Mutex::new(String::new()));
    let all = Arc::clone(&heard);
    let (done, ended) = std::sync::mpsc::sync_channel(1);
    let addr = server(move |stream| {
        for answer in ["220 mail\r\n", "250 mail\r\n", "221 bye\r\n"] {
            stream.write_all(answer.as_bytes()).unwrap();
            let mut bytes = [0; 128];
            let len = if answer.starts_with("221") { 0 } else { stream.read(&mut bytes).unwrap() };
            all.lock().unwrap().push_str(str::from_utf8(&bytes[..len]).unwrap());
        }
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        done.send(stream.read(&mut [0; 8]).map_err(|error| error.kind())).unwrap();
    });
    let ehlo = "probe.example".to_owned();
    is(MailCheck { ehlo, ..mail(MailProtocol::Smtp, addr) }, Outcome::Success, "");
    assert_eq!(ended.recv().unwrap(), Ok(0), "the connection was reset");
    assert_eq!(*heard.lock().unwrap(), "EHLO probe.example\r\nQUIT\r\n");
}

/// A server that sends the greeting and the first answers from `before`, upgrades to TLS, and then
/// answers with `within`. Its certificate expires in this many days.
fn upgrades(before: &'static [&'static str], within: &'static str, days: i64) -> SocketAddr {
    let config = tls_config(days);
    server(move |stream| {
        for (number, answer) in before.iter().enumerate() {
            if number > 0 {
                heard(stream);
            }
            stream.write_all(answer.as_bytes()).unwrap();
        }
        let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = rustls::StreamOwned::new(session, stream.try_clone().unwrap());
        // A client that does not trust the certificate closes the connection here.
        if stream.read(&mut [0; 1024]).is_ok() {
            let _gone = stream.write_all(within.as_bytes());
        }
    })
}

#[test]
fn tls_begins_on_the_open_connection() {
    let starttls =
        |protocol, addr| MailCheck { starttls: true, tls: Some(unverified()), ..mail(protocol, addr) };
    let smtp: &[&str] = &["220 mail\r\n", "250 mail\r\n", "220 go on\r\n"];
    let imap: &[&str] = &["* OK ready\r\n", "a OK\r\n", "a OK begin\r\n"];
    is(starttls(MailProtocol::Smtp, upgrades(smtp, "250 mail\r\n", 30)), Outcome::Success, "");
    is(starttls(MailProtocol::Imap, upgrades(imap, "a OK\r\n", 30)), Outcome::Success, "");
    let pop3 = starttls(MailProtocol::Pop3, upgrades(&["+OK ready\r\n", "+OK begin\r\n"], "+OK bye\r\n", 30));
    is(pop3, Outcome::Success, "");
    let untrusted = MailCheck { tls: None, ..starttls(MailProtocol::Smtp, upgrades(smtp, "", 30)) };
    is(untrusted, Outcome::Failure, "TLS: invalid peer certificate: ");
    let certificate = CertificateRule {
        expires_after: Some(Duration::from_secs(86_400 * 14)),
        ..CertificateRule::default()
    };
    for (days, reason) in [(-1, "the certificate has expired"), (2, "the certificate expires in 2d")] {
        let addr = upgrades(smtp, "250 mail\r\n", days);
        is(MailCheck { certificate, ..starttls(MailProtocol::Smtp, addr) }, Outcome::Failure, reason);
    }
    let refused = speaks("220 mail\r\n", &["250 mail\r\n", "502 5.5.1 unknown\r\n"]);
    is(starttls(MailProtocol::Smtp, refused), Outcome::Failure, "STARTTLS: 502 5.5.1 unknown");
    // Plain text that would be read as the first reply within TLS.
    let injected = speaks("220 mail\r\n", &["250 mail\r\n", "220 go on\r\n250 fake\r\n"]);
    is(starttls(MailProtocol::Smtp, injected), Outcome::Failure, "the server sent more than one reply");
}

#[test]
fn tls_begins_with_the_connection() {
    let config = tls_config(30);
    let addr = server(move |stream| {
        let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = rustls::StreamOwned::new(session, stream.try_clone().unwrap());
        stream.write_all(b"* OK ready\r\n").unwrap();
        let _len = stream.read(&mut [0; 1024]).unwrap();
        stream.write_all(b"a OK\r\n").unwrap();
    });
    is(MailCheck { tls: Some(unverified()), ..mail(MailProtocol::Imap, addr) }, Outcome::Success, "");
}
