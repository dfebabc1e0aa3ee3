//! What this binary uses of HTTP, in one place.
//!
//! Does not know about: anything; it only names things.

pub(crate) use doorbell::http::*;
