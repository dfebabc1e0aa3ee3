//! One test per outcome of a waiting request.
//!
//! Does not know about: running jobs, which `hand` does on demand.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use doorbell::offload::{Class, Offload};
use doorbell::{CloseReason, Engine, HandOver, HandedConn, Http1, Limits, Server, Taker, service_fn};
use doorbell_testkit::peers::{End, PATIENCE, Reply, misbehave, wait_until};

use crate::hand::{Hand, get, last, reply, rest, send, serve, serve_with, until};
use crate::promise::{self, on_both_engines};

on_both_engines! {
    a_job_replies_and_the_connection_stays_open
    a_first_request_that_closes_is_answered_too
    requests_behind_a_job_wait_for_it_and_keep_their_order
    input_during_a_job_is_served_after_it
    a_head_request_gets_no_content
    a_body_goes_with_the_job
    the_ring_thread_may_write_the_reply_or_submit_another_job
    a_large_answer_reaches_a_slow_reader_whole
    a_client_that_sends_but_never_reads_does_not_move_the_deadline_of_its_last_reply
    discarded_input_during_a_last_reply_has_a_cap
    others_are_answered_while_a_job_runs
    a_full_queue_is_a_503_and_the_connection_stays_open
    high_jobs_go_first
    a_job_that_exceeds_its_timeout_is_a_503_and_a_close
    a_panic_is_a_500_and_the_worker_lives
    a_client_that_leaves_cancels_its_job
    clients_that_leave_do_not_block_others
    a_reset_cancels_a_job_and_a_fin_does_not
    a_started_job_sees_whether_a_request_waits
    a_reply_for_a_client_that_left_reaches_no_other_client
    a_drain_waits_for_a_job_and_announces_the_close
    a_drain_drops_a_job_at_its_deadline
    a_stop_drops_jobs
    work_of_an_unknown_type_is_a_500
    a_hand_over_after_a_job_waits_for_its_reply_and_loses_no_byte
    a_stop_ends_a_job_with_a_hand_over_behind_it
}

fn a_job_replies_and_the_connection_stays_open(engine: Engine) {
    let hand = Hand::default();
    let server = serve(engine, &hand);
    let mut stream = send(&server, &get("/job/a"));
    for text in ["a", "b", "c"] {
        hand.run_one();
        let got = reply(&mut stream);
        assert_eq!(
            (got.status, got.body.as_slice(), got.field("x-layer")),
            (200, text.as_bytes(), Some("kept"))
        );
        stream.write_all(&get(if text == "a" { "/job/b" } else { "/job/c" })).unwrap();
    }
    hand.run_one();
    stream.write_all(&get("/now")).unwrap();
    assert_eq!(reply(&mut stream).body, b"c");
    assert_eq!(reply(&mut stream).body, b"now");
    let stats = server.stats();
    assert_eq!((stats.jobs_queued, stats.requests, stats.answers_dropped), (4, 5, 0));
}

fn a_first_request_that_closes_is_answered_too(engine: Engine) {
    let hand = Hand::default();
    let server = serve(engine, &hand);
    // From the second request on, the head is in the worker's cache, so the handler is called while
    // the connection has no state.
    for _ in 0..3 {
        let stream = send(&server, &last("/job/once"));
        hand.run_one();
        let got = rest(stream);
        let reply = Reply::parse(&got.bytes, false).unwrap();
        assert_eq!(
            (reply.body.as_slice(), reply.field("connection"), got.end),
            (&b"once"[..], Some("close"), End::Fin)
        );
    }
    until(&server, |stats| stats.conns_live == 0 && stats.closed_because(CloseReason::Done) == 3);
    assert_eq!(server.stats().requests, 3);
}

fn requests_behind_a_job_wait_for_it_and_keep_their_order(engine: Engine) {
    let hand = Hand::default();
    let server = serve(engine, &hand);
    let all = [get("/now"), get("/job/1"), get("/now"), get("/job/2"), last("/now")].concat();
    let mut stream = send(&server, &all);
    assert_eq!(reply(&mut stream).body, b"now", "an earlier reply is sent before the reply of the job");
    hand.run_one();
    hand.run_one();
    let (replies, left) = Reply::parse_all(&rest(stream).bytes);
    let bodies: Vec<_> =
        replies.iter().map(|reply| String::from_utf8_lossy(&reply.body).into_owned()).collect();
    assert_eq!((bodies, left), (["1", "now", "2", "now"].map(str::to_owned).to_vec(), 0));
}

