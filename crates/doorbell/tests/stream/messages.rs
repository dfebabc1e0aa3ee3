//! Messages of other threads on one connection.

use std::sync::Arc;
use std::time::Duration;

use doorbell::CloseReason;
use doorbell::stream::{PushError, Stream};
use doorbell::testing::TestStream;

use super::events::jobs;
use super::handlers::Lines;

#[test]
fn messages_arrive_in_order_and_a_full_or_ended_connection_returns_them() {
    let lines = Lines::greeting();
    let last = Arc::clone(&lines.last);
    let stream = Stream::new(lines).messages_max(3);
    let counters = stream.message_counters();
    let mut conn = TestStream::open(stream);
    assert_eq!(conn.receive(), b"hello\n");
    let handle = last.lock().unwrap().clone().unwrap();
    for number in 1..=3 {
        handle.push(number.to_string()).unwrap();
    }
    assert_eq!(handle.push("4".to_owned()), Err(PushError::Full("4".to_owned())));
    assert_eq!(conn.receive(), b"<1>\n<2>\n<3>\n");
    assert_eq!((counters.pushed(), counters.refused(), counters.dropped()), (3, 1, 0));

    handle.push("5".to_owned()).unwrap();
    assert_eq!(conn.send("a\n"), b"1 a\n<5>\n", "there is room again");

    handle.push("close".to_owned()).unwrap();
    handle.push("never".to_owned()).unwrap();
    assert!(!handle.is_gone());
    assert!(conn.receive().is_empty());
    assert_eq!(conn.close_reason(), Some(CloseReason::Done));
    assert!(handle.is_gone());
    assert_eq!(handle.push("6".to_owned()), Err(PushError::Gone("6".to_owned())));
    assert_eq!((counters.pushed(), counters.refused(), counters.dropped()), (6, 2, 1));
}

#[test]
fn large_messages_do_not_hold_back_the_result_of_a_job() {
    let lines = Lines::with_jobs(jobs());
    let last = Arc::clone(&lines.last);
    let mut conn = TestStream::open(Stream::new(lines).output_bytes_max(4));
    conn.send("a\n");
    let handle = last.lock().unwrap().clone().unwrap();
    for number in 1..=3 {
        handle.push(number.to_string()).unwrap();
    }
    assert_eq!(conn.send("job 4\nb\n"), b"<1>\n<2>\n<3>\n<job 4>\n1 b\n");
}

#[test]
fn messages_do_not_extend_the_time_of_a_wait() {
    let lines = Lines::new();
    let last = Arc::clone(&lines.last);
    let second = Duration::from_secs(1);
    let mut conn = TestStream::open(Stream::new(lines).idle_timeout(2 * second));
    assert_eq!(conn.send("a\n"), b"1 a\n");
    conn.wait(second);
    last.lock().unwrap().clone().unwrap().push("news".to_owned()).unwrap();
    assert_eq!(conn.receive(), b"<news>\n");
    conn.wait(second);
    assert_eq!(conn.close_reason(), Some(CloseReason::IdleTimeout));
}
