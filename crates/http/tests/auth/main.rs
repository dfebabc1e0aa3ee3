//! `doorbell_http::auth`: who gets in, who does not, and what they are told.
//!
//! Does not know about: connections. The signed tokens need the feature `jwt`.

mod bearer;
#[cfg(feature = "jwt")]
mod jwt;
mod policy;
