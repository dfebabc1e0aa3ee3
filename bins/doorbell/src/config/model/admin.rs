//! `[admin]`: where people, scrapers and hooks ask a running doorbell.
//!
//! Does not know about: what can be asked.

use super::Secret;
use std::net::{Ipv4Addr, SocketAddr};

/// `[admin]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where it listens.
    pub bind: SocketAddr,
    /// Names by which clients reach it, beside addresses, localhost and the machine's own name.
    pub hosts: Vec<String>,
    /// The bearer token of whoever changes something; without it that is for those on the same machine.
    pub token: Option<Secret>,
    /// Whether everybody who reaches the address is meant to see what is there. Nothing but a lint looks at it.
    pub open: bool,
    /// Whether nobody asked for it, as without a file: then it only shows, and does without its address where somebody else has that.
    pub by_itself: bool,
}

impl Admin {
    /// What is there without a file.
    #[must_use]
    pub fn by_itself() -> Self {
        Self { by_itself: true, ..Self::default() }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 9130)),
            hosts: Vec::new(),
            token: None,
            open: false,
            by_itself: false,
        }
    }
}
