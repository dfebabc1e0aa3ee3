//! Counts and limits handshakes over all workers.

use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use doorbell_http::limit::{CLIENT_V6_LEN, Limiter};
use rustls::Error;

use super::shares::{HandshakeLimit, PlainBytes, Shares};
use super::{Acceptor, TlsVersion};
use crate::time::Time;

/// Limits of handshakes and of TLS connections in general.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsLimits {
    /// Maximum time from accept to the end of the handshake. Default 5 s.
    pub handshake_timeout: Duration,
    /// Maximum number of handshakes in progress over all workers, including connections that have
    /// sent nothing yet. Default `None`: a quarter of the server's connections, shared by all
    /// acceptors of the server for which this is `None`.
    pub handshakes_max: Option<u32>,
    /// Maximum length of a ClientHello. Default 16 KiB.
    pub hello_bytes_max: usize,
    /// Maximum memory for decrypted requests that arrive in parts, over all connections of the
    /// server. Default 64 MiB.
    pub plain_bytes_max: usize,
}

impl Default for TlsLimits {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(5),
            handshakes_max: None,
            hello_bytes_max: 16 * 1024,
            plain_bytes_max: 64 * 1024 * 1024,
        }
    }
}

/// A gate that decides by address whether a client may begin a handshake.
///
/// The gate is called once per handshake, after the first record of the ClientHello and before any
/// cryptography.
pub trait HandshakeGate: Send + Sync {
    /// Returns false to refuse the client.
    fn admits(&self, client: IpAddr, now: Time) -> bool;
}

impl<F: Fn(IpAddr, Time) -> bool + Send + Sync> HandshakeGate for F {
    fn admits(&self, client: IpAddr, now: Time) -> bool {
        self(client, now)
    }
}

/// Several acceptors may share a gate, so that a client has one quota for all of them.
impl<G: HandshakeGate + ?Sized> HandshakeGate for Arc<G> {
    fn admits(&self, client: IpAddr, now: Time) -> bool {
        (**self).admits(client, now)
    }
}

/// Counts IPv6 clients by the first [`CLIENT_V6_LEN`] bits of their address; for another prefix
/// length, use a closure that calls [`Limiter::check_ip`].
impl HandshakeGate for Limiter {
    fn admits(&self, client: IpAddr, now: Time) -> bool {
        self.check_ip(client, CLIENT_V6_LEN, now).is_allowed()
    }
}

/// Outcome of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The connection ended before the handshake was complete, usually because the peer closed it.
    Abandoned,
    /// The client's certificate is missing or invalid.
    ClientRefused,
    Done {
        version: TlsVersion,
        resumed: bool,
    },
    Failed,
    /// The gate refused the client.
    GateRefused,
    /// The connection was handed over before the handshake.
    HandedOver,
    /// The first bytes are neither TLS nor HTTP.
    NotTls,
    /// The first bytes are HTTP.
    PlainHttp,
    TimedOut,
}

impl Outcome {
    /// Returns the outcome to count if this error of the TLS library ends a handshake.
    pub(crate) const fn of(error: &Error) -> Self {
        match error {
            Error::InvalidCertificate(_)
            | Error::InvalidCertRevocationList(_)
            | Error::NoCertificatesPresented => Self::ClientRefused,
            _ => Self::Failed,
        }
    }
}

