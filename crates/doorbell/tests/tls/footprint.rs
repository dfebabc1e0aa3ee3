//! Tests of the memory of a waiting TLS connection: before its ClientHello, during its handshake,
//! between requests.

use std::sync::Arc;

use allocation_counter::measure;

use crate::memory::{Pair, Stand, VERSIONS, acceptor, client, client_config, http};

/// Bytes that `call` allocated and did not free.
fn held_by(call: impl FnOnce()) -> i64 {
    measure(call).bytes_current
}

#[test]
fn a_waiting_connection_holds_little() {
    for version in VERSIONS {
        let config = Arc::new(client_config(version, None));
        let acceptor = acceptor();
        // The first connection of a thread makes allocations that are made only once.
        Pair::new(client(&config), http(&acceptor)).ask("/large");
        let config = Arc::new(client_config(version, None));
        let mut pair = Pair::new(client(&config), http(&acceptor));
        let mut fresh = None;
        let open = held_by(|| fresh = Some(Stand::new(http(&acceptor))));
        pair.stand = fresh.unwrap();
        assert!(open < 1_024, "{version:?}: {open} bytes before the hello");
        let mut held = open;
        for _ in 0..4 {
            let wire = pair.wire_of_client();
            let stand = &mut pair.stand;
            held += held_by(|| {
                stand.feed(&wire, usize::MAX);
                stand.forget_history();
            });
            let sent = pair.stand.take_sent();
            held -= i64::try_from(sent.capacity()).unwrap();
            assert!(held < 12 * 1024, "{version:?}: {held} bytes in the handshake");
            pair.receive(&sent);
        }
        assert!(!pair.client.is_handshaking());
        let after_handshake = held;
        for path in ["/", "/large", "/"] {
            use std::io::Write;
            pair.client
                .writer()
                .write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes())
                .unwrap();
            let wire = pair.wire_of_client();
            let stand = &mut pair.stand;
            held += held_by(|| {
                stand.feed(&wire, usize::MAX);
                stand.forget_history();
            });
            let sent = pair.stand.take_sent();
            held -= i64::try_from(sent.capacity()).unwrap();
            pair.receive(&sent);
        }
        println!(
            "{version:?}: {open} before the hello, {after_handshake} after the handshake, {held} between requests"
        );
        assert!(held < 3_584, "{version:?}: {held} bytes between requests");
    }
}
