//! Tests every budget at and above its limit, and streams that open, end, wait and stall.

use super::*;

const END: u8 = 1;

fn at(secs: u64) -> Time {
    Time::ZERO.after(Duration::from_secs(secs))
}

fn frame(kind: u8, flags: u8, stream: u32, len: u32) -> Vec<u8> {
    let mut bytes = len.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.resize(bytes.len() + len as usize, 0);
    bytes
}

fn limits() -> FloodLimits {
    let mut limits = FloodLimits::new(Budget::default(), at(0));
    limits.handle_received(&[b'P'; PREFACE_LEN], at(0)).unwrap();
    limits
}

/// Returns the number of frames until the connection is ended, and the reason.
fn allowed(limits: &mut FloodLimits, mut next: impl FnMut(u32) -> Vec<u8>) -> (u32, Abuse) {
    for count in 0..100_000 {
        if let Err(abuse) = limits.handle_received(&next(count), at(1)) {
            return (count, abuse);
        }
    }
    panic!("no limit found");
}

#[test]
fn each_flood_ends_at_its_budget() {
    let odd = |count: u32| count * 2 + 1;
    let rapid_reset =
        |count| [frame(HEADERS, END, odd(count), 20), frame(RST_STREAM, 0, odd(count), 4)].concat();
    assert_eq!(allowed(&mut limits(), rapid_reset), (200, Abuse::Resets));
    for kind in [2, 4, 6, 7, 0x42] {
        assert_eq!(allowed(&mut limits(), |_| frame(kind, 0, 0, 6)), (1000, Abuse::Control), "{kind}");
    }
    assert_eq!(allowed(&mut limits(), |_| frame(DATA, 0, 1, 0)), (1024, Abuse::TinyData));
    assert_eq!(allowed(&mut limits(), |_| frame(DATA, 0, 1, 15)), (1024, Abuse::TinyData));
    assert_eq!(allowed(&mut limits(), |_| frame(WINDOW_UPDATE, 0, 0, 4)), (1000, Abuse::WindowUpdates));
    assert_eq!(allowed(&mut limits(), |_| frame(CONTINUATION, 0, 1, 1)), (4, Abuse::Continuations));
    let blocks = |count: u32| frame(HEADERS, END, odd(count), 16 << 10);
    assert_eq!(allowed(&mut limits(), blocks), (512, Abuse::HeaderBytes));
    assert_eq!(allowed(&mut limits(), |count| frame(HEADERS, END, odd(count), 1)), (1024, Abuse::Streams));
}

#[test]
fn resets_for_client_errors_count_as_resets() {
    let mut limits = limits();
    for count in 0..200 {
        limits.handle_received(&frame(HEADERS, END, count * 2 + 1, 1), at(1)).unwrap();
        limits.handle_sent(&frame(RST_STREAM, 0, count * 2 + 1, 4), at(1)).unwrap();
    }
    assert_eq!(limits.handle_sent(&frame(RST_STREAM, 0, 999, 4), at(1)), Err(Abuse::Resets));
}

#[test]
fn counters_restart_after_the_window_and_updates_depend_on_sent_frames() {
    let mut limits = limits();
    let ping = frame(6, 0, 0, 8);
    for second in [1, 11, 22] {
        for _ in 0..1000 {
            limits.handle_received(&ping, at(second)).unwrap();
        }
    }
    assert_eq!(limits.handle_received(&ping, at(31)), Err(Abuse::Control));
    let mut limits = self::limits();
    for _ in 0..600 {
        limits.handle_sent(&frame(DATA, 0, 1, 100), at(31)).unwrap();
    }
    for _ in 0..2200 {
        limits.handle_received(&frame(WINDOW_UPDATE, 0, 0, 4), at(31)).unwrap();
    }
    assert!(limits.handle_received(&frame(WINDOW_UPDATE, 0, 0, 4), at(31)).is_err());
}

#[test]
fn sequential_requests_are_no_abuse_and_use_up_the_connection() {
    let mut limits = limits();
    for count in 0..10_000 {
        assert!(!limits.is_used_up());
        let stream = count * 2 + 1;
        limits.handle_received(&frame(HEADERS, END, stream, 40), at(1)).unwrap();
        limits.handle_sent(&frame(HEADERS, 0, stream, 40), at(1)).unwrap();
        limits.handle_sent(&frame(DATA, END, stream, 3), at(1)).unwrap();
    }
    assert!(limits.is_used_up());
    assert_eq!((limits.last_stream(), limits.due(at(4))), (19_999, Due::Idle(Duration::from_secs(3))));
}

