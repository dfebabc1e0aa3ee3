//! Runs the self-test on this kernel, with io_uring refused, and with a ring that fails.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod common;

use std::time::Duration;

use common::{alone, fds_open, now, ring, setup};
use doorbell_ring::selftest::{TIME_MAX, capabilities};
use doorbell_ring::{Levers, Setup, Step};
use doorbell_testkit::figures::at_most;

#[test]
fn this_kernel_is_judged_in_time_and_without_a_leak() {
    let _alone = alone();
    if ring(&setup()).is_none() {
        return;
    }
    let without_defer = Levers { defer_taskrun: false, ..Levers::default() };
    for levers in [Levers::default(), without_defer, Levers::NONE] {
        let setup = Setup { levers, ..Setup::default() };
        let before = fds_open();
        let mut fastest = Duration::MAX;
        for _ in 0..5 {
            let begun = now();
            let found = capabilities(&setup);
            fastest = fastest.min(begun.elapsed());
            eprintln!("{:?}: {found:?}", begun.elapsed());
            assert!(found.multishot_accept.ok, "6.1 and later: {found:?}");
            assert!(found.reply_and_fin.ok, "{found:?}");
        }
        at_most(format_args!("self-test with {levers:?}"), fastest, TIME_MAX);
        assert_eq!(fds_open(), before);
    }
}

#[test]
fn where_io_uring_is_refused_the_verdict_says_why() {
    let _alone = alone();
    let setup = Setup { fault: Some((Step::Create, libc::EPERM)), ..Setup::default() };
    let found = capabilities(&setup);
    for verdict in [found.multishot_accept, found.direct_descriptors, found.reply_and_fin] {
        assert!(!verdict.ok && verdict.why.contains("EPERM"), "{verdict:?}");
    }
}

#[test]
fn a_ring_that_breaks_fails_every_test() {
    let _alone = alone();
    if ring(&setup()).is_none() {
        return;
    }
    let found = capabilities(&Setup { fault: Some((Step::EnterLater, libc::EPERM)), ..Setup::default() });
    for verdict in [found.multishot_accept, found.direct_descriptors, found.reply_and_fin] {
        assert!(!verdict.ok && verdict.why.contains("EPERM"), "{verdict:?}");
    }
}

#[test]
fn without_a_table_only_direct_descriptors_fail() {
    let _alone = alone();
    if ring(&setup()).is_none() {
        return;
    }
    let found = capabilities(&Setup { fault: Some((Step::RegisterFiles, libc::EMFILE)), ..Setup::default() });
    assert!(!found.direct_descriptors.ok && found.direct_descriptors.why.contains("EMFILE"), "{found:?}");
    assert!(found.multishot_accept.ok && found.reply_and_fin.ok, "{found:?}");
}

/// On a kernel where no operation ever completes, which is the slowest case, the self-test stays
/// below its time limit.
#[test]
fn a_kernel_that_stalls_costs_less_than_the_limit() {
    let _alone = alone();
    if ring(&setup()).is_none() {
        return;
    }
    let before = fds_open();
    let begun = now();
    let found = capabilities(&Setup { fault: Some((Step::EnterLater, libc::EBUSY)), ..Setup::default() });
    at_most("self-test of a kernel that stalls", begun.elapsed(), TIME_MAX);
    for verdict in [&found.multishot_accept, &found.direct_descriptors, &found.reply_and_fin] {
        assert!(!verdict.ok && verdict.why.contains("no event within"), "{verdict:?}");
    }
    assert_eq!(fds_open(), before);
}
