//! The events of one connection, without sockets.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

use doorbell::CloseReason;
use doorbell::offload::{Executor, Offload, Pump};
use doorbell::stream::Stream;
use doorbell::testing::{After, TestStream};
use proptest::prelude::*;

use super::handlers::{Lines, PART};

/// An executor that drops its jobs. `TestStream` runs jobs without their executor.
struct Idle;

impl Executor for Idle {
    fn threads(&self) -> usize {
        1
    }

    fn spawn(&self, pump: Pump) {
        drop(pump);
    }
}

/// An executor whose jobs the test runs.
pub(crate) struct ByHand(pub(crate) SyncSender<Pump>);

impl Executor for ByHand {
    fn threads(&self) -> usize {
        1
    }

    fn spawn(&self, pump: Pump) {
        self.0.send(pump).unwrap();
    }
}

fn open(lines: Lines) -> (TestStream<Lines>, Arc<Mutex<Vec<String>>>) {
    let log = Arc::clone(&lines.log);
    (TestStream::open(Stream::new(lines)), log)
}

/// Jobs that the executor drops, and that `TestStream` therefore runs itself, at once.
pub(crate) fn jobs() -> Offload {
    Offload::builder().build_on(Idle)
}

#[test]
fn frames_are_answered_however_they_arrive() {
    let (input, output) = ("one\n\nthree\nclose\nignored", "3 one\n0 \n5 three\n5 close\n");
    for at in 0..input.len() {
        let (mut conn, log) = open(Lines::new());
        let (first, second) = input.split_at(at);
        let mut got = if first.is_empty() { Vec::new() } else { conn.send(first) };
        got.extend(conn.send(second));
        assert_eq!(String::from_utf8(got).unwrap(), output, "split at {at}");
        assert_eq!((conn.after(), conn.close_reason()), (&After::Closed, Some(CloseReason::Done)));
        assert_eq!(*log.lock().unwrap(), ["open", "closed done"]);
    }
}

proptest! {
    #[test]
    fn any_split_of_any_lines_gives_the_same_output(
        lines in prop::collection::vec("[a-z ]{0,40}", 1..20),
        lengths in prop::collection::vec(1..30_usize, 1..40),
    ) {
        let lines: Vec<_> = lines.into_iter().map(|line| format!("={line}\n")).collect();
        let expected: String = lines.iter().map(|line| format!("{} {line}", line.len() - 1)).collect();
        let input = lines.concat();
        let (mut conn, _) = open(Lines::new());
        let (mut got, mut rest, mut turn) = (Vec::new(), input.as_bytes(), 0);
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(lengths[turn % lengths.len()].min(rest.len()));
            got.extend(conn.send(piece));
            (rest, turn) = (after, turn + 1);
        }
        prop_assert_eq!(String::from_utf8(got).unwrap(), expected);
        prop_assert!(conn.is_open());
    }
}

#[test]
fn the_server_may_speak_first() {
    let (mut conn, _) = open(Lines::greeting());
    assert_eq!(conn.receive(), b"hello\n");
    assert_eq!(conn.send("a\n"), b"1 a\n");
}

#[test]
fn a_large_reply_is_written_in_parts_and_later_frames_wait_for_it() {
    let (mut conn, _) = open(Lines::new());
    let got = conn.send("large 30\nnext\n");
    assert_eq!(got.len(), 30 * PART + "4 next\n".len());
    assert!(got.ends_with(b"4 next\n"));
    assert!(conn.is_open());
}

#[test]
fn jobs_keep_the_order_of_replies() {
    let (mut conn, _) = open(Lines::with_jobs(jobs()));
    assert_eq!(conn.send("a\njob 1\nb\njob 2\nc\n"), b"1 a\n<job 1>\n1 b\n<job 2>\n1 c\n");
    assert!(conn.is_open());
    assert!(conn.send("jobpanic\nd\n").is_empty());
    assert_eq!(conn.close_reason(), Some(CloseReason::HandlerPanic));
}

#[test]
fn a_reply_in_parts_continues_during_a_job() {
    let (mut conn, _) = open(Lines::with_jobs(jobs()));
    let got = conn.send("largejob 3\nnext\n");
    assert_eq!(got.len(), 3 * PART + "<job 3>\n4 next\n".len());
    assert!(got.ends_with(b"<job 3>\n4 next\n"));
}

#[test]
fn a_fin_after_a_job_began_is_handled_after_its_result() {
    let (mut conn, log) = open(Lines::with_jobs(jobs()));
    assert_eq!(conn.send("job 1\nrest"), b"<job 1>\n");
    assert_eq!(conn.finish(), b"bye 4\n");
    assert_eq!(*log.lock().unwrap(), ["open", "closed client_gone"]);
}

#[test]
fn a_hand_over_takes_the_input_that_is_not_consumed() {
    let (mut conn, log) = open(Lines::new());
    assert_eq!(conn.send("a\nhandover\nmore"), b"1 a\n");
    assert_eq!(conn.after(), &After::HandedOver(b"handover\nmore".to_vec()));
    assert_eq!(*log.lock().unwrap(), ["open", "closed handed_over"]);
}

#[test]
fn a_drain_ends_idle_connections_and_lets_frames_finish() {
    let (mut idle, _) = open(Lines::new());
    idle.send("a\n");
    assert_eq!(idle.drain(), b"draining\n");
    assert_eq!(idle.close_reason(), Some(CloseReason::Done));

    let (mut busy, _) = open(Lines::new());
    assert!(busy.send("unfinish").is_empty());
    assert!(busy.drain().is_empty() && busy.is_open());
    assert_eq!(busy.send("ed\n"), b"10 unfinished\n");
    assert!(!busy.is_open());
}
