//! Rate limits per key: GCRA in a table of fixed size, one word per key.
//!
//! Entry points: [`Quota`], [`Limiter`], [`LocalLimiter`], [`Key`].
//!
//! **The rule.** A key has a theoretical arrival time (TAT): the time at which its whole burst is
//! available again. Each request has a price, which is added to the TAT. The request is refused,
//! and the TAT unchanged, if the new TAT would be more than a whole burst in the future (the
//! generic cell rate algorithm, ITU-T I.371). A TAT in the past is equivalent to a missing entry.
//!
//! **The table.** A word contains 32 bits of the key's hash and 32 bits of its TAT. Eight words are
//! one cache line and one set; other bits of the hash select the set of a key. A look-up therefore
//! reads one cache line, and two keys are confused with a probability of 1 in 2^32 per key in the
//! set. The hash is SipHash-1-3 with the caller's seed. A merely fast hash would not be enough:
//! replies show a client its remaining quota, by which it could find keys that share a word with a
//! key of another client.
//!
//! **Eviction.** A new key takes an empty or expired word or, if there is none, the live word with
//! the TAT nearest to expiry. That word contains the least information: if its key has spent n
//! tokens, every other key in the set has spent at least n. A flood of keys with one request each
//! therefore displaces only keys of this kind, not a key in the middle of a burst or one that is
//! being refused. (The CLOCK algorithm with a reference bit, in contrast, evicts the key that
//! its hand happens to reach; `tests/machine/limit_attack.rs` compares both policies.)
//!
//! **Time** is counted in ticks of 32 bits that wrap around; the price of a request is a power of
//! two in ticks. A sweep clears expired words long before they could be mistaken for times in the
//! future. While a clock stands still, no tokens are regained. After a clock goes backward, no
//! tokens are regained until it reaches its earlier time.
//!
//! **Choice.** [`Limiter`] is shared by all workers: a key has one quota, whichever worker handles
//! its connections. [`LocalLimiter`] belongs to one worker and needs no atomic operations, but n
//! workers admit up to n times the quota. The difference in cost is a few nanoseconds
//! (`benches/benches/limit.rs`), so prefer the shared limiter. [`Leases`] make several processes
//! share one limit.

mod decision;
mod fields;
mod hash;
mod key;
mod leases;
mod local;
mod prefix;
mod quota;
mod set;
mod shared;
mod sweep;
#[cfg(test)]
mod tests;

pub use decision::{Counts, Decision};
pub use fields::LimitFields;
pub use key::{CLIENT_V6_LEN, Key, KeyBytes, client_net};
pub use leases::{Credit, Grant, LIFETIME_MIN, LeaseCounts, Leases, OnError, Usage};
pub use local::LocalLimiter;
pub use quota::{BURST_MAX, PRICE_MIN, Quota, QuotaError, REFILL_MAX};
pub use shared::Limiter;

/// Maximum number of keys in a table, which then takes 128 MiB.
pub const KEYS_MAX: usize = 1 << 24;
