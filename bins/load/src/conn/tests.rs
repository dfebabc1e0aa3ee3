//! Connections as a state machine, step by step, with replies split at every position.

use std::time::Duration;

use super::*;
use crate::clock::nanos;
use crate::reply::{CheckLevel, Expect};

const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n";
const RESET: Errno = Errno(104);
const REFUSED: Errno = Errno(111);
const NEW: Flow = Flow::New { closer: Closer::Server, gap: Duration::ZERO };
const TIMEOUT: Nanos = 1_000;

/// A connection with its job and statistics.
struct World {
    conn: Conn,
    job: Job,
    stats: Stats,
}

impl World {
    fn new(flow: Flow) -> Self {
        let mut expect = Expect::new(CheckLevel::Body, None, false);
        expect.learn(REPLY, None).unwrap();
        let gap = nanos(flow.gap());
        let job = Job { expect, flow, gap, timeout: TIMEOUT, ids_of: None, measured_until: 1_000_000 };
        Self { conn: Conn::default(), job, stats: Stats::default() }
    }

    fn begin(&mut self, now: Nanos, count: u32) {
        let batch = Batch { first: 0, count, done: 0, base: now, step: 0, is_measured: true };
        self.conn.begin(now, batch, &self.job);
    }

    /// A new connection that has sent its requests at time 10 and waits for the replies.
    fn asking(flow: Flow, count: u32) -> Self {
        let mut world = Self::new(flow);
        world.begin(0, count);
        let mut next = world.conn.handle_connecting(0, &world.job);
        if next == Next::Wait {
            world.conn.note_send();
            next = world.sent(10);
        }
        assert_eq!(next, Next::SendRequests);
        world.ask();
        world
    }

    fn ask(&mut self) {
        self.conn.note_send();
        self.conn.note_recv();
        assert_eq!(self.sent(10), Next::Wait);
    }

    fn sent(&mut self, now: Nanos) -> Next {
        self.conn.handle_sent(now, Ok(()), 0, &self.job, &mut self.stats)
    }

    fn send_fails(&mut self, errno: Errno) -> Next {
        self.conn.handle_sent(20, Err(errno), 0, &self.job, &mut self.stats)
    }

    fn received(&mut self, now: Nanos, result: Result<Option<&[u8]>, Errno>) -> Next {
        let next = self.conn.handle_received(now, result, &self.job, &mut self.stats);
        if next == Next::Recv {
            self.conn.note_recv();
        }
        next
    }

    fn bytes(&mut self, bytes: &[u8]) -> Next {
        self.received(30, Ok(Some(bytes)))
    }

    fn end(&mut self) -> Next {
        self.received(40, Ok(None))
    }

    /// Number of good replies and of failures.
    fn counts(&self) -> (u64, u64) {
        (self.stats.requests, self.stats.failures.total())
    }

    fn failed(&self, kind: FailureKind) -> u64 {
        assert_eq!(self.stats.failures.total(), self.stats.failures.of(kind), "no other kind");
        self.stats.failures.of(kind)
    }
}

const DONE: Next = Next::Close(After::Done);

#[test]
fn a_new_connection_that_the_server_closes() {
    for split in 1..=REPLY.len() {
        let mut world = World::asking(NEW, 1);
        assert_eq!(world.bytes(&REPLY[..split]), Next::Recv);
        if split < REPLY.len() {
            assert_eq!(world.received(35, Ok(Some(&REPLY[split..]))), Next::Recv);
        }
        assert_eq!(world.counts(), (0, 0), "no reply counts before the end of the connection");
        assert_eq!(world.end(), DONE);
        assert_eq!((world.counts(), world.stats.connects), ((1, 0), 1));
        assert_eq!((world.stats.last_done, world.stats.bytes_in), (40, REPLY.len() as u64));
        assert_eq!(world.conn.deadline(), NEVER);
    }
}

#[test]
fn a_new_connection_that_we_close() {
    let mut world = World::asking(Flow::New { closer: Closer::Client, gap: Duration::ZERO }, 1);
    assert_eq!(world.bytes(&REPLY[..9]), Next::Recv);
    assert_eq!(world.bytes(&REPLY[9..]), DONE);
    assert_eq!((world.counts(), world.stats.last_done), ((1, 0), 30));
}

