//! Every deadline and every end of input: the time of the deadline, and the resulting reply.

use crate::common::harness::{Peer, statuses};
use doorbell_http::{Limits, Next, Phase, RequestError, Time};
use std::time::Duration;

const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const BODY: &[u8] = b"POST /want HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n";

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A row contains the input after which the peer is silent, the time until the deadline, the reply
/// at the deadline, and the reply at the end of input.
#[test]
fn silence_and_end_in_every_phase() {
    let idle = [HEAD, b""].concat();
    let chunked = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (input, due, phase, at_deadline, at_eof) in [
        (b"".as_slice(), 10, Phase::Idle, None, None),
        (b"\r\n", 10, Phase::Head, None, None),
        (b"\r\n\r\n", 10, Phase::Head, None, None),
        (b"G", 10, Phase::Head, Some(408), Some(400)),
        (b"\r\nG", 10, Phase::Head, Some(408), Some(400)),
        (&HEAD[..HEAD.len() - 1], 10, Phase::Head, Some(408), Some(400)),
        (&idle, 30, Phase::Idle, None, None),
        (&[HEAD, b"\r"].concat(), 10, Phase::Head, None, None),
        (&[HEAD, b"G"].concat(), 10, Phase::Head, Some(408), Some(400)),
        (BODY, 5, Phase::Body, Some(408), Some(400)),
        (&[BODY, &[b'x'; 59_999]].concat(), 10, Phase::Body, Some(408), Some(400)),
        (chunked, 5, Phase::Body, Some(408), Some(400)),
        (&[chunked.as_slice(), b"5\r\nhello\r\n0\r\n"].concat(), 5, Phase::Body, Some(408), Some(400)),
    ] {
        let name = input.get(..40).unwrap_or(input).escape_ascii();
        let mut peer = Peer::run(&Limits::default(), [input]);
        assert_eq!((peer.next, peer.conn.phase()), (Next::Read, phase), "{name}");
        let wait = peer.conn.deadline().since(peer.now);
        assert!(wait >= secs(due) && wait < secs(due + 1), "{name}: {wait:?}");
        let served = statuses(&peer.sent).len();

        peer.now = Time::from_nanos(peer.conn.deadline().as_nanos() - 1);
        assert_eq!(peer.call(doorbell_http::Conn::handle_timeout), Next::Read, "{name}: not yet due");
        assert_eq!(
            peer.timeout(),
            if at_deadline.is_some() { Next::CloseLinger } else { Next::Close },
            "{name}"
        );
        assert_eq!(statuses(&peer.sent)[served..], *at_deadline.as_slice(), "{name}");
        assert_eq!(peer.conn.error(), at_deadline.map(|_| RequestError::Timeout));
        assert_eq!((peer.timeout(), peer.eof()), (Next::Close, Next::Close), "{name}: over");
        assert_eq!(peer.input(HEAD), Next::Close, "{name}: over");

        let mut peer = Peer::run(&Limits::default(), [input]);
        assert_eq!(peer.eof(), if at_eof.is_some() { Next::CloseLinger } else { Next::Close }, "{name}");
        assert_eq!(statuses(&peer.sent)[served..], *at_eof.as_slice(), "{name}");
        assert_eq!(peer.conn.error(), at_eof.map(|_| RequestError::Incomplete));
    }
}

#[test]
fn dripping_a_head_does_not_move_its_deadline() {
    let mut peer = Peer::new(Limits::default());
    let due = peer.now.after(secs(10));
    for byte in HEAD[..9].chunks(1) {
        peer.now = peer.now.after(secs(1));
        assert_eq!(peer.input(byte), Next::Read);
        assert_eq!(peer.conn.deadline(), due);
    }
}

#[test]
fn the_second_head_has_its_own_deadline_from_its_first_byte() {
    let mut peer = Peer::run(&Limits::default(), [HEAD]);
    peer.now = peer.now.after(secs(29));
    assert_eq!(peer.input(b"G"), Next::Read);
    let due = peer.now.after(secs(10));
    peer.now = peer.now.after(secs(3));
    assert_eq!(peer.input(b"E"), Next::Read);
    assert_eq!(peer.conn.deadline(), due);
}

/// Sends `bytes` of the body every `pause` until the body is refused or complete. Returns the time
/// passed and the statuses.
fn drip_body(limits: Limits, bytes: usize, pause: Duration) -> (Duration, Vec<u16>) {
    let mut peer = Peer::run(&limits, [BODY]);
    let start = peer.now;
    loop {
        let next = peer.now.after(pause);
        if peer.conn.deadline() <= next {
            assert_eq!(peer.timeout(), Next::CloseLinger);
            return (peer.now.since(start), statuses(&peer.sent));
        }
        peer.now = next;
        let _ = peer.input(&vec![b'x'; bytes]);
        if peer.conn.requests() > 0 {
            return (peer.now.since(start), statuses(&peer.sent));
        }
    }
}

#[test]
fn bodies_must_keep_up() {
    let second = secs(1);
    let no_rate = || Limits { body_rate_min: 0, ..Limits::default() };
    // 60,000 bytes at 1,200 bytes per second are complete after 50 s.
    assert_eq!(drip_body(Limits::default(), 1200, second), (secs(50), vec![200]));
    // 999 bytes per second, below the minimum of 1,024: the deficit of 25 bytes per second would
    // use up the 5 s of grace after about 200 s. The total time of 60 s ends earlier.
    assert_eq!(drip_body(Limits::default(), 999, second), (secs(60), vec![408]));
    // One byte per second: five bytes extend the deadline by 5 ms.
    let (cut, codes) = drip_body(Limits::default(), 1, second);
    assert!(cut >= secs(5) && cut < secs(5) + Duration::from_millis(10), "{cut:?}");
    assert_eq!(codes, [408]);
    // Without a minimum rate, the total time still applies.
    assert_eq!(drip_body(no_rate(), 1, second), (secs(60), vec![408]));
    // The pieces are large, but the pauses between them are too long.
    assert_eq!(drip_body(no_rate(), 20_000, secs(11)), (secs(10), vec![408]));
}

#[test]
fn the_last_request_says_so() {
    let close = |peer: &Peer| peer.sent.windows(19).any(|window| window == b"Connection: close\r\n");
    let mut peer = Peer::new(Limits::default());
    for request in 1..=1000 {
        assert!(!close(&peer));
        let expect = if request == 1000 { Next::CloseClean } else { Next::Read };
        assert_eq!(peer.input(HEAD), expect, "{request}");
    }
    assert!(close(&peer) && peer.conn.requests() == 1000);

    let mut peer = Peer::run(&Limits::default(), [HEAD]);
    peer.now = Time::from_nanos(1_000_000_000).after(secs(3600));
    assert_eq!(peer.input(HEAD), Next::CloseClean);
    assert!(close(&peer));

    let mut peer = Peer::run(&Limits::default(), [HEAD]);
    peer.closing = true;
    assert_eq!(peer.input(&HEAD.repeat(2)), Next::CloseLinger);
    assert!(close(&peer) && peer.conn.requests() == 2);

    let peer = Peer::run(&Limits { keep_alive: false, ..Limits::default() }, [HEAD]);
    assert!(close(&peer) && peer.next == Next::CloseClean);
}
