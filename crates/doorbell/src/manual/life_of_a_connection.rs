//! From accept to the freed slot.
//!
//! 1. **Accept.** The driver reports a slot. With deferred accept (the default for protocols in which the client speaks first)
//!    the first bytes are there already. Past [`conns_max`](crate::Limits::conns_max) accept is disarmed and clients wait in the
//!    backlog; it opens again at 90 %. One too many from an address gets a 503 and is closed, unless it is a known request that is
//!    answered and closed at once and takes no slot.
//! 2. **Read.** A plain `recv(2)` first; if it finds nothing, the driver waits for bytes and the protocol's deadline is armed. The protocol's
//!    state of the connection is made here, or with the first call into the protocol.
//! 3. **Answer.** The protocol reads the bytes where they lie. What it cannot use yet it keeps in the connection's own buffer,
//!    which exists only then. Replies are rendered into the worker's buffer and sent from there; what the kernel does not take at once
//!    moves into the connection's own output. An answer that comes later, from a job, takes the same way when it is there; until then the
//!    connection reads one more piece at most, to hear of a client that leaves ([`compute_lane`](super::compute_lane)).
//! 4. **Send.** Rendered bytes, then the shared body if there is one. A short send goes on where it stopped. No progress for
//!    [`write_timeout`](crate::Limits::write_timeout) ends the connection with a reset, so that a part is not taken for the
//!    whole.
//! 5. **What follows** is one of
//!    * *read on* (keep-alive),
//!    * *close at once*: the request was read completely and the socket was empty after it. The reply is sent with `MSG_MORE`
//!      and the close puts it and the FIN into one segment,
//!    * *linger*: anything else. Reply, FIN, then input is read and dropped until the peer's FIN, for at most
//!      [`linger_timeout`](crate::Limits::linger_timeout) and [`linger_bytes_max`](crate::Limits::linger_bytes_max). Closing
//!      with unread input would send a reset, which can destroy the reply on its way (RFC 9112, 9.6).
//!    * *leave*: it is somebody else's. What is left to send is sent, the connection gets its place among those that are out (or waits
//!      for one, or is refused), a receive in flight is cancelled and what it brought kept, and the driver gives the descriptor away.
//! 6. **Close.** What is in flight is cancelled; when it has reported, the descriptor is closed and the slot is free. Its next
//!    use has another generation, so a completion that comes late finds nobody.
//!
//! Every end has a [`CloseReason`](crate::CloseReason), which knows who is to [blame](crate::CloseReason::blame).
//!
//! # Draining
//!
//! [`Handle::drain`](crate::Handle::drain): idle connections end in an orderly way, those that have asked for nothing yet after
//! [`linger_timeout`](crate::Limits::linger_timeout); requests that have begun are waited for, each further reply says
//! `Connection: close`, clients in the backlog are still served, then the listeners close. A socket that others accept from too
//! (inherited, or shared by workers) is let go at once: nobody is lost, because it lives on. At the deadline the rest is closed.
//!
//! # Succession
//!
//! A server can follow another one in the same process ([`ServerBuilder::succeed`](crate::ServerBuilder::succeed)): it gets copies of the
//! same listening sockets, one for each worker as before, so that no backlog is closed and the kernel's choice of a socket for a client does
//! not change. Both accept for a moment. Then the older one retires ([`Handle::take_over`](crate::Handle::take_over)): it disarms accept,
//! serves what its multishot accept had taken by then, closes its copies, and leaves its connections the time they have anyway. Each further
//! reply says `Connection: close`. Who is still there after the patience that was given is drained.
//!
//! The kernel wakes one of those who wait at a socket. Whoever is woken and told to stop before he looked leaves a client in the backlog that
//! nobody else was woken for. So a worker that has left tells all workers of the successor to disarm and arm accept once more, which asks
//! the kernel anew.
