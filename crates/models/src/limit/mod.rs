//! The limiter that workers share; its keys and fields, which are about requests, are left out, and so is the one of a single worker.
//!
//! Does not know about: requests.

#[path = "../../../http/src/limit/decision.rs"]
mod decision;
#[path = "../../../http/src/limit/hash.rs"]
mod hash;
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

/// As in the limiter's own module.
const KEYS_MAX: usize = 1 << 24;
