//! The layers of the core crate.
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
//! # Dependencies between the layers
//!
//! **Architecture invariant:** [`driver`](crate::driver) imports no connection, protocol or
//! handler; the connection table imports no driver; a [`protocol`](crate::protocol) imports
//! neither. Only [`worker`](crate::worker) knows both sides. A test reads the sources and fails on
//! any dependency that its list does not allow.
//!
//! **Architecture invariant:** `unsafe` compiles only in `doorbell-ring`, which exports no unsafe
//! function. Each unsafe block names the numbered claim in that crate's documentation on which it
//! relies.
//!
//! **Architecture invariant:** `doorbell-http` has no socket, thread or clock. Time is a number
//! that the caller passes in, so a test can simulate a day in a microsecond.
//!
//! **Architecture invariant:** a driver completes operations, because readiness can emulate
//! completion but not the reverse. Tests check the thirteen rules of the contract ([D-1 to
//! D-13](crate::driver)) on every driver.
//!
//! # The turn
//!
//! [`worker`](crate::worker) lists the six steps of a turn and the invariants I-1 to I-10.
//!
//! # Failure
//!
//! The failure of a driver is a [`Fault`](crate::driver::Fault). On io_uring the worker then
//! continues with epoll on the same listening sockets and reports that once
//! ([`Event::DriverFellBack`](crate::Event::DriverFellBack)). On epoll, and after a panic of a
//! worker, its listeners close, and the kernel distributes its share of clients to the other
//! workers. [`OnWorkerFailure`](crate::OnWorkerFailure) decides whether those continue.
//!
//! # Extension points
//!
//! [`Next::Wait`](doorbell_http::Next) defers a reply to a job on another thread
//! ([`compute_lane`](super::compute_lane)). The threads come from an
//! [`Executor`](crate::offload::Executor): rayon in a program, a seeded scheduler in the simulator,
//! direct calls in a test.
//!
//! [`Next::HandOver`](doorbell_http::Next) removes a connection from its worker: see
//! [`hand_over`](crate::hand_over). The handler decides. It hands over a request without a body by
//! [`Responder::hand_over`](crate::Responder). For a request with a body, another protocol on the
//! same port, or a method unknown to the parser it decides in
//! [`Handler::hands_over`](crate::Handler), which is called when the head is complete or when the
//! parser would send an error. With
//! [`HandOver::answer_before_body`](crate::HandOver::answer_before_body), `Responder::hand_over`
//! also works for requests with bodies, behind closures and guards too. A TLS listener decides by
//! the ClientHello alone.
//!
//! Both end the connection's loop in the worker, so neither costs other connections anything. They
//! can be combined on one connection, in the order of its requests: a request to be handed over
//! after a job waits for the job's result, and leaves with all bytes that arrived meanwhile. A job
//! itself cannot end in a hand-over, because its request was already consumed.
