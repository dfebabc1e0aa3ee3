//! Shared limits: the rounds of each [`Leaser`], and one call of the script for many keys.
//!
//! Does not know about: the calculation of charges, requests.

use super::client::Redis;
use super::resp::{NotReply, Value};
use crate::limit::{Ask, Gcra, Granted, KEYS_PER_CALL, Leaser, ROUND_EVERY, SCRIPT, SCRIPT_SHA1};
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
    /// As [`Self::call`], or the reply does not match the charges.
    pub async fn charge(&self, limit: &str, gcra: &Gcra, asks: &[Ask]) -> Result<Vec<Granted>, StoreError> {
        // A server that has lost its script cache replies NOSCRIPT.
        let reply = match self.call(self.command("EVALSHA", SCRIPT_SHA1, limit, gcra, asks)).await? {
            Value::Error(why) if why.starts_with("NOSCRIPT") => {
                self.call(self.command("EVAL", SCRIPT, limit, gcra, asks)).await?
            }
            reply => reply,
        };
        let granted = match &reply {
            Value::Array(numbers) if numbers.len() == 2 * asks.len() => {
                asks.iter().zip(numbers.chunks_exact(2)).map(|(ask, pair)| fits(gcra, ask, pair)).collect()
            }
            Value::Error(why) => Err(StoreError(why.clone())),
            _ => Err(StoreError(NotReply.to_string())),
        };
        granted.inspect_err(|_| self.status().failed())
    }

    fn command(&self, verb: &str, script: &str, limit: &str, gcra: &Gcra, asks: &[Ask]) -> Vec<Vec<u8>> {
        let prefix = &self.options().prefix;
        let keys = asks.iter().map(|ask| format!("{prefix}limit:{limit}:{:016x}", ask.hash));
        let charges = asks.iter().flat_map(|ask| [ask.charge.credited, ask.charge.wanted]);
        let head = [verb.to_owned(), script.to_owned(), asks.len().to_string()];
        let words = head.into_iter().chain(keys).chain(gcra.arguments());
        words.chain(charges.map(|count| count.to_string())).map(String::into_bytes).collect()
    }
}

fn fits(gcra: &Gcra, ask: &Ask, pair: &[Value]) -> Result<Granted, StoreError> {
    let numbers = match pair {
        [tokens, full_in_us] => tokens.integer().zip(full_in_us.integer()),
        _ => None,
    };
    let granted = numbers.and_then(|(tokens, full_in_us)| gcra.granted(ask.charge, tokens, full_in_us));
    granted.ok_or_else(|| StoreError("the reply does not match the charges".to_owned()))
}
