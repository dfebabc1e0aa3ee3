//! The store for Redis and Valkey: one connection for commands and one for messages.
//!
//! Does not know about: the meaning of values.
//!
//! | key | type | content |
//! |---|---|---|
//! | `PREFIX` `lease:CHECK` | string | token and holder of the lease; expires with it |
//! | `PREFIX` `check:CHECK` | hash | `token`, `round`, `at` (microseconds), `value`: the last result |
//! | `PREFIX` `check:CHECK` | channel | messages and results |
//! | `PREFIX` `fleet` | hash | descriptions of instances by name |
//! | `PREFIX` `fleet:until` | sorted set | when they expire, in milliseconds |

mod client;
mod limits;
mod resp;
mod scripts;
mod server;

pub use client::{Commands, Redis, RedisOptions};
pub use limits::SharedLimit;
pub use resp::{NotReply, REPLY_LEN_MAX, Value};
pub use server::{BadUrl, Server};

use crate::store::{Lease, LeaseRequest, Publication, SharedStore, StoreError, Stored};
use doorbell_link::Backoff;
use server::Conn;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Idle time after which the connection for messages is tested with PING.
const PING_EVERY: Duration = Duration::from_secs(10);

impl SharedStore for Redis {
    async fn lease(&self, request: LeaseRequest) -> Result<Lease, StoreError> {
        let keys = [self.key("lease:", &request.check), self.key("check:", &request.check)];
        let (token, round) = (request.known.token.to_string(), request.known.round.to_string());
        let arguments = [request.holder, millis(request.lasts), token, round].map(String::into_bytes);
        let reply = self.eval(scripts::LEASE, keys, arguments).await?;
        lease(&reply).ok_or_else(|| unexpected(&reply))
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
        let reply = self.eval(scripts::PUBLISH, keys, arguments).await?;
        reply.integer().map(|published| published == 1).ok_or_else(|| unexpected(&reply))
    }

    async fn tell(&self, check: String, message: Vec<u8>) -> Result<(), StoreError> {
        let reply = self.call(vec![b"PUBLISH".to_vec(), self.channel(&check), message]).await?;
        reply.integer().map(|_receivers| ()).ok_or_else(|| unexpected(&reply))
    }

    async fn follow(&self, checks: Vec<String>, mut heard: impl FnMut(usize, Vec<u8>) + Send) {
        let channels: Vec<Vec<u8>> = checks.iter().map(|check| self.channel(check)).collect();
        let mut backoff = Backoff::new(self.options().seed);
        loop {
            let Err(_reported) = self.listen(&channels, &mut backoff, &mut heard).await;
            // The connection for commands reports the reason. Here, failures are only counted.
            self.status().failed();
            sleep(backoff.pause()).await;
        }
    }

    async fn announce(&self, instance: String, value: Vec<u8>, lasts: Duration) -> Result<(), StoreError> {
        let arguments = [instance.into_bytes(), value, millis(lasts).into_bytes()];
        let reply = self.eval(scripts::ANNOUNCE, self.fleet(), arguments).await?;
        reply.integer().map(|_stored| ()).ok_or_else(|| unexpected(&reply))
    }

    async fn announced(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let reply = self.eval(scripts::ANNOUNCED, self.fleet(), []).await?;
        let all = reply.array().ok_or_else(|| unexpected(&reply))?.chunks_exact(2);
        let all = all.map(|pair| Some((text(&pair[0])?.to_owned(), pair[1].bytes()?.to_vec())));
        all.collect::<Option<_>>().ok_or_else(|| unexpected(&reply))
    }
}

impl Redis {
    fn key(&self, kind: &str, name: &str) -> Vec<u8> {
        [self.options().prefix.as_str(), kind, name].concat().into_bytes()
    }

    /// The channel of a check. Databases have separate keys, but all hear the same channels.
    fn channel(&self, check: &str) -> Vec<u8> {
        match self.options().server.db() {
            0 => self.key("check:", check),
            db => self.key(&format!("check@{db}:"), check),
        }
    }

    fn fleet(&self) -> [Vec<u8>; 2] {
        [self.key("fleet", ""), self.key("fleet:until", "")]
    }

    async fn listen(
        &self,
        channels: &[Vec<u8>],
        backoff: &mut Backoff,
        heard: &mut (impl FnMut(usize, Vec<u8>) + Send),
    ) -> Result<std::convert::Infallible, StoreError> {
        let in_time = self.options().timeout;
        let late = || StoreError("the server did not reply in time".to_owned());
        let mut conn = timeout(in_time, self.options().server.connect()).await.map_err(|_| late())??;
        let mut subscribe = vec![b"SUBSCRIBE".to_vec()];
        subscribe.extend_from_slice(channels);
        timeout(in_time, conn.write_command(&subscribe)).await.map_err(|_| late())??;
        let mut patience = Instant::now() + in_time;
        let mut is_asked = true;
        loop {
            match tokio::time::timeout_at(patience, conn.read()).await {
                Ok(reply) => {
                    if let Some((channel, message)) = message(reply?)?
                        && let Some(at) = channels.iter().position(|known| *known == channel)
                    {
                        heard(at, message);
                    }
                    backoff.reset();
                    (is_asked, patience) = (false, Instant::now() + PING_EVERY);
                }
                Err(_) if is_asked => return Err(late()),
                Err(_) => {
                    timeout(in_time, conn.write_command(&[b"PING".to_vec()])).await.map_err(|_| late())??;
                    (is_asked, patience) = (true, Instant::now() + in_time);
                }
            }
        }
    }
}

impl Conn {
    async fn write_command(&mut self, command: &[Vec<u8>]) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        resp::write(command, &mut bytes);
        self.write(&bytes).await
    }
}

/// The channel and content of a message.
type Received = (Vec<u8>, Vec<u8>);

/// A message; `None` for another reply on the connection for messages.
fn message(reply: Value) -> Result<Option<Received>, StoreError> {
    let Value::Array(parts) = reply else {
        return Err(unexpected(&reply));
    };
    match <[Value; 3]>::try_from(parts) {
        Ok([Value::Bulk(kind), Value::Bulk(channel), Value::Bulk(content)]) if kind == b"message" => {
            Ok(Some((channel, content)))
        }
        // A confirmed subscription, or the reply to PING.
        _ => Ok(None),
    }
}

fn lease(reply: &Value) -> Option<Lease> {
    let [own, token, remaining, value, age] = reply.array()? else { return None };
    let ms = |value: &Value| u64::try_from(value.integer()?).ok().map(Duration::from_millis);
    let age = ms(age)?;
    Some(Lease {
        is_own: own.integer()? == 1,
        token: text(token)?.parse().ok()?,
        remaining: ms(remaining)?,
        latest: value.bytes().map(|value| Stored { value: value.to_vec(), age }),
    })
}

fn text(value: &Value) -> Option<&str> {
    str::from_utf8(value.bytes()?).ok()
}

fn unexpected(reply: &Value) -> StoreError {
    match reply {
        Value::Error(why) => StoreError(why.clone()),
        _ => StoreError(NotReply.to_string()),
    }
}

fn millis(duration: Duration) -> String {
    duration.as_millis().max(1).to_string()
}