#[test]
fn a_connection_cut_at_any_place_is_short() {
    for len in 0..REPLY.len() {
        let mut world = World::asking(NEW, 1);
        if len > 0 {
            assert_eq!(world.bytes(&REPLY[..len]), Next::Recv);
        }
        assert_eq!(world.end(), DONE);
        assert_eq!((world.failed(FailureKind::Short), world.stats.requests), (1, 0), "after {len}");
    }
}

#[test]
fn a_reset_at_any_place_is_a_reset_also_after_a_whole_reply() {
    for len in 0..=REPLY.len() {
        let mut world = World::asking(NEW, 1);
        if len > 0 {
            assert_eq!(world.bytes(&REPLY[..len]), Next::Recv);
        }
        assert_eq!(world.received(40, Err(RESET)), DONE);
        assert_eq!((world.failed(FailureKind::Reset), world.stats.requests), (1, 0), "after {len}");
        assert_eq!(world.stats.failures.errno(FailureKind::Reset), Some(RESET));
    }
}

#[test]
fn bytes_behind_the_reply_are_wrong() {
    let more = [REPLY, b"x"].concat();
    let mut world = World::asking(NEW, 1);
    assert_eq!(world.bytes(&more), DONE);
    assert_eq!((world.failed(FailureKind::WrongBytes), world.stats.requests), (1, 0));

    let mut world = World::asking(NEW, 1);
    assert_eq!(world.bytes(REPLY), Next::Recv);
    assert_eq!(world.bytes(b"x"), DONE);
    assert_eq!((world.failed(FailureKind::WrongBytes), world.stats.requests), (1, 0));

    let mut world = World::asking(Flow::Keep { pipeline: 1 }, 1);
    assert_eq!(world.bytes(&more), DONE);
    assert_eq!((world.failed(FailureKind::WrongBytes), world.stats.requests), (1, 0));
}

#[test]
fn pipelined_replies_at_every_split_point() {
    let flow = Flow::Keep { pipeline: 3 };
    let replies = REPLY.repeat(3);
    for split in 1..replies.len() {
        let mut world = World::asking(flow, 3);
        assert_eq!(world.bytes(&replies[..split]), Next::Recv);
        assert_eq!(world.counts().0, (split / REPLY.len()) as u64);
        assert_eq!(world.bytes(&replies[split..]), Next::Idle);
        assert_eq!((world.counts(), world.stats.first_byte.count()), ((3, 0), 1));
        world.begin(50, 2);
        world.ask();
        assert_eq!(world.bytes(&replies[..2 * REPLY.len()]), Next::Idle);
        assert_eq!((world.counts(), world.stats.connects), ((5, 0), 1));
    }
}

#[test]
fn a_server_that_says_close_gets_the_rest_on_another_connection() {
    let mut world = World::asking(Flow::Keep { pipeline: 3 }, 3);
    assert_eq!(world.bytes(&[REPLY, LAST].concat()), Next::Close(After::Again));
    assert_eq!((world.counts(), world.stats.reconnects, world.conn.batch().left()), ((2, 0), 1, 1));
    assert_eq!(world.conn.handle_connecting(50, &world.job), Next::Wait);
    world.conn.note_send();
    assert_eq!(world.sent(51), Next::SendRequests);
    world.ask();
    assert_eq!(world.bytes(LAST), DONE);
    assert_eq!((world.counts(), world.stats.reconnects, world.stats.connects), ((3, 0), 2, 2));
}

#[test]
fn an_idle_connection_may_be_closed_but_a_fresh_one_not() {
    let mut world = World::asking(Flow::Keep { pipeline: 1 }, 1);
    assert_eq!(world.end(), DONE);
    assert_eq!(world.failed(FailureKind::Short), 1);

    let mut world = World::asking(Flow::Keep { pipeline: 1 }, 1);
    assert_eq!(world.bytes(REPLY), Next::Idle);
    world.begin(50, 1);
    world.ask();
    assert_eq!(world.end(), Next::Close(After::Again));
    assert_eq!((world.counts(), world.stats.reconnects), ((1, 0), 1));
    assert_eq!(world.conn.handle_connecting(60, &world.job), Next::Wait);
    world.conn.note_send();
    assert_eq!(world.sent(61), Next::SendRequests);
    world.ask();
    assert_eq!(world.end(), DONE, "a connection must not be retried for ever");
    assert_eq!(world.failed(FailureKind::Short), 1);
}

