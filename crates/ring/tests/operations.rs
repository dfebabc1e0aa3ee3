//! Tests every operation of the ring against the real kernel.
//! Does not know about: faults (`faults.rs`), load (`stress.rs`).
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod common;

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use bytes::Bytes;
use common::{accepted_fd, accepted_fixed, connect, listener, next, nothing, now, pair, ring, setup, token};
use doorbell_ring::{
    Errno, Event, EventKind, Op, Payload, Quick, Ready, Received, Ring, SendBuf, Setup, Target, Token,
};
use doorbell_testkit::figures::at_most;

fn received(ring: &mut Ring, event: Event) -> Result<Vec<u8>, Errno> {
    match event.kind {
        EventKind::Received(Ok(Received { buf: None, .. })) => Ok(Vec::new()),
        EventKind::Received(Ok(Received { buf: Some(buf), .. })) => {
            let bytes = ring.received(&buf).to_vec();
            assert_eq!(bytes.len(), buf.len());
            ring.recycle(buf);
            Ok(bytes)
        }
        EventKind::Received(Err(errno)) => Err(errno),
        other => panic!("expected a receive, got {other:?}"),
    }
}

fn sent(event: Event) -> (Result<u32, Errno>, SendBuf) {
    match event.kind {
        EventKind::Sent { result, buf } => (result, buf),
        other => panic!("expected a send, got {other:?}"),
    }
}

#[test]
fn one_accept_brings_many_descriptors_and_ends_when_cancelled() {
    let Some(mut ring) = ring(&setup()) else { return };
    let listener = listener();
    ring.accept(token(9), listener.as_fd(), true, false);
    for _ in 0..3 {
        let mut client = connect(&listener);
        let event = next(&mut ring);
        assert_eq!((event.token, event.more), (token(9), true));
        let fd = accepted_fd(event);
        assert!(rustix::io::fcntl_getfd(&fd).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        drop(fd);
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0, "dropping the descriptor closed the connection");
    }
    ring.cancel(Op::Accept, token(9));
    let event = next(&mut ring);
    assert!(
        matches!(event, Event { token: t, kind: EventKind::Accepted(Err(Errno::CANCELED)), more: false } if t == token(9))
    );
    nothing(&mut ring, Duration::from_millis(20));
    assert_eq!(ring.counters().in_flight, 0);
}

#[test]
fn a_single_accept_brings_one() {
    let Some(mut ring) = ring(&setup()) else { return };
    let listener = listener();
    for direct in [false, true] {
        ring.accept(token(1), listener.as_fd(), false, direct);
        let clients = [connect(&listener), connect(&listener)];
        let event = next(&mut ring);
        assert!(!event.more);
        match direct {
            false => drop(accepted_fd(event)),
            true => assert_eq!(accepted_fixed(event), 0),
        }
        nothing(&mut ring, Duration::from_millis(10));
        drop(clients);
        drop(listener.accept().unwrap());
    }
}

