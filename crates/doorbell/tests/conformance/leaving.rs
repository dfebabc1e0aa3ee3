//! D-11 and D-20: connections that leave the driver.

use std::collections::HashSet;

use doorbell::driver::{Driver, Expect, Payload, SendBuf, Step};
use doorbell::id::ConnId;

use super::bench::{Bench, Came, Got, Peer, Stand, Taken};

/// Number of slots for these tests.
pub(super) const SLOTS: u32 = 16;

/// Detaches the connection from the driver.
fn detach<B: Bench>(stand: &mut Stand<B>, conn: ConnId) -> Taken {
    let result = match stand.bench.driver().detach(conn) {
        Step::Done(result) => result,
        Step::Pending => {
            let (_, came) = stand.take("the end of a detach", |came| match came {
                Came::Detached(of, _) if *of == conn => Some(()),
                _ => None,
            });
            let Came::Detached(_, result) = came else { unreachable!("it was just matched") };
            result
        }
    };
    stand.bench.take_over(result.expect("the connection can be detached"))
}

/// Reads `len` bytes as the new owner.
fn read_exact<B: Bench>(stand: &mut Stand<B>, taken: &mut Taken, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let until = stand.bench.now() + core::time::Duration::from_secs(5);
    while bytes.len() < len {
        bytes.extend(stand.bench.taken_recv(taken));
        assert!(stand.bench.now() < until, "only {} of {len} bytes came", bytes.len());
        stand.turn();
    }
    bytes
}

pub(super) fn d11_a_detached_connection_works_in_both_directions<B: Bench>(mut stand: Stand<B>) {
    for way in 0..3 {
        let (peer, conn) = stand.pair();
        stand.bench.send(peer, b"first");
        assert_eq!(stand.recv_exact(conn, 5), b"first");
        if way > 0 {
            // A pending receive leaves a poll armed.
            assert_eq!(stand.recv(conn, Expect::Later), None);
            stand.settle();
            if way == 1 {
                stand.bench.driver().cancel(conn);
                assert!(matches!(stand.received(conn), Got::Failed(_)));
            } else {
                stand.bench.send(peer, b"second");
                assert_eq!(stand.received(conn), Got::Data { bytes: b"second".to_vec(), drained: true });
            }
        }
        let mut taken = detach(&mut stand, conn);
        stand.bench.send(peer, b"third");
        assert_eq!(read_exact(&mut stand, &mut taken, 5), b"third");
        stand.bench.taken_send(&mut taken, b"reply");
        stand.look_until(peer, |seen| seen.bytes == b"reply");
        stand.bench.taken_close(taken);
        let seen = stand.look_until(peer, |seen| seen.fin);
        assert!(!seen.reset, "the driver neither keeps the connection open nor resets it: {seen:?}");
        stand.nothing(
            "a detached connection is not reported",
            |came| matches!(came, Came::Received(of, _) if *of == conn),
        );
    }
}

/// The descriptor that is created to query the socket neither keeps a connection open nor delays
/// its end.
pub(super) fn d12_a_query_of_unsent_bytes_keeps_no_connection_open<B: Bench>(mut stand: Stand<B>) {
    for turns in 0..3 {
        let (peer, conn) = stand.pair();
        let _asked = stand.bench.driver().find_unsent(conn);
        (0..turns).for_each(|_| stand.turn());
        let taken = detach(&mut stand, conn);
        stand.bench.taken_close(taken);
        let seen = stand.look_until(peer, |seen| seen.fin);
        assert!(!seen.reset, "detached after {turns} turns: {seen:?}");
        let (peer, conn) = stand.pair();
        let _asked = stand.bench.driver().find_unsent(conn);
        (0..turns).for_each(|_| stand.turn());
        stand.close(conn);
        let seen = stand.look_until(peer, |seen| seen.fin);
        assert!(!seen.reset, "closed after {turns} turns: {seen:?}");
    }
    let (peer, conn) = stand.pair();
    while stand.bench.driver().unsent(conn).is_none() && stand.bench.driver().find_unsent(conn) {
        stand.turn();
    }
    let is_known = stand.bench.driver().unsent(conn).is_some();
    stand.bench.driver().reset_on_close(conn);
    stand.close(conn);
    let seen = stand.look_until(peer, |seen| seen.fin || seen.reset);
    assert_eq!(seen.reset, is_known, "a socket that can be queried can be reset");
}

pub(super) fn d11_unreceived_bytes_are_not_lost<B: Bench>(mut stand: Stand<B>) {
    let (peer, conn) = stand.pair();
    stand.bench.send(peer, b"unread from the first byte on");
    stand.settle();
    let mut taken = detach(&mut stand, conn);
    assert_eq!(read_exact(&mut stand, &mut taken, 29), b"unread from the first byte on");
    stand.bench.taken_close(taken);
}

