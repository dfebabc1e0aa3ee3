//! The control socket, on which an instance receives commands.
//!
//! Does not know about: the requests (see [`doorbell_control`]), how responses are printed.

mod conn;
mod group;
mod server;
mod socket;
#[cfg(test)]
mod tests;

pub(crate) use server::{Access, DESCRIPTORS, serve};
pub(crate) use socket::{ControlFile, open};
