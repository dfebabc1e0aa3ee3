//! Owns the tests that need the internals of a ring: restrictions, impossible completions, removal
//! of completions from a full queue, leaks.
//! Does not know about: the public tests in `tests/`.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd};
use std::time::Duration;

use doorbell_testkit::skip;
use io_uring::register::Probe;
use io_uring::types::Fd;

use super::*;
use crate::event::{Accepted, Event, EventKind, Received};
use crate::{Step, Target};

const TOKEN: Token = Token::new(3, 5);
const F_BUFFER: u32 = 1;
const F_MORE: u32 = 2;

fn setup() -> Setup {
    Setup { sq_entries: 64, slots: 8, fixed_files: 8, recv_bufs: 4, recv_buf_len: 256, ..Setup::default() }
}

fn ring_of(setup: &Setup) -> Option<Ring> {
    skip::io_uring().then(|| Ring::open(setup).unwrap())
}

fn next(ring: &mut Ring) -> Event {
    for _ in 0..50 {
        if let Some(event) = ring.next() {
            return event;
        }
        ring.enter(1, Some(Duration::from_millis(100))).unwrap();
    }
    panic!("no event in time: {ring:?}");
}

/// Passes the ring a completion as if the kernel had posted it.
fn feed(ring: &mut Ring, tag: Tag, result: i32, flags: u32) -> Option<EventKind> {
    ring.in_flight += u64::from(flags & F_MORE == 0);
    ring.spill.push_back(Cqe { user_data: pack(tag, TOKEN), result, flags });
    let event = ring.next();
    assert!(event.as_ref().is_none_or(|event| event.token == TOKEN));
    event.map(|event| event.kind)
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0, client)
}

fn nop(ring: &mut Ring, flags: Flags) -> Result<(), Errno> {
    ring.push(Tag::Close, TOKEN, opcode::Nop::new().build().flags(flags));
    match next(ring).kind {
        EventKind::Closed(result) => result,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_restricted_ring_refuses_what_we_do_not_use() {
    let Some(mut ring) = ring_of(&setup()) else { return };
    assert!(ring.report().restricted, "{}", ring.report());
    assert_eq!(nop(&mut ring, Flags::empty()), Err(Errno(libc::EACCES)));
    let refused = ring.parts.io.submitter().register_probe(&mut Probe::new()).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EACCES));

    let poll = opcode::PollAdd::new(Fd(0), 1).build().flags(Flags::IO_LINK);
    ring.push(Tag::Close, TOKEN, poll);
    assert!(
        matches!(next(&mut ring).kind, EventKind::Closed(Err(Errno(libc::EACCES)))),
        "a flag that the restrictions do not allow"
    );
}

#[test]
fn an_unrestricted_ring_does_not() {
    let Some(mut ring) = ring_of(&Setup { restrict: false, ..setup() }) else { return };
    assert!(!ring.report().restricted);
    assert_eq!(nop(&mut ring, Flags::empty()), Ok(()));
}

#[test]
fn indices_that_cannot_be_true_are_counted_and_not_believed() {
    let Some(mut ring) = ring_of(&setup()) else { return };
    let accept = |ring: &mut Ring, result, flags| match feed(ring, Tag::AcceptMultiFixed, result, flags) {
        Some(EventKind::Accepted(Ok(Accepted::Fixed(index)))) => Ok(index),
        Some(EventKind::Accepted(Err(errno))) => Err(errno),
        other => panic!("{other:?}"),
    };
    assert_eq!(accept(&mut ring, 7, F_MORE), Ok(7));
    assert_eq!(accept(&mut ring, 7, F_MORE), Err(Errno::BADF), "live already");
    for beyond in [8, 9, 64, i32::MAX] {
        assert_eq!(accept(&mut ring, beyond, F_MORE), Err(Errno::BADF), "beyond the table");
    }
    assert_eq!(ring.counters().bad_results, 5);
    assert_eq!(accept(&mut ring, -libc::ENFILE, 0), Err(Errno(libc::ENFILE)));
    assert_eq!(ring.counters().bad_results, 5, "an errno is a valid result");
    ring.close_fixed(TOKEN, 7);
    assert_eq!(accept(&mut ring, 7, F_MORE), Ok(7), "free as soon as the close is pushed");
}