#[test]
fn a_gap_lies_between_handshake_and_request() {
    let mut world = World::new(Flow::New { closer: Closer::Server, gap: Duration::from_nanos(500) });
    world.begin(0, 1);
    assert_eq!(world.conn.handle_connecting(0, &world.job), Next::Wait);
    world.conn.note_send();
    assert_eq!(world.sent(10_000), Next::Pause);
    assert_eq!((world.conn.deadline(), world.stats.connects), (NEVER, 1));
    assert_eq!(world.conn.handle_gap_over(10_600, &world.job), Next::SendRequests);
    assert_eq!(world.conn.deadline(), 10_600 + TIMEOUT);
    world.ask();
    assert_eq!(world.received(12_000, Ok(Some(REPLY))), Next::Recv);
    assert_eq!(world.received(13_000, Ok(None)), DONE);
    assert_eq!(world.counts(), (1, 0));
    // The latency is measured from 500, one gap after the start of the connection, however long the
    // handshake took.
    let total = world.stats.total.max();
    assert!((12_000..13_100).contains(&total), "{total}");
}

#[test]
fn a_failed_handshake_is_reported_once() {
    // The send gets the error, and the receive does not.
    let mut world = World::new(NEW);
    world.begin(0, 1);
    assert_eq!(world.conn.handle_connecting(0, &world.job), Next::SendRequests);
    world.conn.note_send();
    world.conn.note_recv();
    assert_eq!(world.received(20, Err(Errno(ENOTCONN_FOR_TEST))), Next::Wait);
    assert_eq!(world.send_fails(REFUSED), Next::Close(After::BackOff));
    assert_eq!((world.failed(FailureKind::Connect), world.stats.connects), (1, 0));
    assert_eq!(world.stats.failures.errno(FailureKind::Connect), Some(REFUSED));

    // The receive gets the error.
    let mut world = World::new(NEW);
    world.begin(0, 1);
    let _ = world.conn.handle_connecting(0, &world.job);
    world.conn.note_send();
    world.conn.note_recv();
    assert_eq!(world.received(20, Err(REFUSED)), Next::Cancel);
    assert_eq!(world.send_fails(Errno(EPIPE)), Next::Close(After::BackOff));
    assert_eq!(world.failed(FailureKind::Connect), 1);

    // Without a socket, every request of the batch fails.
    let mut world = World::new(Flow::Keep { pipeline: 4 });
    world.begin(0, 4);
    assert_eq!(world.conn.handle_no_connect(0, Errno(24), &mut world.stats), Next::Close(After::BackOff));
    assert_eq!(world.failed(FailureKind::Connect), 4);
}

const ENOTCONN_FOR_TEST: i32 = 107;

#[test]
fn a_failed_send_waits_for_the_receive() {
    let mut world = World::new(NEW);
    world.begin(0, 1);
    let _ = world.conn.handle_connecting(0, &world.job);
    world.conn.note_send();
    world.conn.note_recv();
    let next = world.conn.handle_sent(10, Ok(()), 5, &world.job, &mut world.stats);
    assert_eq!(next, Next::SendRest);
    world.conn.note_send();
    assert_eq!(world.send_fails(Errno(EPIPE)), Next::Wait);
    assert_eq!(world.bytes(REPLY), Next::Recv);
    assert_eq!(world.end(), DONE);
    assert_eq!(world.counts(), (1, 0));
}

