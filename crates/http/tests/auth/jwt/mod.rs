//! Signed tokens: attacks that must fail, and the results of valid tokens.

mod attacks;
mod claims;
mod corpus;
mod keys;
mod mutations;
mod policy;
pub(crate) mod sign;
