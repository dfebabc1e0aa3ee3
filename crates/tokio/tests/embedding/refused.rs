//! Promise: `build` refuses configurations that cannot work, and the error names the check.
//!
//! Does not know about: names of endpoints as paths (`paths`).

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::time::Duration;

use doorbell_tokio::{Check, Health, HealthBuilder};

fn refusal(builder: HealthBuilder) -> String {
    builder.build().unwrap_err().to_string()
}

fn with_check(name: &str, check: Check) -> HealthBuilder {
    Health::builder().check(name, check, || async { Ok::<(), &str>(()) })
}

fn usual() -> Check {
    Check::every(Duration::from_secs(60))
}

#[tokio::test]
async fn invalid_checks_are_refused() {
    for (builder, why) in [
        (with_check("db", usual().timeout(Duration::ZERO)), "check db: the timeout is 0"),
        (with_check("db", Check::every(Duration::ZERO)), "check db: "),
        (with_check("db", usual().rise(0)), "check db: "),
        (with_check("alive", usual()), "check alive: "),
        (with_check("db", usual()).endpoint("lb", ["queue"]), "endpoint lb: there is no check queue"),
    ] {
        let refusal = refusal(builder);
        assert!(refusal.starts_with(why), "{refusal}");
    }
    with_check("db", usual().timeout(Duration::from_nanos(1))).build().unwrap();
}

#[test]
fn a_check_needs_a_runtime() {
    let refusal = refusal(with_check("db", usual()));
    assert!(refusal.starts_with("check db: there is no Tokio runtime here"), "{refusal}");
    Health::builder().build().unwrap();
}
