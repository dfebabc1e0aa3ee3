//! Requests from a grammar, framed by doorbell-http, by hyper (httparse) and by Go net/http. Each
//! difference is compared with a list of reasons.
//!
//! `cargo run --release -p doorbell-differential -- 10000000` prints how often each of the
//! [`reasons`] applied, and fails on a difference without a reason. `cargo test` uses 20,000
//! streams, and `DOORBELL_DIFFERENTIAL=10000000 cargo test --release` any number.
//!
//! A stream is one to three requests in one or two pieces, followed by the end of the connection.
//! Most requests are invalid in one part at most. A framing is the list of requests that a
//! server accepted (method, path and query, host, decoded body) and the end. Two framings differ if
//! one server sees a request or the end and the other does not, or if they see different contents
//! of a request. Two refusals do not differ, whatever their status. A refusal does not differ from
//! a wait for more bytes, because neither server has accepted anything. The comparison ends at the
//! first difference.
//!
//! Every stream is also checked by the oracle of the fuzz target `differential`: httparse plus a
//! strict check, which must agree with the parser of doorbell-http in everything.
//!
//! Ten million streams of the seed 1 (hyper 1.12, Go 1.26) gave 6,929,914 requests that doorbell
//! accepted, 5,802,981 streams that doorbell refused, 20,000,000 comparisons, and no difference
//! without a reason. The most common reasons: Go refuses an empty line before a request
//! (1,083,908); doorbell refuses an invalid `Host` (385,508, hyper and Go together), bare LF
//! (393,736 together), and `Transfer-Encoding` in HTTP/1.0, which Go ignores (343,005).
//!
//! All three servers read bytes from memory.
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
