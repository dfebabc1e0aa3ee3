//! The command line of every program here: the address to listen on.
//!
//! Does not know about: anything else.

use std::error::Error;
use std::net::SocketAddr;

/// The address in the first argument.
pub(crate) fn address() -> Result<SocketAddr, Box<dyn Error>> {
    let word = std::env::args().nth(1).ok_or("usage: PROGRAM ADDR:PORT")?;
    Ok(word.parse()?)
}
