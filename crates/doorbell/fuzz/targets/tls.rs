//! TLS records split at any position. Before a session any input ends without a panic; within a
//! session HTTP over TLS gives the same replies as HTTP.
//!
//! The first byte selects the kind of run, the second the length of the chunks in which bytes
//! arrive, the third the length of records. The remaining bytes are the input.

use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};

use doorbell::http::{Client, Date, Next, Out, Time};
use doorbell::protocol::{Io, Local, Protocol};
use doorbell::tls::{Acceptor, CertPair, TlsConfig};
use doorbell::{Http1, HttpLimits, StaticReply, Status, service_fn};
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// A protocol, one of its connections, and the state that a worker has for the connection.
struct Served<P: Protocol> {
    protocol: P,
    conn: P::Conn,
    input: Vec<u8>,
    local: Local,
    sent: Vec<u8>,
    ended: bool,
}

impl<P: Protocol> Served<P> {
    fn new(protocol: P) -> Self {
        let conn = protocol.open(Time::ZERO);
        Self { protocol, conn, input: Vec::new(), local: Local::new(), sent: Vec::new(), ended: false }
    }

    fn feed(&mut self, bytes: &[u8], piece_len: usize) {
        for piece in bytes.chunks(piece_len) {
            let mut fresh = piece;
            for turn in 0.. {
                if self.ended {
                    return;
                }
                assert!(turn < 10_000, "the output never ends");
                let (next, out) = self.call(|protocol, conn, io| protocol.handle_input(conn, fresh, io));
                self.send(&out);
                match next {
                    Next::Read => break,
                    Next::Flush => fresh = &[],
                    Next::Close | Next::CloseClean | Next::CloseLinger | Next::HandOver | Next::Wait => {
                        self.ended = true;
                    }
                }
            }
        }
    }

    fn eof(&mut self) {
        if !self.ended {
            let (next, out) = self.call(|protocol, conn, io| protocol.handle_eof(conn, io));
            self.send(&out);
            assert_ne!(next, Next::Read, "there is nothing more to read");
            self.ended = true;
        }
    }

    fn send(&mut self, out: &Out) {
        self.sent.extend_from_slice(&out.head);
        self.sent.extend_from_slice(&out.body);
    }

    fn call(&mut self, call: impl FnOnce(&P, &mut P::Conn, Io<'_>) -> Next) -> (Next, Out) {
        let (mut out, date) = (Out::new(), Date::new(784_111_777));
        let io = Io {
            now: Time::ZERO,
            date: &date,
            input: &mut self.input,
            out: &mut out,
            draining: false,
            local: &mut self.local,
            client: &Client::UNKNOWN,
        };
        (call(&self.protocol, &mut self.conn, io), out)
    }
}

struct Material {
    acceptor: Acceptor,
    clients: [Arc<ClientConfig>; 2],
}

fn material() -> &'static Material {
    static MATERIAL: OnceLock<Material> = OnceLock::new();
    MATERIAL.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let pair =
            CertPair::from_pem(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes());
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).expect("a root");
        let clients = [&TLS12, &TLS13].map(|version| {
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
            let builder = builder.expect("a version").with_root_certificates(roots.clone());
            Arc::new(builder.with_no_client_auth())
        });
        let acceptor = Acceptor::new(&TlsConfig::new(pair.expect("a pair"))).expect("an acceptor");
        Material { acceptor, clients }
    })
}

fn http() -> Http1 {
    let small = StaticReply::text(Status::OK, "ok\n");
    let large = StaticReply::text(Status::OK, vec![b'x'; 50_000]);
    let service = service_fn(move |request, reply| match request.path() {
        "/large" => reply.send(&large),
        _ => reply.send(&small),
    });
    Http1::new(service).limits(HttpLimits::default())
}

/// Runs the target on one input.
pub(crate) fn run(data: &[u8]) {
    let Some((&[kind, piece_len, record_len], rest)) = data.split_first_chunk::<3>() else { return };
    let material = material();
    let piece_len = usize::from(piece_len) + 1;
    let tls = || http().tls(material.acceptor.clone());
    if kind & 2 == 0 {
        let mut raw = Served::new(tls());
        raw.feed(rest, piece_len);
        return raw.eof();
    }
    let mut served = Served::new(tls());
    let name = ServerName::try_from("localhost").expect("a name");
    let config = Arc::clone(&material.clients[usize::from(kind & 1)]);
    let mut client = ClientConnection::new(config, name).expect("a client");
    let mut plaintext = Vec::new();
    exchange(&mut client, &mut served, piece_len, &mut plaintext);
    assert!(!client.is_handshaking());
    let mut plain = Served::new(http());
    for record in rest.chunks(usize::from(record_len) + 1) {
        client.writer().write_all(record).expect("room for a record");
        exchange(&mut client, &mut served, piece_len, &mut plaintext);
        plain.feed(record, usize::MAX);
    }
    if kind & 4 != 0 {
        client.send_close_notify();
        exchange(&mut client, &mut served, piece_len, &mut plaintext);
    } else {
        served.eof();
        exchange(&mut client, &mut served, piece_len, &mut plaintext);
    }
    plain.eof();
    assert!(plaintext == plain.sent, "TLS changes nothing: {plaintext:?} {:?}", plain.sent);
    assert_eq!(served.protocol.requests(&served.conn), plain.protocol.requests(&plain.conn));
    assert!(served.ended && plain.ended);
}

/// Exchanges data until neither side has any.
fn exchange<P: Protocol>(
    client: &mut ClientConnection,
    served: &mut Served<P>,
    piece_len: usize,
    plaintext: &mut Vec<u8>,
) {
    loop {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).expect("a vector takes any bytes");
        }
        if wire.is_empty() && served.sent.is_empty() {
            return;
        }
        served.feed(&wire, piece_len);
        let sent = std::mem::take(&mut served.sent);
        let mut sent = sent.as_slice();
        while !sent.is_empty() && client.read_tls(&mut sent).expect("a slice") > 0 {
            let state = client.process_new_packets().expect("the server speaks TLS");
            let start = plaintext.len();
            plaintext.resize(start + state.plaintext_bytes_to_read(), 0);
            client.reader().read_exact(&mut plaintext[start..]).expect("as many bytes as reported");
        }
    }
}
