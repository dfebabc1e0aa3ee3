//! The control socket: where a doorbell takes commands, and how a command finds it.
//!
//! Does not know about: what is asked, which [`crate::wire`] says; how answers are shown.

mod client;
mod conn;
mod group;
mod places;
mod server;
mod socket;
#[cfg(test)]
mod tests;

pub(crate) use client::{CallError, Client};
pub(crate) use places::{Found, directories, living};
pub(crate) use server::{Access, DESCRIPTORS, serve};
pub(crate) use socket::{ControlFile, open};
