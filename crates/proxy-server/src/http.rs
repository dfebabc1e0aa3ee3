//! Re-exports of the HTTP types that this package uses.
//!
//! This module contains no code.

pub(crate) use doorbell::http::*;
