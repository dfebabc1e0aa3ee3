//! Exact output of the operator commands.

use super::table::{Paint, Tone, plain, table};
use super::words::{count, latency, length, moment};
use super::{links, show};
use doorbell_control::{
    CheckView, CheckWord, Event, EventKind, Lifecycle, LinkView, OutcomeWord, ResultView,
};

const PLAIN: Paint = Paint { on: false };

#[test]
fn times_and_numbers() {
    let lengths =
        [(0, "0ms"), (999, "999ms"), (1000, "1s"), (60_000, "1m"), (192_000, "3m12s"), (18_120_000, "5h2m")];
    for (ms, text) in lengths {
        assert_eq!(length(ms), text);
    }
    assert_eq!(length(86_400_000 * 12 + 3_600_000 * 3), "12d3h");
    let latencies =
        [(7, "7us"), (1_250, "1.25ms"), (12_345, "12.3ms"), (999_999, "999.9ms"), (1_250_000, "1.25s")];
    assert_eq!(latency(7_200_000_000), "7200.00s");
    for (us, text) in latencies {
        assert_eq!(latency(us), text);
    }
    for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
        assert_eq!(count(number), text);
    }
    // The expected texts are those of `date -u -d @N`.
    for (secs, text) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_400, "2000-02-29T00:00:00.000Z"),
        (1_767_225_599, "2025-12-31T23:59:59.000Z"),
        (4_107_542_400, "2100-03-01T00:00:00.000Z"),
    ] {
        assert_eq!(moment(secs * 1000), text);
    }
}

#[test]
fn columns_are_as_wide_as_they_need() {
    let rows = [
        vec![plain("a"), (Tone::Good, "up".to_owned()), plain("")],
        vec![plain("läng"), plain("x"), plain("why")],
    ];
    assert_eq!(table(&["N", "STATE", "WHY"], &rows, PLAIN), "N     STATE  WHY\na     up\nläng  x      why\n");
    let painted = table(&["N"], &[vec![(Tone::Bad, "down".to_owned())]], Paint { on: true });
    assert_eq!(painted, "\x1b[1mN\x1b[0m\n\x1b[1;31mdown\x1b[0m\n");
}

fn check() -> CheckView {
    CheckView {
        name: "db".into(),
        kind: "tcp".into(),
        from: None,
        state: CheckWord::GoingDown,
        age_ms: 3_000,
        last: Some(ResultView { age_ms: 900, outcome: OutcomeWord::Failure, latency_us: 1_250 }),
        reason: "connection refused".into(),
        last_success_age_ms: Some(61_000),
        successes: 0,
        failures: 1,
        interval_ms: 5_000,
        next_in_ms: Some(100),
        history: vec![ResultView { age_ms: 900, outcome: OutcomeWord::Failure, latency_us: 1_250 }],
    }
}

#[test]
fn a_check_is_a_line() {
    assert_eq!(
        show::checks(&[check()], false, PLAIN),
        "CHECK  TYPE  STATE       FOR  LAST     AGO    TOOK    NEXT      WHY\n\
         db     tcp   going_down  3s   failure  900ms  1.25ms  in 100ms  connection refused\n"
    );
    for (kind, next) in [("ttl", "on push"), ("http", "on demand")] {
        let check = CheckView { kind: kind.into(), next_in_ms: None, ..check() };
        assert!(show::checks(&[check], false, PLAIN).contains(next), "{kind}");
    }
    let wide = show::checks(&[check()], true, PLAIN);
    assert!(wide.contains("1 bad") && wide.contains("1m1s ago") && wide.contains("  5s  "), "{wide}");
    assert_eq!(
        show::histories(&[check()], PLAIN),
        "db (tcp) going_down for 3s: connection refused\n    900ms ago  failure      1.25ms\n"
    );
    assert_eq!(show::checks(&[], false, PLAIN), "no checks are configured\n");
}

#[test]
fn a_clock_that_is_hours_off_is_shown_in_full() {
    let link = LinkView {
        name: "eu".into(),
        peer: String::new(),
        connected_ms: Some(3_000),
        last_end: String::new(),
        waiting: 0,
        subjects: 1,
        round_trip_us: Some(1_250),
        clock_offset_us: Some(-7_200_000_000),
        clock_error_us: Some(1_250),
        minute: None,
        counters: [].into(),
    };
    assert_eq!(
        links::links(&[link], false, PLAIN),
        "LINK  PEER      STATE  FOR  RTT P50  P99  ONE WAY P50  CLOCK               LOST  DROPPED  WAITING  WHY\n\
         eu    accepted  up     3s   -        -    -            -7200.00s ± 1.25ms  0     0        0\n"
    );
}

#[test]
fn an_event_is_a_line() {
    let event = |number, what| Event { number, at_unix_ms: 1000, at_uptime_ms: 1, what };
    let moved =
        EventKind::Lifecycle { from: Lifecycle::Ready, to: Lifecycle::Draining, reason: "SIGTERM".into() };
    let check = EventKind::Check {
        name: "db".into(),
        from: CheckWord::Up,
        to: CheckWord::GoingDown,
        reason: String::new(),
    };
    assert_eq!(
        show::events(&[event(1, moved), event(2, check)], 3, PLAIN),
        "(3 older events were discarded)\n\
         1970-01-01T00:00:01.000Z     1  doorbell: ready -> draining (SIGTERM)\n\
         1970-01-01T00:00:01.000Z     2  check db: up -> going_down\n"
    );
}
