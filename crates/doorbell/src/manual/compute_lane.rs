//! Work that is too expensive for a ring thread: the cost of a job, and the break-even point.
//!
//! ```text
//!   ring thread                                  pool (rayon)
//!   request ──► handler ──► job ── bounded queue ──► run
//!      ▲  serves other requests     high, normal       │
//!      └── sends the reply ◄── inbox of the worker ◄───┘   one wake-up, and only if the worker sleeps
//! ```
//!
//! A handler calls [`Offload::run`](crate::Offload::run); [`offload`](crate::offload) lists all
//! possible outcomes of a job. The result is matched to its request by slot, generation and job
//! number (invariant I-10), so a late result is dropped.
//!
//! # Cost of a job
//!
//! The table shows user-space instructions of the ring thread for a whole request on a keep-alive
//! connection, counted by callgrind on the epoll driver (`cargo bench -p doorbell-benches --bench
//! offload` prints the command). The request needs tiny work, which is done on the ring thread or
//! by a job.
//!
//! | in flight | on the ring thread | by a job | difference |
//! |---|---|---|---|
//! | 64 | 1,719 | 3,325 | 1,607 |
//! | 1 | 1,954 | 3,977 | 2,023 |
//!
//! The support for jobs costs other requests almost nothing: two instructions for a known probe in
//! `--bench instructions`. In 12,800 jobs with 64 in flight the pool woke the ring thread 2,245
//! times, once per six jobs; with one in flight every result is a wake-up.
//!
//! # Break-even point
//!
//! The table shows the time with a job divided by the time on the ring thread, as the median of 15
//! alternating runs (`DOORBELL_OFFLOAD_RATIO=15`). The machine has two processors, one of which the
//! client uses:
//!
//! | work | 1 in flight | 64 in flight |
//! |---|---|---|
//! | 0.08 µs | 0.9 | 1.5 |
//! | 1.1 µs | 1.6 | 1.9 |
//! | 3.3 µs | 1.5 | 1.3 |
//! | 11 µs | 2.4 | 0.95 |
//! | 33 µs | 1.1 | 0.94 |
//! | 108 µs | 1.1 | 1.1 |
//!
//! The machine was not idle: for work below one microsecond, the values of the column "1 in flight"
//! are noise. A single client never benefits, because a job only adds latency to its reply. With
//! many clients, jobs break even at about 10 µs of work. Longer work in jobs does not raise the
//! throughput, but lowers the latency of other requests: a probe behind 33 µs of work waits 33 µs
//! for each request before it. Therefore [`Auto`](crate::offload::Auto) by default runs work of up
//! to 10 µs on the ring thread.
//!
//! `Auto` times every run of the work, in jobs and on the ring thread: the first expensive run on
//! the ring thread moves the work to jobs. A run needs two clock readings, together 0.1 to 0.16 µs
//! where the kernel provides the time without a system call (two calls of `clock_gettime`, best and
//! median of 31 times 200,000 on a busy virtual machine). A run on the ring thread writes no shared
//! memory if the work was never expensive. The clock cannot distinguish expensive work from an
//! interrupted thread. So work returns to the ring thread after at most 65,536 consecutive cheap
//! runs, and work that is slow in less than one of 1,024 runs mostly stays there.
//!
//! # Suitable work
//!
//! Jobs are suitable for password hashing, asymmetric signatures, compression, and reading from a
//! disk. Work that waits for a long time needs its own threads: another
//! [`Offload`](crate::Offload), or the Tokio lane. Jobs may use rayon, because they run in its
//! pool.
//!
//! [`Offload::require_auth`](crate::Offload::require_auth) uses jobs to verify token signatures
//! that need a public key. The program does the same, and reads files in jobs (`[compute]`, decision
//! 0022). [`Offload::spawn`](crate::Offload::spawn) queues work that no request waits for, such as
//! scanning a directory. Code that drives a protocol without a worker, such as `doorbell-http2`,
//! waits for jobs with [`Awaited`](crate::protocol::Awaited).
//!
//! Does not know about: single functions, which [`offload`](crate::offload) documents.
