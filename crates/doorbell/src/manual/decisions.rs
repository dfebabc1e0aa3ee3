//! Choices that surprise, what they rest on, and what would change them.
//!
//! # 0001 Ordinary descriptors by default, also where direct ones work
//!
//! *Context.* A fixed-file table saves the descriptor table's work. Before Linux 6.4 a direct descriptor's close runs up to a
//! second late, up to 6.12 one idle connection holds back every later close; from 6.13 both are gone, and the start-up
//! self-test of `doorbell-ring` sees which is the case.
//!
//! *Choice.* [`Descriptors::Auto`](crate::Descriptors::Auto) uses ordinary descriptors. With a deferred accept the first
//! receive, the reply and the close all complete at once, so each is one plain system call and none waits for a turn of the
//! ring; a direct descriptor has no number to call with. It also has no peer address, which the per-address cap needs, and no
//! way to send a reset when a reply cannot be finished. [`Descriptors::Direct`](crate::Descriptors::Direct) is there for who
//! wants it, and is used only where the self-test passes.
//!
//! *Would change it:* figures of the instruction rig in which direct descriptors win by more than the calls they cost.
//!
//! # 0002 The per-address cap counts only under pressure
//!
//! *Context.* A peer's address costs a system call a connection (about 1 % of it), and nearly always no address is near its cap.
//!
//! *Choice.* Nothing is counted while each worker has no more connections than its share of the cap, because then no address
//! can be over it. When one has, all workers count what they have, once, and each new connection, until the pressure is gone.
//! Counters are 16,384 atomics picked by a keyed hash: bounded, no lock; a collision can only bring a cap nearer.
//!
//! # 0003 One wheel of 64 ms ticks, lazily kept
//!
//! *Context.* A timeout linked to each ring operation costs 6 to 13 % of a connection.
//!
//! *Choice.* One deadline a connection, in a hashed wheel. A deadline that moves later stays where it is and is looked at again
//! when its place comes up: a keep-alive request usually costs the wheel nothing, and a connection that is answered within its
//! first turn never enters it. Deadlines are noticed at most one tick late.
//!
//! # 0004 `SO_REUSEPORT` does not hide a port in use
//!
//! *Context.* One listening socket a worker needs `SO_REUSEPORT`, and with it a second server of the same user would start
//! without an error and take half of the clients.
//!
//! *Choice.* A socket without the option is bound first and closed again. [`Listen::overlap`](crate::Listen::overlap) turns that
//! off. To restart without losing anybody, give both servers the same socket
//! ([`Listen::inherited`](crate::Listen::inherited)).
//!
//! # 0005 Full tables let clients wait
//!
//! *Context.* When every slot is taken one can refuse, evict the slowest, or wait.
//!
//! *Choice.* Wait: a client in the backlog is served when a slot is free, and slots become free because every phase has a
//! deadline. Slow clients from one address meet the per-address cap long before the table is full.
