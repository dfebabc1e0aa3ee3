//! Every difference between the servers must have a reason.
//!
//! `DOORBELL_DIFFERENTIAL` sets the number of streams; the default is 20,000.

use doorbell_differential::go::Go;
use doorbell_differential::run::run;
use doorbell_testkit::skip::{self, Need};
use std::path::Path;

#[test]
fn every_difference_has_a_reason() {
    let streams = std::env::var("DOORBELL_DIFFERENTIAL").map_or(20_000, |text| text.parse().unwrap());
    let mut go = Go::start(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    if go.is_none() {
        skip::skipped(Need::Clients, "Go net/http, which is not compared: `go` is not in the path");
    }
    let peers = 1 + u64::from(go.is_some());
    let report = run(1, 0..streams, go.as_mut()).unwrap();
    assert_eq!((report.streams, report.compared), (streams, streams * peers));
    assert!(
        report.accepted > streams / 2 && report.refused > streams / 4,
        "too few accepted or refused streams:\n{report}"
    );
    assert_eq!(report.unlisted, 0, "{report}");
}
