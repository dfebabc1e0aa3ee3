//! Tests of a ring that is refused, restricted, overflowed or torn down early.
//! Does not know about: single operations (`operations.rs`).
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod common;

use std::io::Read;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;

use common::{alone, connect, fds_open, listener, next, now, pair, ring, setup, token};
use doorbell_ring::sandbox::{Denial, deny};
use doorbell_ring::{Errno, EventKind, Hint, Lever, Levers, Received, Ring, Setup, Step, StepDown, Target};
use doorbell_testkit::figures::at_most;

fn refused(setup: &Setup) -> (Step, Errno, Hint) {
    let error = Ring::open(setup).expect_err("a refusal");
    assert!(error.to_string().starts_with("io_uring is not available: "), "{error}");
    (error.step, error.errno, error.hint)
}

#[test]
fn a_fault_at_a_vital_step_is_an_error_that_names_it() {
    let _alone = alone();
    if ring(&setup()).is_none() {
        return;
    }
    let before = fds_open();
    for step in [Step::Check, Step::Create, Step::Probe, Step::RegisterBuffers, Step::Enable, Step::Enter] {
        for errno in [libc::EPERM, libc::ENOSYS, libc::ENOMEM, libc::EINVAL] {
            let (at, answered, _) = refused(&Setup { fault: Some((step, errno)), ..setup() });
            assert_eq!((at, answered), (step, Errno(errno)));
        }
    }
    assert_eq!(fds_open(), before, "a failed set-up leaves no descriptor open");
}

#[test]
fn a_fault_at_another_step_is_a_step_down_with_its_reason() {
    let _alone = alone();
    for (step, lever) in [
        (Step::RegisterFiles, Lever::FixedFiles),
        (Step::RegisterRingFd, Lever::RegisteredFd),
        (Step::Restrict, Lever::Restrictions),
    ] {
        let Some(ring) = ring(&Setup { fault: Some((step, libc::EMFILE)), ..setup() }) else { return };
        let report = ring.report();
        assert!(
            report.steps_down.contains(&StepDown { lever, errno: Some(Errno(libc::EMFILE)) }),
            "{report}"
        );
        assert!(report.to_string().contains("EMFILE"), "{report}");
        assert_eq!(report.fixed_files == 0, lever == Lever::FixedFiles);
        assert_eq!(report.levers.registered_fd, lever != Lever::RegisteredFd);
        assert_eq!(report.restricted, lever != Lever::Restrictions);
    }
}

#[test]
fn impossible_wishes_are_refused_before_any_call() {
    let _alone = alone();
    for setup in [
        Setup { recv_bufs: 0, ..setup() },
        Setup { recv_bufs: 32_769, ..setup() },
        Setup { recv_buf_len: 0, ..setup() },
        Setup { recv_buf_len: u32::MAX, ..setup() },
        Setup { slots: 0, ..setup() },
    ] {
        let (step, errno, hint) = refused(&setup);
        assert_eq!((step, errno), (Step::Check, Errno(libc::EINVAL)));
        assert!(matches!(hint, Hint::BadSetup(_)));
    }
}

/// A ring still transfers a byte if any single flag is missing, and if all flags are missing.
#[test]
fn every_rung_of_the_ladder_carries() {
    let _alone = alone();
    let all = Levers::default();
    for levers in [
        all,
        Levers { clamp: false, ..all },
        Levers { coop_taskrun: false, ..all },
        Levers { cqsize: false, ..all },
        Levers { defer_taskrun: false, ..all },
        Levers { no_sqarray: false, ..all },
        Levers { r_disabled: false, ..all },
        Levers { registered_fd: false, ..all },
        Levers { single_issuer: false, ..all },
        Levers { submit_all: false, ..all },
        Levers::NONE,
    ] {
        let Some(mut ring) = ring(&Setup { levers, ..setup() }) else { return };
        let in_force = ring.report().levers;
        let expected = Levers { defer_taskrun: levers.defer_taskrun && levers.single_issuer, ..levers };
        assert_eq!(in_force, expected, "this kernel supports every flag: {}", ring.report());
        assert_eq!(ring.report().restricted, levers.r_disabled);
        let (server, mut client) = pair();
        ring.send(token(0), Target::Fd(server.as_fd()), b"x".to_vec().into(), false);
        assert!(matches!(next(&mut ring).kind, EventKind::Sent { result: Ok(1), .. }));
        client.read_exact(&mut [0]).unwrap();
        assert!(!ring.tear_down(Duration::from_secs(1)).leaked);
    }
}