/// Accepts, echoes and closes a connection, once as a descriptor and once as an index.
#[test]
fn echo_over_both_kinds_of_target() {
    let Some(mut ring) = ring(&setup()) else { return };
    let listener = listener();
    for direct in [false, true] {
        ring.accept(token(1), listener.as_fd(), true, direct);
        let mut client = connect(&listener);
        let event = next(&mut ring);
        let (fd, index): (Option<OwnedFd>, u32) =
            if direct { (None, accepted_fixed(event)) } else { (Some(accepted_fd(event)), 0) };
        let target = || fd.as_ref().map_or(Target::Fixed(index), |fd| Target::Fd(fd.as_fd()));
        for poll_first in [false, true] {
            ring.recv(token(2), target(), poll_first);
            nothing(&mut ring, Duration::from_millis(5));
            client.write_all(b"ping").unwrap();
            let event = next(&mut ring);
            assert_eq!(received(&mut ring, event), Ok(b"ping".to_vec()));
        }
        ring.send(token(2), target(), Bytes::from_static(b"pong").into(), false);
        let (result, buf) = sent(next(&mut ring));
        assert_eq!((result, buf.remaining()), (Ok(4), &b"pong"[..]));
        let mut reply = [0; 4];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"pong");

        client.shutdown(std::net::Shutdown::Write).unwrap();
        ring.recv(token(2), target(), false);
        let event = next(&mut ring);
        assert_eq!(received(&mut ring, event), Ok(Vec::new()), "end of stream");
        if direct {
            ring.shutdown_fixed(token(2), index);
            assert!(matches!(next(&mut ring).kind, EventKind::ShutDown(Ok(()))));
            assert_eq!(client.read(&mut reply).unwrap(), 0);
            ring.close_fixed(token(2), index);
            assert!(matches!(next(&mut ring).kind, EventKind::Closed(Ok(()))));
        } else {
            drop(fd);
            assert_eq!(client.read(&mut reply).unwrap(), 0);
        }
        ring.cancel(Op::Accept, token(1));
        assert!(matches!(next(&mut ring).kind, EventKind::Accepted(Err(Errno::CANCELED))));
    }
    let counters = ring.counters();
    assert_eq!((counters.buffers_lent, counters.bad_results, counters.cq_overflows), (0, 0, 0));
}

#[test]
fn tokens_come_back_whole() {
    let Some(mut ring) = ring(&setup()) else { return };
    let (server, mut client) = pair();
    for (slot, generation) in [(0, 0), (u32::MAX, Token::GENERATION_MAX), (77, 0x00AB_CDEF)] {
        let token = Token { slot, generation };
        ring.recv(token, Target::Fd(server.as_fd()), false);
        client.write_all(b"x").unwrap();
        let event = next(&mut ring);
        assert_eq!(event.token, token);
        received(&mut ring, event).unwrap();
    }
}

#[test]
fn an_owned_payload_comes_back_with_its_memory_and_from_is_respected() {
    let Some(mut ring) = ring(&setup()) else { return };
    let (server, mut client) = pair();
    let mut bytes = Vec::with_capacity(1_000);
    bytes.extend_from_slice(b"not this|this");
    let (address, capacity) = (bytes.as_ptr(), bytes.capacity());
    let buf = SendBuf { payload: Payload::Owned(bytes), from: 9 };
    ring.send(token(3), Target::Fd(server.as_fd()), buf, false);
    let (result, buf) = sent(next(&mut ring));
    assert_eq!((result, buf.from), (Ok(4), 9));
    let Payload::Owned(bytes) = buf.payload else { panic!("expected the owned payload") };
    assert_eq!((bytes.as_ptr(), bytes.capacity()), (address, capacity));
    let mut reply = [0; 4];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"this");
}

#[test]
fn a_slow_reader_gets_every_byte_by_short_sends() {
    let Some(mut ring) = ring(&setup()) else { return };
    let (server, mut client) = pair();
    let bytes: Vec<u8> = (0..8 << 20).map(|index: u32| (index % 251) as u8).collect();
    let expected = bytes.clone();
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        client.read_to_end(&mut all).unwrap();
        all
    });
    let mut buf = SendBuf::from(bytes);
    let mut sends = 0;
    while !buf.remaining().is_empty() {
        ring.send(token(0), Target::Fd(server.as_fd()), buf, false);
        let (result, back) = sent(next(&mut ring));
        buf = back;
        buf.from += result.unwrap() as usize;
        sends += 1;
    }
    drop(server);
    assert!(reader.join().unwrap() == expected, "every byte in order");
    assert!(sends > 1, "a socket does not accept 8 MiB at once");
}

#[test]
fn a_send_to_a_gone_peer_is_an_error_and_no_signal() {
    let Some(mut ring) = ring(&setup()) else { return };
    let (server, client) = pair();
    drop(client);
    let errors: Vec<_> = (0..3)
        .map(|_| {
            ring.send(token(0), Target::Fd(server.as_fd()), b"x".to_vec().into(), false);
            sent(next(&mut ring)).0
        })
        .collect();
    assert!(errors.contains(&Err(Errno(libc::EPIPE))), "{errors:?}");
}

