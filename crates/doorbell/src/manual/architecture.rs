//! The layers of the engine crate, their dependencies and its extension points.
//!
//! ```text
//!  clients ──► driver (io_uring | epoll | simulated) ⇄ worker ⇄ connection table
//!                                                        ⇅
//!                                            protocol (in: bytes, time; out: bytes, next step, deadline)
//!                                                        ⇅
//!                                                     handler (yours)
//! ```
//!
//! A worker is a thread with its own driver, listeners, connection table, timer wheel and counters.
//! Workers share no state that a request modifies: a request that arrives in one piece takes no
//! lock, allocates nothing and reads no clock.
//!
//! [Datagrams](crate::datagram) take a shorter way: the driver lends a batch, the worker passes
//! each datagram through the service of its listener (size, limit per address, handler, length of
//! the reply), and the replies leave in the same turn. There is no connection table, and no state
//! per client except that of the limit.
//!
//! # Dependencies between the layers
//!
//! **Architecture invariant:** [`driver`](crate::driver) imports no connection, protocol or
//! handler; the connection table imports no driver; a [`protocol`](crate::protocol) imports neither
//! a driver nor the connection table. Only [`worker`](crate::worker) imports all of them. A test
//! reads the sources and fails on any dependency that its list does not allow.
//!
//! **Architecture invariant:** `unsafe` compiles only in `doorbell-ring`, which exports no unsafe
//! function. Each unsafe block names the claim on which it relies; [`doorbell_ring::soundness`]
//! lists the claims.
//!
//! **Architecture invariant:** `doorbell-http` has no socket, thread or clock. The caller passes
//! the time as a number, so a test can simulate a day in a microsecond.
//!
//! **Architecture invariant:** the interface of a driver is completion-based, because readiness can
//! emulate completion but not the reverse. Tests check the 21 rules of the contract ([D-1 to
//! D-21](crate::driver)) on every driver.
//!
//! # The turn
//!
//! A turn is one pass of a worker's loop. [`worker`](crate::worker) lists its seven steps and the
//! invariants I-1 to I-10.
//!
//! # Failure
//!
//! The failure of a driver is a [`Fault`](crate::driver::Fault). If io_uring fails, the worker
//! continues with epoll on the same listening sockets and reports the change once
//! ([`Event::DriverFellBack`](crate::Event::DriverFellBack)). If epoll fails or a worker panics,
//! the listeners of the worker close, and the kernel distributes its share of clients to the other
//! workers. [`OnWorkerFailure`](crate::OnWorkerFailure) decides whether the other workers continue.
//!
//! # Extension points
//!
//! [`stream`](crate::stream) is for protocols of an application: bytes in, bytes out, messages of
//! other threads, jobs and deadlines, with a state per connection. [`Raw`](crate::Raw) is built on
//! it. HTTP is compiled into the worker instead, because a dynamic call would cost instructions for
//! each request.
//!
//! [`Next::Wait`](doorbell_http::Next) waits for the reply of a job on another thread
//! ([`compute_lane`](super::compute_lane)). The threads come from an
//! [`Executor`](crate::offload::Executor): rayon in a program, a seeded scheduler in the simulator,
//! direct calls in a test.
//!
//! [`Next::HandOver`](doorbell_http::Next) removes a connection from its worker: see
//! [`hand_over`](crate::hand_over). The handler decides which requests to hand over. For a request
//! without a body it calls [`Responder::hand_over`](crate::Responder::hand_over). For a request
//! with a body, another protocol on the same port, or a method unknown to the parser, it implements
//! [`Handler::hands_over`](crate::Handler::hands_over), which is called when the head is complete
//! or when the parser would send an error. With
//! [`HandOver::answer_before_body`](crate::HandOver::answer_before_body), `Responder::hand_over`
//! also works for requests with bodies, including in closures and behind guards. A TLS listener
//! decides by the ClientHello alone.
//!
//! After `Next::Wait` and `Next::HandOver` the worker does not process the connection further, so
//! both cost other connections nothing. One connection can use both, in the order of its requests:
//! if a request with a job is followed by one that is handed over, the hand-over waits for the
//! result of the job, and includes all bytes that have arrived. A job cannot end in a hand-over,
//! because its request was already consumed.
