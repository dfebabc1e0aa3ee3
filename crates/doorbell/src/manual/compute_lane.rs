//! Work that is too much for a ring thread: what a trip to another thread costs, and from which size of work on it pays.
//!
//! ```text
//!   ring thread                                  pool (rayon)
//!   request ──► handler ──► job ── bounded queue ──► run
//!      ▲  goes on with others      high, normal       │
//!      └── sends the answer ◄── inbox of the worker ◄─┘   one wake-up, and only if the worker sleeps
//! ```
//!
//! A handler says [`Offload::run`](crate::Offload::run); [`offload`](crate::offload) has a table of everything that can become of the job. The
//! answer finds its connection by slot, generation and the job's number (invariant I-10), so one that comes too late finds nobody.
//!
//! # What it costs
//!
//! User space of the ring thread, counted by callgrind on the epoll driver (`cargo bench -p doorbell-benches --bench offload` has the
//! command): a whole request over a kept connection, its tiny work done at home or by a job.
//!
//! | under way | at home | by a job | difference |
//! |---|---|---|---|
//! | 64 | 1,719 | 3,325 | 1,607 |
//! | 1 | 1,954 | 3,977 | 2,023 |
//!
//! A request without a job costs what it did before there were jobs (a known probe of `--bench instructions`: two instructions more). In 12,800 jobs
//! with 64 under way the pool woke the ring thread 2,245 times, once for six jobs; alone every answer is a wake-up.
//!
//! # From which size on it pays
//!
//! Time by a job over time at home, the median of 15 alternating runs (`DOORBELL_OFFLOAD_RATIO=15`); two processors, of which the client
//! uses one:
//!
//! | work | 1 under way | 64 under way |
//! |---|---|---|
//! | 0.08 µs | 0.9 | 1.5 |
//! | 1.1 µs | 1.6 | 1.9 |
//! | 3.3 µs | 1.5 | 1.3 |
//! | 11 µs | 2.4 | 0.95 |
//! | 33 µs | 1.1 | 0.94 |
//! | 108 µs | 1.1 | 1.1 |
//!
//! (The machine did other things besides; below one microsecond the left column is noise.) One client alone never gains: its answer
//! only takes the trip on top. With many, work of some 10 µs is even, and what is gained from there on is not time but that nobody else
//! waits: a probe behind 33 µs of work waits 33 µs for each request before it. So
//! [`Auto`](crate::offload::Auto) keeps up to 10 µs at home unless told otherwise. It times each run, elsewhere and at home, so that the first
//! dear one at home is the last one there: two readings of the clock, together 0.1 to 0.16 µs where the kernel gives the time without a
//! system call (`clock_gettime` twice, the best and the median of 31 times 200,000 on a busy virtual machine). While nothing changes that
//! is all: no shared word is written. The clock cannot tell dear work from a thread that was interrupted. So work that goes wrong at home
//! less than once in 1,024 runs stays there, and what goes wrong more often ends up elsewhere, from where it comes back after at most
//! 65,536 cheap runs in a row.
//!
//! # What belongs here
//!
//! Hashing passwords, signatures with asymmetric keys, compressing, anything that waits for a disk. Work that waits long needs threads
//! of its own: a second [`Offload`](crate::Offload) beside the first, or the Tokio lane. Jobs may use rayon inside; they run in their pool.
//!
//! Signatures of tokens, where a public key is needed, are verified here behind [`Offload::require_auth`](crate::Offload::require_auth). The binary
//! does the same, and has files read (`[compute]`, decision 0022). Work that no
//! request waits for, as the scan of a directory, has its turn by [`Offload::spawn`](crate::Offload::spawn). Whoever drives a protocol without a worker, as its HTTP/2 does, waits for jobs by [`Awaited`](crate::protocol::Awaited).
//!
//! Does not know about: the functions; [`offload`](crate::offload) documents them.
