//! Signed tokens: attacks they must withstand, and results of valid ones.
//!
//! Does not know about: connections.

mod attacks;
mod claims;
mod corpus;
mod keys;
mod mutations;
mod policy;
pub(crate) mod sign;
