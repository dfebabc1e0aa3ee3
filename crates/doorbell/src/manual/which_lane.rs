//! Which lane? Where the work of a request is done, what the way there costs, and which to choose.
//!
#![doc = include_str!("which_lane.svg")]
//!
//! A connection begins in the ring lane, and each of its requests is read there. The handler says where it goes on:
//!
//! | lane | how a handler says so | choose it for | what bounds it |
//! |---|---|---|---|
//! | ring | [`Responder::send`](crate::Responder::send) and its like | what is answered from memory within some 10 µs: probes, redirects, refusals, static replies | the connection table |
//! | compute | [`Offload::run`](crate::Offload::run), or [`Auto::run`](crate::offload::Auto::run) where you do not know | work of known end that keeps a processor busy, or reads a file: passwords, signatures, compression | a queue for each class, full: 503 with `Retry-After` |
//! | Tokio | [`Responder::hand_over`](crate::Responder::hand_over), with `doorbell-tokio` | the application; whatever waits for others, streams, upgrades, or speaks another protocol | connections that are out, full: 503, or the client waits ([`WhenFull`](crate::WhenFull)) |
//!
//! The first two answer a request, and the connection stays; the third takes the connection, for good.
//!
//! # What the way costs
//!
//! Instructions, the kernel's included, on Linux 6.12 with one processor, the median of three
//! (`doorbell-rig compare --only jobs-uring/keep,jobs-uring-home/keep,jobs-epoll/keep,jobs-epoll-home/keep,axum/close/64,axum-handed/close/64`).
//! A request on a kept connection with tiny work, done by the ring thread or by a job; the ring thread alone is counted, the pool is not:
//!
//! | driver | under way | at home | by a job | the way there and back |
//! |---|---:|---:|---:|---:|
//! | io_uring | 64 | 12,939 | 14,866 | 1,927 |
//! | io_uring | 1 | 17,561 | 25,116 | 7,555 |
//! | epoll | 64 | 13,001 | 14,928 | 1,927 |
//! | epoll | 1 | 17,519 | 25,235 | 7,716 |
//!
//! With one request under way each job is two wake-ups and two sleeps; with 64 they are shared. A new connection for each request, served by
//! axum, all threads of the server counted, 64 under way:
//!
//! | who accepts | a connection | ratio |
//! |---|---:|---:|
//! | axum by itself | 70,284 | 1 |
//! | a ring thread, which hands over each | 71,248 | 1.014 |
//!
//! The receive of the ring thread replaces the program's first one, deferred accept saves wake-ups, and a batch shares its own; two options of the
//! socket are put back. So the Tokio lane costs about one per cent more than no doorbell at all, and its probes are answered while the runtime is stuck.
//! The gate of the rig holds these differences. With sixteen requests a write axum by itself needs fewer instructions (README), because its
//! sockets lack `TCP_NODELAY`: hyper writes each reply by itself, and the kernel sends two segments for sixteen of them where it sends sixteen with
//! that option. The price is the wait for an acknowledgement: on one connection 500 such writes took 22.0 s with axum by itself, 0.34 s with the
//! option set, and 0.33 s behind a ring thread, which sets it ([`Listen::nodelay`](crate::Listen::nodelay)). That is all of the difference: 2, 16 and 16 segments.
//!
//! # How to choose
//!
//! 1. *Does it wait for anybody else* (a database, another service, a lock held for long)? Tokio lane. In the other two it would hold a
//!    thread that others need.
//! 2. *Does it take more than some 10 µs, or read a file?* Compute lane. Each further request of that worker waits behind what its ring
//!    thread does: a probe behind 33 µs of work waits 33 µs for each request before it.
//! 3. *Otherwise* the ring lane. A trip to another thread is dearer than the work itself ([`compute_lane`](super::compute_lane) has the
//!    crossover).
//! 4. *You cannot tell?* [`Auto`](crate::offload::Auto) measures, keeps cheap work at home and sends dear work away.
//!
//! Lanes go together on one listener and on one connection: a job's answer may be followed by a request that is handed over. A drain waits
//! for jobs; what was handed over is the program's to finish.
//!
//! Does not know about: the inside of the lanes: [`compute_lane`](super::compute_lane), [`hand_over`](crate::hand_over),
//! [`life_of_a_connection`](super::life_of_a_connection).
