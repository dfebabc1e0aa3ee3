//! Re-exports of the HTTP types that this package uses.
//!
//! Does not know about: how the types work. This module contains no code.

pub(crate) use doorbell::http::*;
