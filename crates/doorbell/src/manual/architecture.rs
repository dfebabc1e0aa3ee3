//! The layers of the core crate.
//!
//! ```text
//!  clients ──► driver (io_uring | epoll | simulated) ⇄ worker ⇄ connection table
//!                                                        ⇅
//!                                            protocol (bytes and a time in; bytes, a wish and a deadline out)
//!                                                        ⇅
//!                                                     handler (yours)
//! ```
//!
//! One worker is one thread with a driver, a listener for each address, a connection table, a wheel of deadlines and counters
//! of its own. Workers share nothing that a request touches: no lock is taken, nothing is allocated and no clock is read for a
//! request that arrives in one piece.
//!
//! # Who may know whom
//!
//! **Architecture invariant:** [`driver`](crate::driver) imports no connection, protocol or handler; the connection table
//! imports no driver; a [`protocol`](crate::protocol) imports neither. Only [`worker`](crate::worker) knows both sides. A test
//! reads the sources and fails when an arrow appears that is not listed there.
//!
//! **Architecture invariant:** `unsafe` compiles only in `doorbell-ring`, which exports no unsafe function. Each block names
//! the numbered claim of that crate's page that it relies on.
//!
//! **Architecture invariant:** `doorbell-http` has no socket, thread or clock. Time is a number that its caller passes in, so a
//! test can let a day go by in a microsecond.
//!
//! **Architecture invariant:** a driver completes operations; readiness imitates completion and not the reverse. The thirteen
//! lines of the contract ([D-1 to D-13](crate::driver)) are run as tests on each driver by name.
//!
//! # The turn
//!
//! [`worker`](crate::worker) lists the six steps of a turn and the invariants I-1 to I-10.
//!
//! # Failure
//!
//! A driver that cannot go on is a [`Fault`](crate::driver::Fault). On io_uring the worker continues with epoll on the same
//! listening sockets and says so once ([`Event::DriverFellBack`](crate::Event::DriverFellBack)). On epoll, and when a worker
//! panics, its listeners close, so that the kernel gives its share of clients to the other workers, and
//! [`OnWorkerFailure`](crate::OnWorkerFailure) decides whether these go on.
//!
//! # Seams
//!
//! [`Next::Wait`](doorbell_http::Next) is how work is answered later, from another thread ([`compute_lane`](super::compute_lane)). Which
//! threads run jobs is a trait ([`Executor`](crate::offload::Executor)): rayon in a program, a seed in the simulator, a test's own hand.
//!
//! [`Next::HandOver`](doorbell_http::Next) is a connection that leaves its worker: see [`hand_over`](crate::hand_over). Who decides is the
//! handler: it leaves a request without a body by [`Responder::hand_over`](crate::Responder), and one with a body, another protocol on
//! the same port or a method that the parser does not know by [`Handler::hands_over`](crate::Handler), which is asked where the head is
//! complete, or where the machine would answer an error. With [`HandOver::answer_before_body`](crate::HandOver::answer_before_body)
//! `Responder::hand_over` also leaves a request with a body, from behind closures and guards too. A TLS listener decides by the ClientHello alone. Both wishes end a
//! connection's loop in the worker, so neither costs the others anything.
//!
//! The two meet on one connection in the order of its requests: what is to be handed over behind a job waits for the answer, and leaves with
//! every byte that came meanwhile. A job cannot end in a hand-over, because its request was read.
