//! The control socket, on which an instance receives commands, and the search for control sockets.
//!
//! Does not know about: the requests (see [`crate::wire`]), how responses are printed.

mod client;
mod conn;
mod group;
mod places;
mod server;
mod socket;
#[cfg(test)]
mod tests;

pub(crate) use client::{CallError, Client};
pub(crate) use places::{Found, directories, find_running};
pub(crate) use server::{Access, DESCRIPTORS, serve};
pub(crate) use socket::{ControlFile, open};
