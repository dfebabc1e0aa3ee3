//! A server engine for tiny HTTP requests: probes, health checks, redirects.
//!
//! The engine accepts on dedicated threads with io_uring, or epoll where io_uring is not available,
//! and serves a typical probe without a lock, an allocation or a context switch to another thread.
//!
//! ```no_run
//! use doorbell::{Http1, Listen, Server, StaticReply, Status, service_fn};
//!
//! let alive = StaticReply::text(Status::OK, "ok\n");
//! let service = service_fn(move |_, reply| reply.send(&alive));
//! let server = Server::builder().listen(Listen::tcp(([127, 0, 0, 1], 8080).into()), Http1::new(service)).start()?;
//! println!("{}", server.driver_report());
//! server.wait()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which lane?
//!
//! Each request starts on a ring thread. The handler chooses the lane in which the request
//! continues ([`manual::which_lane`] lists the costs):
//!
//! | the request needs | lane | start at |
//! |---|---|---|
//! | a reply from memory, within about 10 µs | ring | [`service_fn`], [`StaticReply`], [`Handler`] |
//! | bounded work on a processor, or a file | compute | [`Offload`] |
//! | an application with an async runtime | Tokio | the crate `doorbell-tokio`; [`HandOver`] for others |
//!
//! # Map
//!
//! | task | items |
//! |---|---|
//! | start, control and observe a server | [`Server`], [`ServerBuilder`], [`Handle`], [`Snapshot`] |
//! | choose addresses, sockets, PROXY protocol | [`Listen`], [`ProxyProtocol`] |
//! | choose a protocol | [`Http1`], [`Raw`], and `tls` with the feature of that name |
//! | test a handler without sockets | [`testing`] |
//! | write an access log, require tokens, limit rates | [`access_log`], [`http::layer`] |
//! | choose a driver | [`Engine`], [`Descriptors`], [`Tuning`]; [`driver`] documents the contract |
//! | look up limits and defaults | [`manual::limits`], [`Limits`], [`HttpLimits`] |
//! | understand the design | [`manual::architecture`], [`manual::life_of_a_connection`] |
//!
//! Features: `rayon` (default) provides the threads of the compute lane; `tls` adds TLS 1.2 and
//! 1.3; `jwt` adds signed bearer tokens. Linux only.
//!
//! Does not know about: async runtimes, TOML, metrics libraries.
#![forbid(unsafe_code)]

pub mod access_log;
pub mod config;
mod conn;
pub mod control;
pub mod driver;
pub mod error;
pub mod hand_over;
pub mod id;
pub mod manual;
pub mod net;
pub mod offload;
mod panics;
pub mod protocol;
pub mod server;
pub mod stats;
mod sync;
pub mod testing;
pub mod time;
#[cfg(feature = "tls")]
pub mod tls;
pub mod tuning;
pub mod worker;

pub use access_log::{AccessLog, LogCounters, LogSink, LogTarget};
pub use config::{Limits, OnWorkerFailure};
pub use doorbell_http as http;
pub use doorbell_http::{
    Answered, Begun, Limits as HttpLimits, Method, OwnedRequest, Peer, Reply, ReplyBuilder, Request,
    Responder, Service as Handler, ServiceFn, StaticReply, Status, Version, service_fn,
};
pub use doorbell_ring::forget_code_pages;
pub use driver::select::{Descriptors, DriverReport, Engine};
pub use error::{Blame, CloseReason};
pub use hand_over::{HandOver, HandedConn, Permit, Taker, WhenFull};
pub use net::{Listen, ListenAddr, LocalAddr, ProxyProtocol};
pub use offload::Offload;
pub use protocol::{Http1, Raw, RawHandler, RawNext, Refusals};
pub use server::{
    Event, Handle, Listening, ServeError, Server, ServerBuilder, StartError, StartErrorKind, WorkerFailure,
    Workers,
};
pub use stats::{ListenerSnapshot, ProxyResult, Snapshot};
pub use tuning::{Accepting, Receiving, Tuning};
