//! Tests that every row is written, dropped or in the buffer, and that memory stays within the
//! limit.

use doorbell_history::{
    Backoff, Buffer, COUNTS_MAX, CheckResult, CounterName, FIRST, FrameId, Increments, Kind, LAST, Minute,
    Operation, Receipt, Row, Transition,
};
use proptest::prelude::*;
use std::time::Duration;

fn row(kind: Kind, number: u64, reason_len: usize) -> Row {
    let reason = || "x".repeat(reason_len).into();
    let increments = |name| Row::Increments(Increments { minute: number, name, counts: [1; COUNTS_MAX] });
    match kind {
        Kind::Link => increments(CounterName::Link("eu".into())),
        Kind::Minute => Row::Minute(Minute { minute: number, ..Minute::default() }),
        Kind::Operation => Row::Operation(Operation {
            at_ms: number,
            what: "drain",
            target: "all".into(),
            is_on: true,
            source: "",
            reason: reason(),
            until_ms: None,
        }),
        Kind::Prober => increments(CounterName::Prober { endpoint: "readyz".into(), prober: "kubelet" }),
        Kind::Receipt => Row::Receipt(Receipt {
            at_ms: number,
            link: "eu".into(),
            frame: FrameId::default(),
            size: 66,
            round_trip_us: 900,
            one_way_us: [1, 899],
            weight: 1,
        }),
        Kind::Result => Row::Result(CheckResult {
            at_ms: number,
            check: "db".into(),
            outcome: "success",
            latency_us: 1,
            weight: 1,
            reason: reason(),
        }),
        Kind::Transition => Row::Transition(Transition {
            at_ms: number,
            subject: "check",
            name: "db".into(),
            from: "up",
            to: "down",
            cause: "",
            reason: reason(),
        }),
    }
}