#[test]
fn more_holds_the_reply_back_until_the_close() {
    let Some(mut ring) = ring(&setup()) else { return };
    let fastest = (0..3).map(|_| time_of_a_held_reply(&mut ring)).min().unwrap();
    at_most(
        "a corked reply is sent by the close, not by the timer of 200 ms",
        fastest,
        Duration::from_millis(150),
    );
}

fn time_of_a_held_reply(ring: &mut Ring) -> Duration {
    let (server, mut client) = pair();
    ring.send(token(0), Target::Fd(server.as_fd()), b"reply".to_vec().into(), true);
    assert_eq!(sent(next(ring)).0, Ok(5));
    client.set_nonblocking(true).unwrap();
    assert!(client.read(&mut [0; 8]).is_err(), "corked");
    client.set_nonblocking(false).unwrap();
    let begun = now();
    drop(server);
    let mut all = Vec::new();
    client.read_to_end(&mut all).unwrap();
    assert_eq!(all, b"reply");
    begun.elapsed()
}

#[test]
fn the_kernel_says_when_more_is_queued() {
    let Some(mut ring) = ring(&setup()) else { return };
    let (server, mut client) = pair();
    client.write_all(&[7; 1_500]).unwrap();
    let mut flags = Vec::new();
    for _ in 0..2 {
        ring.recv(token(0), Target::Fd(server.as_fd()), false);
        let event = next(&mut ring);
        let EventKind::Received(Ok(Received { buf: Some(buf), more_queued })) = event.kind else {
            panic!("{event:?}")
        };
        flags.push((buf.len(), more_queued));
        ring.recycle(buf);
    }
    assert_eq!(flags, [(1_024, true), (476, false)]);
}

