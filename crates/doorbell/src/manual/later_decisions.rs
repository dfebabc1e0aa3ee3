//! More choices that surprise, after those of [`decisions`](super::decisions), which are numbered in one row.
//!
//! # 0044 Lines of a flood are written together, and the thread of checks is as nice as the ring threads
//!
//! *Context.* A thousand state changes a second may make the slowest of a hundred probes 1.2 times as slow as none. Ring threads are not
//! woken by a change: they compare a number with each probe and read anew when it is another one. What a change costs is time of the
//! processors that ring threads wait for: each was rendered step by step, all images of every reply with each field, and each of its two
//! lines woke the thread of the log and whoever reads it.
//!
//! *Choice.* A reply of a page is rendered once for all of its fields. Behind a write the thread of the log rests for 5 ms and then
//! writes what has come meanwhile; the first line after a pause is written at once, and the end does not wait. A kill of the process may
//! so take the lines of the last 5 ms of a flood with it. The thread of checks keeps the nice value of the process, unlike that of jobs (0031):
//! what it does is what probes are to be told within 10 ms, also where clients keep all processors busy.
//!
//! *Measured* by `e2e whole::` with `DOORBELL_FULL=1`, the median of 11 pairs, two processors and a machine with other work: 1.28 on
//! epoll and 1.12 on io_uring before, 1.07 and 1.06 after.
//!
//! *Would change it:* whoever reads the log and must have each line at once.
