//! HTTP/1.1 as a state machine. Input: bytes and the time. Output: bytes, events and a deadline.
//!
//! No input causes a panic, and a request causes no allocation once its connection's buffers have
//! grown.
//!
//! ```
//! use doorbell_http::{Client, Conn, Date, Io, Limits, Next, Out, StaticReply, Status, Time, service_fn};
//!
//! let alive = StaticReply::text(Status::OK, "ok\n");
//! let service = service_fn(|_, reply| reply.send(&alive));
//!
//! let (limits, date, now) = (Limits::default(), Date::new(784_111_777), Time::ZERO);
//! let (mut carry, mut out) = (Vec::new(), Out::new());
//! let mut conn = Conn::new(now, &limits);
//! let io = Io { now, date: &date, limits: &limits, carry: &mut carry, out: &mut out, closing: false, client: &Client::UNKNOWN };
//! let next = conn.handle_input(b"GET /livez HTTP/1.0\r\n\r\n", io, &service);
//!
//! assert_eq!(next, Next::CloseClean);
//! assert!(out.head.starts_with(b"HTTP/1.1 200 OK\r\n"));
//! assert!(out.head.ends_with(b"\r\n\r\nok\n"));
//! ```
//!
//! | where | what |
//! |---|---|
//! | [`Conn`], [`Io`], [`Next`] | one connection as a state machine |
//! | [`Service`], [`Request`], [`Responder`] | the interface of handlers: requests and replies |
//! | [`parse`], [`chunked`] | heads and chunked bodies |
//! | [`routes`], [`router`] | a service that passes requests on by host, path and method; the look-up |
//! | [`redirect`], [`linkmap`] | redirects, also as a service |
//! | [`layer`] | guards and layers around a service |
//! | [`auth`], [`limit`], [`log`] | tokens, rate limits and the access log, used by layers |
//! | [`forwarded`], [`proxy`] | the client behind proxies: `X-Forwarded-For`, PROXY protocol |
//! | [`prober`] | identification of known probers |
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, expect(clippy::indexing_slicing, reason = "a test may panic"))]

pub mod auth;
pub mod chunked;
mod class;
mod client;
mod conn;
mod date;
mod error;
mod forward;
pub mod forwarded;
pub mod layer;
pub mod limit;
mod limits;
pub mod linkmap;
pub mod log;
mod method;
pub mod parse;
mod pattern;
pub mod prober;
pub mod proxy;
pub mod redirect;
mod reply;
mod request;
pub mod router;
pub mod routes;
mod scheme;
mod service;
mod status;
mod sync;
mod time;

pub use client::{Client, Peer, TlsInfo, TlsVersion};
pub use conn::{Conn, ConnLimit, HTTP2_NO_ROOM, Io, Next, Phase};
pub use date::Date;
pub use error::{ApiMisuse, Misuses, RequestError};
pub use limits::Limits;
pub use method::Method;
pub use reply::{DefaultField, Ending, Later, Out, Replied, Reply, ReplyBuilder, Responder, StaticReply};
pub use request::{OwnedRequest, Request, Version};
pub use service::{MessageStart, Service, ServiceFn, service_fn};
pub use status::Status;
pub use time::Time;
