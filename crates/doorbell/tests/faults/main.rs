//! Faults on the drivers of the kernel: real sockets, real clients, and a driver that fails where the kernel rarely does.
//!
//! Does not know about: the simulator (the target `simulator` has more faults, and virtual time), io_uring denied (`denied.rs`).
#![expect(clippy::disallowed_methods, reason = "these tests measure real time")]

mod cases;
mod faulty;
mod live;
