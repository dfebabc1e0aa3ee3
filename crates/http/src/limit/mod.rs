//! How often a key may come: GCRA in a table of fixed size, one word a key.
//!
//! Does not know about: clocks, where the seed comes from, which requests are exempt, what a refusal looks like beyond its fields.
//! Entry: [`Quota`], [`Limiter`], [`LocalLimiter`], [`Key`].
//!
//! **The rule.** A key has a theoretical arrival time (TAT): the moment at which it has its whole burst again. A request is
//! allowed when adding the price of one does not push that moment further than a whole burst into the future, and only then is
//! it added (the generic cell rate algorithm, ITU-T I.371). A TAT in the past and no entry at all mean the same.
//!
//! **The table.** A word holds 32 bits of the key's hash and 32 bits of its TAT. Eight words are one cache line and one set; a
//! key can only be in the set that further bits of its hash choose. So a look-up touches one line, and two keys are taken for one with
//! a probability of 1 in 2^32 for each key that shares the set. The hash is SipHash-1-3 with the caller's seed: replies tell
//! a client what remains to it, so it could search for keys that share a word with another's, and a merely fast hash has no
//! claim to withstand that.
//!
//! **Eviction.** A new key takes an empty or expired word, else the live one that is nearest to its expiry. That word knows the least:
//! with n tokens to be forgotten, every other key in the set has at least n spent. A flood of keys with one request
//! each therefore only ever displaces such keys, and neither a key in the middle of a burst nor one that is being refused.
//! (A clock with a reference bit forgets whom the hand meets; `tests/limit_attack.rs` has both side by side.)
//!
//! **Time** is counted in ticks, a power of two of which is the price of one request, in 32 bits that wrap. A sweep clears what
//! has expired well before it could be mistaken for the future.
//! A clock that stands still only means that nothing is regained; one that goes backward, that keys wait until it has caught up.
//!
//! **Which one.** [`Limiter`] is shared by all workers: a key has one quota whichever worker its connections fall to. [`LocalLimiter`] is
//! one worker's own: it needs no atomic operation, but n workers admit up to n times the quota. The difference is a few
//! nanoseconds (`benches/benches/limit.rs`), so the shared one is the one to use.

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

/// The most keys that a table has room for: 128 MiB.
pub const KEYS_MAX: usize = 1 << 24;
