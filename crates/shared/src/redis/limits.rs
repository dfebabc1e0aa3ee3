//! Shared limits: the rounds of each [`Leaser`], and one call of the script for many keys.

use super::client::Redis;
use crate::limit::{Ask, Gcra, Granted, KEYS_PER_CALL, Leaser, ROUND_EVERY, SCRIPT};
use crate::store::StoreError;
use doorbell_http::Time;
use doorbell_http::limit::{LIFETIME_MIN, Leases};
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// A limit that instances share.
#[derive(Clone, Debug)]
pub struct SharedLimit {
    /// Its name, a part of its keys in the store.
    pub name: String,
    /// Its parameters in the store.
    pub gcra: Gcra,
    /// The tokens of this instance.
    pub leases: Arc<Leases>,
}

impl SharedLimit {
    async fn run(self, redis: Redis, clock: fn() -> Time, changed: fn(&str, Result<(), &StoreError>)) {
        let mut leaser = Leaser::new(Arc::clone(&self.leases), self.gcra, clock());
        loop {
            let asks = leaser.begin(clock());
            let round = timeout(LIFETIME_MIN, self.round(&redis, &mut leaser, &asks));
            let late = || Err(StoreError(format!("no reply in {} ms", LIFETIME_MIN.as_millis())));
            let pause = match round.await.unwrap_or_else(|_late| late()) {
                Ok(()) => {
                    if leaser.finished() {
                        changed(&self.name, Ok(()));
                    }
                    ROUND_EVERY
                }
                Err(why) => {
                    if leaser.failed() {
                        changed(&self.name, Err(&why));
                    }
                    LIFETIME_MIN
                }
            };
            sleep(pause).await;
        }
    }

    async fn round(&self, redis: &Redis, leaser: &mut Leaser, asks: &[Ask]) -> Result<(), StoreError> {
        if asks.is_empty() && !leaser.is_healthy() {
            redis.charge(&self.name, &self.gcra, asks).await?;
        }
        for asks in asks.chunks(KEYS_PER_CALL) {
            let granted = redis.charge(&self.name, &self.gcra, asks).await?;
            leaser.granted(asks, &granted);
        }
        Ok(())
    }
}

impl Redis {
    /// Requests tokens for all these limits; never completes. `changed` is called with the name of
    /// a limit when the store starts to fail, and when it replies again.
    pub async fn share_limits(
        &self,
        limits: Vec<SharedLimit>,
        clock: fn() -> Time,
        changed: fn(&str, Result<(), &StoreError>),
    ) {
        // The tasks end when this future is dropped.
        let mut tasks: JoinSet<()> =
            limits.into_iter().map(|limit| limit.run(self.clone(), clock, changed)).collect();
        while tasks.join_next().await.is_some() {}
        std::future::pending().await
    }

    /// Charges the keys of a limit atomically, and returns the grants of the store. Keys are sent
    /// as keyed hashes. A call without keys tests that the script can run.
    ///
    /// # Errors
    /// There is no connection, the store refuses or does not reply in time, or the reply does not
    /// match the charges.
    pub async fn charge(&self, limit: &str, gcra: &Gcra, asks: &[Ask]) -> Result<Vec<Granted>, StoreError> {
        let prefix = &self.options().prefix;
        let keys = asks.iter().map(|ask| format!("{prefix}limit:{limit}:{:016x}", ask.hash).into_bytes());
        let charges = asks.iter().flat_map(|ask| [ask.charge.credited, ask.charge.wanted]);
        let arguments = gcra.arguments().into_iter().chain(charges.map(|count| count.to_string()));
        let arguments = arguments.map(String::into_bytes).collect();
        let numbers: Vec<(i64, i64)> = self.eval(SCRIPT, keys.collect(), arguments).await?;
        let is_whole = numbers.len() == asks.len();
        let granted = asks.iter().zip(numbers);
        let granted = granted.map(|(ask, (tokens, full_in))| gcra.granted(ask.charge, tokens, full_in));
        granted.collect::<Option<_>>().filter(|_| is_whole).ok_or_else(|| self.unexpected())
    }
}
