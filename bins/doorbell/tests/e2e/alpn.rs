//! HTTP/2 over TLS in special cases: a ClientHello in two records, and the connection limit.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use doorbell_testkit::peers::PATIENCE;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConnection, Error};

use crate::http2::config;
use crate::https::{Https, Stream, ask};
use crate::pki::localhost;
use crate::support::{Doorbell, Scratch, on_both_engines};

on_both_engines! {
    a_hello_in_two_records_is_one
    one_connection_too_many_gets_an_alert
    a_handshake_that_fails_at_once_gets_an_alert
}

/// Length of a record header, and the offset at which a ClientHello is split.
const HEADER_LEN: usize = 5;
const CUT: usize = 100;

struct Listener {
    doorbell: Doorbell,
    _files: Scratch,
}

fn start(engine: &str, rest: &str) -> Listener {
    let files = Scratch::new();
    let (cert, key) = localhost().write(&files, "tls");
    let tls = format!("[tls.a]\ncert = {cert:?}\nkey = {key:?}\n{rest}");
    Listener { doorbell: Doorbell::start_with(engine, &config("tls = \"a\"", &tls)), _files: files }
}

impl Listener {
    /// Runs the handshake of a client that offers these protocols. With `in_two`, its ClientHello
    /// is split into two records.
    fn shake_hands(&self, alpn: &[&[u8]], in_two: bool) -> Result<Stream, Error> {
        self.shake_hands_with("localhost", alpn, in_two)
    }

    /// As [`Self::shake_hands`], for this server name.
    fn shake_hands_with(&self, name: &'static str, alpn: &[&[u8]], in_two: bool) -> Result<Stream, Error> {
        let mut config = Https::new(self.doorbell.addr).config();
        Arc::make_mut(&mut config).alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        let mut session = ClientConnection::new(config, ServerName::try_from(name).unwrap()).unwrap();
        let mut socket = TcpStream::connect(self.doorbell.addr).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        if in_two {
            let mut hello = Vec::new();
            session.write_tls(&mut hello).unwrap();
            // The server must receive the first record alone.
            for record in cut(&hello) {
                socket.write_all(&record).unwrap();
                thread::sleep(Duration::from_millis(20));
            }
        }
        while session.is_handshaking() {
            if let Err(error) = session.complete_io(&mut socket) {
                return Err(error.downcast::<Error>().unwrap_or_else(|error| panic!("{error}")));
            }
        }
        Ok(Stream::new(session, socket))
    }
}

/// Splits the handshake message of a record into two records.
fn cut(hello: &[u8]) -> [Vec<u8>; 2] {
    let (header, message) = hello.split_at(HEADER_LEN);
    let record = |piece: &[u8]| {
        let len = u16::try_from(piece.len()).unwrap().to_be_bytes();
        [&header[..3], &len, piece].concat()
    };
    let (first, second) = message.split_at(CUT);
    [record(first), record(second)]
}

fn a_hello_in_two_records_is_one(engine: &str) {
    let listener = start(engine, "");
    for (alpn, chosen) in [(&[&b"h2"[..], b"http/1.1"][..], &b"h2"[..]), (&[b"http/1.1", b"h2"], b"http/1.1")]
    {
        for in_two in [false, true] {
            let stream = listener.shake_hands(alpn, in_two).unwrap();
            assert_eq!(stream.conn.alpn_protocol(), Some(chosen), "in two: {in_two}");
        }
    }
}

/// The limit of the connections of an address applies to HTTP/1 and HTTP/2 separately.
fn one_connection_too_many_gets_an_alert(engine: &str) {
    for limit in ["[http2]\nmax_connections = 1\n", "[connections]\nper_ip_max = 1\n"] {
        let listener = start(engine, limit);
        let first = listener.shake_hands(&[b"h2"], false).unwrap();
        let error = listener.shake_hands(&[b"h2", b"http/1.1"], false).unwrap_err();
        assert_eq!(error, Error::AlertReceived(AlertDescription::InternalError), "{limit}");
        let mut stream = listener.shake_hands(&[b"http/1.1"], false).unwrap();
        assert_eq!(ask(&mut stream, "/hello").unwrap().status, 200, "{limit}");
        drop(first);
    }
}

fn a_handshake_that_fails_at_once_gets_an_alert(engine: &str) {
    let listener = start(engine, "unknown_server_name = \"refuse\"\nhandshakes_per_ip = \"3/h\"\n");
    let refused = |alpn: &[u8]| listener.shake_hands_with("other.test", &[alpn], false).unwrap_err();
    let expected = refused(b"http/1.1");
    assert!(matches!(expected, Error::AlertReceived(_)), "{expected}");
    for _ in 0..2 {
        assert_eq!(refused(b"h2"), expected);
    }
    // The rate of the address is used up.
    assert_eq!(refused(b"h2"), Error::AlertReceived(AlertDescription::InternalError));
}
