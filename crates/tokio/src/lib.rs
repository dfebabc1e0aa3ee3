//! A doorbell on threads of its own inside a Tokio program: probes and redirects are answered there, everything else is handed over.
//!
//! Does not know about: HTTP beyond which requests are ours, what the program does with what it gets.
//!
//! ```text
//! cargo add doorbell
//! cargo add doorbell-tokio --features axum
//! ```
//!
//! and, in a program that has axum and tokio (with `full`, or `macros` and `rt-multi-thread`) already, these ten lines:
//!
#![cfg_attr(feature = "axum", doc = concat!("```no_run\n", include_str!("../examples/hello.rs"), "```"))]
//!
//! `/livez` and `/readyz` are answered without the runtime; everything else comes out of `handed`, which takes the place of a listener.
//!
//! # What runs where
//!
//! [`Embed::start`] starts the server's ring threads. They accept, read and answer without the runtime: a probe costs it nothing, and is
//! answered while every thread of it is busy. A connection on which something else is asked leaves its ring thread with the bytes that
//! were read and comes out of [`Handed`], in batches, with one wake-up a batch. At most [`HandOver::conns_max`](doorbell::HandOver) are
//! out; beyond that a client waits or gets a 503.
//!
//! # A stuck program is not alive
//!
//! Ring threads would report a program alive whose runtime is stuck. So [`Embed::health`] starts a task in the runtime that notes the
//! time, and `/livez` fails once the last note is older than [`Health::stalled_after`]. With several servers of one health each has such a
//! task, and each is missed. The task also looks at the runtime's workers, so that one that blocks is noticed while the others run. Without
//! [`Embed::health`] all probes fail, and say so.
//!
//! `/livez` and `/readyz` fail as well when [`Handed`] was dropped, and when connections wait for longer than [`Health::accept_within`]
//! and none of them is accepted. If others are accepted meanwhile, only `/readyz` fails.
//!
//! # Probes that the ring threads do not see
//!
//! A connection that was handed over stays with the program: a probe that follows there, as from a load balancer that shares connections
//! between probes and traffic, is the program's to answer. So is everything by HTTP/2. `Health::layer` (feature `axum`) gives the same
//! replies there, and [`Health::ask`] the same verdicts to any other program. What neither can do:
//!
//! - While the runtime is stuck such a probe gets no reply at all, because the runtime would have to give it: it fails by its own timeout.
//! - Behind a request that takes long on the same HTTP/1.1 connection it waits for that request.
//! - A connection that was upgraded, or that a service without the layer serves, has no probes.
//!
//! # Services in front of the hand-over
//!
//! Requests with bodies are handed over from behind closures, guards and layers too: the service is called before the body is read. So a
//! reply to a request with a body that the service does not want closes the connection. Other protocols and methods that the parser does
//! not know are handed over by [`Probes`], [`Rest`] and [`Front`]; a closure or a guard refuses them, because there is no request that it
//! could be asked about. A service that wants a body, and a job, cannot hand over its request any more.
//!
//! # TLS
//!
//! A TLS session stays where it began. So whose it is is decided by its ClientHello, which is read and not answered:
//! `doorbell::protocol::Tls::hand_over_if` (feature `tls` of doorbell) is asked with the name and the protocols of the client, and what it
//! claims comes out of [`Handed`] with the ClientHello still to be read. The program does the handshake, with its own certificate:
//!
//! ```no_run
//! # #[cfg(feature = "axum")]
//! # async fn run(pair: doorbell::tls::CertPair, acceptor: tokio_rustls::TlsAcceptor, app: axum::Router) -> Result<(), Box<dyn std::error::Error>> {
//! use doorbell::tls::{Acceptor, TlsConfig};
//! use doorbell::{Http1, Listen, Server};
//! use doorbell_tokio::{Embed, Health, Probes};
//! use hyper::server::conn::http1;
//! use hyper_util::{rt::TokioIo, service::TowerToHyperService};
//!
//! let health = Health::new();
//! let probes = Http1::new(Probes::new(&health))
//!     .tls(Acceptor::new(&TlsConfig::new(pair))?)
//!     .hand_over_if(|hello| hello.server_name == Some("app.example"));
//! let server = Server::builder().listen(Listen::tcp(([127, 0, 0, 1], 8443).into()), probes);
//! let (_control, mut handed) = Embed::new(server).health(&health).start();
//! while let Some(connection) = handed.accept().await {
//!     let (acceptor, app) = (acceptor.clone(), app.clone());
//!     tokio::spawn(async move {
//!         // Not while the next one waits to be accepted, and within the time that began with the client's first byte.
//!         let accepted = tokio::time::timeout(connection.time_left, acceptor.accept(connection.stream));
//!         let Ok(Ok(stream)) = accepted.await else { return };
//!         let service = TowerToHyperService::new(app);
//!         let _ended = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
//!     });
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Inside a session of the ring lane nothing can be handed over. There a request that is no probe gets 503 with `Retry-After`, and its
//! connection ends, which is counted as [`CloseReason::NotTaken`](doorbell::CloseReason::NotTaken); answer such requests in front of the hand-over ([`Front`]) if they are expected.
#![forbid(unsafe_code)]

#[cfg(feature = "axum")]
mod axum;
mod control;
mod desk;
mod embed;
mod handed;
mod health;
#[cfg(feature = "axum")]
mod layer;
mod preread;
mod probes;
mod pulse;
mod sync;
mod verdict;
mod waits;
mod workers;

#[cfg(feature = "axum")]
pub use crate::axum::Peer;
pub use control::{Control, Ended, Stats};
pub use embed::Embed;
pub use handed::{Accept, Connection, Handed};
pub use health::Health;
#[cfg(feature = "axum")]
pub use layer::{ProbeLayer, ProbeService};
pub use preread::{Parts, Preread};
pub use probes::{Front, Probes, Rest};
pub use verdict::{Probe, Verdict};
