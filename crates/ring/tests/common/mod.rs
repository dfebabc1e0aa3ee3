//! Owns the shared parts of the integration tests: opening a ring or reporting the test as skipped,
//! loopback pairs, waiting for events.
#![allow(dead_code, reason = "each test program uses its part")]

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use doorbell_ring::{Accepted, Event, EventKind, Ring, Setup, Token};
use doorbell_testkit::skip;

/// Opens a ring, or reports a skip and returns `None` where io_uring is not available.
pub(crate) fn ring(setup: &Setup) -> Option<Ring> {
    skip::io_uring().then(|| Ring::open(setup).unwrap_or_else(|error| panic!("{error}")))
}

/// A small ring with a table of direct descriptors.
pub(crate) fn setup() -> Setup {
    Setup {
        sq_entries: 64,
        slots: 64,
        fixed_files: 64,
        recv_bufs: 16,
        recv_buf_len: 1_024,
        ..Setup::default()
    }
}

pub(crate) fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

pub(crate) fn connect(listener: &TcpListener) -> TcpStream {
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream
}

/// Enters the ring until an event arrives. Panics after five seconds.
pub(crate) fn next(ring: &mut Ring) -> Event {
    let ends_at = now() + Duration::from_secs(5);
    loop {
        if let Some(event) = ring.next() {
            return event;
        }
        assert!(now() < ends_at, "no event in time: {ring:?}");
        ring.enter(1, Some(Duration::from_millis(100))).unwrap();
    }
}

/// Enters the ring repeatedly for `time`. Panics if an event arrives.
pub(crate) fn nothing(ring: &mut Ring, time: Duration) {
    let ends_at = now() + time;
    while now() < ends_at {
        ring.enter(1, Some(Duration::from_millis(5))).unwrap();
        if let Some(event) = ring.next() {
            panic!("expected nothing, got {event:?}");
        }
    }
}

pub(crate) fn accepted_fd(event: Event) -> OwnedFd {
    match event.kind {
        EventKind::Accepted(Ok(Accepted::Fd(fd))) => fd,
        other => panic!("expected a descriptor, got {other:?}"),
    }
}

pub(crate) fn accepted_fixed(event: Event) -> u32 {
    match event.kind {
        EventKind::Accepted(Ok(Accepted::Fixed(index))) => index,
        other => panic!("expected an index, got {other:?}"),
    }
}

/// A connected pair; the server's side comes from `accept(2)`.
pub(crate) fn pair() -> (OwnedFd, TcpStream) {
    let listener = listener();
    let client = connect(&listener);
    (listener.accept().unwrap().0.into(), client)
}

/// Locks out the other tests of the program, because one of them counts the open descriptors of the
/// process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn fds_open() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

pub(crate) const fn token(slot: u32) -> Token {
    Token::new(slot, 1)
}

#[expect(clippy::disallowed_methods, reason = "the test limits its waits by the real clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