#[test]
fn the_last_descriptor_of_a_multishot_is_checked() {
    let Some(mut ring) = ring_of(&setup()) else { return };
    let accept = |ring: &mut Ring, tag, result, flags| match feed(ring, tag, result, flags) {
        Some(EventKind::Accepted(Ok(Accepted::Fd(fd)))) => Ok(fd),
        Some(EventKind::Accepted(Err(errno))) => Err(errno),
        other => panic!("{other:?}"),
    };
    for not_open in [999_999, i32::MAX] {
        assert_eq!(accept(&mut ring, Tag::AcceptMultiFd, not_open, 0).unwrap_err(), Errno::BADF);
    }
    ring.doubts_last_accept = true;
    for mask in [0x41, 0xC3, 0x59, 0x2041] {
        assert_eq!(accept(&mut ring, Tag::AcceptMultiFd, mask, 0).unwrap_err(), Errno::BADF, "a poll mask");
    }
    let (pipe, _writer) = std::io::pipe().unwrap();
    assert_eq!(
        accept(&mut ring, Tag::AcceptMultiFd, pipe.as_raw_fd(), 0).unwrap_err(),
        Errno::BADF,
        "no socket"
    );
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    assert_eq!(
        accept(&mut ring, Tag::AcceptMultiFd, listener.as_raw_fd(), 0).unwrap_err(),
        Errno::BADF,
        "a listener"
    );
    assert_eq!(ring.counters().bad_results, 8);

    for (tag, flags) in [(Tag::AcceptMultiFd, 0), (Tag::AcceptMultiFd, F_MORE), (Tag::AcceptFd, 0)] {
        let (server, _client) = pair();
        // The numbers 0x104 to 0x1FF never look like a mask, because POLLWRNORM (0x100) is set.
        let server = rustix::io::fcntl_dupfd_cloexec(&server, 0x104).unwrap().into_raw_fd();
        assert_eq!(accept(&mut ring, tag, server, flags).unwrap().as_raw_fd(), server);
    }
    assert_eq!(ring.counters().bad_results, 8);
}

/// A kernel without the fault always posts a descriptor, so a number that looks like a poll mask is
/// accepted as a connection.
#[test]
fn a_last_descriptor_that_looks_like_a_mask_is_believed_where_the_kernel_is_sound() {
    let Some(mut ring) = ring_of(&setup()) else { return };
    ring.doubts_last_accept = false;
    let (server, mut client) = pair();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // 0x2041 looks like a mask and is free: no test of this program opens that many descriptors.
    let copy = rustix::io::fcntl_dupfd_cloexec(&server, 0x2041).map(IntoRawFd::into_raw_fd);
    let Ok(number @ 0x2041) = copy else { panic!("{copy:?}: too few descriptors, or the number is in use") };
    drop(server);
    match feed(&mut ring, Tag::AcceptMultiFd, number, 0) {
        Some(EventKind::Accepted(Ok(Accepted::Fd(fd)))) => drop(fd),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        std::io::Read::read(&mut client, &mut [0; 8]).unwrap(),
        0,
        "dropping the accepted descriptor closes the connection"
    );
    assert_eq!(ring.counters().bad_results, 0);
}

#[test]
fn kernels_that_end_accepts_with_masks_are_known() {
    let doubted = ["6.6.9", "6.7.4-amd64", "6.8.0-rc3", "6.3.0", "6.5.0-14-generic", "strange", "", "6"];
    let sound = [
        "6.1.0-28-cloud-amd64",
        "6.2.0",
        "6.8.0-45-generic",
        "6.8.12",
        "6.12.5+bpo",
        "6.18.0-rc1",
        "7.2.0",
        "5.15.0",
    ];
    for (releases, doubts) in [(&doubted[..], true), (&sound, false)] {
        for release in releases {
            assert_eq!(reap::ends_accepts_with_masks(release), doubts, "{release}");
        }
    }
}

/// If the descriptor cannot be duplicated, the kernel consumes the entry before the borrow ends.
#[test]
fn an_entry_without_a_duplicate_is_consumed_at_once() {
    let Some(mut ring) = ring_of(&setup()) else { return };
    let (server, mut client) = pair();
    std::io::Write::write_all(&mut client, b"ours").unwrap();
    let poll = opcode::PollAdd::new(Fd(server.as_raw_fd()), 1).build();
    ring.push_at_once(Tag::PollConn, TOKEN, poll);
    assert!(ring.parts.io.submission().is_empty());
    drop(server);
    assert!(matches!(next(&mut ring).kind, EventKind::Ready(Ok(_))));
}

#[test]
fn an_entry_without_a_duplicate_that_stays_breaks_the_ring() {
    let Some(mut ring) = ring_of(&setup()) else { return };
    let (server, _client) = pair();
    ring.setup.fault = Some((Step::EnterLater, libc::EBUSY));
    let poll = opcode::PollAdd::new(Fd(server.as_raw_fd()), 1).build();
    ring.push_at_once(Tag::PollConn, TOKEN, poll);
    ring.setup.fault = None;
    assert_eq!(ring.enter(0, None), Err(EnterError { errno: Errno(libc::EMFILE) }), "never entered again");
    let end = ring.tear_down(Duration::from_millis(30));
    assert!(end.leaked && end.in_flight > 0, "{end:?}");
}

