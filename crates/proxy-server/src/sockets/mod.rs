//! Sockets: opened here, inherited from the parent process or systemd, or stored during a restart.
pub(crate) mod activation;
mod address;
mod datagram;
pub(crate) mod descriptor_store;
pub(crate) mod gate;
pub(crate) mod http1;
pub mod inherit;
pub(crate) mod listener;
pub(crate) mod port;
pub(crate) mod raw;
pub(crate) mod systemd;
pub(crate) mod udp;