const fn number(row: &Row) -> u64 {
    match row {
        Row::Increments(row) => row.minute,
        Row::Minute(row) => row.minute,
        Row::Operation(row) => row.at_ms,
        Row::Receipt(row) => row.at_ms,
        Row::Result(row) => row.at_ms,
        Row::Transition(row) => row.at_ms,
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push(Kind, usize),
    Next(usize),
    Written,
    Refused,
    Split,
    Resize(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let push =
        (prop::sample::select(&Kind::ALL[..]), 0..200_usize).prop_map(|(kind, len)| Step::Push(kind, len));
    let other = prop_oneof![
        (1..40_usize).prop_map(Step::Next),
        Just(Step::Written),
        Just(Step::Refused),
        Just(Step::Split),
        (1..60_000_usize).prop_map(Step::Resize),
    ];
    prop::collection::vec(prop_oneof![8 => push, 2 => other], 0..1_000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_row_is_written_dropped_or_there(steps in steps()) {
        let mut bytes_max = 30_000;
        let mut buffer = Buffer::new(bytes_max);
        let mut last = [None; Kind::ALL.len()];
        let (mut pushed, mut batch_bytes) = (0, 0);
        for (at, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push(kind, len) => {
                    buffer.push(row(kind, at as u64, len));
                    pushed += 1;
                }
                Step::Next(rows_max) => {
                    let was_pending = buffer.has_pending();
                    if let Some(batch) = buffer.next(rows_max) {
                        prop_assert!(was_pending || batch.rows().len() <= rows_max);
                        prop_assert!(batch.rows().iter().all(|row| row.kind() == batch.kind()));
                        if !was_pending {
                            batch_bytes = batch.rows().iter().map(Row::bytes).sum();
                            for row in batch.rows() {
                                let last = &mut last[batch.kind() as usize];
                                prop_assert!(last.is_none_or(|last| last < number(row)), "oldest first, and once");
                                *last = Some(number(row));
                            }
                        }
                    }
                }
                Step::Written => buffer.written(),
                Step::Refused => buffer.refused(),
                Step::Split => {
                    buffer.split();
                }
                Step::Resize(size) => {
                    bytes_max = size;
                    buffer.resize(size);
                }
            }
            // A batch in progress is never dropped.
            let least = if buffer.has_pending() { batch_bytes } else { 0 };
            prop_assert!(buffer.bytes() <= bytes_max.max(least));
            let counts = buffer.counts();
            prop_assert_eq!(counts.iter().map(|counts| counts.added).sum::<u64>(), pushed);
            for counts in counts {
                prop_assert_eq!(counts.added, counts.written + counts.dropped() + counts.live);
            }
        }
        let live = buffer.rows() as u64;
        prop_assert_eq!(buffer.end(), live);
        prop_assert_eq!((buffer.rows(), buffer.bytes()), (0, 0));
    }
}

#[test]
fn the_oldest_of_the_least_important_kind_is_dropped() {
    let [transition, result] = [Kind::Transition, Kind::Result].map(|kind| row(kind, 0, 0).bytes());
    let mut buffer = Buffer::new(2 * transition + 3 * result);
    for number in 0..4 {
        buffer.push(row(Kind::Result, number, 0));
    }
    buffer.push(row(Kind::Transition, 10, 0));
    buffer.push(row(Kind::Transition, 11, 0));
    let full =
        |buffer: &Buffer| [Kind::Transition, Kind::Result].map(|kind| buffer.counts()[kind as usize].full);
    assert_eq!(full(&buffer), [0, 1]);
    for number in 12..20 {
        buffer.push(row(Kind::Transition, number, 0));
    }
    let [transitions, results] = full(&buffer);
    assert_eq!(results, 4, "all results go before the first transition");
    assert!(transitions > 0);
    buffer.push(row(Kind::Result, 20, 0));
    assert_eq!(full(&buffer)[1], 5, "a new result does not displace a transition");
    let mut last = None;
    while let Some(batch) = buffer.next(100) {
        last = batch.rows().last().map(number);
        buffer.written();
    }
    assert_eq!(last, Some(19));
}

#[test]
fn an_unfinished_batch_is_returned_again() {
    let mut buffer = Buffer::new(1 << 20);
    (0..10).for_each(|number| buffer.push(row(Kind::Result, number, 0)));
    let first = buffer.next(4).unwrap();
    buffer.push(row(Kind::Transition, 10, 0));
    let again = buffer.next(4).unwrap();
    assert_eq!((first.rows(), first.rows().len()), (again.rows(), 4));
    buffer.written();
    assert_eq!(buffer.next(4).unwrap().kind(), Kind::Transition);
    buffer.refused();
    assert_eq!(buffer.next(100).unwrap().rows().len(), 6);
    assert_eq!(buffer.rows(), 6);
}

#[test]
fn the_parts_of_a_batch_are_the_next_batches() {
    let mut buffer = Buffer::new(1 << 20);
    assert!(!buffer.split(), "no batch");
    (0..7).for_each(|number| buffer.push(row(Kind::Result, number, 0)));
    buffer.next(5);
    assert!(buffer.split() && buffer.split());
    buffer.push(row(Kind::Transition, 7, 0));
    assert!(!buffer.split(), "a single row");
    let parts = [(); 4].map(|()| {
        let batch = buffer.next(100).unwrap();
        buffer.written();
        batch.rows().iter().map(number).collect::<Vec<_>>()
    });
    assert_eq!(parts, [vec![0], vec![1], vec![2, 3, 4], vec![7]]);
    assert_eq!(buffer.rows(), 2);
}

#[test]
fn delays_double_up_to_a_maximum() {
    for random in [0, u64::MAX, 12_345_678_901_234_567] {
        let mut backoff = Backoff::default();
        for longest in [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000].map(Duration::from_millis) {
            let delay = backoff.next(random);
            assert!(delay >= longest / 2 && delay <= longest, "{delay:?} of {longest:?}");
        }
        (0..100).for_each(|_| assert!(backoff.next(random) <= LAST));
        backoff.reset();
        assert!(backoff.next(random) <= FIRST);
    }
}