fn input_during_a_job_is_served_after_it(engine: Engine) {
    let hand = Hand::default();
    let server = serve(engine, &hand);
    let mut stream = send(&server, &get("/job/1"));
    let job = hand.take();
    // More input than one receive reads, so that unread input stays in the kernel.
    let behind = [get("/job/2"), get("/now").repeat(900), last("/now")].concat();
    let mut half = stream.try_clone().unwrap();
    let writer = thread::spawn(move || behind.chunks(7_000).for_each(|piece| half.write_all(piece).unwrap()));
    until(&server, |stats| stats.bytes_in > 100);
    job.run();
    hand.run_one();
    let (first, second) = (reply(&mut stream), reply(&mut stream));
    assert_eq!((first.body.as_slice(), second.body.as_slice()), (&b"1"[..], &b"2"[..]));
    let (replies, left) = Reply::parse_all(&rest(stream).bytes);
    assert_eq!((replies.len(), left), (901, 0));
    writer.join().unwrap();
}

fn a_head_request_gets_no_content(engine: Engine) {
    let hand = Hand::default();
    let server = serve(engine, &hand);
    let stream = send(&server, b"HEAD /job/four HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    hand.run_one();
    let got = rest(stream);
    let reply = Reply::parse(&got.bytes, true).unwrap();
    assert_eq!((reply.field("content-length"), reply.len, got.end), (Some("4"), got.bytes.len(), End::Fin));
}

fn a_body_goes_with_the_job(engine: Engine) {
    let hand = Hand::default();
    let server = serve(engine, &hand);
    let body = "0123456789".repeat(300);
    let mut stream = send(
        &server,
        format!("POST /job/: HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(),
    );
    stream.write_all(body.as_bytes()).unwrap();
    hand.run_one();
    assert_eq!(reply(&mut stream).body, format!(":{body}").into_bytes());
    stream
        .write_all(
            b"POST /job/: HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        )
        .unwrap();
    hand.run_one();
    assert_eq!(reply(&mut stream).body, b":abc");
}

fn the_ring_thread_may_write_the_reply_or_submit_another_job(engine: Engine) {
    let hand = Hand::default();
    let server = serve(engine, &hand);
    let mut stream = send(&server, &get("/then/x"));
    hand.run_one();
    let got = reply(&mut stream);
    assert_eq!((got.body.as_slice(), got.field("x-path")), (&b"x"[..], Some("/then/x")));
    stream.write_all(&last("/twice/y")).unwrap();
    hand.run_one();
    hand.run_one();
    let got = rest(stream);
    assert_eq!((Reply::parse(&got.bytes, false).unwrap().body.as_slice(), got.end), (&b"y"[..], End::Fin));
}

fn a_large_answer_reaches_a_slow_reader_whole(engine: Engine) {
    let hand = Hand::default();
    let server = serve(engine, &hand);
    let mut stream = send(&server, &get("/large/0123456789"));
    let job = hand.take();
    job.run();
    until(&server, |stats| stats.bytes_out > 0);
    // This request arrives while the reply is being sent, with a receive that was already pending.
    stream.write_all(&get("/now")).unwrap();
    until(&server, |stats| stats.bytes_in > get("/large/0123456789").len() as u64);
    let got = reply(&mut stream);
    assert_eq!((got.body.len(), got.body == b"0123456789".repeat(100_000)), (1_000_000, true));
    assert_eq!(reply(&mut stream).body, b"now", "input that arrived during the reply is not lost");
}

/// Starts a server with this write timeout, and a client that does not read its last reply of 8 MB.
fn stuck(engine: Engine, write_timeout: Duration) -> (Server, TcpStream) {
    let hand = Hand::default();
    let limits = Limits { write_timeout, conns_max: 1_000, ..Limits::default() };
    let server = serve_with(engine, &hand, Offload::builder(), |server| server.limits(limits));
    let stream = send(&server, &last(&format!("/large/{}", "x".repeat(84))));
    hand.run_one();
    until(&server, |stats| stats.bytes_out > 0);
    (server, stream)
}

fn a_client_that_sends_but_never_reads_does_not_move_the_deadline_of_its_last_reply(engine: Engine) {
    let (server, mut stream) = stuck(engine, Duration::from_millis(300));
    // A byte arrives three times per timeout: if that counted as progress, the connection would
    // never end.
    let is_cut = wait_until(PATIENCE, || {
        thread::sleep(Duration::from_millis(100));
        // Writing may fail after the server has closed the connection.
        let _until_it_is_cut = stream.write_all(b"x");
        server.stats().closed_because(CloseReason::WriteTimeout) == 1
    });
    assert!(is_cut.is_some(), "{:?}", server.stats());
}

fn discarded_input_during_a_last_reply_has_a_cap(engine: Engine) {
    let (server, mut stream) = stuck(engine, Duration::from_secs(3));
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let flood = vec![b'x'; 16 * 1024];
    let sent: usize = (0..4_000).map_while(|_| stream.write(&flood).ok()).sum();
    let dropped = server.stats().bytes_in;
    assert!(sent > 100_000 && dropped <= 2 * 64 * 1024, "{dropped} of {sent} bytes were read");
    // A client that sends less than twice the limit, and then reads, gets a whole reply.
    let (server, mut stream) = stuck(engine, Duration::from_secs(3));
    stream.write_all(&vec![b'x'; 100_000]).unwrap();
    until(&server, |stats| stats.bytes_in > 64 * 1024);
    let (replies, left) = Reply::parse_all(&rest(stream).bytes);
    assert_eq!((replies.len(), replies.first().map(|reply| reply.body.len()), left), (1, Some(8_400_000), 0));
}

fn others_are_answered_while_a_job_runs(engine: Engine) {
    let hand = Hand::default();
    let server = serve(engine, &hand);
    let waiting: Vec<_> = (0..20).map(|n| send(&server, &last(&format!("/job/{n}")))).collect();
    until(&server, |stats| stats.jobs_queued == 20);
    let mut other = send(&server, &get("/now"));
    assert_eq!(reply(&mut other).body, b"now");
    (0..20).for_each(|_| hand.run_one());
    for (n, stream) in waiting.into_iter().enumerate() {
        assert_eq!(Reply::parse(&rest(stream).bytes, false).unwrap().body, n.to_string().into_bytes());
    }
}

fn a_full_queue_is_a_503_and_the_connection_stays_open(engine: Engine) {
    let hand = Hand::default();
    let server = serve_with(engine, &hand, Offload::builder().queue_max(Class::Normal, 3), |server| server);
    let waiting: Vec<_> = (0..3).map(|n| send(&server, &last(&format!("/job/{n}")))).collect();
    until(&server, |stats| stats.jobs_queued == 3);
    let mut one_more = send(&server, &[get("/job/x"), get("/now")].concat());
    let got = reply(&mut one_more);
    assert_eq!((got.status, got.field("retry-after"), got.field("connection")), (503, Some("1"), None));
    assert_eq!(reply(&mut one_more).body, b"now");
    // The other class has a separate queue.
    one_more.write_all(&get("/high/h")).unwrap();
    until(&server, |stats| stats.jobs_queued == 4);
    (0..4).for_each(|_| hand.run_one());
    assert_eq!(reply(&mut one_more).body, b"h");
    waiting.into_iter().for_each(|stream| assert_eq!(rest(stream).end, End::Fin));
    one_more.write_all(&last("/job/y")).unwrap();
    hand.run_one();
    assert_eq!(Reply::parse(&rest(one_more).bytes, false).unwrap().body, b"y");
    assert_eq!(server.stats().jobs_refused, 1);
}

fn high_jobs_go_first(engine: Engine) {
    let hand = Hand::default();
    let server = serve(engine, &hand);
    let normal = send(&server, &last("/job/n"));
    until(&server, |stats| stats.jobs_queued == 1);
    let high = send(&server, &last("/high/h"));
    until(&server, |stats| stats.jobs_queued == 2);
    hand.run_one();
    assert_eq!(Reply::parse(&rest(high).bytes, false).unwrap().body, b"h");
    hand.run_one();
    assert_eq!(Reply::parse(&rest(normal).bytes, false).unwrap().body, b"n");
}

fn a_job_that_exceeds_its_timeout_is_a_503_and_a_close(engine: Engine) {
    let hand = Hand::default();
    let offload = Offload::builder().timeout(Duration::from_millis(200));
    let server = serve_with(engine, &hand, offload, |server| server);
    let (running, queued) =
        (send(&server, &get("/job/r")), send(&server, &[get("/job/q"), get("/now")].concat()));
    let job = hand.take();
    for stream in [running, queued] {
        let got = rest(stream);
        let reply = Reply::parse(&got.bytes, false).unwrap();
        assert_eq!(
            (reply.status, reply.field("retry-after"), reply.field("connection")),
            (503, Some("1"), Some("close"))
        );
        assert_eq!((reply.len, got.end), (got.bytes.len(), End::Fin));
    }
    until(&server, |stats| stats.jobs_timed_out == 2 && stats.jobs_cancelled == 1);
    job.run();
    until(&server, |stats| stats.answers_dropped == 1);
    assert!(hand.start().is_none(), "a cancelled job does not run");
    assert_eq!(server.stats().closed_because(CloseReason::JobTimeout), 2);
}

fn a_panic_is_a_500_and_the_worker_lives(engine: Engine) {
    let hand = Hand::default();
    let server = serve(engine, &hand);
    let stream = send(&server, &get("/panic"));
    hand.run_one();
    let got = rest(stream);
    assert_eq!((Reply::parse(&got.bytes, false).unwrap().status, got.end), (500, End::Fin));
    // A job dropped by its executor is handled in the same way.
    let stream = send(&server, &get("/job/lost"));
    drop(hand.take());
    assert_eq!(Reply::parse(&rest(stream).bytes, false).unwrap().status, 500);
    assert_eq!((server.stats().jobs_panicked, server.handle().is_healthy()), (2, true));
    assert_eq!(reply(&mut send(&server, &get("/now"))).body, b"now");
}

fn a_client_that_leaves_cancels_its_job(engine: Engine) {
    let hand = Hand::default();
    let server = serve_with(engine, &hand, Offload::builder().fin_cancels(true), |server| server);
    let first = send(&server, &last("/job/1"));
    let gone: Vec<_> = (0..10).map(|n| send(&server, &get(&format!("/job/gone{n}")))).collect();
    until(&server, |stats| stats.jobs_queued == 11);
    drop(gone);
    until(&server, |stats| stats.jobs_cancelled == 10 && stats.conns_live == 1);
    hand.run_one();
    assert_eq!(Reply::parse(&rest(first).bytes, false).unwrap().body, b"1");
    assert!(hand.start().is_none(), "no other job ran");
    assert_eq!(server.stats().closed_because(CloseReason::ClientGone), 10);

    let half = send(&server, &get("/job/started"));
    let started = hand.take();
    half.shutdown(Shutdown::Write).unwrap();
    until(&server, |stats| stats.closed_because(CloseReason::ClientGone) == 11);
    started.run();
    assert_eq!(rest(half).bytes, b"", "the reply of a running job is dropped");
    until(&server, |stats| stats.answers_dropped == 1);
}

/// When a client leaves, its place in the queue becomes free, although all threads stay busy.
fn clients_that_leave_do_not_block_others(engine: Engine) {
    let hand = Hand::default();
    let offload = Offload::builder().queue_max(Class::Normal, 4).fin_cancels(true);
    let server = serve_with(engine, &hand, offload, |server| server);
    let mut stays = send(&server, &get("/job/stays"));
    until(&server, |stats| stats.jobs_queued == 1);
    for round in 1..=10 {
        let leave: Vec<_> = (0..3).map(|n| send(&server, &get(&format!("/job/{n}")))).collect();
        until(&server, |stats| stats.jobs_queued == 1 + 3 * round);
        drop(leave);
        until(&server, |stats| stats.jobs_cancelled == 3 * round);
    }
    let late = send(&server, &last("/job/late"));
    until(&server, |stats| stats.jobs_queued == 32);
    hand.run_one();
    assert_eq!(reply(&mut stays).body, b"stays", "in order");
    hand.run_one();
    assert_eq!(Reply::parse(&rest(late).bytes, false).unwrap().body, b"late");
    assert!(hand.start().is_none());
    assert_eq!(server.stats().jobs_refused, 0);
}

fn a_reset_cancels_a_job_and_a_fin_does_not(engine: Engine) {
    let hand = Hand::default();
    let server = serve(engine, &hand);
    let reset = send(&server, &get("/job/r"));
    let half = send(&server, &get("/job/half"));
    half.shutdown(Shutdown::Write).unwrap();
    until(&server, |stats| stats.jobs_queued == 2);
    misbehave::reset(&reset).unwrap();
    drop(reset);
    until(&server, |stats| stats.jobs_cancelled == 1);
    hand.run_one();
    let got = rest(half);
    assert_eq!((Reply::parse(&got.bytes, false).unwrap().body.as_slice(), got.end), (&b"half"[..], End::Fin));
}

fn a_started_job_sees_whether_a_request_waits(engine: Engine) {
    let (hand, (seen, sees)) = (Hand::default(), mpsc::channel());
    let jobs = Offload::builder().timeout(Duration::from_millis(300)).build_on(hand.clone());
    let service = service_fn(move |request, reply| {
        let seen = seen.clone();
        jobs.run_with(request, reply, move |job| {
            seen.send((job.is_abandoned(), job.time_left())).unwrap();
            doorbell::Reply::text(doorbell::Status::OK, "done")
        })
    });
    let builder = promise::builder(engine).workers(promise::workers(1));
    let server = builder.listen(promise::anywhere(), Http1::new(service)).start().unwrap();

    let waits = send(&server, &last("/"));
    hand.run_one();
    let (is_abandoned, time_left) = sees.recv().unwrap();
    assert!(!is_abandoned && time_left <= Duration::from_millis(300), "{time_left:?}");
    assert_eq!(Reply::parse(&rest(waits).bytes, false).unwrap().body, b"done");

    let leaves = send(&server, &get("/"));
    let job = hand.take();
    misbehave::reset(&leaves).unwrap();
    drop(leaves);
    until(&server, |stats| stats.conns_live == 0);
    job.run();
    assert!(sees.recv().unwrap().0, "its client has left");

    let slow = send(&server, &get("/"));
    let job = hand.take();
    assert_eq!(Reply::parse(&rest(slow).bytes, false).unwrap().status, 503);
    until(&server, |stats| stats.conns_live == 0);
    job.run();
    assert_eq!(sees.recv().unwrap(), (true, Duration::ZERO), "its time is over");
    until(&server, |stats| stats.answers_dropped == 2);
}

fn a_reply_for_a_client_that_left_reaches_no_other_client(engine: Engine) {
    let hand = Hand::default();
    let server = serve_with(engine, &hand, Offload::builder(), |server| server.conns_max(2));
    let leaves = send(&server, &get("/job/secret"));
    let job = hand.take();
    misbehave::reset(&leaves).unwrap();
    drop(leaves);
    until(&server, |stats| stats.conns_live == 0);
    // The slot is reused by connections that wait for other jobs.
    let mut next = [send(&server, &get("/job/a")), send(&server, &get("/job/b"))];
    until(&server, |stats| stats.jobs_queued == 3);
    job.run();
    until(&server, |stats| stats.answers_dropped == 1);
    (0..2).for_each(|_| hand.run_one());
    let mut got: Vec<_> = next.iter_mut().map(|stream| reply(stream).body).collect();
    got.sort();
    assert_eq!(got, [b"a".to_vec(), b"b".to_vec()], "I-10");
}

fn a_drain_waits_for_a_job_and_announces_the_close(engine: Engine) {
    let hand = Hand::default();
    let server = serve(engine, &hand);
    let (running, queued) = (send(&server, &get("/job/r")), send(&server, &get("/job/q")));
    let job = hand.take();
    until(&server, |stats| stats.jobs_queued == 2);
    let handle = server.handle();
    handle.drain_within(Duration::from_secs(10));
    thread::spawn(move || {
        assert!(wait_until(Duration::from_secs(5), || handle.is_draining()).is_some());
        job.run();
        hand.run_one();
    });
    for (stream, body) in [(running, b"r"), (queued, b"q")] {
        let got = rest(stream);
        let reply = Reply::parse(&got.bytes, false).unwrap();
        assert_eq!(
            (reply.body.as_slice(), reply.field("connection"), got.end),
            (&body[..], Some("close"), End::Fin)
        );
    }
    server.wait().unwrap();
}

fn a_drain_drops_a_job_at_its_deadline(engine: Engine) {
    let hand = Hand::default();
    let server = serve(engine, &hand);
    let mut stream = send(&server, &get("/job/r"));
    let job = hand.take();
    let handle = server.handle();
    server.drain(Duration::from_millis(200)).unwrap();
    assert_eq!(handle.stats().conns_live, 0);
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"");
    // No request waits for the result of this job any more.
    job.run();
}

fn a_stop_drops_jobs(engine: Engine) {
    let hand = Hand::default();
    let server = serve(engine, &hand);
    let streams = [send(&server, &get("/job/r")), send(&server, &get("/job/q"))];
    let job = hand.take();
    until(&server, |stats| stats.jobs_queued == 2);
    let handle = server.handle();
    server.stop().unwrap();
    assert_eq!(handle.stats().jobs_cancelled, 1);
    assert!(hand.start().is_none());
    job.run();
    streams.into_iter().for_each(|stream| assert_eq!(rest(stream).bytes, b""));
}

fn work_of_an_unknown_type_is_a_500(engine: Engine) {
    use doorbell::Http1;
    let foreign = service_fn(|request, reply| {
        reply.later(request.now().after(Duration::from_secs(1)), Box::new("not a job"))
    });
    let server = promise::builder(engine).listen(promise::anywhere(), Http1::new(foreign)).start().unwrap();
    let got = rest(send(&server, &get("/")));
    assert_eq!((Reply::parse(&got.bytes, false).unwrap().status, got.end), (500, End::Fin));
}

fn a_hand_over_after_a_job_waits_for_its_reply_and_loses_no_byte(engine: Engine) {
    let (hand, away) = (Hand::default(), Away::default());
    let to = HandOver::new(away.clone());
    let server = serve_with(engine, &hand, Offload::builder(), |server| server.hand_over(to));
    let mut stream = send(&server, &get("/job/1"));
    let job = hand.take();
    let behind = [get("/away"), get("/job/theirs"), b"GET /half".to_vec()].concat();
    behind.chunks(40).for_each(|piece| stream.write_all(piece).unwrap());
    assert!(away.0.lock().unwrap().is_empty(), "the hand-over waits for the job");
    job.run();
    assert_eq!(reply(&mut stream).body, b"1");
    until(&server, |stats| stats.closed_because(CloseReason::HandedOver) == 1);
    let mut conn = away.0.lock().unwrap().pop().unwrap();
    let mut theirs = TcpStream::from(conn.fd);
    theirs.set_nonblocking(false).unwrap();
    let had = conn.bytes.len();
    conn.bytes.resize(behind.len(), 0);
    theirs.read_exact(&mut conn.bytes[had..]).unwrap();
    assert_eq!(conn.bytes.escape_ascii().to_string(), behind.escape_ascii().to_string());
    assert_eq!(server.stats().jobs_queued, 1, "a later request is served by the new owner");
}

fn a_stop_ends_a_job_with_a_hand_over_behind_it(engine: Engine) {
    let (hand, away) = (Hand::default(), Away::default());
    let to = HandOver::new(away.clone());
    let places = to.places();
    let server = serve_with(engine, &hand, Offload::builder(), |server| server.hand_over(to));
    let stream = send(&server, &[get("/job/1"), get("/away")].concat());
    let job = hand.take();
    server.stop().unwrap();
    job.run();
    assert_eq!(rest(stream).bytes, b"");
    assert!(away.0.lock().unwrap().is_empty() && places.out() == 0);
}

/// Connections that were handed over.
#[derive(Clone, Default)]
pub(crate) struct Away(pub(crate) Arc<Mutex<Vec<HandedConn>>>);

impl Taker for Away {
    fn take(&self, conns: &mut Vec<HandedConn>) {
        self.0.lock().unwrap().append(conns);
    }
}