pub(super) fn d11_sent_bytes_arrive_before_the_next_owners_bytes<B: Bench>(mut stand: Stand<B>) {
    let (peer, conn) = stand.pair();
    let sent = stand.send_wait(conn, SendBuf::new(Payload::Owned(b"ours ".to_vec())), false);
    assert_eq!(sent.result, Ok(5));
    let mut taken = detach(&mut stand, conn);
    stand.bench.taken_send(&mut taken, b"theirs");
    stand.look_until(peer, |seen| seen.bytes == b"ours theirs");
    stand.bench.taken_close(taken);
    stand.look_until(peer, |seen| seen.fin);
}

pub(super) fn d11_a_slot_is_used_again_and_its_connection_stays_apart<B: Bench>(mut stand: Stand<B>) {
    let mut slots = HashSet::new();
    let mut out: Vec<(Peer, Taken)> = Vec::new();
    for round in 0..3 * SLOTS {
        let (peer, conn) = stand.pair();
        slots.insert(conn.slot);
        stand.bench.send(peer, b"?");
        assert_eq!(stand.recv_exact(conn, 1), b"?");
        if round % 3 == 2 {
            stand.close(conn);
            stand.look_until(peer, |seen| seen.fin);
        } else {
            if round % 3 == 1 {
                assert_eq!(stand.recv(conn, Expect::Later), None);
                stand.bench.driver().cancel(conn);
                stand.received(conn);
            }
            let taken = detach(&mut stand, conn);
            out.push((peer, taken));
        }
    }
    assert!(slots.iter().all(|slot| slot.0 < SLOTS), "{slots:?}");
    assert_eq!(out.len(), 2 * SLOTS as usize, "the test detaches more connections than there are slots");
    for (index, (peer, mut taken)) in out.into_iter().enumerate() {
        let word = format!("connection {index}");
        stand.bench.taken_send(&mut taken, word.as_bytes());
        stand.look_until(peer, |seen| seen.bytes == word.as_bytes());
        stand.bench.taken_close(taken);
        let seen = stand.look_until(peer, |seen| seen.fin);
        assert!(!seen.reset, "{seen:?}");
    }
}

/// Accepts connections, passes each on, and uses it in its next slot. The new slot may be the one
/// that the connection had.
pub(super) fn d20_a_released_connection_continues_where_it_is_adopted<B: Bench>(mut stand: Stand<B>) {
    for round in 0..2 * SLOTS {
        let (peer, conn) = stand.pair();
        stand.bench.send(peer, b"sent before");
        let Some(fd) = stand.bench.driver().release(conn.slot) else {
            assert!(!stand.bench.knows_addrs(), "only a direct descriptor cannot be released");
            assert_eq!(stand.recv_exact(conn, 11), b"sent before", "it stays");
            stand.close(conn);
            continue;
        };
        let others: Vec<ConnId> = (0..round % 3).map(|_| stand.pair().1).collect();
        let slot = stand.bench.driver().adopt(fd).expect("a slot is free");
        assert!(others.iter().all(|other| other.slot != slot), "the slot is not in use");
        let conn = stand.name(slot);
        assert_eq!(stand.recv_exact(conn, 11), b"sent before");
        assert_eq!(stand.recv(conn, Expect::Later), None);
        stand.bench.send(peer, b"sent after");
        assert_eq!(stand.received(conn), Got::Data { bytes: b"sent after".to_vec(), drained: true });
        let sent = stand.send_wait(conn, SendBuf::new(Payload::Owned(b"reply".to_vec())), false);
        assert_eq!(sent.result, Ok(5));
        stand.close(conn);
        let seen = stand.look_until(peer, |seen| seen.fin);
        assert_eq!((seen.bytes.as_slice(), seen.reset), (&b"reply"[..], false));
        others.into_iter().for_each(|other| stand.close(other));
    }
}

pub(super) fn d20_a_send_of_an_adopted_connection_waits_for_its_peer<B: Bench>(mut stand: Stand<B>) {
    let (peer, conn) = stand.pair();
    let Some(fd) = stand.bench.driver().release(conn.slot) else { return };
    let slot = stand.bench.driver().adopt(fd).expect("a slot is free");
    let conn = stand.name(slot);
    let mut buf = SendBuf::new(Payload::Owned(vec![7; stand.bench.big_len()]));
    while let Some(sent) = stand.send(conn, buf, false) {
        buf = sent.buf;
        buf.from += sent.result.expect("the peer is connected");
        assert!(!buf.remaining().is_empty(), "the reply exceeds all buffers");
    }
    stand.turn();
    stand.bench.look(peer);
    assert!(stand.sent(conn).result.is_ok_and(|sent_len| sent_len > 0), "the send waits for room");
    stand.close(conn);
}