#[test]
fn a_stall_differs_from_waiting_and_working() {
    let mut limits = FloodLimits::new(Budget::default(), at(0));
    assert_eq!(limits.due(at(5)), Due::Silent(Duration::from_secs(5)));
    limits.handle_received(&[0; PREFACE_LEN], at(1)).unwrap();
    assert_eq!(limits.due(at(6)), Due::Silent(Duration::from_secs(6)), "the preface alone is not a frame");
    limits.handle_received(&frame(4, 0, 0, 6), at(6)).unwrap();
    limits.handle_received(&frame(HEADERS, END, 1, 9), at(10)).unwrap();
    assert_eq!(limits.due(at(15)), Due::Stalled(Duration::from_secs(5)));
    limits.set_waiting(true);
    assert_eq!(limits.due(at(15)), Due::Nothing);
    // An upload counts as progress until it stops.
    limits.handle_received(&frame(HEADERS, 0, 3, 9), at(20)).unwrap();
    limits.handle_received(&frame(DATA, 0, 3, 900), at(25)).unwrap();
    assert_eq!(limits.due(at(27)), Due::Stalled(Duration::from_secs(2)));
    limits.handle_sent(&frame(HEADERS, END, 3, 9), at(28)).unwrap();
    assert_eq!(limits.due(at(30)), Due::Nothing);
    limits.set_waiting(false);
    limits.handle_received(&frame(RST_STREAM, 0, 1, 4), at(31)).unwrap();
    assert_eq!(limits.due(at(33)), Due::Idle(Duration::from_secs(2)));
    // Trailers do not open a stream, and a reset of an ended stream has no effect.
    limits.handle_received(&frame(HEADERS, END, 3, 4), at(34)).unwrap();
    limits.handle_received(&frame(RST_STREAM, 0, 3, 4), at(34)).unwrap();
    assert_eq!(limits.due(at(35)), Due::Idle(Duration::from_secs(4)));
}

#[test]
fn a_closed_window_differs_from_a_slow_client() {
    let begin = || {
        let mut limits = FloodLimits::new(Budget::default(), at(0));
        limits.handle_received(&[0; PREFACE_LEN], at(0)).unwrap();
        limits.handle_received(&frame(HEADERS, END, 1, 9), at(1)).unwrap();
        assert_eq!(limits.windowless(), None, "there is no reply yet");
        limits
    };
    let sends = |limits: &mut FloodLimits, frames: &[Vec<u8>], secs| {
        limits.handle_sent(&frames.concat(), at(secs)).unwrap()
    };
    let mut limits = begin();
    sends(&mut limits, &[frame(HEADERS, END, 1, 9)], 2);
    assert_eq!(limits.windowless(), None, "without content no window is needed");
    // Content renews the deadline; an empty DATA frame does not.
    let mut limits = begin();
    sends(&mut limits, &[frame(HEADERS, 0, 1, 9), frame(DATA, 0, 1, 1)], 2);
    sends(&mut limits, &[frame(DATA, 0, 1, 0)], 3);
    assert_eq!(limits.windowless(), Some(at(2)));
    sends(&mut limits, &[frame(DATA, 0, 1, 1)], 4);
    assert_eq!(limits.windowless(), Some(at(4)));
    sends(&mut limits, &[frame(DATA, END, 1, 5)], 5);
    assert_eq!(limits.windowless(), None);
    // A window that closes after earlier replies is treated like a window that was never opened.
    limits.handle_received(&frame(HEADERS, END, 3, 9), at(6)).unwrap();
    sends(&mut limits, &[frame(HEADERS, 0, 3, 9)], 7);
    assert_eq!(limits.windowless(), Some(at(7)));
    // Neither counts as windowless: a client that received a whole window is only slow, and a
    // socket that is not writable shows a slow network.
    limits.block(true, at(8));
    assert_eq!(limits.windowless(), None);
    limits.block(false, at(9));
    assert_eq!(limits.windowless(), Some(at(9)));
    (0..4).for_each(|_| sends(&mut limits, &[frame(DATA, 0, 3, 16 << 10)], 10));
    assert_eq!((limits.windowless(), limits.due(at(15))), (None, Due::Stalled(Duration::from_secs(5))));
    let mut limits = begin();
    sends(&mut limits, &[frame(HEADERS, 0, 1, 9)], 2);
    limits.handle_received(&frame(HEADERS, END, 3, 9), at(3)).unwrap();
    sends(&mut limits, &[frame(HEADERS, 0, 3, 9)], 3);
    assert_eq!(limits.windowless(), Some(at(2)), "since the first reply");
    limits.handle_received(&frame(RST_STREAM, 0, 1, 4), at(4)).unwrap();
    assert_eq!(limits.windowless(), Some(at(2)), "the end of one reply is not progress of another");
    limits.handle_received(&frame(RST_STREAM, 0, 3, 4), at(4)).unwrap();
    assert_eq!(limits.windowless(), None, "no reply is waiting");
    // A concurrent upload does not wait for a window.
    limits.handle_received(&frame(HEADERS, 0, 5, 9), at(5)).unwrap();
    limits.handle_received(&frame(HEADERS, END, 7, 9), at(5)).unwrap();
    sends(&mut limits, &[frame(HEADERS, 0, 7, 9), frame(DATA, END, 7, 3)], 6);
    assert_eq!(limits.windowless(), None);
}