/// A duplicate stays open while its entry is in the queue, and is closed when the kernel has
/// consumed the entry.
#[test]
fn duplicates_end_with_their_entries() {
    let Some(mut ring) = ring_of(&setup()) else { return };
    let (server, _client) = pair();
    ring.recv(TOKEN, Target::Fd(server.as_fd()), false);
    assert_eq!(ring.named.len(), 1);
    ring.setup.fault = Some((Step::EnterLater, libc::EBUSY));
    ring.enter(0, None).unwrap();
    assert_eq!((ring.named.len(), ring.parts.io.submission().len()), (1, 1));
    ring.setup.fault = None;
    ring.enter(0, None).unwrap();
    assert_eq!((ring.named.len(), ring.parts.io.submission().len()), (0, 0));
}

#[test]
fn receives_that_cannot_be_true_are_counted_and_not_believed() {
    let Some(mut ring) = ring_of(&setup()) else { return };
    let received = |ring: &mut Ring, result, flags| match feed(ring, Tag::Recv, result, flags) {
        Some(EventKind::Received(Ok(Received { buf, .. }))) => Ok(buf),
        Some(EventKind::Received(Err(errno))) => Err(errno),
        other => panic!("{other:?}"),
    };
    let buffer = |id: u32| F_BUFFER | id << 16;
    let held = received(&mut ring, 256, buffer(1)).unwrap().unwrap();
    assert_eq!(received(&mut ring, 1, buffer(1)).unwrap_err(), Errno::IO, "lent already");
    assert_eq!(received(&mut ring, 1, buffer(4)).unwrap_err(), Errno::IO, "no such buffer");
    assert_eq!(received(&mut ring, 257, buffer(2)).unwrap_err(), Errno::IO, "more bytes than a buffer holds");
    assert_eq!(received(&mut ring, 1, 0).unwrap_err(), Errno::IO, "bytes without a buffer");
    assert_eq!(received(&mut ring, -libc::EAGAIN, buffer(9)).unwrap_err(), Errno(libc::EAGAIN));
    assert_eq!(ring.counters().bad_results, 5);
    assert_eq!(ring.counters().buffers_lent, 1);
    assert!(received(&mut ring, 0, buffer(0)).unwrap().is_none(), "an end of stream with a buffer");
    assert!(received(&mut ring, 0, 0).unwrap().is_none());
    assert_eq!(ring.counters().bad_results, 5);
    ring.recycle(held);
}

#[test]
fn unexpected_completions_are_counted_and_dropped() {
    let Some(mut ring) = ring_of(&setup()) else { return };
    let (server, _client) = pair();
    ring.recv(TOKEN, Target::Fd(server.as_fd()), true);
    assert!(feed(&mut ring, Tag::Cancel, 0, 0).is_none());
    let send = pack(Tag::Send, TOKEN);
    // No send is in flight in that slot, and no operation has the other tag.
    for user_data in [send, 0xFF << 56] {
        ring.spill.push_back(Cqe { user_data, result: 5, flags: 0 });
        assert!(ring.next().is_none());
    }
    assert_eq!((ring.counters().bad_results, ring.in_flight), (2, 1), "the receive is still in flight");
}

#[test]
fn spilled_completions_come_in_order_and_before_newer_ones() {
    let Some(mut ring) = ring_of(&setup()) else { return };
    let (server, mut client) = pair();
    std::io::Write::write_all(&mut client, b"newest").unwrap();
    for slot in 0..300 {
        ring.in_flight += 1;
        ring.spill.push_back(Cqe { user_data: pack(Tag::Close, Token::new(slot, 0)), result: 0, flags: 0 });
    }
    ring.recv(Token::new(300, 0), Target::Fd(server.as_fd()), false);
    ring.enter(1, None).unwrap();
    ring.spill_queue();
    for slot in 0..=300 {
        assert!(ring.has_unread());
        assert_eq!(ring.next().unwrap().token.slot, slot);
    }
    assert!(!ring.has_unread() && ring.next().is_none());
    assert_eq!(ring.in_flight, 0);
}

/// A set-up whose receive region has a length that no other test uses.
fn setup_of_len(kib: u32, fault: Option<(Step, i32)>) -> Setup {
    Setup { recv_buf_len: kib * 1_024, fault, ..setup() }
}

