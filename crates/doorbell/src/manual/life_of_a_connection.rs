//! The life of a connection, from accept to the freed slot.
//!
//! 1. **Accept.** The driver reports a slot. With deferred accept (the default for protocols in
//!    which the client sends first) the first bytes have already arrived. At
//!    [`conns_max`](crate::Limits::conns_max) accept is disarmed and clients wait in the backlog;
//!    it is armed again at 90 %. A connection over the cap of its address gets a 503 and is closed,
//!    unless its first request equals a cached one and is served at once, without a slot.
//! 2. **Read.** The worker calls `recv(2)`; if no bytes have arrived, the driver waits for bytes
//!    and the protocol's deadline is armed. The protocol's state of the connection is created at
//!    this point, or with the first call into the protocol.
//! 3. **Reply.** The protocol parses the bytes in place. Incomplete input is stored in a buffer of
//!    the connection, which is allocated only for that. Replies are rendered into the worker's
//!    buffer and sent from there; bytes that the kernel does not accept at once move to the
//!    connection's own output buffer. The reply of a job takes the same path when the job is done;
//!    until then the connection reads at most one more chunk of input, to detect that the client
//!    leaves ([`compute_lane`](super::compute_lane)).
//! 4. **Send.** The worker sends the rendered bytes, then the shared body if there is one. A
//!    partial send continues with the first unsent byte. Without progress for
//!    [`write_timeout`](crate::Limits::write_timeout) the connection is reset, so that the client
//!    does not mistake a partial reply for a whole one.
//! 5. **Next step**, one of
//!    * *read* the next request (keep-alive),
//!    * *close at once*, if the request was read completely and the socket was empty after it. The
//!      reply is sent with `MSG_MORE`, and the close puts it and the FIN into one segment,
//!    * *linger* in all other cases: reply, FIN, then input is read and discarded until the peer's
//!      FIN, for at most [`linger_timeout`](crate::Limits::linger_timeout) and
//!      [`linger_bytes_max`](crate::Limits::linger_bytes_max). Closing with unread input would send
//!      a reset, which can destroy the reply in transit (RFC 9112, 9.6),
//!    * *hand over*: pending output is sent, the connection gets a hand-over permit (or waits for a
//!      permit, or is refused), a receive in flight is cancelled and its bytes are preserved, and
//!      the driver detaches the descriptor.
//! 6. **Close.** Operations in flight are cancelled; when all of them have completed, the
//!    descriptor is closed and the slot is free. The next use of the slot has another generation,
//!    so a late completion is dropped.
//!
//! Every connection ends with a [`CloseReason`](crate::CloseReason), which names the side that
//! [caused](crate::CloseReason::blame) it.
//!
//! # Draining
//!
//! [`Handle::drain`](crate::Handle::drain): idle connections are closed with a FIN; a request that
//! has already arrived is answered. With direct descriptors only a receive shows whether a request
//! has arrived, so idle connections stay open for several turns, at least 64 ms. A connection that
//! has sent no request yet is closed after [`linger_timeout`](crate::Limits::linger_timeout).
//! Requests in progress are finished, each further reply has `Connection: close`, and clients in
//! the backlog are served. Then the listeners close. An inherited socket is released at once; no
//! client is lost, because the owner of the socket keeps it open. At the deadline all remaining
//! connections are closed.
//!
//! Datagram sockets have no connections: from the beginning of the drain the kernel drops new
//! datagrams, the worker handles those in the queue, and then the socket closes.
//!
//! # Succession
//!
//! A server can replace another one in the same process
//! ([`ServerBuilder::succeed`](crate::ServerBuilder::succeed)). The successor gets duplicates of
//! the same listening sockets, one per worker, so that no backlog is closed and the kernel
//! continues to distribute clients to the same sockets. For a moment both servers accept. Then the
//! predecessor retires ([`Handle::take_over`](crate::Handle::take_over)): it disarms accept, serves
//! the connections that its multishot accept has already accepted, and closes its duplicates. Its
//! connections keep their timeouts. Each further reply has `Connection: close`. Connections that
//! remain after the given patience are drained.
//!
//! The kernel wakes one of the threads that wait for a socket. If that thread stops accepting
//! before it accepts the client, the client stays in the backlog and no other thread is woken.
//! Therefore a worker that stops accepting makes all workers of the successor disarm and arm accept
//! again, which checks the backlog.
