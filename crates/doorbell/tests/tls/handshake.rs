//! Tests of successful handshakes: versions, every split of the input, resumption, names,
//! protocols.
//!
//! Does not know about: clients with certificates (see `mutual`).

use std::sync::Arc;

use doorbell::tls::{Acceptor, TlsVersion, UnknownName};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, HandshakeKind};

use crate::memory::{Pair, VERSIONS, acceptor, client, client_config, client_for, config, http};
use crate::pki::{Wish, ca};

#[test]
fn handshakes_of_both_versions_complete() {
    for (version, text) in VERSIONS.into_iter().zip(["1.2", "1.3"]) {
        let acceptor = acceptor();
        let mut pair = Pair::new(client(&Arc::new(client_config(version, None))), http(&acceptor));
        let reply = pair.ask("/client");
        assert!(
            reply.ends_with(&format!("name=localhost alpn=- client=- version={text} resumed=false")),
            "{reply}"
        );
        assert!(pair.ask("/").ends_with("\r\n\r\nok\n"), "the connection is kept");
        let stats = acceptor.stats();
        assert_eq!(stats.handshakes_tls12 + stats.handshakes_tls13, 1, "{stats:?}");
        assert_eq!(stats.handshakes_live, 0);
    }
}

#[test]
fn every_split_of_the_input_gives_the_same() {
    for version in VERSIONS {
        let config = Arc::new(client_config(version, None));
        let acceptor = acceptor();
        // All chunks have the same length. With chunks of one byte, every position in every message
        // is a split.
        for piece_len in (1..40).chain([64, 100, 128, 255, 256, 257, 500, 517, 518, 1000]) {
            let mut pair = Pair::new(client(&config), http(&acceptor));
            pair.piece_len = piece_len;
            let reply = pair.ask("/client");
            assert!(reply.contains("name=localhost"), "{version:?} in chunks of {piece_len}: {reply}");
            assert!(pair.stand.input.is_empty(), "nothing is left over");
            assert!(pair.ask("/").ends_with("ok\n"));
        }
    }
}

#[test]
fn a_split_at_each_single_byte_of_the_first_flight_and_of_a_request() {
    for version in VERSIONS {
        let config = Arc::new(client_config(version, None));
        let acceptor = acceptor();
        let hello_len = Pair::new(client(&config), http(&acceptor)).wire_of_client().len();
        for at in 0..hello_len.min(400) {
            let mut pair = Pair::new(client(&config), http(&acceptor));
            let hello = pair.wire_of_client();
            let (one, two) = hello.split_at(at);
            pair.stand.feed(one, usize::MAX);
            assert!(pair.stand.sent.is_empty(), "no reply to {at} bytes of a hello");
            pair.stand.feed(two, usize::MAX);
            let sent = pair.stand.take_sent();
            pair.receive(&sent);
            assert!(pair.ask("/").ends_with("ok\n"), "{version:?} split at {at}");
        }
        let mut pair = Pair::new(client(&config), http(&acceptor));
        pair.talk();
        for at in 0.. {
            use std::io::Write;
            pair.client.writer().write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let wire = pair.wire_of_client();
            if at >= wire.len() {
                break;
            }
            pair.plaintext.clear();
            let (one, two) = wire.split_at(at);
            pair.stand.feed(one, usize::MAX);
            pair.stand.feed(two, usize::MAX);
            let sent = pair.stand.take_sent();
            pair.receive(&sent);
            assert!(pair.plaintext.ends_with(b"ok\n"), "{version:?} request split at {at}");
        }
    }
}

#[test]
fn a_session_is_resumed_once_and_across_a_swap_of_certificates() {
    for version in VERSIONS {
        let config = Arc::new(client_config(version, None));
        let acceptor = acceptor();
        let mut first = Pair::new(client(&config), http(&acceptor));
        assert!(first.ask("/client").contains("resumed=false"));
        let mut second = Pair::new(client(&config), http(&acceptor));
        assert!(second.ask("/client").ends_with("resumed=true"), "{version:?}");
        assert_eq!(second.client.handshake_kind(), Some(HandshakeKind::Resumed));
        let other = ca().sign(Wish { names: &["localhost"], serial: 9, ..Wish::default() });
        assert!(acceptor.replace(&doorbell::tls::TlsConfig::new(other.pair())).unwrap());
        let mut third = Pair::new(client(&config), http(&acceptor));
        assert!(third.ask("/client").ends_with("resumed=true"), "{version:?} after a swap");
        assert_eq!(acceptor.stats().handshakes_resumed, 2);
    }
}

#[test]
fn nothing_is_resumed_if_that_is_disabled() {
    for version in VERSIONS {
        let config = Arc::new(client_config(version, None));
        let acceptor = Acceptor::new(&crate::memory::config().resumption(false)).unwrap();
        for _ in 0..2 {
            let mut pair = Pair::new(client(&config), http(&acceptor));
            assert!(pair.ask("/client").ends_with("resumed=false"), "{version:?}");
        }
    }
}

