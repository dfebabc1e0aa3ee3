//! Owns the tests of the self-test's negative verdicts: what a kernel with a fault would get.
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
    assert!(why.starts_with("reply and FIN came in ") || why.contains("state Established"), "{why}");
}

#[test]
fn an_accept_that_stalls_costs_one_patience() {
    let Some(mut bench) = bench() else { return };
    let begun = now();
    let why = bench.accepted().map(drop).unwrap_err();
    assert!(begun.elapsed() >= PATIENCE);
    assert_eq!(why, "nothing within 9 ms");
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
    assert_eq!(why, "the peer saw nothing within 9 ms");
}

#[test]
fn the_end_of_all_time_cuts_a_wait_short() {
    let Some(mut bench) = bench() else { return };
    bench.ends_at = now();
    assert!(bench.accepted().is_err());
}
