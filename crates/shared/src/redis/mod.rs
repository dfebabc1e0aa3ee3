//! The store for Redis and Valkey: one connection for commands and one for messages.
//!
//! | key | type | content |
//! |---|---|---|
//! | `PREFIX` `lease:CHECK` | string | token and holder of the lease; expires with it |
//! | `PREFIX` `check:CHECK` | hash | `token`, `round`, `at` (microseconds), `value`: the last result |
//! | `PREFIX` `check:CHECK` | channel | messages and results; `check@DB:CHECK` if DB is not 0 |
//! | `PREFIX` `fleet` | hash | descriptions of instances by name |
//! | `PREFIX` `fleet:until` | sorted set | expiry of the descriptions by name, in milliseconds |
//! | `PREFIX` `limit:NAME:HASH` | string | when the whole burst of a client is available again |

mod client;
mod conn_state;
mod limits;
mod scripts;
mod server;

pub use client::{Commands, Redis, RedisOptions};
pub use limits::SharedLimit;
pub use server::Server;

use crate::store::{Lease, LeaseRequest, Notification, Publication, SharedStore, StoreError, Stored};
use client::late;
use doorbell_link::Backoff;
use futures_util::StreamExt as _;
use redis::Value;
use server::{not_reply, reason};
use std::convert::Infallible;
use std::time::Duration;
use tokio::task::unconstrained;
use tokio::time::{sleep, timeout};

/// Idle time after which the connection for messages is tested with PING.
const PING_EVERY: Duration = Duration::from_secs(10);

/// Reply to a request for a lease: 1 if the requester holds it, the token, the remaining
/// milliseconds, the result, and its age in milliseconds.
type LeaseReply = (i64, u64, i64, Option<Vec<u8>>, i64);

impl SharedStore for Redis {
    async fn lease(&self, request: LeaseRequest) -> Result<Lease, StoreError> {
        let keys = [self.key("lease:", &request.check), self.key("check:", &request.check)];
        let (token, round) = (request.known.token.to_string(), request.known.round.to_string());
        let arguments = [request.holder, millis(request.lasts), token, round].map(String::into_bytes);
        let (own, token, remaining, value, age): LeaseReply =
            self.eval(scripts::LEASE, keys.into(), arguments.into()).await?;
        let ms = |ms: i64| u64::try_from(ms).map(Duration::from_millis).map_err(|_| self.unexpected());
        let (remaining, age) = (ms(remaining)?, ms(age)?);
        Ok(Lease { is_own: own == 1, token, remaining, latest: value.map(|value| Stored { value, age }) })
    }

    async fn publish(&self, result: Publication) -> Result<bool, StoreError> {
        let keys = [self.key("lease:", &result.check), self.key("check:", &result.check)];
        let arguments = [
            result.holder.into_bytes(),
            result.stamp.token.to_string().into_bytes(),
            result.stamp.round.to_string().into_bytes(),
            result.value,
            millis(result.keep).into_bytes(),
            self.channel(&result.check),
        ];
        let published: i64 = self.eval(scripts::PUBLISH, keys.into(), arguments.into()).await?;
        Ok(published == 1)
    }

    async fn notify(
        &self,
        Notification { check, holder, token, message }: Notification,
    ) -> Result<bool, StoreError> {
        let keys = vec![self.key("lease:", &check)];
        let arguments = [holder.into_bytes(), token.to_string().into_bytes(), self.channel(&check), message];
        let sent: i64 = self.eval(scripts::NOTIFY, keys, arguments.into()).await?;
        Ok(sent == 1)
    }

    async fn follow(&self, checks: Vec<String>, mut received: impl FnMut(usize, Vec<u8>) + Send) {
        let channels: Vec<Vec<u8>> = checks.iter().map(|check| self.channel(check)).collect();
        let mut backoff = Backoff::new(self.options().seed);
        loop {
            let Err(why) = self.listen(&channels, &mut backoff, &mut received).await;
            self.lost_messages(why);
            sleep(backoff.pause()).await;
        }
    }

    async fn announce(&self, instance: String, value: Vec<u8>, lasts: Duration) -> Result<(), StoreError> {
        let arguments = [instance.into_bytes(), value, millis(lasts).into_bytes()];
        let _stored: i64 = self.eval(scripts::ANNOUNCE, self.fleet(), arguments.into()).await?;
        Ok(())
    }

    async fn announced(&self, lasts: Duration) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.eval(scripts::ANNOUNCED, self.fleet(), vec![millis(lasts).into_bytes()]).await
    }
}

impl Redis {
    fn key(&self, kind: &str, name: &str) -> Vec<u8> {
        [self.options().prefix.as_str(), kind, name].concat().into_bytes()
    }

    /// The channel of a check. Databases have separate keys, but the same channels.
    fn channel(&self, check: &str) -> Vec<u8> {
        match self.options().server.db {
            0 => self.key("check:", check),
            db => self.key(&format!("check@{db}:"), check),
        }
    }

    fn fleet(&self) -> Vec<Vec<u8>> {
        vec![self.key("fleet", ""), self.key("fleet:until", "")]
    }

    async fn listen(
        &self,
        channels: &[Vec<u8>],
        backoff: &mut Backoff,
        received: &mut (impl FnMut(usize, Vec<u8>) + Send),
    ) -> Result<Infallible, StoreError> {
        let within = self.options().timeout;
        let opened = timeout(within, self.options().server.listen(within)).await;
        let (pubsub, state) = opened.map_err(|_| late())??;
        let failed = |error| reason(&error, &state);
        let (mut sink, mut messages) = pubsub.split();
        timeout(within, sink.subscribe(channels)).await.map_err(|_| late())?.map_err(failed)?;
        loop {
            state.replied();
            backoff.reset();
            // The library queues received messages without a limit. `unconstrained` lets this task
            // empty the queue before the connection reads again.
            match timeout(PING_EVERY, unconstrained(messages.next())).await {
                Ok(Some(message)) => {
                    let channel = message.get_channel_name().as_bytes();
                    if let Some(at) = channels.iter().position(|known| known == channel) {
                        received(at, message.get_payload_bytes().to_vec());
                    }
                }
                Ok(None) => return Err(state.end(not_reply())),
                Err(_idle) => {
                    let pong = timeout(within, sink.ping::<Value>()).await;
                    pong.map_err(|_| late())?.map_err(failed)?;
                }
            }
        }
    }
}

fn millis(duration: Duration) -> String {
    duration.as_millis().max(1).to_string()
}
