//! The generic cell rate algorithm (ITU-T I.371) as a script of the store, and its parameters.

use doorbell_http::limit::{Credit, LIFETIME_MIN, Leases, OnError, Quota};
use std::time::Duration;
use thiserror::Error;

/// Number of instances for whose credits the store reserves a part of the burst. The reserve is at
/// most an eighth of the burst. Credits beyond the reserve can exceed the limit.
pub const INSTANCES_COVERED: u32 = 16;

/// Number of instances whose simultaneous credits for one client fit into the maximum debt. The
/// credits of further instances can remain uncharged.
const INSTANCES_REMEMBERED: u32 = 64;

/// Default credit: 8, the connections that a browser opens at once; a quarter of the burst if that
/// is less, 1/1024 of the burst if that is more; at least 1.
#[must_use]
pub fn credit_default(burst: u32) -> u32 {
    (burst / 1024).max((burst / 4).min(8)).max(1)
}

/// Charges many keys atomically. Times are microseconds on the clock of the server.
///
/// - Keys: one per client. The value is the time at which the client's whole burst is available
///   again.
/// - Arguments: the time per request, the window and the maximum debt, then for each key the number
///   of requests that were allowed on credit, and the number of requested tokens.
/// - Reply: for each key the number of granted tokens, and the time until the whole burst is
///   available again.
///
/// A stored time after now plus the maximum debt is reduced to that time. The causes are credits of
/// very many instances at once, a clock that went backwards, and a value that another program
/// wrote.
pub const SCRIPT: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local price, window, debt_max = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local reply = {}
for i, key in ipairs(KEYS) do
  local credited, wanted = tonumber(ARGV[2 * i + 2]), tonumber(ARGV[2 * i + 3])
  local full = tonumber(redis.call('GET', key) or '') or 0
  full = math.max(now, math.min(full, now + debt_max)) + credited * price
  local granted = math.max(0, math.min(wanted, math.floor((now + window - full) / price)))
  full = math.ceil(full + granted * price)
  if credited + granted > 0 then
    redis.call('SET', key, string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000))
  end
  reply[2 * i - 1], reply[2 * i] = granted, full - now
end
return reply
";

/// The parameters of a limit in the store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gcra {
    /// Time per request.
    price_us: f64,
    /// Maximum time until the whole burst is available again, after a token was granted.
    window_us: f64,
    /// Maximum time until the whole burst is available again, including the credits of
    /// [`INSTANCES_REMEMBERED`] instances.
    debt_max_us: f64,
    lifetime: Duration,
    credit: Credit,
}

/// Charge for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Number of requests that were allowed on credit.
    pub credited: u32,
    /// Number of requested tokens.
    pub wanted: u32,
}

/// Reply of the store for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Number of granted tokens, at most [`Charge::wanted`].
    pub tokens: u32,
    /// Time until the whole burst of the key is available again.
    pub full_in: Duration,
}

/// Error: the burst is too small for the lifetime of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a shared limit of this rate needs a burst of at least {min}")]
pub struct BurstTooSmall {
    /// Minimum burst at this rate.
    pub min: u32,
}

impl Gcra {
    /// Derives the parameters from the limit. `credit` is the number of requests that a client
    /// without tokens may send before the store is asked.
    ///
    /// # Errors
    /// The burst is regained in less than twice the minimum lifetime of a token.
    pub fn new(quota: &Quota, credit: u32) -> Result<Self, BurstTooSmall> {
        let price_us = micros(quota.period()) / f64::from(quota.requests());
        let burst_us = price_us * f64::from(quota.burst());
        let min_us = 2.0 * micros(LIFETIME_MIN);
        if burst_us < min_us {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
            return Err(BurstTooSmall { min: (min_us / price_us).ceil() as u32 });
        }
        // Tokens of a slow limit live longer, so that a client near its rate uses them before they
        // expire.
        let lifetime_us = (burst_us / 64.0).max((4.0 * price_us).min(burst_us / 4.0));
        let lifetime = Duration::from_micros(as_micros(lifetime_us)).max(LIFETIME_MIN);
        let none = Credit { requests: 0, debt_max: Duration::ZERO };
        let lifetime = Leases::new(1, lifetime, none, OnError::Local).lifetime();
        let reserved_us = (price_us * f64::from(INSTANCES_COVERED * credit)).min(burst_us / 8.0);
        // At least one token must fit into the window.
        let window_us = (burst_us - micros(lifetime) - reserved_us).max(price_us);
        let debt_max = Duration::from_micros(as_micros(window_us / 2.0));
        let debt_max_us = 2.0 * window_us + price_us * f64::from(INSTANCES_REMEMBERED) * f64::from(credit);
        Ok(Self { price_us, window_us, debt_max_us, lifetime, credit: Credit { requests: credit, debt_max } })
    }

    /// Creates a table of leases for this limit.
    #[must_use]
    pub fn leases(&self, keys_max: usize, on_error: OnError) -> Leases {
        Leases::new(keys_max, self.lifetime, self.credit, on_error)
    }

    /// Returns the first three arguments of [`SCRIPT`], which do not depend on keys.
    #[must_use]
    pub fn arguments(&self) -> [String; 3] {
        [self.price_us, self.window_us, self.debt_max_us].map(|us| us.to_string())
    }

    /// Validates the reply for a key; `None` if it is invalid.
    #[must_use]
    pub fn granted(&self, charge: Charge, tokens: i64, full_in_us: i64) -> Option<Granted> {
        let tokens = u32::try_from(tokens).ok().filter(|tokens| *tokens <= charge.wanted)?;
        let charged = f64::from(charge.credited) + f64::from(charge.wanted);
        let max_us = as_micros(self.debt_max_us + charged * self.price_us) + 2;
        let full_in_us = u64::try_from(full_in_us).ok().filter(|full_in_us| *full_in_us <= max_us)?;
        Some(Granted { tokens, full_in: Duration::from_micros(full_in_us) })
    }

    /// Time after a reply until the store can grant a token.
    pub(super) fn free_in(&self, full_in: Duration) -> Duration {
        Duration::from_micros(as_micros(micros(full_in) + self.price_us - self.window_us))
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn as_micros(value: f64) -> u64 {
    value as u64
}

/// Derives the seed of a limiter from a secret. All instances then have the same hashes of clients
/// in the store, which cannot be reversed without the secret.
#[cfg(feature = "redis")]
#[must_use]
pub fn seed(secret: &[u8], limit: &str) -> [u64; 2] {
    use aws_lc_rs::hmac;
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), limit.as_bytes());
    let part = |at: usize| tag.as_ref().get(at..).and_then(<[u8]>::first_chunk).copied();
    [0, 8].map(|at| u64::from_le_bytes(part(at).expect("SHA-256 has 32 bytes")))
}