#[test]
fn seccomp_at_set_up_is_named() {
    let _alone = alone();
    if ring(&setup()).is_none() {
        return;
    }
    for (errno, hint) in
        [(libc::EPERM, Hint::Seccomp), (libc::ENOSYS, Hint::Seccomp), (libc::EINVAL, Hint::TooOld)]
    {
        let found = std::thread::spawn(move || {
            deny(&Denial::at_setup(Errno(errno))).unwrap();
            refused(&setup())
        });
        assert_eq!(found.join().unwrap(), (Step::Create, Errno(errno), hint));
    }
    assert!(Ring::open(&setup()).is_ok(), "the filter applied to the other thread only");
}

#[test]
fn seccomp_on_use_is_found_at_set_up_too() {
    let _alone = alone();
    if ring(&setup()).is_none() {
        return;
    }
    let found = |denial: Denial| {
        let thread = std::thread::spawn(move || {
            deny(&denial).unwrap();
            refused(&setup())
        });
        thread.join().unwrap()
    };
    let eperm = Some(Errno(libc::EPERM));
    let enter = Denial { enter: eperm, ..Denial::default() };
    assert_eq!(found(enter), (Step::Enter, Errno(libc::EPERM), Hint::Seccomp));
    let register = Denial { register: eperm, ..Denial::default() };
    assert_eq!(found(register), (Step::Probe, Errno(libc::EPERM), Hint::Seccomp));
}

#[test]
fn seccomp_after_set_up_breaks_the_ring_and_leaks_safely() {
    let _alone = alone();
    if ring(&setup()).is_none() {
        return;
    }
    for errno in [libc::EPERM, libc::ENOSYS, libc::ENOMEM, libc::EINVAL] {
        let thread = std::thread::spawn(move || {
            let mut ring = Ring::open(&setup()).unwrap();
            let (server, _client) = pair();
            ring.recv(token(0), Target::Fd(server.as_fd()), false);
            ring.enter(0, None).unwrap();
            deny(&Denial::later(Errno(errno))).unwrap();
            let error = ring.enter(0, None).unwrap_err();
            assert_eq!(error.errno, Errno(errno));
            // If tear-down waited for the broken ring, the test would take an hour.
            let end = ring.tear_down(Duration::from_secs(3_600));
            assert!(end.leaked && end.in_flight > 0);
        });
        thread.join().unwrap();
    }
}

