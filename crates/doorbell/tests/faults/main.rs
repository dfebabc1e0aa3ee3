//! Tests of faults on the kernel's drivers: real sockets, real clients, and a driver that fails
//! where the kernel rarely does.
//!
//! Does not know about: the simulator (the target `simulator` has more faults, and virtual time), a
//! denied io_uring (`denied.rs`).
#![expect(clippy::disallowed_methods, reason = "these tests measure real time")]

mod cases;
mod faulty;
mod live;
