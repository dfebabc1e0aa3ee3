//! Tests of hostile input: mutations of real sessions at every byte, noise, floods. The server
//! never panics, and every session ends.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use doorbell::http::Next;
use doorbell::protocol::Protocol;

use crate::memory::{Pair, Stand, VERSIONS, acceptor, client, client_config, http, in_fragments};

#[path = "../../fuzz/targets/tls.rs"]
mod fuzz_target;

#[test]
fn the_corpus_of_the_fuzz_target_is_replayed() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/tls");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        fuzz_target::run(&std::fs::read(entry.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files >= 20, "{files} files");
}

#[test]
fn a_flipped_byte_anywhere_in_a_handshake_leaves_nothing_behind() {
    for version in VERSIONS {
        let config = Arc::new(client_config(version, None));
        let acceptor = acceptor();
        let mut at = 0;
        loop {
            let mut pair = Pair::new(client(&config), http(&acceptor));
            let mut hello = pair.wire_of_client();
            if let Some(byte) = hello.get_mut(at) {
                *byte ^= 0x41;
            }
            pair.stand.feed(&hello, usize::MAX);
            let sent = pair.stand.take_sent();
            pair.receive(&sent);
            let mut rest = pair.wire_of_client();
            if at >= hello.len() + rest.len() {
                break;
            }
            if let Some(byte) = at.checked_sub(hello.len()).and_then(|at| rest.get_mut(at)) {
                *byte ^= 0x41;
            }
            pair.stand.feed(&rest, usize::MAX);
            if pair.stand.end.is_none() {
                assert_ne!(pair.stand.eof(), Next::Read, "{version:?}: byte {at}");
            }
            at += 1;
        }
        let stats = acceptor.stats();
        assert_eq!(stats.handshakes_live, 0, "all handshakes have ended: {stats:?}");
        let ended: u64 = stats.fields().map(|(_, count)| count).sum();
        assert!(ended >= at as u64 && stats.handshakes_failed > at as u64 / 2, "{stats:?}");
    }
}

#[test]
fn a_flipped_byte_anywhere_in_a_request_is_never_answered() {
    for version in VERSIONS {
        let config = Arc::new(client_config(version, None));
        let mut at = 5;
        loop {
            let mut pair = Pair::new(client(&config), http(&acceptor()));
            pair.talk();
            pair.client.writer().write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let mut wire = pair.wire_of_client();
            let Some(byte) = wire.get_mut(at) else { break };
            *byte ^= 0x41;
            pair.stand.feed(&wire, usize::MAX);
            let sent = pair.stand.take_sent();
            pair.receive(&sent);
            assert!(pair.plaintext.is_empty() && pair.stand.end.is_some(), "{version:?}: byte {at}");
            at += 1;
        }
        assert!(at > 40);
    }
}

const REQUESTS: [&[u8]; 7] = [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HEAD /large HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost a\r\n\r\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn noise_behind_a_plausible_header_ends(
        kind in prop::sample::select(vec![20_u8, 21, 22, 23, 24]),
        minor in 0_u8..5,
        noise in prop::collection::vec(any::<u8>(), 0..600),
        piece_len in 1_usize..200,
    ) {
        let len = u16::try_from(noise.len()).unwrap();
        let mut wire = vec![kind, 3, minor];
        wire.extend_from_slice(&len.to_be_bytes());
        wire.extend_from_slice(&noise);
        let mut stand = Stand::new(http(&acceptor()));
        stand.feed(&wire, piece_len);
        if stand.end.is_none() {
            prop_assert_eq!(stand.timeout_after(Duration::from_secs(5)), Next::Close);
        }
    }

    #[test]
    fn http_replies_are_the_same_over_tls(
        kind in 2_u8..8,
        piece_len: u8,
        record_len: u8,
        requests in prop::collection::vec(prop::sample::select(REQUESTS.to_vec()), 1..8),
        cut in 0_usize..40,
    ) {
        let mut data = vec![kind, piece_len, record_len];
        data.extend(requests.concat());
        data.truncate(data.len().saturating_sub(cut).max(3));
        fuzz_target::run(&data);
    }

    #[test]
    fn noise_in_a_session_ends_it(noise in prop::collection::vec(any::<u8>(), 1..300), piece_len in 1_usize..100, tls13: bool) {
        let config = Arc::new(client_config(VERSIONS[usize::from(tls13)], None));
        let mut pair = Pair::new(client(&config), http(&acceptor()));
        pair.talk();
        pair.stand.feed(&noise, piece_len);
        if pair.stand.end.is_none() {
            prop_assert!(pair.stand.eof() != Next::Read);
        }
    }
}

#[test]
fn a_hello_in_the_smallest_fragments_costs_little() {
    let mut hello = vec![1, 0, 10, 0];
    hello.resize(2_560, 0);
    let wire = in_fragments(&hello, 1);
    let acceptor = acceptor();
    let began = Instant::now();
    const TIMES: u32 = 20;
    for _ in 0..TIMES {
        let mut stand = Stand::new(http(&acceptor));
        stand.feed(&wire, 6);
        assert!(stand.end.is_none() && stand.tls.deadline(&stand.conn) > stand.now);
    }
    let each = began.elapsed() / TIMES;
    assert!(each < Duration::from_millis(if cfg!(debug_assertions) { 400 } else { 40 }), "{each:?}");
}

#[test]
fn empty_records_are_not_accepted_forever() {
    for version in VERSIONS {
        let config = Arc::new(client_config(version, None));
        let mut pair = Pair::new(client(&config), http(&acceptor()));
        pair.talk();
        let flood = [22, 3, 3, 0, 0].repeat(1000);
        pair.stand.feed(&flood, 500);
        assert!(pair.stand.end.is_some(), "{version:?}");
    }
}
