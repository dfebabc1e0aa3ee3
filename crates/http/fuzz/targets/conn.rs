//! Target: a scripted connection with pipelined requests in random pieces, followed by the end of
//! input or a deadline.

#[path = "../../tests/common/harness.rs"]
mod harness;

use doorbell_http::{Limits, Next};
use harness::{Peer, Trace, statuses};
use std::time::Duration;

/// Runs the target. Byte 0 selects the limits and how the input ends, byte 1 the number of splits.
/// Two bytes per split follow, then the input.
pub(crate) fn run(data: &[u8]) {
    let Some((&[choice, cuts_count], rest)) = data.split_first_chunk::<2>() else { return };
    let Some((cuts, stream)) = rest.split_at_checked(usize::from(cuts_count % 8) * 2) else { return };
    if stream.len() > 8192 {
        return;
    }
    let limits = limits(choice);
    let mut cuts: Vec<usize> = cuts
        .chunks_exact(2)
        .map(|pair| (usize::from(pair[0]) << 8 | usize::from(pair[1])) % (stream.len() + 1))
        .collect();
    cuts.sort_unstable();

    let whole = play(&limits, stream, &[], choice);
    assert_eq!(play(&limits, stream, &cuts, choice), whole);
    assert_eq!(play(&limits, stream, &(1..stream.len()).collect::<Vec<_>>(), choice), whole);
    // Asserts that every reply is complete.
    statuses(&whole.sent);
}

fn limits(choice: u8) -> Limits {
    match choice % 4 {
        0 => {
            Limits { head_bytes_max: 96, request_line_bytes_max: 48, body_bytes_max: 24, ..Limits::default() }
        }
        1 => Limits { fields_max: 2, requests_per_conn_max: 2, tiny_chunks_max: 2, ..Limits::default() },
        2 => Limits { output_bytes_max: 1, body_rate_min: 0, ..Limits::default() },
        _ => Limits::default(),
    }
}

fn play(limits: &Limits, stream: &[u8], cuts: &[usize], choice: u8) -> Trace {
    let mut peer = Peer::new(limits.clone());
    let mut from = 0;
    for &cut in cuts.iter().chain([&stream.len()]) {
        if peer.input(&stream[from..cut]) != Next::Read {
            return peer.trace();
        }
        from = cut;
    }
    assert!(
        peer.conn.deadline() > peer.now && peer.conn.deadline() <= peer.now.after(Duration::from_secs(30))
    );
    match choice >> 2 & 3 {
        0 => {}
        1 => assert!(matches!(peer.eof(), Next::Close | Next::CloseLinger)),
        _ => assert!(matches!(peer.timeout(), Next::Close | Next::CloseLinger)),
    }
    peer.trace()
}
