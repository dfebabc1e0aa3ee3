//! PROXY headers made by a grammar and then damaged, against the `proxy-header` crate.
//!
//! Does not know about: which differences are allowed; the fuzz target lists them.

#[path = "../fuzz/targets/proxy.rs"]
mod target;

use doorbell_http::proxy::{Parsed, parse};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// A line that is often right.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let start = select(vec!["PROXY ", "PROXY ", "PROXY ", "PROXY", "PROXY\t", "proxy "]);
    let protocol = select(vec!["TCP4 ", "TCP4 ", "TCP6 ", "TCP6 ", "UNKNOWN", "UNKNOWN ", "TCP5 "]);
    let addr = select(vec!["192.0.2.1", "10.0.0.255", "::1", "2001:db8::17", "1.2.3", "01.2.3.4", ""]);
    let port = select(vec!["0", "80", "65535", "65536", "080", "+80", "", " 80"]);
    let end = select(vec!["\r\n", "\r\n", "\r\n", "\n", "\r", " \r\n", "\r\r\n"]);
    (start, protocol, addr.clone(), addr, port.clone(), port, end).prop_map(
        |(start, protocol, source, destination, from, to, end)| {
            format!("{start}{protocol}{source} {destination} {from} {to}{end}").into_bytes()
        },
    )
}

/// A binary header that is often right.
fn binary() -> impl Strategy<Value = Vec<u8>> {
    let command = select(vec![0x20, 0x21, 0x21, 0x21, 0x22, 0x11]);
    let family = select(vec![0, 0x11, 0x11, 0x12, 0x21, 0x21, 0x22, 0x31, 0x32, 0x10, 0x01, 0x13, 0x41]);
    let tlvs = vec((any::<u8>(), vec(any::<u8>(), 0..20)), 0..4);
    (command, family, vec(any::<u8>(), 216), tlvs, -3..3i16).prop_map(
        |(command, family, addrs, tlvs, off)| {
            let addrs_len = [0, 12, 36, 216].get(usize::from(family >> 4)).copied().unwrap_or(0);
            let mut block = addrs[..addrs_len].to_vec();
            for (kind, value) in tlvs {
                block.extend(
                    [&[kind, 0, u8::try_from(value.len()).expect("a short value")][..], &value].concat(),
                );
            }
            let len = i16::try_from(block.len()).expect("a short block").saturating_add(off / 2).max(0);
            [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &len.to_be_bytes(), &block].concat()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn as_the_other_parser(
        header in prop_oneof![line(), binary()],
        after in vec(any::<u8>(), 0..10),
        damage in proptest::option::weighted(0.3, (any::<usize>(), any::<u8>())),
    ) {
        let mut bytes = [header, after].concat();
        if let Some((at, byte)) = damage {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        target::run(&bytes);
    }

    #[test]
    fn as_the_other_parser_on_anything(bytes in vec(any::<u8>(), 0..100)) {
        target::run(&bytes);
    }
}

/// What the grammar makes is of every kind, or the test above would compare nothing.
#[test]
fn the_grammar_reaches_both_sides() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = prop_oneof![line(), binary()];
    let (mut good, mut refused, mut other) = (0, 0, 0);
    for _ in 0..2_000 {
        match parse(&strategy.new_tree(&mut runner).unwrap().current()) {
            Ok(Parsed::Complete(_)) => good += 1,
            Err(_) => refused += 1,
            Ok(_) => other += 1,
        }
    }
    assert!(good > 200 && refused > 200 && other > 50, "{good} {refused} {other}");
}