#[test]
fn early_data_is_never_offered() {
    let mut config = client_config(&TLS13, None);
    config.enable_early_data = true;
    let config = Arc::new(config);
    let acceptor = acceptor();
    let mut first = Pair::new(client(&config), http(&acceptor));
    assert!(first.ask("/").ends_with("ok\n"));
    let mut second = client(&config);
    assert!(second.early_data().is_none(), "the ticket allows no early data");
}

#[test]
fn the_certificate_is_chosen_by_name() {
    let of = |name: &'static str, serial| ca().sign(Wish { names: &[name], serial, ..Wish::default() });
    let (one, two, wild) = (of("one.test", 11), of("two.test", 12), of("*.wild.test", 13));
    let config = doorbell::tls::TlsConfig::new(one.pair()).pair(two.pair()).pair(wild.pair());
    let client_config = Arc::new(client_config(&TLS13, None));
    let presented = |acceptor: &Acceptor, name: &str| {
        let mut pair = Pair::new(client_for(&client_config, name), http(acceptor));
        pair.talk();
        pair.client.peer_certificates().map(|chain| chain[0].clone()).ok_or(pair.error)
    };
    let der = |signed: &crate::pki::Signed| signed.der().0[0].clone();
    let acceptor = Acceptor::new(&config).unwrap();
    let refusing = Acceptor::new(&config.unknown_name(UnknownName::Refuse)).unwrap();
    for acceptor in [&acceptor, &refusing] {
        assert_eq!(presented(acceptor, "one.test").unwrap(), der(&one));
        assert_eq!(presented(acceptor, "two.test").unwrap(), der(&two));
        assert_eq!(presented(acceptor, "TWO.test").unwrap(), der(&two));
        assert_eq!(presented(acceptor, "a.wild.test").unwrap(), der(&wild));
    }
    // The client does not accept the default certificate for these names, but the server presented
    // it.
    for unknown in ["a.b.wild.test", "wild.test", "other.test"] {
        let refused = presented(&acceptor, unknown).unwrap_err();
        assert!(matches!(refused, Some(rustls::Error::InvalidCertificate(_))), "{unknown}: {refused:?}");
        let refused = presented(&refusing, unknown).unwrap_err();
        assert!(matches!(refused, Some(rustls::Error::AlertReceived(_))), "{unknown}: {refused:?}");
    }
    let mut pair = Pair::new(client_for(&client_config, "192.0.2.7"), http(&refusing));
    pair.talk();
    let shown = matches!(pair.error, Some(rustls::Error::InvalidCertificate(_)));
    assert!(shown, "a client without a name gets the default certificate: {:?}", pair.error);
    assert!(acceptor.stats().handshakes_failed > 0);
}

#[test]
fn a_common_protocol_is_selected_or_the_handshake_fails() {
    let offer = |protocols: &[&[u8]]| {
        let mut config = client_config(&TLS13, None);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Pair::new(client(&Arc::new(config)), http(&acceptor()))
    };
    assert!(offer(&[b"h2", b"http/1.1"]).ask("/client").contains("alpn=http/1.1"));
    assert!(
        offer(&[b"http/1.0", b"http/1.1"]).ask("/client").contains("alpn=http/1.1"),
        "the server's preferred protocol"
    );
    assert!(offer(&[b"http/1.0"]).ask("/client").contains("alpn=http/1.0"));
    let mut refused = offer(&[b"h2"]);
    refused.talk();
    let alert = Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol));
    assert_eq!(refused.error, alert);
    let acceptor = Acceptor::new(&config().alpn(Vec::<String>::new())).unwrap();
    let mut config = client_config(&TLS13, None);
    config.alpn_protocols = vec![b"h2".to_vec()];
    assert!(Pair::new(client(&Arc::new(config)), http(&acceptor)).ask("/client").contains("alpn=-"));
}

#[test]
fn the_cheaper_hash_is_selected_regardless_of_the_clients_order() {
    use rustls::CipherSuite::{TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS13_AES_128_GCM_SHA256};
    for (version, suite) in
        VERSIONS.into_iter().zip([TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS13_AES_128_GCM_SHA256])
    {
        let mut pair = Pair::new(client(&Arc::new(client_config(version, None))), http(&acceptor()));
        pair.talk();
        assert_eq!(pair.client.negotiated_cipher_suite().unwrap().suite(), suite);
    }
}

#[test]
fn an_old_version_is_refused_if_configured() {
    let acceptor = Acceptor::new(&config().min_version(TlsVersion::Tls13)).unwrap();
    let mut pair = Pair::new(client(&Arc::new(client_config(&TLS12, None))), http(&acceptor));
    pair.talk();
    assert_eq!(pair.error, Some(rustls::Error::AlertReceived(AlertDescription::ProtocolVersion)));
    assert_eq!(acceptor.stats().handshakes_failed, 1);
}
