//! Cost of protecting a message: on a TLS 1.3 connection whose sides have authenticated once,
//! compared with an ECDSA signature on each message. Both sides, without system calls. Decision
//! 0065 has figures.
#![expect(clippy::unwrap_used, reason = "a bench may panic")]

use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use criterion::{Criterion, criterion_group, criterion_main};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, RootCertStore, ServerConfig, ServerConnection, SideData,
};

/// As many bytes as in a frame with a result (`cargo bench -p doorbell-link --bench message`).
const FRAME: [u8; 66] = [7; 66];

/// Both sides of a connection.
struct Pair {
    client: ClientConnection,
    server: ServerConnection,
    bytes: Vec<u8>,
}

impl Pair {
    /// A connection for which both sides have shown a certificate.
    fn open(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> Self {
        let name = ServerName::try_from("peer.test").unwrap();
        let client = ClientConnection::new(Arc::clone(client), name).unwrap();
        let server = ServerConnection::new(Arc::clone(server)).unwrap();
        let mut pair = Self { client, server, bytes: Vec::new() };
        while pair.client.is_handshaking() || pair.server.is_handshaking() {
            send(&mut pair.client, &mut pair.server, &mut pair.bytes);
            send(&mut pair.server, &mut pair.client, &mut pair.bytes);
        }
        assert!(pair.server.peer_certificates().is_some());
        pair
    }

    fn message(&mut self) {
        let mut read = [0; FRAME.len()];
        self.client.writer().write_all(black_box(&FRAME)).unwrap();
        send(&mut self.client, &mut self.server, &mut self.bytes);
        self.server.reader().read_exact(&mut read).unwrap();
        assert_eq!(read, FRAME);
    }
}

fn send<A: SideData, B: SideData>(
    from: &mut ConnectionCommon<A>,
    to: &mut ConnectionCommon<B>,
    bytes: &mut Vec<u8>,
) {
    bytes.clear();
    while from.wants_write() {
        from.write_tls(bytes).unwrap();
    }
    let mut left = &bytes[..];
    while !left.is_empty() {
        to.read_tls(&mut left).unwrap();
        to.process_new_packets().unwrap();
    }
}

/// Configurations of both sides, with certificates of one authority.
fn configs() -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let signed = || {
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(["peer.test".to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
        (vec![cert.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    };
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone()).unwrap();
    let (cert, key) = signed();
    let client =
        ClientConfig::builder().with_root_certificates(roots.clone()).with_client_auth_cert(cert, key);
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
    let (cert, key) = signed();
    let server = ServerConfig::builder().with_client_cert_verifier(verifier).with_single_cert(cert, key);
    (Arc::new(client.unwrap()), Arc::new(server.unwrap()))
}

fn protected(c: &mut Criterion) {
    let (client, server) = configs();
    let mut pair = Pair::open(&client, &server);
    c.bench_function("mutual TLS, message", |b| b.iter(|| pair.message()));
    c.bench_function("mutual TLS, connection", |b| b.iter(|| Pair::open(&client, &server)));

    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref()).unwrap();
    let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key.public_key().as_ref());
    c.bench_function("ECDSA P-256, message", |b| {
        b.iter(|| {
            let signature = key.sign(&random, black_box(&FRAME)).unwrap();
            public.verify(&FRAME, signature.as_ref()).unwrap();
        });
    });
}

criterion_group!(benches, protected);
criterion_main!(benches);
