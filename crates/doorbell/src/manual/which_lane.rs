//! The choice of a lane for the work of a request: ring, compute or Tokio, and the cost of each.
//!
#![doc = include_str!("which_lane.svg")]
//!
//! Every connection starts in the ring lane, and each of its requests is read there. The handler
//! decides where the request continues:
//!
//! | lane | chosen by | use it for | limit |
//! |---|---|---|---|
//! | ring | [`Responder::send`](crate::Responder::send) and similar | replies from memory within about 10 µs: probes, redirects, refusals, static replies | the connection table |
//! | compute | [`Offload::run`](crate::Offload::run), or [`Auto::run`](crate::offload::Auto::run) if the cost is unknown | bounded work that keeps a processor busy or reads a file: passwords, signatures, compression | a queue per class; if full: 503 with `Retry-After` |
//! | Tokio | [`Responder::hand_over`](crate::Responder::hand_over), with `doorbell-tokio` | the application; requests that wait for other services, streams, upgrades, other protocols | connections handed over; if reached: 503, or the client waits ([`WhenFull`](crate::WhenFull)) |
//!
//! The first two lanes serve one request, and the connection stays on its ring thread. The Tokio
//! lane takes over the connection permanently.
//!
//! # Cost of each lane
//!
//! The figures are instructions, including those of the kernel, on Linux 6.12 with one processor,
//! median of three runs (`doorbell-rig compare --only
//! jobs-uring/keep,jobs-uring-home/keep,jobs-epoll/keep,jobs-epoll-home/keep,axum/close/64,axum-handed/close/64`).
//! The first table shows one request with tiny work on a keep-alive connection, done by the ring
//! thread or by a job. Only the instructions of the ring thread are counted, not those of the pool:
//!
//! | driver | in flight | on the ring thread | by a job | difference |
//! |---|---:|---:|---:|---:|
//! | io_uring | 64 | 12,939 | 14,866 | 1,927 |
//! | io_uring | 1 | 17,561 | 25,116 | 7,555 |
//! | epoll | 64 | 13,001 | 14,928 | 1,927 |
//! | epoll | 1 | 17,519 | 25,235 | 7,716 |
//!
//! With one request in flight, each job costs two wake-ups and two sleeps; with 64 in flight,
//! several jobs share a wake-up. The second table shows a new connection per request, served by
//! axum, with 64 in flight and all threads of the server counted:
//!
//! | accepted by | per connection | ratio |
//! |---|---:|---:|
//! | axum | 70,284 | 1 |
//! | a ring thread that hands over every connection | 71,248 | 1.014 |
//!
//! The receive on the ring thread replaces the first receive of the application, deferred accept
//! saves wake-ups, and connections that are handed over in one turn share a wake-up; resetting two
//! socket options adds to the cost. So the Tokio lane costs about one percent more than an
//! application without doorbell, and probes get replies even while the runtime is stuck. The rig's
//! gate checks these differences.
//!
//! With sixteen pipelined requests per write, axum alone needs fewer instructions (the page on
//! performance in `deploy/book` has the table), because its sockets lack `TCP_NODELAY`: hyper
//! writes each reply separately, and the kernel puts the sixteen replies into two segments instead
//! of sixteen. The disadvantage is a wait for an acknowledgement: on one connection 500 such writes
//! took 22.0 s with axum alone, 0.34 s with the option set, and 0.33 s behind a ring thread, which
//! sets it ([`Listen::nodelay`](crate::Listen::nodelay)). The option explains both differences, in
//! instructions and in time: the three cases send 2, 16 and 16 segments for sixteen replies.
//!
//! # How to choose
//!
//! 1. *Does the work wait for something else* (a database, another service, a contended lock)? Use
//!    the Tokio lane. In the other lanes the work would block a thread that other requests need.
//! 2. *Does it take more than about 10 µs, or read a file?* Use the compute lane. All other
//!    requests of a worker wait while its ring thread is busy: a probe behind 33 µs of work waits
//!    33 µs for each request before it.
//! 3. *Otherwise* use the ring lane. Moving cheap work to another thread costs more than the work
//!    itself ([`compute_lane`](super::compute_lane) has the break-even point).
//! 4. *Is the cost unknown?* [`Auto`](crate::offload::Auto) measures it, keeps cheap work on the
//!    ring thread and moves expensive work to jobs.
//!
//! Lanes can be combined on one listener and on one connection: after the reply of a job, the next
//! request may be handed over. A drain waits for jobs; connections that were handed over are the
//! application's responsibility.
//!
//! Does not know about: the implementation of the lanes (see [`compute_lane`](super::compute_lane),
//! [`hand_over`](crate::hand_over), [`life_of_a_connection`](super::life_of_a_connection)).
