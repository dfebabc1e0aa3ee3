//! Measures the resident memory and the allocations of a ring. The two tests are in a separate
//! program and run one after the other, so that the memory of other tests is not counted.
#![expect(unsafe_code, reason = "an allocator that counts")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsFd;

use bytes::Bytes;
use common::{alone, next, pair, ring, setup, token};
use doorbell_ring::{EventKind, Received, Setup, Target};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: R-10, every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: R-10, the call is passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: R-10, the call is passed on unchanged.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: R-10, the call is passed on unchanged.
        unsafe { System.alloc_zeroed(layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Private anonymous pages in use, in KiB: memory that the process has written.
fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn slots_cost_nothing_before_they_are_used() {
    let _alone = alone();
    let large = Setup { slots: 65_536, recv_bufs: 4_096, recv_buf_len: 4_096, ..setup() };
    drop(ring(&setup()));
    let before = resident_kib();
    let Some(mut ring) = ring(&large) else { return };
    let opened = resident_kib().saturating_sub(before);
    eprintln!("65,536 slots and 16 MiB of receive buffers: {opened} KiB resident");
    assert!(opened <= 256, "{opened} KiB");

    let (server, mut client) = pair();
    for _ in 0..1_000 {
        ring.send(token(7), Target::Fd(server.as_fd()), b"x".to_vec().into(), false);
        assert!(matches!(next(&mut ring).kind, EventKind::Sent { result: Ok(1), .. }));
        client.read_exact(&mut [0]).unwrap();
    }
    let used = resident_kib().saturating_sub(before);
    assert!(used <= 512, "{used} KiB after 1,000 sends of one slot");
}

#[test]
fn a_request_allocates_nothing() {
    let _alone = alone();
    let Some(mut ring) = ring(&setup()) else { return };
    let (server, mut client) = pair();
    let reply = Bytes::from_static(b"reply");
    let before = ALLOCATIONS.get();
    for _ in 0..1_000 {
        client.write_all(b"question").unwrap();
        ring.recv(token(1), Target::Fd(server.as_fd()), false);
        let EventKind::Received(Ok(Received { buf: Some(buf), .. })) = next(&mut ring).kind else {
            panic!("no bytes")
        };
        assert_eq!(ring.received(&buf), b"question");
        ring.recycle(buf);
        ring.send(token(1), Target::Fd(server.as_fd()), reply.clone().into(), false);
        assert!(matches!(next(&mut ring).kind, EventKind::Sent { result: Ok(5), .. }));
        client.read_exact(&mut [0; 5]).unwrap();
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
