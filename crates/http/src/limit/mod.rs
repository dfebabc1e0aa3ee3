//! Rate limits per key: GCRA in a table of fixed size, one word per key.
//!
//! Does not know about: clocks, the source of the seed, exempt requests, refusals except their
//! fields. Entry: [`Quota`], [`Limiter`], [`LocalLimiter`], [`Key`].
//!
//! **The rule.** A key has a theoretical arrival time (TAT): the moment at which its whole burst is
//! available again. A request is allowed when adding the price of one does not push that moment
//! further than a whole burst into the future; only then is it added (the generic cell rate
//! algorithm, ITU-T I.371). A TAT in the past means the same as no entry.
//!
//! **The table.** A word contains 32 bits of the key's hash and 32 bits of its TAT. Eight words are
//! one cache line and one set; further bits of the hash select a key's set. So a look-up touches
//! one line, and two keys are mistaken for each other with a probability of 1 in 2^32 per key in
//! the set. The hash is SipHash-1-3 with the caller's seed: replies show a client its remaining
//! quota, so a client could search for keys that share a word with a key of another client. A hash
//! that is merely fast does not resist such a search.
//!
//! **Eviction.** A new key takes an empty or expired word, otherwise the live one nearest to its
//! expiry. That word contains the least information: if it has spent n tokens, every other key in
//! the set has spent at least n. A flood of keys with one request each therefore only displaces
//! such keys, neither a key in the middle of a burst nor one that is being refused. (A clock with a
//! reference bit forgets whichever key the hand reaches; `tests/limit_attack.rs` compares both.)
//!
//! **Time** is counted in ticks in 32 bits that wrap; the price of one request is a power of two of
//! them. A sweep clears expired words well before they could be mistaken for the future. While a
//! clock stands still no tokens are regained; if it goes backward, keys wait until it has caught
//! up.
//!
//! **Choice.** [`Limiter`] is shared by all workers: a key has one quota whichever worker handles
//! its connections. [`LocalLimiter`] belongs to one worker: it needs no atomic operations, but n
//! workers admit up to n times the quota. The difference is a few nanoseconds
//! (`benches/benches/limit.rs`), so prefer the shared one.

mod decision;
mod fields;
mod hash;
mod key;
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
pub use local::LocalLimiter;
pub use quota::{BURST_MAX, PRICE_MIN, Quota, QuotaError, REFILL_MAX};
pub use shared::Limiter;

/// Maximum number of keys in a table: 128 MiB.
pub const KEYS_MAX: usize = 1 << 24;