macro_rules! tls_stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of an [`Acceptor`] at one moment. All counters start at 0 with the acceptor and
        /// never decrease, except `handshakes_live`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct TlsStats {
            /// Handshakes in progress.
            pub handshakes_live: u64,
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        struct Counters {
            $($name: AtomicU64,)*
        }

        impl TlsStats {
            /// Returns all counters by name.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [("handshakes_live", self.handshakes_live), $((stringify!($name), self.$name),)*].into_iter()
            }
        }

        impl Counters {
            fn stats(&self, handshakes_live: u64) -> TlsStats {
                TlsStats { handshakes_live, $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

tls_stats! {
    /// Handshakes completed with TLS 1.2.
    handshakes_tls12,
    /// Handshakes completed with TLS 1.3.
    handshakes_tls13,
    /// Completed handshakes of either version that resumed a session.
    handshakes_resumed,
    /// Handshakes whose connection ended before they were complete, usually because the peer closed
    /// it.
    handshakes_abandoned,
    /// Handshakes that failed: no common parameters, invalid messages, or an alert of the client.
    handshakes_failed,
    /// Handshakes that failed because of the client's certificate.
    handshakes_client_refused,
    /// Handshakes refused because too many were in progress.
    handshakes_over_cap,
    /// Handshakes refused by the [`HandshakeGate`].
    handshakes_gate_refused,
    /// Handshakes that exceeded the timeout.
    handshakes_timed_out,
    /// Hand-overs of connections with their ClientHello, refused ones included.
    hellos_handed_over,
    /// Connections that began with neither TLS nor HTTP.
    not_tls,
    /// Connections that began with HTTP.
    plain_http,
}

/// The handshake counters, gate and limits of an acceptor.
pub(super) struct Handshakes {
    live: AtomicU32,
    shares: RwLock<Shares>,
    counters: Counters,
    pub(super) gate: Option<Box<dyn HandshakeGate>>,
    pub(super) limits: TlsLimits,
}

impl Handshakes {
    pub(super) fn new(limits: TlsLimits, gate: Option<Box<dyn HandshakeGate>>) -> Self {
        Self {
            live: AtomicU32::new(0),
            shares: RwLock::new(Shares::new(limits.handshakes_max.unwrap_or(u32::MAX))),
            counters: Counters::default(),
            gate,
            limits,
        }
    }

    /// Replaces the counts by those that the acceptors of `server` share. An acceptor with an
    /// explicit cap keeps a separate count of handshakes.
    pub(super) fn join(&self, server: &Shares) {
        let mut shares = self.shares.write().unwrap_or_else(PoisonError::into_inner);
        shares.plain = Arc::clone(&server.plain);
        if self.limits.handshakes_max.is_none() {
            shares.places = Arc::clone(&server.places);
        }
    }

    pub(super) fn plain_bytes(&self) -> PlainBytes {
        let shares = self.shares.read().unwrap_or_else(PoisonError::into_inner);
        shares.plain_bytes(self.limits.plain_bytes_max)
    }

    fn places(&self) -> Arc<HandshakeLimit> {
        Arc::clone(&self.shares.read().unwrap_or_else(PoisonError::into_inner).places)
    }

    pub(super) fn stats(&self) -> TlsStats {
        self.counters.stats(u64::from(self.live.load(Ordering::Relaxed)))
    }

    fn count(&self, outcome: Outcome) {
        let counters = &self.counters;
        let counter = match outcome {
            Outcome::Abandoned => &counters.handshakes_abandoned,
            Outcome::ClientRefused => &counters.handshakes_client_refused,
            Outcome::Done { version, resumed } => {
                if resumed {
                    counters.handshakes_resumed.fetch_add(1, Ordering::Relaxed);
                }
                match version {
                    TlsVersion::Tls12 => &counters.handshakes_tls12,
                    TlsVersion::Tls13 => &counters.handshakes_tls13,
                }
            }
            Outcome::Failed => &counters.handshakes_failed,
            Outcome::GateRefused => &counters.handshakes_gate_refused,
            Outcome::HandedOver => &counters.hellos_handed_over,
            Outcome::NotTls => &counters.not_tls,
            Outcome::PlainHttp => &counters.plain_http,
            Outcome::TimedOut => &counters.handshakes_timed_out,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether a connection may begin its handshake.
#[derive(Debug)]
pub(crate) enum Admission {
    Admitted(Permit),
    OverCap,
}

/// A permit for a handshake in progress, which counts until the permit is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    acceptor: Acceptor,
    places: Arc<HandshakeLimit>,
    /// True from the first byte until the outcome is counted: a permit dropped in between counts as
    /// an abandoned handshake.
    begun: bool,
}

impl Permit {
    pub(super) fn acquire(acceptor: &Acceptor) -> Admission {
        let handshakes = acceptor.handshakes();
        let permit = Self { acceptor: acceptor.clone(), places: handshakes.places(), begun: false };
        handshakes.live.fetch_add(1, Ordering::Relaxed);
        if permit.places.enter() {
            return Admission::Admitted(permit);
        }
        handshakes.counters.handshakes_over_cap.fetch_add(1, Ordering::Relaxed);
        // Dropping the permit lowers the counts again.
        Admission::OverCap
    }

    pub(super) const fn acceptor(&self) -> &Acceptor {
        &self.acceptor
    }

    /// Records the arrival of the first byte.
    pub(crate) const fn begin(&mut self) {
        self.begun = true;
    }

    /// Ends the handshake and counts its outcome.
    pub(crate) fn end(mut self, outcome: Outcome) {
        self.begun = false;
        self.acceptor.handshakes().count(outcome);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let handshakes = self.acceptor.handshakes();
        handshakes.live.fetch_sub(1, Ordering::Relaxed);
        self.places.leave();
        if self.begun {
            handshakes.count(Outcome::Abandoned);
        }
    }
}

impl fmt::Debug for Handshakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshakes")
            .field("live", &self.live)
            .field("shares", &self.shares)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
