//! Owns the tests of the negative verdicts that the self-test gives on a faulty kernel.
//! Does not know about: `capabilities`, see `tests/selftest.rs`.

use doorbell_testkit::skip;

use super::*;

fn bench() -> Option<Bench> {
    skip::io_uring().then(|| Bench::open(&Setup::default(), now() + Duration::from_secs(5)).unwrap())
}

#[test]
fn a_reply_that_leaves_before_its_fin_is_noticed() {
    let Some(mut bench) = bench() else { return };
    let why = bench.reply_and_fin(false, false).unwrap_err();
    assert!(why.starts_with("reply and FIN arrived in ") || why.contains("state Established"), "{why}");
}

#[test]
fn an_accept_that_stalls_costs_one_patience() {
    let Some(mut bench) = bench() else { return };
    let begun = now();
    let why = bench.accepted().map(drop).unwrap_err();
    assert!(begun.elapsed() >= PATIENCE);
    assert_eq!(why, "no event within 9 ms");
}

#[test]
fn a_close_that_takes_no_effect_is_noticed() {
    let Some(mut bench) = bench() else { return };
    bench.ring.accept(LISTENER, bench.listener.as_fd(), true, true);
    let client = bench.connect().unwrap();
    let _open = bench.accepted().unwrap();
    let begun = now();
    let why = bench.turn_until_readable(&client).unwrap_err();
    assert!(begun.elapsed() >= PATIENCE);
    assert_eq!(why, "the peer received nothing within 9 ms");
}

/// A machine may schedule the thread only after its deadline; an event that has arrived is still
/// found.
#[test]
fn what_is_there_is_found_though_the_time_is_over() {
    let Some(mut bench) = bench() else { return };
    bench.ends_at = now();
    bench.ring.accept(LISTENER, bench.listener.as_fd(), true, true);
    let mut client = bench.connect().unwrap();
    let (conn, _) = bench.accepted().unwrap();
    client.write_all(b"?").unwrap();
    bench.ring.recv(BUSY, conn.target(), false);
    bench.received_one_byte().unwrap();
    let Conn::Fixed(index) = conn else { unreachable!("a direct accept") };
    bench.ring.close_fixed(BUSY, index);
    bench.turn_until_readable(&client).unwrap();
}

#[test]
fn what_is_seen_late_is_no_verdict_and_is_tried_a_few_times() {
    if !skip::io_uring() {
        return;
    }
    let run = |late: u32| {
        let mut tries = 0;
        let verdict = verdict(&Setup::default(), now() + TIME_MAX, |bench| {
            tries += 1;
            let closed_at = if tries <= late { now() - DOUBTFUL } else { now() };
            bench.took_since(closed_at).map(|_| "at once".to_owned())
        });
        (verdict.ok, tries)
    };
    assert_eq!(run(0), (true, 1));
    assert_eq!(run(2), (true, 3));
    assert_eq!(run(9), (false, TRIES_MAX));
}

#[test]
fn the_end_of_all_time_cuts_a_wait_short() {
    let Some(mut bench) = bench() else { return };
    bench.ends_at = now();
    assert!(bench.accepted().is_err());
}
