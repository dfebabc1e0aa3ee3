//! Requests from a grammar, framed by doorbell-http, by hyper (httparse) and by Go net/http; each
//! difference is compared with a list of reasons.
//!
//! `cargo run --release -p doorbell-differential -- 10000000` prints how often each of the
//! [`reasons`] applied, and fails on a difference without a reason; `cargo test` makes 20,000
//! streams, `DOORBELL_DIFFERENTIAL=10000000 cargo test --release` any number.
//!
//! A stream is one to three requests, mostly valid except for one part, in one or two pieces,
//! followed by the end of the connection. A framing is the list of requests that a server accepted
//! (method, path and query, host, decoded body) and the end. Two framings differ when one server
//! sees a request, or the end, and the other does not. Not a difference: two refusals, whatever
//! their status, and a refusal while the other server waits for bytes; then neither has accepted
//! anything. The comparison ends at the first difference.
//!
//! Every stream also goes through the oracle of the fuzz target `differential`: httparse with a
//! strict pass, which must agree with our head parser in everything.
//!
//! Ten million streams of the seed 1 (hyper 1.12, Go 1.26): 6,929,914 requests that we accepted,
//! 5,802,981 streams that we refused, 20,000,000 comparisons, no difference without a reason. Most
//! common: Go refuses an empty line before a request (1,083,908), an invalid `Host` (385,508 with
//! both), bare LF (393,736 with both), `Transfer-Encoding` in HTTP/1.0, which Go ignores (343,005).
//!
//! Does not know about: sockets. All three servers read bytes from memory.
#![forbid(unsafe_code)]

pub mod compare;
pub mod framing;
pub mod go;
pub mod grammar;
pub mod hyper1;
pub mod ours;
pub mod reasons;
mod rng;
pub mod run;
#[path = "../../../crates/http/fuzz/targets/differential.rs"]
mod strict_httparse;
