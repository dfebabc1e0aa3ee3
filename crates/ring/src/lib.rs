//! A safe io_uring: the ring owns every byte that the kernel may read or write.
//!
//! A ring belongs to one thread. A method such as [`Ring::recv`] pushes an operation with a
//! [`Token`] of the caller, [`Ring::enter`] submits all pushed operations with one system call, and
//! [`Ring::next`] returns their [`Event`]s until it returns `None`:
//!
//! ```no_run
//! use std::net::TcpListener;
//! use std::os::fd::AsFd;
//!
//! use doorbell_ring::{Accepted, EventKind, Ring, Setup, Token};
//!
//! let mut ring = Ring::open(&Setup::default())?;
//! let listener = TcpListener::bind("127.0.0.1:8080")?;
//! ring.accept(Token::new(0, 0), listener.as_fd(), true, false);
//! loop {
//!     ring.enter(1, None)?;
//!     while let Some(event) = ring.next() {
//!         if let EventKind::Accepted(Ok(Accepted::Fd(connection))) = event.kind {
//!             drop(connection); // or receive from it, with its own token
//!         }
//!     }
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Map
//!
//! | task | items |
//! |---|---|
//! | open a ring, query what the kernel lacks | [`Setup`], [`SetupReport`], [`SetupError`], [`opcodes`] |
//! | test the kernel before choosing features | [`selftest`] |
//! | accept, receive, send, poll, close, cancel | the methods of [`Ring`], with [`Target`] and [`SendBuf`] |
//! | read results | [`Event`], [`EventKind`]; [`Quick`] for the frequent ones |
//! | receive and send datagrams | [`Ring::recv_datagrams`], [`Ring::datagram`]; [`datagram`] for batches in one system call |
//! | use received bytes, return their buffer | [`RecvBuf`], [`Ring::received`], [`Ring::recycle`] |
//! | end a ring | [`Ring::tear_down`], [`TearDown`] |
//! | observe a ring | [`Ring::counters`], [`RingCounters`] |
//! | set socket options, close cheaply, free code pages | [`sockopt`], [`close`], [`forget_code_pages`] |
//! | imitate a container that refuses io_uring | [`sandbox`] |
//! | review the `unsafe` blocks | [`soundness`]: the numbered claims they rely on |
//!
//! # What a caller must know
//!
//! - `O_NONBLOCK` makes no difference: every operation waits inside the kernel until it can proceed
//!   or is cancelled.
//! - A [`RecvBuf`] that is dropped and not recycled stays out of the pool until the ring is torn
//!   down. This is safe; [`RingCounters::buffers_lent`] still counts it.
//! - A push that names an ordinary descriptor keeps a duplicate of it until the next `enter`:
//!   closing the descriptor before that does not close the connection yet.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "doorbell-ring is Linux's io_uring and compiles for Linux only. On other systems use the crates \
     that need no ring: doorbell-http, doorbell-health, doorbell-probes and doorbell-checks."
);

#[cfg(target_os = "linux")]
mod bitmap;
#[cfg(target_os = "linux")]
mod bufs;
#[cfg(target_os = "linux")]
mod code;
#[cfg(target_os = "linux")]
pub mod datagram;
#[cfg(target_os = "linux")]
mod errno;
#[cfg(target_os = "linux")]
mod event;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod ring;
#[cfg(target_os = "linux")]
pub mod sandbox;
#[cfg(target_os = "linux")]
pub mod selftest;
#[cfg(target_os = "linux")]
mod sends;
#[cfg(target_os = "linux")]
mod setup;
#[cfg(target_os = "linux")]
pub mod sockopt;
#[cfg(target_os = "linux")]
pub mod soundness;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod token;

#[cfg(target_os = "linux")]
pub use bufs::RecvBuf;
#[cfg(target_os = "linux")]
pub use code::forget_code_pages;
#[cfg(target_os = "linux")]
pub use errno::Errno;
#[cfg(target_os = "linux")]
pub use event::{Accepted, Event, EventKind, Payload, Quick, Ready, Received, SendBuf, Target};
#[cfg(target_os = "linux")]
pub use ring::{EnterError, Ring, RingCounters, TearDown};
#[cfg(target_os = "linux")]
pub use setup::{Hint, Lever, Levers, Setup, SetupError, SetupReport, Step, StepDown, opcodes};
#[cfg(target_os = "linux")]
pub use sys::{close, set_cloexec};
#[cfg(target_os = "linux")]
pub use token::{Op, Token};