/// Whether the receive region of that set-up is mapped: the kernel does not merge the region with
/// another mapping, because of its guard pages.
fn is_mapped(kib: u32) -> bool {
    let len = 64 * 1_024 + 4 * u64::from(kib) * 1_024;
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|line| {
        let mut fields = line.split(' ');
        let (from, to) = fields.next().unwrap().split_once('-').unwrap();
        let edge = |text| u64::from_str_radix(text, 16).unwrap();
        edge(to) - edge(from) == len && fields.next() == Some("rw-p")
    })
}

/// Fills a socket so that a send stays in flight; the returned weak reference shows when the
/// payload is freed.
fn blocked_send(ring: &mut Ring, server: &TcpStream) -> std::sync::Weak<()> {
    struct Watched {
        bytes: Vec<u8>,
        _alive: std::sync::Arc<()>,
    }
    impl AsRef<[u8]> for Watched {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    loop {
        ring.send(TOKEN, Target::Fd(server.as_fd()), vec![0; 1 << 20].into(), false);
        ring.enter(0, None).unwrap();
        if ring.next().is_none() {
            break;
        }
    }
    let alive = std::sync::Arc::new(());
    let weak = std::sync::Arc::downgrade(&alive);
    let watched = Watched { bytes: vec![0; 1_000], _alive: alive };
    ring.send(Token::new(4, 0), Target::Fd(server.as_fd()), bytes::Bytes::from_owner(watched).into(), false);
    ring.enter(0, None).unwrap();
    assert_eq!(ring.in_flight, 2);
    weak
}

#[test]
fn memory_is_freed_when_everything_ended_and_leaked_when_not() {
    for (kib, fault, leaks) in [(1_600, None, false), (1_616, Some((Step::CancelLater, 1)), true)] {
        let Some(mut ring) = ring_of(&setup_of_len(kib, fault)) else { return };
        let (server, _client) = pair();
        let payload = blocked_send(&mut ring, &server);
        ring.recv(TOKEN, Target::Fd(server.as_fd()), false);
        ring.enter(0, None).unwrap();
        assert!(is_mapped(kib));
        let end = ring.tear_down(Duration::from_millis(30));
        assert_eq!((end.leaked, end.in_flight > 0), (leaks, leaks), "{end:?}");
        assert_eq!(is_mapped(kib), leaks);
        assert_eq!(payload.upgrade().is_some(), leaks, "the kernel may still read it");
    }
}

#[test]
fn a_ring_that_is_dropped_does_the_same() {
    for (kib, fault, leaks) in [(1_632, None, false), (1_648, Some((Step::CancelLater, 1)), true)] {
        let Some(mut ring) = ring_of(&setup_of_len(kib, fault)) else { return };
        let (server, _client) = pair();
        let payload = blocked_send(&mut ring, &server);
        assert!(is_mapped(kib));
        drop(ring);
        assert_eq!((is_mapped(kib), payload.upgrade().is_some()), (leaks, leaks));
    }
}

#[test]
fn a_broken_ring_leaks_what_it_cannot_ask_for() {
    let Some(mut ring) = ring_of(&setup_of_len(1_664, None)) else { return };
    let (server, _client) = pair();
    let payload = blocked_send(&mut ring, &server);
    ring.setup.fault = Some((Step::EnterLater, libc::EBADR));
    let error = ring.enter(0, None).unwrap_err();
    assert_eq!(error.errno, Errno(libc::EBADR));
    ring.setup.fault = None;
    assert_eq!(ring.enter(0, None), Err(error), "broken for good");
    let end = ring.tear_down(Duration::from_millis(30));
    assert!(end.leaked && is_mapped(1_664) && payload.upgrade().is_some());
}

#[test]
fn a_busy_kernel_makes_no_push_fail_and_no_event_get_lost() {
    let Some(mut ring) = ring_of(&setup()) else { return };
    let (server, client) = pair();
    drop(client);
    ring.recv(Token::new(1_000, 0), Target::Fd(server.as_fd()), false);
    ring.enter(1, None).unwrap();
    ring.setup.fault = Some((Step::EnterLater, libc::EBUSY));
    for slot in 0..70 {
        ring.recv(Token::new(slot, 0), Target::Fd(server.as_fd()), false);
    }
    assert!(ring.counters().enters_busy > 0);
    assert_eq!(ring.next().unwrap().token.slot, 1_000, "older completions come first");
    for slot in 64..70 {
        let event = ring.next().unwrap();
        assert!(
            matches!(event.kind, EventKind::Received(Err(Errno(libc::EBUSY)))) && event.token.slot == slot
        );
    }
    assert!(ring.next().is_none());
    ring.setup.fault = None;
    for _ in 0..64 {
        assert!(matches!(next(&mut ring).kind, EventKind::Received(Ok(Received { buf: None, .. }))));
    }
    assert_eq!(ring.in_flight, 0);
}
