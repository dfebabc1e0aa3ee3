//! Connections with random valid requests split at random positions, and with arbitrary bytes.

use crate::common::harness::{Peer, statuses};
use doorbell_http::{Limits, Next};
use proptest::collection::vec;
use proptest::prelude::*;

/// A request, and the end of its reply, which describes the request.
fn request() -> impl Strategy<Value = (Vec<u8>, String)> {
    let body = vec(any::<u8>().prop_map(|byte| byte % 26 + b'a'), 0..60);
    (0..4u8, body, vec("[A-Za-z-]{1,20}: [ -~]{0,40}\r\n", 0..4), 0..1000u32, vec(1..9usize, 60)).prop_map(
        |(kind, body, lines, id, sizes)| {
            let text = String::from_utf8(body.clone()).expect("text");
            let lines: String = lines.into_iter().map(|line| format!("X-{line}")).collect();
            let start = |method: &str| format!("{method} /want/{id}?{text} HTTP/1.1\r\nHost: h\r\n{lines}");
            let (bytes, shown) = match kind {
                0 => (start("GET") + "\r\n", String::new()),
                1 => (start("POST") + &format!("Content-Length: {}\r\n\r\n{text}", body.len()), text.clone()),
                2 => (
                    start("PUT") + "Transfer-Encoding: chunked\r\n\r\n" + &chunks(&text, &sizes),
                    text.clone(),
                ),
                _ => (format!("\r\n{}\r\n", start("DELETE")), String::new()),
            };
            (bytes.into_bytes(), format!("/want/{id} Some(\"{text}\")|[{shown}]"))
        },
    )
}

fn chunks(text: &str, sizes: &[usize]) -> String {
    let (mut rest, mut coded) = (text, String::new());
    for &size in sizes {
        let (chunk, after) = rest.split_at(size.min(rest.len()));
        rest = after;
        if !chunk.is_empty() {
            coded += &format!("{:X};s={size}\r\n{chunk}\r\n", chunk.len());
        }
    }
    assert!(rest.is_empty());
    coded + "0\r\nT: v\r\n\r\n"
}

fn pieces<'a>(stream: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    cuts.sort_unstable();
    let mut from = 0;
    cuts.into_iter()
        .chain([stream.len()])
        .map(|cut| &stream[std::mem::replace(&mut from, cut)..cut])
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn good_requests_are_answered_in_order(requests in vec(request(), 1..8), cuts in vec(any::<prop::sample::Index>(), 0..12), output_bytes_max in 1..2000usize) {
        let stream: Vec<u8> = requests.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let peer = Peer::run(&Limits { output_bytes_max, ..Limits::default() }, pieces(&stream, &cuts));
        prop_assert_eq!(peer.next, Next::Read);
        prop_assert_eq!(statuses(&peer.sent), vec![200; requests.len()]);
        let mut sent = String::from_utf8(peer.sent).unwrap();
        for (_, shown) in &requests {
            let (start, end) = shown.split_once('|').unwrap();
            let at = sent.find(start);
            prop_assert!(at.is_some(), "{} in {}", start, sent);
            sent.drain(..at.unwrap() + start.len());
            let at = sent.find(end);
            prop_assert!(at.is_some(), "{} in {}", end, sent);
            sent.drain(..at.unwrap() + end.len());
        }
    }

    #[test]
    fn one_changed_byte_never_depends_on_the_cut(requests in vec(request(), 1..4), at in any::<prop::sample::Index>(), byte in any::<u8>(), cuts in vec(any::<prop::sample::Index>(), 1..6)) {
        let mut stream: Vec<u8> = requests.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let at = at.index(stream.len());
        stream[at] = byte;
        let limits = Limits::default();
        let whole = Peer::run(&limits, [stream.as_slice()]).trace();
        prop_assert_eq!(&Peer::run(&limits, pieces(&stream, &cuts)).trace(), &whole);
        prop_assert_eq!(&Peer::run(&limits, stream.chunks(1)).trace(), &whole);
    }
}