#[test]
fn a_timeout_closes_only_when_nothing_is_in_flight() {
    let mut world = World::new(NEW);
    world.begin(0, 1);
    let _ = world.conn.handle_connecting(5, &world.job);
    assert_eq!(world.conn.deadline(), 5 + TIMEOUT);
    world.conn.note_send();
    world.conn.note_recv();
    assert_eq!(world.conn.handle_deadline(50, &mut world.stats), Next::Cancel);
    assert_eq!(
        world.conn.handle_deadline(50, &mut world.stats),
        Next::Cancel,
        "the deadline repeats, because the first cancel may have been too early"
    );
    assert_eq!(world.received(20, Err(Errno::CANCELED)), Next::Wait);
    assert_eq!(world.send_fails(Errno::CANCELED), DONE);
    assert_eq!(world.failed(FailureKind::Timeout), 1);
    world.begin(2_000, 1);
    assert_eq!(
        world.conn.handle_connecting(2_000, &world.job),
        Next::SendRequests,
        "the slot must be usable again"
    );
}

#[test]
fn a_server_that_does_not_close_is_too_late_and_not_good() {
    let mut world = World::asking(NEW, 1);
    assert_eq!(world.bytes(REPLY), Next::Recv);
    assert_eq!(world.conn.handle_deadline(50, &mut world.stats), Next::Cancel);
    assert_eq!(world.received(2_000, Err(Errno::CANCELED)), DONE);
    assert_eq!((world.failed(FailureKind::Timeout), world.stats.requests), (1, 0));
}

#[test]
fn an_empty_pool_means_receive_again() {
    let mut world = World::asking(NEW, 1);
    assert_eq!(world.received(20, Err(Errno::NOBUFS)), Next::Recv);
    assert_eq!(world.bytes(REPLY), Next::Recv);
    assert_eq!(world.received(20, Err(Errno::NOBUFS)), Next::Recv);
    assert_eq!(world.end(), DONE);
    assert_eq!(world.counts(), (1, 0));
}

#[test]
fn every_unanswered_request_of_a_write_fails_with_the_connection() {
    let mut world = World::asking(Flow::Keep { pipeline: 5 }, 5);
    assert_eq!(world.bytes(&REPLY.repeat(2)), Next::Recv);
    assert_eq!(world.conn.requests_under_way(), 3);
    assert_eq!(world.received(40, Err(RESET)), DONE);
    assert_eq!((world.failed(FailureKind::Reset), world.stats.requests), (3, 2));
    assert_eq!(world.conn.requests_under_way(), 0);
}

#[test]
fn a_rate_counts_each_request_from_when_it_was_due() {
    let mut world = World::new(Flow::Keep { pipeline: 2 });
    let batch = Batch { first: 0, count: 2, done: 0, base: 1_000_000, step: 2_000_000, is_measured: true };
    world.conn.begin(9_000_000, batch, &world.job);
    let _ = world.conn.handle_connecting(9_000_000, &world.job);
    world.conn.note_send();
    assert_eq!(world.sent(9_100_000), Next::SendRequests);
    world.ask();
    assert_eq!(world.received(11_000_000, Ok(Some(&REPLY.repeat(2)))), Next::Idle);
    let total = &world.stats.total;
    assert!((9_990_000..10_020_000).contains(&total.max()), "{}", total.max());
    assert!((7_990_000..8_020_000).contains(&total.at(0.0)), "{}", total.at(0.0));
    assert_eq!((world.stats.requests, world.stats.requests_in_time), (2, 0), "after the measured time");
}

#[test]
fn requests_of_the_warm_up_do_not_count() {
    let warm_up = Batch { first: 0, count: 2, done: 0, base: 0, step: 0, is_measured: false };
    let mut world = World::new(Flow::Keep { pipeline: 2 });
    world.conn.begin(0, warm_up, &world.job);
    let _ = world.conn.handle_connecting(0, &world.job);
    world.conn.note_send();
    assert_eq!(world.sent(10), Next::SendRequests);
    world.ask();
    assert_eq!(world.conn.requests_under_way(), 0);
    assert_eq!(world.bytes(REPLY), Next::Recv);
    assert_eq!(world.received(40, Err(RESET)), DONE);
    assert_eq!((world.counts(), world.stats.total.count(), world.stats.last_done), ((0, 0), 0, 0));
}

#[test]
fn a_failure_ends_the_measured_time_like_a_reply() {
    let mut world = World::asking(NEW, 1);
    assert_eq!(world.conn.handle_deadline(1_050, &mut world.stats), Next::Cancel);
    assert_eq!(world.stats.last_done, 1_050);
}
