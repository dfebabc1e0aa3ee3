//! `doorbell_http::auth`: allowed and refused requests, and their replies.
//!
//! The signed tokens need the feature `jwt`.

mod bearer;
#[cfg(feature = "jwt")]
mod jwt;
mod policy;
