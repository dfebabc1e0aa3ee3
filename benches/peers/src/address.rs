//! The command line of all peer programs: the address to listen on.

use std::error::Error;
use std::net::SocketAddr;

/// Returns the address in the first argument.
pub(crate) fn address() -> Result<SocketAddr, Box<dyn Error>> {
    let word = std::env::args().nth(1).ok_or("usage: PROGRAM ADDR:PORT")?;
    Ok(word.parse()?)
}
