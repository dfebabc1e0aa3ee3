//! One TLS port for probes and an axum program: the ClientHello decides, before any reply.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use axum::{Router, routing::get};
use doorbell::protocol::HelloInfo;
use doorbell::tls::{Acceptor, CertPair, TlsConfig};
use doorbell::{CloseReason, Descriptors, Engine, Http1, Server, Workers};
use doorbell_tokio::{Control, Embed, Handed, Health, Probes};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};

use crate::common::{ENGINES, anywhere, patient, ready};

/// Host names of the ring threads and of the program.
const OURS: &str = "probes.example";
const THEIRS: &str = "app.example";

/// A protocol that only the program supports.
const APP: &[u8] = b"app/1";

/// Selects clients of the program by name or by protocol.
fn is_the_programs(hello: &HelloInfo<'_>) -> bool {
    hello.server_name == Some(THEIRS) || hello.alpn.contains(&APP)
}

/// Name and protocols that a client offers, and the expected protocol.
type Offer = (&'static str, &'static [&'static [u8]], Option<&'static [u8]>);

struct Port {
    control: Control,
    addr: SocketAddr,
    health: Health,
    roots: RootCertStore,
    serving: tokio::task::JoinHandle<()>,
}

/// The ring threads and the program have different keys. The program's certificate has both names.
async fn port(way: (Engine, Descriptors)) -> Port {
    let ours = generate_simple_self_signed([OURS.to_owned()]).unwrap();
    let theirs = generate_simple_self_signed([THEIRS.to_owned(), OURS.to_owned()]).unwrap();
    let mut roots = RootCertStore::empty();
    for signed in [&ours, &theirs] {
        roots.add(signed.cert.der().clone()).unwrap();
    }
    let pair =
        CertPair::from_pem(ours.cert.pem().as_bytes(), ours.signing_key.serialize_pem().as_bytes()).unwrap();
    let health = patient();
    let protocol = Http1::new(Probes::new(&health))
        .tls(Acceptor::new(&TlsConfig::new(pair)).unwrap())
        .hand_over_if(is_the_programs);
    let server = Server::builder()
        .engine(way.0)
        .descriptors(way.1)
        .conns_per_ip_max(0)
        .workers(Workers::Count(std::num::NonZeroU16::MIN))
        .conns_max(4_000)
        .listen(anywhere(), protocol);
    let (control, handed) = Embed::new(server).health(&health).start();
    let addr = ready(&control, way).await;
    let serving = tokio::spawn(serve(handed, theirs));
    Port { control, addr, health, roots, serving }
}

/// The program: its own handshake, with axum behind it.
async fn serve(mut handed: Handed, signed: CertifiedKey<KeyPair>) {
    let key = PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der());
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key.into())
        .unwrap();
    config.alpn_protocols = vec![APP.to_vec(), b"http/1.1".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let app = Router::new().route("/", get(async || "axum"));
    while let Some(connection) = handed.accept().await {
        assert_eq!(connection.stream.preread()[0], 22, "the hello is unread");
        let (acceptor, app) = (acceptor.clone(), app.clone());
        tokio::spawn(async move {
            let stream = acceptor.accept(connection.stream).await.unwrap();
            let service = TowerToHyperService::new(app);
            let _ended = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// A connection that sends its first bytes in two pieces.
struct CutFirst {
    stream: TcpStream,
    at: Option<usize>,
}

impl std::io::Read for CutFirst {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.stream.read(buf)
    }
}

impl std::io::Write for CutFirst {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        let Some(at) = self.at.take().filter(|at| *at < buf.len()) else { return self.stream.write(buf) };
        self.stream.write_all(&buf[..at])?;
        std::thread::yield_now();
        self.stream.write_all(&buf[at..])?;
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

/// The reply, and the selected protocol.
struct TlsReply {
    reply: String,
    alpn: Option<Vec<u8>>,
}

impl Port {
    async fn ask(&self, name: &'static str, alpn: &[&[u8]], path: &'static str, cut_at: usize) -> TlsReply {
        let mut config =
            ClientConfig::builder().with_root_certificates(self.roots.clone()).with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        let client = ClientConnection::new(Arc::new(config), ServerName::try_from(name).unwrap()).unwrap();
        let addr = self.addr;
        tokio::task::spawn_blocking(move || {
            let stream = TcpStream::connect(addr).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let mut stream = StreamOwned::new(client, CutFirst { stream, at: Some(cut_at) });
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n").unwrap();
            let mut reply = String::new();
            stream.read_to_string(&mut reply).unwrap();
            TlsReply { reply, alpn: stream.conn.alpn_protocol().map(<[u8]>::to_vec) }
        })
        .await
        .unwrap()
    }

    fn handed_over(&self) -> u64 {
        self.control.stats().ring.closed_because(CloseReason::HandedOver)
    }

    async fn end(self) {
        self.control.stop().await.unwrap();
        self.serving.await.unwrap();
    }
}

#[tokio::test]
async fn the_name_and_the_protocol_select_the_side_of_the_handshake() {
    for way in ENGINES {
        let port = port(way).await;
        let table: [Offer; 3] = [
            (THEIRS, &[], None),
            (THEIRS, &[b"http/1.1"], Some(b"http/1.1")),
            (OURS, &[b"http/1.1", APP], Some(APP)),
        ];
        for (name, alpn, agreed) in table {
            for cut_at in [1, 5, 100, 200, usize::MAX] {
                let tls_reply = port.ask(name, alpn, "/", cut_at).await;
                assert!(
                    tls_reply.reply.starts_with("HTTP/1.1 200 OK\r\n"),
                    "{way:?} {name}: {}",
                    tls_reply.reply
                );
                assert!(tls_reply.reply.ends_with("axum"), "{way:?} {name}: {}", tls_reply.reply);
                assert_eq!(tls_reply.alpn.as_deref(), agreed, "{way:?} {name} by the program's list");
            }
        }
        crate::common::until("all were handed over", || port.handed_over() == 15).await;

        // The ring threads serve the other requests, including the readiness of the program.
        for (ready, status) in [(false, "503"), (true, "200")] {
            port.health.set_ready(ready);
            let tls_reply = port.ask(OURS, &[], "/readyz", 100).await;
            assert!(
                tls_reply.reply.starts_with(&format!("HTTP/1.1 {status} ")),
                "{way:?}: {}",
                tls_reply.reply
            );
        }
        assert_eq!(port.handed_over(), 15);
        port.end().await;
    }
}

/// A TLS session cannot be moved, so a request that would be handed over on a plain connection is
/// refused.
#[tokio::test]
async fn inside_a_session_of_the_ring_lane_a_request_of_the_program_is_a_503_and_a_close() {
    for way in ENGINES {
        let port = port(way).await;
        let tls_reply = port.ask(OURS, &[], "/", usize::MAX).await.reply;
        assert!(tls_reply.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{tls_reply}");
        for field in ["Retry-After: 1\r\n", "Connection: close\r\n"] {
            assert!(tls_reply.contains(field), "{tls_reply}");
        }
        let not_taken = || port.control.stats().ring.closed_because(CloseReason::NotTaken);
        crate::common::until("it is counted", || not_taken() == 1).await;
        assert_eq!((port.handed_over(), port.control.stats().handed_out), (0, 0));
        let tls_reply = port.ask(OURS, &[], "/livez", usize::MAX).await.reply;
        assert!(tls_reply.starts_with("HTTP/1.1 200 OK\r\n"), "{tls_reply}");
        port.end().await;
    }
}
