//! Promise: a check of a built-in kind runs at its configured pace.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::time::Duration;

use axum::http::Request;
use doorbell_tokio::checks::{Check, FileCheck, Pace};
use doorbell_tokio::{Health, Severity};

use crate::common::until;

fn runs(health: &Health) -> u64 {
    let fields = health.counters().fields();
    fields.into_iter().find(|(name, _)| *name == "runs").unwrap().1
}

/// With `cache` and without a schedule, the check runs when a probe finds an old result.
#[tokio::test]
async fn a_probe_triggers_a_run_on_demand() {
    let hour = Duration::from_secs(3_600);
    let cache = Some(Duration::from_millis(1));
    let pace = Pace { cache, is_scheduled: false, max_age: hour, ..Pace::every(hour) };
    let file = FileCheck::new("/proc/self/stat".into());
    let check = Check { pace, severity: Severity::Info, ..Check::new("file", file) };
    let health = Health::builder().target(check).build().unwrap();
    until("the first run", || runs(&health) == 1).await;
    let request = Request::builder().uri("/readyz").body(()).unwrap();
    until("another run", || {
        assert_eq!(health.reply(&request).unwrap().status(), 200);
        runs(&health) > 5
    })
    .await;
}

/// Only the program `doorbell` shares checks between instances.
#[tokio::test]
async fn a_check_runs_although_it_is_shared_and_no_run_is_allowed() {
    let file = FileCheck::new("/proc/self/stat".into());
    let check = Check { share: true, ..Check::new("file", file) };
    let health = Health::builder().target(check).concurrent_runs(0).build().unwrap();
    until("it has run", || health.is_ready()).await;
}

#[test]
fn a_check_without_time_is_refused() {
    let with_timeout = |timeout| {
        let pace = Pace { timeout, ..Pace::every(Duration::from_secs(60)) };
        let check = Check { pace, ..Check::new("file", FileCheck::new("/proc/self/stat".into())) };
        Health::builder().target(check).build()
    };
    assert_eq!(with_timeout(Duration::ZERO).unwrap_err().to_string(), "check file: the timeout is 0");
    with_timeout(Duration::from_nanos(1)).unwrap();
}

/// The longest times mean no limit.
#[test]
fn the_longest_times_are_accepted() {
    let pace = Pace { timeout: Duration::MAX, ..Pace::every(Duration::MAX) };
    let check = Check { pace, ..Check::new("file", FileCheck::new("/proc/self/stat".into())) };
    Health::builder().target(check).build().unwrap();
}
