//! Promise: a check follows a check or an endpoint of the same program, and never itself.

use std::time::Duration;

use axum::http::Request;
use doorbell_tokio::checks::{AliasCheck, Check, FileCheck, Followed, Pace};
use doorbell_tokio::{EndpointState, Health, Severity, Ttl};

use crate::common::until;

fn alias(name: &str, followed: Followed<'_>) -> Check {
    let pace = Pace { interval: Duration::from_millis(100), ..Pace::following() };
    Check { pace, severity: Severity::Info, ..Check::new(name, AliasCheck::of(followed)) }
}

#[tokio::test]
async fn states_are_followed() {
    let health = Health::builder()
        .push("db", Ttl::of(Duration::from_secs(3_600)))
        .endpoint("shop", ["db"])
        .endpoint("copies", ["check", "endpoint"])
        .target(Check { severity: Severity::Required, ..alias("check", Followed::Check("db")) })
        .target(Check { severity: Severity::Required, ..alias("endpoint", Followed::Endpoint("shop")) })
        .build()
        .unwrap();
    let db = health.pushed("db").unwrap();
    let is = |state| health.state("copies") == Some(state);
    until("unknown is not up", || is(EndpointState::Down)).await;
    db.ok();
    until("up", || is(EndpointState::Up)).await;
    db.report(Err("no disk"));
    until("down", || is(EndpointState::Down)).await;
}

/// A probe of an endpoint triggers an on-demand check behind an alias.
#[tokio::test]
async fn probes_trigger_followed_checks() {
    let hour = Duration::from_secs(3_600);
    let cache = Some(Duration::from_millis(1));
    let pace = Pace { cache, is_scheduled: false, max_age: hour, ..Pace::every(hour) };
    let file = Check { pace, severity: Severity::Info, ..Check::new("file", FileCheck::new("/".into())) };
    // The alias runs once, so that all further runs are those of the file.
    let pace = Pace { fast_interval: hour, down_interval: hour, max_age: hour, ..Pace::every(hour) };
    let alias = Check { pace, ..alias("copy", Followed::Check("file")) };
    let health = Health::builder().target(file).target(alias).endpoint("copies", ["copy"]).build().unwrap();
    let request = Request::builder().uri("/copies").body(()).unwrap();
    until("runs", || {
        assert!(health.reply(&request).is_some());
        health.counters().fields().into_iter().any(|(name, count)| name == "runs" && count > 5)
    })
    .await;
}

#[tokio::test]
async fn bad_sources_are_refused() {
    for (followed, why) in [
        (Followed::Check("bd"), "check a: there is no check `bd`"),
        (Followed::Check("a"), "a check follows itself: check `a` -> check `a`"),
        // By default, readiness contains every check.
        (Followed::Endpoint("readyz"), "a check follows itself: check `a` -> endpoint `readyz` -> check `a`"),
    ] {
        let error = Health::builder().target(alias("a", followed)).build().unwrap_err();
        assert_eq!(error.to_string(), why);
    }
}
