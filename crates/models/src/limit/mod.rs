//! The limiter that workers share, without the single-worker variant, and without the parts that
//! depend on HTTP: keys of requests and fields of replies.

#[path = "../../../http/src/limit/decision.rs"]
mod decision;
#[path = "../../../http/src/limit/hash.rs"]
mod hash;
#[path = "../../../http/src/limit/leases.rs"]
mod leases;
#[path = "../../../http/src/limit/prefix.rs"]
mod prefix;
#[path = "../../../http/src/limit/quota.rs"]
mod quota;
#[path = "../../../http/src/limit/set.rs"]
mod set;
#[path = "../../../http/src/limit/shared.rs"]
mod shared;
#[path = "../../../http/src/limit/sweep.rs"]
mod sweep;

pub(crate) use quota::Quota;
pub(crate) use shared::Limiter;

/// Maximum number of keys, as in `doorbell-http`.
const KEYS_MAX: usize = 1 << 24;
