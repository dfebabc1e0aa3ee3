//! A server engine for tiny HTTP requests: probes, health checks, redirects.
//!
//! The engine accepts on dedicated threads (*ring threads*) with io_uring, or epoll where io_uring
//! is not available, and serves a typical probe without a lock, an allocation or a context switch
//! to another thread.
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
//! | an application with an async runtime | Tokio | the crate `doorbell-tokio`; [`HandOver`] for other runtimes |
//!
//! # Map
//!
//! | task | items |
//! |---|---|
//! | start, control and observe a server | [`Server`], [`ServerBuilder`], [`Handle`], [`Snapshot`] |
//! | choose addresses, PROXY protocol, sockets of a service manager | [`Listen`], [`ProxyProtocol`], [`Listen::inherited`] |
//! | write a handler | [`service_fn`] for a closure; [`Handler`], another name of the trait [`http::Service`], for a type |
//! | route by path, with parameters; redirect | [`http::routes::Routes`], [`http::redirect::Redirect`] |
//! | choose a protocol | [`Http1`], [`Raw`], and `tls` with the feature of that name |
//! | write a protocol of your own | [`stream`] |
//! | reply to datagrams (UDP) | [`datagram`] |
//! | test a handler without sockets | [`testing`] |
//! | require tokens, limit rates, write guards | [`http::layer`], [`RateLimit`](http::layer::RateLimit) with an example of both |
//! | limit heads, bodies and waiting times | [`HttpLimits`], [`Http1::limits`] |
//! | write an access log | [`access_log`] |
//! | choose a driver, or examine the kernel | [`Engine`], [`Descriptors`], [`Tuning`]; [`io_uring`] |
//! | look up limits and defaults | [`manual::limits`], [`Limits`], [`HttpLimits`] |
//! | understand the design | [`manual::architecture`], [`manual::life_of_a_connection`] |
//!
//! Features: `rayon` (default) provides the threads of the compute lane; `tls` adds TLS 1.2 and
//! 1.3; `jwt` adds signed bearer tokens. `unstable-internals` makes the modules of drivers and
//! workers public, for simulators; it is exempt from semantic versioning.
//!
//! The engine is for Linux. On other systems this crate contains only what `doorbell-tokio` needs
//! there: [`http`], [`hand_over`], [`id`] and [`time`].
#![forbid(unsafe_code)]
#![cfg_attr(
    all(target_os = "linux", not(feature = "unstable-internals")),
    expect(dead_code, unreachable_pub, reason = "simulators use these items, with `unstable-internals`"),
    allow(rustdoc::private_intra_doc_links, reason = "the published pages have all features")
)]

#[cfg(target_os = "linux")]
pub mod access_log;
#[cfg(target_os = "linux")]
pub mod config;
#[cfg(target_os = "linux")]
mod conn;
#[cfg(all(target_os = "linux", feature = "unstable-internals"))]
pub mod control;
#[cfg(all(target_os = "linux", not(feature = "unstable-internals")))]
mod control;
#[cfg(target_os = "linux")]
pub mod datagram;
#[cfg(all(target_os = "linux", feature = "unstable-internals"))]
pub mod driver;
#[cfg(all(target_os = "linux", not(feature = "unstable-internals")))]
mod driver;
#[cfg(target_os = "linux")]
pub mod error;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "the engine uses the rest"))]
pub mod hand_over;
pub mod id;
/// Tests io_uring on this system, without a server.
#[cfg(target_os = "linux")]
pub mod io_uring {
    pub use crate::driver::examine::{Cause, Examination, examine};
}
#[cfg(target_os = "linux")]
pub mod manual;
#[cfg(target_os = "linux")]
pub mod net;
#[cfg(target_os = "linux")]
pub mod offload;
#[cfg(target_os = "linux")]
mod panics;
#[cfg(target_os = "linux")]
pub mod protocol;
#[cfg(target_os = "linux")]
pub mod server;
#[cfg(target_os = "linux")]
pub mod stats;
#[cfg_attr(not(target_os = "linux"), expect(unused_imports, reason = "the engine uses the rest"))]
mod sync;
#[cfg(target_os = "linux")]
pub mod testing;
pub mod time;
#[cfg(feature = "tls")]
#[cfg(target_os = "linux")]
pub mod tls;
#[cfg(target_os = "linux")]
pub mod tuning;
#[cfg(all(target_os = "linux", feature = "unstable-internals"))]
pub mod worker;
#[cfg(all(target_os = "linux", not(feature = "unstable-internals")))]
mod worker;

#[cfg(target_os = "linux")]
pub use access_log::{AccessLog, LogCounters, LogSink, LogTarget};
#[cfg(target_os = "linux")]
pub use config::{Limits, OnWorkerFailure};
pub use doorbell_http as http;
pub use doorbell_http::{
    Limits as HttpLimits, MessageStart, Method, OwnedRequest, Peer, Replied, Reply, ReplyBuilder, Request,
    Responder, Service as Handler, ServiceFn, StaticReply, Status, Version, service_fn,
};
#[cfg(target_os = "linux")]
pub use doorbell_ring::{forget_code_pages, set_cloexec};
#[cfg(target_os = "linux")]
pub use driver::DriverKind;
#[cfg(target_os = "linux")]
pub use driver::select::{Descriptors, DriverReport, Engine};
#[cfg(target_os = "linux")]
pub use error::{Blame, CloseReason};
pub use hand_over::{HandOver, HandedConn, Permit, Taker, WhenFull};
#[cfg(target_os = "linux")]
pub use net::{Balance, Listen, ListenAddr, LocalAddr, ProxyProtocol};
#[cfg(target_os = "linux")]
pub use offload::Offload;
#[cfg(target_os = "linux")]
pub use protocol::{Http1, Raw, RawHandler, RawNext, Refusals, stream};
#[cfg(target_os = "linux")]
pub use server::{
    Event, Handle, Listening, ServeError, Server, ServerBuilder, StartError, StartErrorKind, WorkerFailure,
    Workers,
};
#[cfg(target_os = "linux")]
pub use stats::{DatagramSnapshot, ListenerSnapshot, ProxyResult, Snapshot};
#[cfg(target_os = "linux")]
pub use tuning::{Accepting, Receiving, Tuning};
