//! Datagrams (UDP): a handler replies to each datagram from memory, or stays silent.
//!
//! ```no_run
//! use doorbell::Server;
//! use doorbell::datagram::{DatagramListen, DatagramReply, DatagramRequest};
//!
//! let echo = |request: &DatagramRequest<'_>, reply: &mut DatagramReply<'_>| reply.send(request.payload());
//! let listen = DatagramListen::udp(([127, 0, 0, 1], 7).into());
//! let server = Server::builder().listen_datagrams(listen, echo).start()?;
//! server.wait()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Workers receive and reply in batches, without an allocation, a lock or a clock reading per
//! datagram. The handler runs on the thread of the worker and must not block. With several workers
//! each has its own socket, and the kernel distributes clients by a hash of both addresses.
//!
//! The source address of a datagram can be forged, so a server may be abused to send traffic to a
//! third party. Therefore a reply is never longer than its request, unless
//! [`DatagramListen::amplification`] permits it, and [`DatagramListen::limit`] can limit the
//! datagrams per client address. Each datagram is counted: see
//! [`DatagramSnapshot`](crate::stats::DatagramSnapshot).
//!
//! A [drain](crate::Handle::drain) handles the datagrams that are already in the queues of the
//! sockets, then closes the sockets. A [successor](crate::ServerBuilder::succeed) continues with
//! the same sockets and their queues. If io_uring fails at run time, epoll continues with the same
//! sockets; the datagrams that the ring had received and not yet reported are lost.

mod handler;
mod listen;
mod service;

pub use handler::{DatagramHandler, DatagramReply, DatagramRequest};
pub use listen::DatagramListen;
pub(crate) use listen::refuse;
pub(crate) use service::{Outcome, Service};
