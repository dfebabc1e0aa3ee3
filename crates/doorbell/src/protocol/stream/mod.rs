//! Protocols of an application on the ring lane: bytes in, bytes out, with their own state for each
//! connection.
//!
//! A [`StreamHandler`] is called on the ring thread for each event of a connection; it never does
//! I/O and never waits. [`Stream`] turns it into the protocol of a listener:
//!
//! ```no_run
//! use doorbell::stream::{Context, Stream, StreamHandler};
//! use doorbell::{Listen, Server};
//!
//! /// Replies to each line with its length and the number of lines so far.
//! struct Lengths;
//!
//! impl StreamHandler for Lengths {
//!     type Conn = u64;
//!     type Message = ();
//!
//!     fn open(&self, _cx: &mut Context<'_, Self>) -> u64 {
//!         0
//!     }
//!
//!     fn data(&self, lines: &mut u64, input: &[u8], cx: &mut Context<'_, Self>) -> usize {
//!         let Some(end) = input.iter().position(|byte| *byte == b'\n') else { return 0 };
//!         *lines += 1;
//!         cx.write_fmt(format_args!("{end} {lines}\n"));
//!         end + 1
//!     }
//! }
//!
//! let listen = Listen::tcp(([127, 0, 0, 1], 7000).into());
//! let server = Server::builder().listen(listen, Stream::new(Lengths)).start()?;
//! # server.wait()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Events of a connection
//!
//! ```text
//! open ──► data* ──► end ──► closed
//!            │  message (pushed by another thread, or the result of a job)
//!            │  writable (after `Context::notify_writable`)
//!            └  timeout, drain
//! ```
//!
//! - **Frames.** [`StreamHandler::data`] gets all bytes that are not consumed yet, and returns how
//!   many it consumed. It is called again for the rest, so a handler can parse one frame per call;
//!   0 means that the frame is incomplete. Bytes may arrive split at any place.
//! - **Back-pressure.** Output is sent after each event. While a peer does not read its output, no
//!   more of its input is read, and its messages wait: at most [`Stream::messages_max`], then
//!   [`ConnHandle::push`] returns the message. Pipelined frames are handled as long as their output
//!   is shorter than [`Stream::output_bytes_max`].
//! - **Deadlines.** Each wait has its own timeout: for the first byte, for the rest of a frame,
//!   between frames, and for a job. Neither single bytes nor pushed messages extend it, so the
//!   timeout also expires for a peer that only receives. [`Context::set_deadline`] and
//!   [`Context::set_timeout`] set another deadline, for instance in [`StreamHandler::timeout`].
//! - **Jobs.** [`Context::run`] passes work to the compute lane. No further input is handled until
//!   its result has arrived as a message, so replies stay in order.
//! - **Memory.** The states of connections live in a table per listener and worker, whose address
//!   space is reserved at the start: accepting a connection allocates nothing.
//!
//! A panic of a handler closes the connection, without the output of that event. A connection that
//! ends between the parts of a reply, by a panic or otherwise, is reset: a partial reply must not
//! look complete.
//!
//! [`testing::TestStream`](crate::testing::TestStream) runs a handler without sockets.

mod any;
mod conn;
mod event;
mod handler;
mod mail;
mod memory;
mod protocol;

pub use self::any::AnyStream;
pub use self::conn::{StreamConn, Wait};
pub use self::handler::{Busy, Context, StreamHandler};
pub use self::mail::{ConnHandle, MessageCounters, PushError};
pub use self::protocol::Stream;