#[test]
fn an_empty_pool_is_an_event_and_recycling_heals_it() {
    let Some(mut ring) = ring(&Setup { recv_bufs: 2, ..setup() }) else { return };
    let (server, mut client) = pair();
    client.write_all(&[1; 4_096]).unwrap();
    let mut held = Vec::new();
    for _ in 0..2 {
        ring.recv(token(0), Target::Fd(server.as_fd()), false);
        match next(&mut ring).kind {
            EventKind::Received(Ok(Received { buf: Some(buf), .. })) => held.push(buf),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ring.counters().buffers_lent, 2);
    ring.recv(token(0), Target::Fd(server.as_fd()), false);
    let event = next(&mut ring);
    assert_eq!(received(&mut ring, event), Err(Errno::NOBUFS));
    assert_eq!(ring.counters().buffers_starved, 1);
    ring.recycle(held.remove(0));
    ring.recv(token(0), Target::Fd(server.as_fd()), false);
    let event = next(&mut ring);
    assert_eq!(received(&mut ring, event), Ok(vec![1; 1_024]));
    let held_bytes = ring.received(&held[0]).to_vec();
    assert_eq!(held_bytes, [1; 1_024], "a lent buffer does not change");
}

#[test]
fn a_receive_that_fails_gives_its_buffer_back() {
    let Some(mut ring) = ring(&Setup { recv_bufs: 1, ..setup() }) else { return };
    let (server, mut client) = pair();
    let (pipe, _other_end) = std::io::pipe().unwrap();
    for _ in 0..5 {
        ring.recv(token(0), Target::Fd(pipe.as_fd()), false);
        let event = next(&mut ring);
        assert_eq!(received(&mut ring, event), Err(Errno(libc::ENOTSOCK)));
        ring.recv(token(0), Target::Fd(server.as_fd()), false);
        ring.enter(0, None).unwrap();
        ring.cancel(Op::Recv, token(0));
        let event = next(&mut ring);
        assert_eq!(received(&mut ring, event), Err(Errno::CANCELED));
    }
    client.write_all(b"still here").unwrap();
    ring.recv(token(0), Target::Fd(server.as_fd()), false);
    let event = next(&mut ring);
    assert_eq!(received(&mut ring, event), Ok(b"still here".to_vec()));
    drop(client);
    for _ in 0..5 {
        ring.recv(token(0), Target::Fd(server.as_fd()), false);
        let event = next(&mut ring);
        assert_eq!(received(&mut ring, event), Ok(Vec::new()), "the end of the stream uses no buffer");
    }
}

#[test]
fn polling_tells_each_time_until_cancelled() {
    let Some(mut ring) = ring(&setup()) else { return };
    let waker = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
    ring.poll_readable(token(5), waker.as_fd());
    for _ in 0..3 {
        nothing(&mut ring, Duration::from_millis(5));
        rustix::io::write(&waker, &1_u64.to_ne_bytes()).unwrap();
        let event = next(&mut ring);
        assert!(matches!(event.kind, EventKind::Readable(Ok(()))) && event.more && event.token == token(5));
        rustix::io::read(&waker, &mut [0; 8]).unwrap();
    }
    ring.cancel(Op::PollReadable, token(5));
    let event = next(&mut ring);
    assert!(matches!(event.kind, EventKind::Readable(Err(Errno::CANCELED))) && !event.more);
}

#[test]
fn waiting_ends_at_its_timeout_and_with_the_first_completion() {
    let Some(mut ring) = ring(&setup()) else { return };
    let (server, mut client) = pair();
    ring.recv(token(0), Target::Fd(server.as_fd()), false);
    let begun = now();
    ring.enter(1, Some(Duration::from_millis(30))).unwrap();
    let waited = begun.elapsed();
    assert!(ring.next().is_none());
    assert!((Duration::from_millis(29)..Duration::from_secs(2)).contains(&waited), "{waited:?}");
    client.write_all(b"x").unwrap();
    // If `enter` ignored the completion, the test would take an hour.
    ring.enter(1, Some(Duration::from_secs(3_600))).unwrap();
    assert!(ring.next().is_some());
}

#[test]
fn the_longest_timeout_is_no_error() {
    let Some(mut ring) = ring(&setup()) else { return };
    let (server, client) = pair();
    ring.recv(token(0), Target::Fd(server.as_fd()), false);
    drop(client);
    ring.enter(1, Some(Duration::MAX)).unwrap();
    assert!(ring.next().is_some());
    assert!(!ring.tear_down(Duration::MAX).leaked);
}

#[test]
fn a_descriptor_in_nonblocking_mode_is_waited_for_just_as_well() {
    let Some(mut ring) = ring(&setup()) else { return };
    let listener = listener();
    listener.set_nonblocking(true).unwrap();
    for multishot in [false, true] {
        ring.accept(token(0), listener.as_fd(), multishot, false);
        nothing(&mut ring, Duration::from_millis(10));
        let mut client = connect(&listener);
        let server = accepted_fd(next(&mut ring));
        rustix::io::ioctl_fionbio(&server, true).unwrap();
        ring.recv(token(1), Target::Fd(server.as_fd()), false);
        nothing(&mut ring, Duration::from_millis(10));
        client.write_all(b"x").unwrap();
        let event = next(&mut ring);
        assert_eq!(received(&mut ring, event), Ok(b"x".to_vec()));
    }
}

#[test]
fn more_pushes_than_the_queue_holds_are_submitted_on_the_way() {
    let Some(mut ring) = ring(&Setup { recv_bufs: 2, ..setup() }) else { return };
    let (server, client) = pair();
    assert_eq!(ring.report().sq_entries, 64);
    for slot in 0..500 {
        ring.recv(token(slot), Target::Fd(server.as_fd()), true);
    }
    assert!(ring.counters().enters >= 6 && ring.counters().sqes >= 400);
    drop(client);
    let mut seen = [false; 500];
    for _ in 0..500 {
        let event = next(&mut ring);
        let slot = event.token.slot as usize;
        assert!(!std::mem::replace(&mut seen[slot], true), "each event once");
        assert_eq!(received(&mut ring, event), Ok(Vec::new()));
    }
    assert_eq!(ring.counters().in_flight, 0);
}

#[test]
#[should_panic(expected = "needs a table")]
fn a_direct_accept_without_a_table_is_a_mistake() {
    let Some(mut ring) = ring(&Setup { fixed_files: 0, ..setup() }) else { panic!("skipped; needs a table") };
    ring.accept(token(0), listener().as_fd(), true, true);
}

#[test]
#[should_panic(expected = "in flight already")]
fn two_sends_of_one_slot_are_a_mistake() {
    let Some(mut ring) = ring(&setup()) else { panic!("skipped; in flight already") };
    let (server, _client) = pair();
    ring.send(token(0), Target::Fd(server.as_fd()), b"x".to_vec().into(), false);
    ring.send(token(0), Target::Fd(server.as_fd()), b"y".to_vec().into(), false);
}

#[test]
#[should_panic(expected = "the ring it came from")]
fn a_buffer_never_enters_another_ring() {
    let Some((mut one, mut two)) = ring(&setup()).zip(ring(&setup())) else {
        panic!("skipped, with the expected message: the ring it came from")
    };
    let (server, mut client) = pair();
    client.write_all(b"x").unwrap();
    one.recv(token(0), Target::Fd(server.as_fd()), false);
    if let EventKind::Received(Ok(Received { buf: Some(buf), .. })) = next(&mut one).kind {
        two.recycle(buf);
    }
}

#[test]
fn an_unused_index_is_an_error_event() {
    let Some(mut ring) = ring(&setup()) else { return };
    ring.recv(token(0), Target::Fixed(63), false);
    let event = next(&mut ring);
    assert_eq!(received(&mut ring, event), Err(Errno::BADF));
    ring.recv(token(0), Target::Fixed(u32::MAX), false);
    let event = next(&mut ring);
    assert_eq!(received(&mut ring, event), Err(Errno::BADF));
    ring.close_fixed(token(0), 63);
    assert!(matches!(next(&mut ring).kind, EventKind::Closed(Err(Errno::BADF))));
}

#[test]
fn a_polled_connection_tells_of_bytes_and_of_the_end_until_cancelled() {
    let Some(mut ring) = ring(&setup()) else { return };
    let (server, mut client) = pair();
    ring.poll_conn(token(3), server.as_fd());
    nothing(&mut ring, Duration::from_millis(5));
    for _ in 0..2 {
        client.write_all(b"x").unwrap();
        let event = next(&mut ring);
        assert!(matches!(event.kind, EventKind::Ready(Ok(Ready { hung_up: false }))) && event.more);
        assert_eq!(event.token, token(3));
        assert_eq!(rustix::io::read(&server, &mut [0; 8]).unwrap(), 1);
    }
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let event = next(&mut ring);
    assert!(matches!(event.kind, EventKind::Ready(Ok(Ready { hung_up: true }))), "{event:?}");
    ring.cancel(Op::PollConn, token(3));
    let event = next(&mut ring);
    assert!(matches!(event.kind, EventKind::Ready(Err(Errno::CANCELED))) && !event.more);
    // The ring keeps the socket open until the last event of the poll.
    drop(server);
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
}

#[test]
fn the_usual_events_come_the_quick_way_and_leave_the_others_for_next() {
    let Some(mut ring) = ring(&setup()) else { return };
    let listener = listener();
    ring.accept(token(9), listener.as_fd(), true, false);
    let mut client = connect(&listener);
    let accepted = loop {
        ring.enter(1, Some(Duration::from_secs(5))).unwrap();
        if let Some(quick) = ring.next_quick() {
            break quick;
        }
    };
    let (from, Quick::Accepted(server)) = accepted else { panic!("expected a connection: {accepted:?}") };
    assert_eq!(from, token(9));
    ring.poll_conn(token(1), server.as_fd());
    ring.recv(token(2), Target::Fd(server.as_fd()), false);
    client.write_all(b"hello").unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        ring.enter(1, Some(Duration::from_secs(5))).unwrap();
        loop {
            if let Some((token, Quick::Ready(ready))) = ring.next_quick() {
                assert!(!ready.hung_up);
                seen.push(token.slot);
            } else if let Some(event) = ring.next() {
                seen.push(event.token.slot);
                assert_eq!(received(&mut ring, event), Ok(b"hello".to_vec()));
            } else {
                break;
            }
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, [1, 2], "neither method loses events of the other");
}

#[test]
fn a_quiet_close_has_no_event_and_frees_the_index() {
    let Some(mut ring) = ring(&Setup { fixed_files: 1, ..setup() }) else { return };
    let listener = listener();
    for _ in 0..3 {
        let mut client = connect(&listener);
        ring.accept(token(9), listener.as_fd(), false, true);
        assert_eq!(accepted_fixed(next(&mut ring)), 0, "the only index is free again");
        ring.close_fixed_quietly(token(0), 0);
        nothing(&mut ring, Duration::from_millis(5));
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
        assert_eq!(ring.counters().in_flight, 0);
    }
    assert_eq!(ring.counters().bad_results, 0);
}

#[test]
fn a_descriptor_is_closed_by_the_plain_call() {
    let (server, mut client) = pair();
    doorbell_ring::close(server);
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
}

/// Closes a descriptor and opens another connection with the same number.
fn replaced(fd: OwnedFd) -> (OwnedFd, std::net::TcpStream) {
    use std::os::fd::AsRawFd;
    let number = fd.as_raw_fd();
    let (server, client) = pair();
    drop(fd);
    // `F_DUPFD` returns the requested number unless another test has just opened a descriptor with
    // it.
    let copy = rustix::io::fcntl_dupfd_cloexec(&server, number).unwrap();
    (if copy.as_raw_fd() == number { copy } else { server }, client)
}

#[test]
fn a_receive_is_of_the_connection_that_was_named_and_not_of_its_number() {
    let Some(mut ring) = ring(&setup()) else { return };
    let (named, mut client) = pair();
    client.write_all(b"ours").unwrap();
    ring.recv(token(1), Target::Fd(named.as_fd()), false);
    let (_other, mut stranger) = replaced(named);
    stranger.write_all(b"theirs").unwrap();
    let event = next(&mut ring);
    assert_eq!(received(&mut ring, event), Ok(b"ours".to_vec()));
}

#[test]
fn a_send_goes_to_the_connection_that_was_named() {
    let Some(mut ring) = ring(&setup()) else { return };
    let (named, mut client) = pair();
    ring.send(token(1), Target::Fd(named.as_fd()), Bytes::from_static(b"ours").into(), false);
    let (_other, stranger) = replaced(named);
    assert_eq!(sent(next(&mut ring)).0, Ok(4));
    let mut got = Vec::new();
    client.read_to_end(&mut got).unwrap();
    assert_eq!(
        got, b"ours",
        "the bytes and the end of the stream: the ring no longer keeps the connection open"
    );
    stranger.set_nonblocking(true).unwrap();
    assert!((&stranger).read(&mut [0; 8]).is_err(), "no bytes for the new owner of the descriptor number");
}

#[test]
fn an_accept_and_a_poll_are_of_what_was_named() {
    let Some(mut ring) = ring(&setup()) else { return };
    let first = listener();
    let mut client = connect(&first);
    ring.accept(token(1), first.as_fd(), false, false);
    let (_other, _stranger) = replaced(first.into());
    drop(accepted_fd(next(&mut ring)));
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);

    let (named, mut client) = pair();
    client.write_all(b"x").unwrap();
    ring.poll_conn(token(2), named.as_fd());
    let (_other, _stranger) = replaced(named);
    assert!(matches!(next(&mut ring).kind, EventKind::Ready(Ok(Ready { hung_up: false }))));
    ring.cancel(Op::PollConn, token(2));
    assert!(!next(&mut ring).more);
}