#[test]
fn a_watch_needs_a_window_once() {
    let mut limits = FloodLimits::new(Budget::default(), at(0));
    limits.handle_received(&[0; PREFACE_LEN], at(0)).unwrap();
    limits.handle_received(&frame(HEADERS, END, 1, 9), at(1)).unwrap();
    limits.set_waiting(true);
    limits.handle_sent(&frame(HEADERS, 0, 1, 9), at(1)).unwrap();
    assert_eq!(limits.windowless(), Some(at(1)), "the first message is immediate");
    limits.handle_sent(&frame(DATA, 0, 1, 7), at(1)).unwrap();
    assert_eq!(limits.windowless(), None);
    // A request an hour later has its own timeout.
    limits.handle_received(&frame(HEADERS, END, 3, 9), at(3600)).unwrap();
    limits.handle_sent(&frame(HEADERS, 0, 3, 9), at(3601)).unwrap();
    assert_eq!(limits.windowless(), Some(at(3601)));
    limits.handle_sent(&frame(DATA, END, 3, 2), at(3602)).unwrap();
    assert_eq!(limits.windowless(), None);
}

#[test]
fn a_job_is_no_stall() {
    let mut limits = FloodLimits::new(Budget::default(), at(0));
    limits.handle_received(&[0; PREFACE_LEN], at(0)).unwrap();
    limits.handle_received(&frame(HEADERS, END, 1, 9), at(1)).unwrap();
    limits.set_working(true, at(1));
    assert_eq!(limits.due(at(60)), Due::Nothing);
    limits.set_working(false, at(60));
    assert_eq!(
        limits.due(at(61)),
        Due::Stalled(Duration::from_secs(1)),
        "the client does not read the reply"
    );
}

/// Like `write_timeout` over HTTP/1: the client reads slowly, but it reads.
#[test]
fn content_that_is_sent_is_progress() {
    let mut limits = FloodLimits::new(Budget::default(), at(0));
    limits.handle_received(&[0; PREFACE_LEN], at(0)).unwrap();
    limits.handle_received(&frame(HEADERS, END, 1, 9), at(1)).unwrap();
    limits.handle_sent(&frame(HEADERS, 0, 1, 9), at(1)).unwrap();
    let data = frame(DATA, END, 1, 30_000);
    let (first, rest) = data.split_at(9 + 10_000);
    limits.handle_sent(first, at(5)).unwrap();
    assert_eq!(limits.due(at(6)), Due::Idle(Duration::from_secs(1)), "the header ends the stream");
    limits.handle_received(&frame(HEADERS, END, 3, 9), at(7)).unwrap();
    for (at_secs, piece) in (10..).step_by(9).zip(rest.chunks(5_000)) {
        limits.handle_sent(piece, at(at_secs)).unwrap();
        let since_goaway = limits.stalled_since(at(8), at(at_secs + 8));
        assert_eq!(limits.due(at(at_secs + 8)), Due::Stalled(Duration::from_secs(8)));
        assert_eq!(since_goaway, Some(Duration::from_secs(8)));
    }
    // A PONG is not progress.
    limits.handle_sent(&frame(6, 1, 0, 8), at(80)).unwrap();
    assert_eq!(limits.due(at(80)), Due::Stalled(Duration::from_secs(80 - 37)));
    limits.set_working(true, at(80));
    assert_eq!(limits.stalled_since(at(8), at(90)), None);
}
