//! Converts configuration files of other programs.
//!
//! The result contains only keys that have the same effect in doorbell. Each other line is reported
//! with its number, the reason, and what to do instead.

mod blackbox;
mod dns;
mod http;
mod keys;
mod tcp;
mod yaml;

pub use blackbox::convert as blackbox;
