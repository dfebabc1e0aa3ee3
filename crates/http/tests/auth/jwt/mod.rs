//! Signed tokens: the attacks they must withstand, and what a good one gets.
//!
//! Does not know about: connections.

mod attacks;
mod claims;
mod corpus;
mod keys;
mod mutations;
mod policy;
pub(crate) mod sign;
