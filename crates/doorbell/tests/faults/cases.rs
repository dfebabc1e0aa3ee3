//! One test per fault and driver.

use core::time::Duration;
use std::time::Instant;

use doorbell::driver::{DriverKind, Errno};
use doorbell::{Http1, Limits, Request, Responder, StaticReply, Status, service_fn};

use super::faulty::Lies;
use super::live::{pattern, start, start_with};

/// Maximum share of a core during a fault, in percent, as promised.
const CPU_PERCENT_MAX: u128 = 5;

macro_rules! on_each_driver {
    ($($case:ident),* $(,)?) => {
        mod epoll {
            $(#[test] fn $case() { super::$case(doorbell::driver::DriverKind::Epoll); })*
        }
        mod io_uring {
            $(#[test] fn $case() { super::$case(doorbell::driver::DriverKind::IoUring); })*
        }
    };
}

on_each_driver! {
    short_sends_lose_and_repeat_no_byte,
    short_first_sends_lose_and_repeat_no_byte,
    every_accept_error_costs_little_and_ends,
    an_accept_that_stalls_is_noticed,
    failing_receives_end_their_own_connection_only,
    failing_sends_end_their_own_connection_visibly,
    early_waits_change_nothing,
    a_driver_that_breaks_ends_the_worker,
}

fn short_sends_lose_and_repeat_no_byte(kind: DriverKind) {
    let Some(live) = start(kind, Limits::default(), Lies { send_short: 900_000, ..Lies::default() }) else {
        return;
    };
    for (id, len) in [(1, 1), (2, 2), (3, 100), (4, 1_448), (5, 70_000), (6, 1_000_000), (7, 5_000_000)] {
        let answer = live.ask(id, len);
        assert!(!answer.reset, "{len} bytes");
        assert!(answer.bytes == pattern(id, len), "{} of {len} bytes, or wrong bytes", answer.bytes.len());
    }
    live.stop();
}

/// Partial sends on the fast path lose no byte. On this path the worker sends the reply to a first
/// request that ends its connection; without injected faults such a send is rarely partial.
fn short_first_sends_lose_and_repeat_no_byte(kind: DriverKind) {
    let ok = StaticReply::text(Status::OK, "whole\n");
    let http = Http1::new(service_fn(move |_: &Request<'_>, reply: Responder<'_>| reply.send(&ok)));
    let lies = Lies { send_short: 900_000, ..Lies::default() };
    let Some(live) = start_with(http, kind, Limits::default(), lies) else { return };
    for client in 0..50 {
        let answer = live.exchange(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let text = String::from_utf8_lossy(&answer.bytes);
        assert!(!answer.reset, "client {client}: {text}");
        assert!(
            text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nwhole\n"),
            "{client}: {text}"
        );
        assert_eq!(text.matches("HTTP/1.1").count(), 1, "{client}: {text}");
    }
    live.stop();
}

fn every_accept_error_costs_little_and_ends(kind: DriverKind) {
    let errnos = [
        Errno::AGAIN,
        Errno::CONNABORTED,
        Errno::HOSTUNREACH,
        Errno::INTR,
        Errno::INVAL,
        Errno::MFILE,
        Errno::NETDOWN,
        Errno::NFILE,
        Errno::NOBUFS,
        Errno::NOMEM,
        Errno::PERM,
        Errno::PROTO,
    ];
    for errno in errnos {
        // 20 errors: up to 16 errors of one client may be retried at once, the other errors cause
        // pauses of at least 10 ms.
        let lies = Lies { accept_errno: Some((errno, 20)), ..Lies::default() };
        let limits = Limits { accept_backoff_max: Duration::from_millis(40), ..Limits::default() };
        let Some(live) = start(kind, limits, lies) else { return };
        let began = Instant::now();
        let answer = live.ask(9, 100);
        let waited = began.elapsed();
        assert!(!answer.reset && answer.bytes == pattern(9, 100), "{errno}: served in the end");
        assert!(waited >= Duration::from_millis(40), "{errno}: the worker paused, {waited:?}");
        assert_eq!(live.snapshot().accept_errors, 20, "{errno}");
        let cpu = live.stop().cpu;
        assert!(
            cpu.as_nanos() * 100 <= waited.as_nanos() * CPU_PERCENT_MAX + 5_000_000 * 100,
            "{errno}: {cpu:?} in {waited:?}"
        );
    }
}

fn an_accept_that_stalls_is_noticed(kind: DriverKind) {
    let Some(live) = start(kind, Limits::default(), Lies { accept_stalls: 1, ..Lies::default() }) else {
        return;
    };
    let answer = live.ask(1, 100);
    assert!(!answer.reset && answer.bytes == pattern(1, 100));
    assert_eq!(live.snapshot().accept_stalls, 1);
    live.stop();
}

fn failing_receives_end_their_own_connection_only(kind: DriverKind) {
    for errno in [Errno::CONNRESET, Errno::TIMEDOUT, Errno::NOBUFS, Errno::INTR] {
        let lies = Lies { recv_errno: Some((errno, 300_000)), ..Lies::default() };
        let Some(live) = start(kind, Limits::default(), lies) else { return };
        let mut served = 0;
        for id in 0..100 {
            let answer = live.ask(id, 500);
            let whole = answer.bytes == pattern(id, 500);
            assert!(whole || answer.bytes.is_empty(), "{errno}: the whole reply or nothing");
            served += u32::from(whole);
        }
        assert!((30..100).contains(&served), "{errno}: {served} of 100");
        let ended = live.stop();
        assert_eq!(
            ended.snapshot.closed.iter().sum::<u64>(),
            100,
            "{errno}: each end of a connection has a reason"
        );
    }
}

fn failing_sends_end_their_own_connection_visibly(kind: DriverKind) {
    for errno in [Errno::PIPE, Errno::CONNRESET] {
        let lies = Lies { send_errno: Some((errno, 200_000)), send_short: 700_000, ..Lies::default() };
        let Some(live) = start(kind, Limits::default(), lies) else { return };
        let (mut served, mut cut) = (0, 0);
        for id in 0..100 {
            let answer = live.ask(id, 20_000);
            let whole = pattern(id, 20_000);
            assert!(whole.starts_with(&answer.bytes), "{errno}: only bytes of this connection's reply");
            if answer.bytes.len() == whole.len() {
                served += 1;
            } else {
                assert!(
                    answer.reset,
                    "{errno}: a truncated reply of {} bytes looks complete",
                    answer.bytes.len()
                );
                cut += 1;
            }
        }
        assert!(served > 5 && cut > 5, "{errno}: {served} served, {cut} cut");
        live.stop();
    }
}

fn early_waits_change_nothing(kind: DriverKind) {
    let lies = Lies { wait_early: 500_000, send_short: 300_000, ..Lies::default() };
    let Some(live) = start(kind, Limits::default(), lies) else { return };
    for id in 0..100 {
        let answer = live.ask(id, 3_000);
        assert!(!answer.reset && answer.bytes == pattern(id, 3_000));
    }
    live.stop();
}

fn a_driver_that_breaks_ends_the_worker(kind: DriverKind) {
    let Some(live) = start(kind, Limits::default(), Lies { waits_max: Some(20), ..Lies::default() }) else {
        return;
    };
    let mut ended = false;
    for id in 0..200 {
        let Ok(_) = std::net::TcpStream::connect(live.addr) else {
            ended = true;
            break;
        };
        let _answer = id;
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(ended, "the listener is closed, so that clients are refused and do not wait");
    let fault = live.join().result.expect_err("the driver broke");
    assert_eq!((fault.call, fault.errno), ("faulty_wait", Errno::BADR));
}