#[test]
fn the_deny_example_refuses_io_uring_to_a_whole_command() {
    let _alone = alone();
    let program = std::env::current_exe().unwrap();
    let deny = program.parent().unwrap().parent().unwrap().join("examples/deny");
    assert!(
        deny.exists(),
        "`cargo test` builds examples; with --test, run `cargo build --example deny` first"
    );
    let run = |args: &[&str]| Command::new(&deny).args(args).output().unwrap();
    assert_eq!(run(&["EPERM", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    let status = run(&["EPERM", "--", "cat", "/proc/self/status"]);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains("Seccomp:\t2"), "{status}");
    for wrong in [
        &["EPERM"][..],
        &["--", "true"],
        &["EBOGUS", "--", "true"],
        &["0", "--", "true"],
        &["4096", "--", "true"],
        &[],
    ] {
        assert_eq!(run(wrong).status.code(), Some(2), "{wrong:?}");
    }
    assert_eq!(run(&["38", "--", "/no/such/program"]).status.code(), Some(127));
}

#[test]
fn a_completion_queue_that_overflows_loses_nothing() {
    let _alone = alone();
    let setup = Setup { cq_entries: 64, recv_bufs: 2, ..setup() };
    let Some(mut ring) = ring(&setup) else { return };
    assert_eq!(ring.report().cq_entries, 64);
    let (server, client) = pair();
    drop(client);
    // Each operation completes during submission, and no completion is read before the loop ends.
    for slot in 0..400 {
        ring.recv(token(slot), Target::Fd(server.as_fd()), false);
    }
    let mut seen = [false; 400];
    for _ in 0..400 {
        let event = next(&mut ring);
        assert!(matches!(event.kind, EventKind::Received(Ok(Received { buf: None, .. }))));
        assert!(!std::mem::replace(&mut seen[event.token.slot as usize], true), "each completion once");
    }
    let counters = ring.counters();
    assert!(counters.cq_overflows > 0, "{counters:?}");
    assert_eq!((counters.cqes_dropped, counters.in_flight), (0, 0));
}

#[test]
fn connections_that_arrive_during_tear_down_are_closed() {
    let _alone = alone();
    for direct in [false, true] {
        for dropped in [false, true] {
            let before = fds_open();
            let Some(mut ring) = ring(&setup()) else { return };
            let listener = listener();
            ring.accept(token(0), listener.as_fd(), true, direct);
            ring.enter(0, None).unwrap();
            let mut clients: Vec<_> = (0..5).map(|_| connect(&listener)).collect();
            if dropped {
                drop(ring);
            } else {
                let end = ring.tear_down(Duration::from_secs(1));
                assert!(!end.leaked && end.events_dropped >= 1, "{end:?}");
            }
            drop(listener);
            for client in &mut clients {
                let ended = client.read(&mut [0; 8]);
                assert!(matches!(ended, Ok(0) | Err(_)), "closed or reset, not left open: {ended:?}");
                assert!(
                    !matches!(&ended, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock),
                    "left open"
                );
            }
            drop(clients);
            assert_eq!(fds_open(), before);
        }
    }
}

#[test]
fn tear_down_ends_every_kind_of_operation_quickly() {
    let _alone = alone();
    let Some(mut ring) = ring(&setup()) else { return };
    let listener = listener();
    let (server, _client) = pair();
    let waker = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap();
    ring.accept(token(0), listener.as_fd(), true, false);
    ring.accept(token(1), listener.as_fd(), false, true);
    ring.poll_readable(token(2), waker.as_fd());
    for slot in 0..40 {
        ring.recv(token(slot), Target::Fd(server.as_fd()), slot % 2 == 0);
    }
    // The ring is not entered here: tear-down submits and cancels the queued entries too.
    let begun = now();
    let end = ring.tear_down(Duration::from_secs(20));
    assert!(!end.leaked && end.in_flight == 0, "{end:?}");
    assert_eq!(end.events_dropped, 43);
    at_most("tear-down of a full ring", begun.elapsed(), Duration::from_secs(1));
}

#[test]
fn an_idle_ring_goes_at_once() {
    let _alone = alone();
    let mut fastest = Duration::MAX;
    for _ in 0..20 {
        let Some(ring) = ring(&setup()) else { return };
        let begun = now();
        let end = ring.tear_down(Duration::from_secs(1));
        fastest = fastest.min(begun.elapsed());
        assert_eq!((end.events_dropped, end.leaked), (0, false));
    }
    at_most("fastest tear-down of an idle ring", fastest, Duration::from_millis(10));
}

/// A thread can register 16 rings; a dropped ring must free its registration.
#[test]
fn rings_come_and_go_without_a_trace() {
    let _alone = alone();
    let before = fds_open();
    for _ in 0..100 {
        let Some(ring) = ring(&setup()) else { return };
        assert!(ring.report().levers.registered_fd, "{}", ring.report());
    }
    assert_eq!(fds_open(), before);
}
