//! Faults on the drivers of the kernel: real sockets, real clients, and a driver that fails where the kernel rarely does.
//!
//! Does not know about: the simulator (the target `simulator` has more faults, and virtual time), io_uring denied (`denied.rs`).
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "these tests measure real time and say what they skip"
)]

mod cases;
mod faulty;
mod live;
