//! HTTP/2 with gRPC health, for connections that the engine hands over: serves them on Tokio with
//! hyper, by the handlers of their HTTP/1 listener.
//!
//! A worker of the engine hands a connection over, with all bytes read so far, after the beginning
//! of an HTTP/2 preface or after a ClientHello that prefers `h2` (see [`doorbell::hand_over`]). A
//! thread with its own runtime serves it; the first connection starts the thread.
//!
//! ```no_run
//! use doorbell::http::{Limits, MessageStart, Service};
//! use doorbell::{Http1, Replied, Request, Responder, ServerBuilder, Status};
//! use doorbell_http2::{Common, Http2, ListenerOptions, Plan};
//! use std::sync::Arc;
//!
//! struct Hello;
//!
//! impl Service for Hello {
//!     fn call<'a>(&self, _request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
//!         reply.status(Status::OK).content(b"hello\n")
//!     }
//!
//!     // Otherwise the preface gets a 505.
//!     fn hands_over(&self, start: MessageStart<'_>) -> bool {
//!         matches!(start, MessageStart::Http2)
//!     }
//! }
//!
//! // `builder` has one listener, with `Http1::new(Hello)`.
//! fn with_http2(builder: ServerBuilder) -> (ServerBuilder, Http2) {
//!     let mut plan = Plan::new(4096, None, Arc::new(Common::default()));
//!     plan.add(ListenerOptions::new(Limits::default()), Http1::new(Hello), None);
//!     let builder = plan.attach(builder);
//!     (builder, plan.start())
//! }
//! ```
//!
//! | items | purpose |
//! |---|---|
//! | [`Plan`], [`ListenerOptions`], [`GrpcOptions`] | which listeners have HTTP/2, in the order of the server, and their limits |
//! | [`Http2`] | the running thread: drain, stop |
//! | [`Common`], [`Counters`] | what servers that replace each other share |
//! | [`is_grpc`], [`GrpcAdmission`] | how a handler admits a gRPC call |
//!
//! Handlers get requests without their bodies, which are read within the limits and dropped. After a
//! panic of a handler, its request gets a 500. A request inside HTTP/2 cannot be handed over: if a
//! handler does so, as `HandOverAll`, `Front` and `Probes` of `doorbell-tokio` do, the request gets a
//! 503 with `Retry-After`. In both cases the connection continues, and [`Counters`] counts it. Every
//! connection has limits against floods of frames, resets and bytes, from measurements of attacks
//! and of other servers.
//!
//! When a server replaces another one, as at a reload, a [`Plan`] for each of them shares their
//! [`Common`] counters; a *generation* is one such server. The thread belongs to the Tokio lane.
#![forbid(unsafe_code)]

mod addresses;
mod body;
mod common;
mod config;
mod conn;
mod counters;
mod counting_stream;
mod flood_limits;
mod grpc;
mod inbox;
mod phase;
mod reply;
mod thread;

pub use common::Common;
pub use config::ListenerOptions;
pub use counters::Counters;
pub use grpc::{GrpcAdmission, GrpcOptions, is_grpc};
pub use thread::{Http2, Plan};
