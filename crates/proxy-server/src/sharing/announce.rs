//! Announces this instance when its description changes, and again before the announcement expires.

use super::Describe;
use doorbell_shared::SharedStore;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Interval at which the description is compared with the announced description.
const COMPARE_EVERY: Duration = Duration::from_secs(1);

/// Time after which an unchanged description is stored again.
const REPEAT_AFTER: Duration = Duration::from_secs(5);

/// Lifetime of an announcement. Afterwards, the instance is no longer listed.
pub const LASTS: Duration = Duration::from_secs(15);

pub(super) async fn run(store: &impl SharedStore, name: String, describe: Describe) {
    let mut last: Option<(Vec<u8>, Instant)> = None;
    loop {
        let value = describe().encode();
        let is_known =
            last.as_ref().is_some_and(|(known, at)| *known == value && at.elapsed() < REPEAT_AFTER);
        if !is_known && store.announce(name.clone(), value.clone(), LASTS).await.is_ok() {
            last = Some((value, Instant::now()));
        }
        sleep(COMPARE_EVERY).await;
    }
}
