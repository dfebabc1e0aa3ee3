//! How far a run has come, what it saw on the way, and what it leaves behind.
//!
//! Does not know about: what a run does.

pub(crate) mod phases;

use crate::checks::connect::certificate::{self, Named};
use crate::checks::connect::tls::Tls;
use crate::config::format_duration;
use hyper::Version;
use rustls::{ClientConnection, RootCertStore};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::{Instant, timeout};

/// How long a server may take to close behind its answer, as it was asked to, before we close with a reset.
const END_TIMEOUT: Duration = Duration::from_millis(20);

/// For whoever is told that the time of a run is over.
pub(crate) struct Progress {
    start: Instant,
    stage: AtomicU8,
    /// When it began, in microseconds from the start on.
    stage_began_us: AtomicU32,
    /// By [`Phase`], one more than the microseconds it took; 0 where there was none.
    took_us: [AtomicU32; Phase::ALL.len()],
    left: Mutex<Option<Box<dyn AsyncRead + Send + Unpin>>>,
    /// When the first certificate of the server ends, in seconds from 1970 on; 0 where nobody looked.
    certificate_ends: AtomicU64,
    /// For runs of which somebody wants to know more than what was found.
    trace: Option<Arc<Trace>>,
    /// Of several addresses the one that this run is about.
    only: Option<SocketAddr>,
}

/// The parts of a run, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Resolve,
    Connect,
    Handshake,
    Answer,
    Content,
    /// Of a program.
    Start,
    End,
}

/// The parts of a run that are timed, in the words of the blackbox exporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Connect,
    Processing,
    Resolve,
    Tls,
    Transfer,
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// The part in which it ended; `None` when all parts were over, or it has none.
    pub(crate) last: Option<Phase>,
    /// By [`Phase`], those of the same name together.
    pub(crate) took_us: [Option<u32>; Phase::ALL.len()],
}

/// No part of a run: it has not begun one.
const NO_STAGE: u8 = u8::MAX;

/// What a run saw on its way.
#[derive(Debug)]
pub(crate) struct Trace {
    start: Instant,
    seen: Mutex<Seen>,
}

/// What was seen, as far as there was anything to see.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Of whoever accepted last.
    pub(crate) address: Option<IpAddr>,
    /// When which part began, from the start on.
    pub(crate) stages: Vec<(Stage, Duration)>,
    pub(crate) status: Option<u16>,
    pub(crate) version: Option<Version>,
    pub(crate) content_length: Option<u64>,
    /// Bytes of the content that were read.
    pub(crate) body_len: usize,
    pub(crate) location: Option<String>,
    pub(crate) last_modified: Option<String>,
    /// As `TLSv1_3`.
    pub(crate) tls_version: Option<String>,
    /// Of the certificate that the server showed first.
    pub(crate) certificate: Option<Named>,
    /// When the first of the certificates ends that the server showed, from 1970 on.
    pub(crate) certificate_ends: Option<Duration>,
    /// The same of the chain that was believed, where somebody looked.
    pub(crate) chain_ends: Option<Duration>,
    pub(crate) grpc_status: Option<i32>,
    pub(crate) serving_status: Option<&'static str>,
}

impl Trace {
    pub(crate) fn begin() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), seen: Mutex::default() })
    }

    pub(crate) fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }
}

impl Seen {
    /// What a handshake showed. `roots`: whom it was to be signed by.
    pub(crate) fn see_tls(&mut self, session: &ClientConnection, roots: Option<&RootCertStore>) {
        self.tls_version = session.protocol_version().map(|version| format!("{version:?}"));
        let chain = session.peer_certificates().unwrap_or_default();
        self.certificate = chain.first().and_then(Named::of);
        self.certificate_ends = certificate::ends_at(chain).ok();
        self.chain_ends =
            roots.and_then(|roots| certificate::chain_ends_at(chain, roots, certificate::now()));
    }
}

impl Phase {
    pub(crate) const ALL: [Self; 5] =
        [Self::Connect, Self::Processing, Self::Resolve, Self::Tls, Self::Transfer];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Processing => "processing",
            Self::Resolve => "resolve",
            Self::Tls => "tls",
            Self::Transfer => "transfer",
        }
    }
}

impl Stage {
    /// What its time is counted as. A program that runs has no parts.
    const fn phase(self) -> Option<Phase> {
        match self {
            Self::Answer => Some(Phase::Processing),
            Self::Connect => Some(Phase::Connect),
            Self::Content => Some(Phase::Transfer),
            Self::Handshake => Some(Phase::Tls),
            Self::Resolve => Some(Phase::Resolve),
            Self::End | Self::Start => None,
        }
    }
}

impl Progress {
    /// Of a run that starts now.
    pub(crate) fn begin() -> Self {
        Self {
            start: Instant::now(),
            stage: AtomicU8::new(NO_STAGE),
            stage_began_us: AtomicU32::new(0),
            took_us: Default::default(),
            left: Mutex::default(),
            certificate_ends: AtomicU64::new(0),
            trace: None,
            only: None,
        }
    }

    pub(crate) fn traced(trace: Arc<Trace>) -> Self {
        Self { trace: Some(trace), ..Self::begin() }
    }

    pub(crate) const fn start(&self) -> Instant {
        self.start
    }

    /// The part of a run that is about one address. The trace is that of the first part.
    pub(crate) fn of_one(&mut self, addr: SocketAddr) -> Self {
        Self { trace: self.trace.take(), only: Some(addr), ..Self::begin() }
    }

    pub(crate) const fn only(&self) -> Option<SocketAddr> {
        self.only
    }

    pub(crate) fn enter(&self, stage: Stage) {
        self.leave_stage();
        self.stage.store(stage as u8, Ordering::Relaxed);
        if let Some(trace) = &self.trace {
            let at = trace.start.elapsed();
            lock(&trace.seen).stages.push((stage, at));
        }
    }

    /// The part that goes on took until now.
    fn leave_stage(&self) {
        let now_us = u32::try_from(self.start.elapsed().as_micros()).unwrap_or(u32::MAX);
        let took_us = now_us.saturating_sub(self.stage_began_us.swap(now_us, Ordering::Relaxed));
        if let Some(took) = self.phase().and_then(|phase| self.took_us.get(phase as usize)) {
            let known = took.load(Ordering::Relaxed).max(1);
            took.store(known.saturating_add(took_us), Ordering::Relaxed);
        }
    }

    fn phase(&self) -> Option<Phase> {
        let has_stage = self.stage.load(Ordering::Relaxed) != NO_STAGE;
        has_stage.then(|| self.stage().phase()).flatten()
    }

    /// The run is over.
    pub(crate) fn spent(&self) -> Spent {
        self.leave_stage();
        let took_us = self.took_us.each_ref().map(|took| took.load(Ordering::Relaxed).checked_sub(1));
        Spent { last: self.phase(), took_us }
    }

    /// Takes down what was seen, where somebody wants to know.
    pub(crate) fn see(&self, note: impl FnOnce(&mut Seen)) {
        if let Some(trace) = &self.trace {
            note(&mut lock(&trace.seen));
        }
    }

    /// The same of a handshake that is done.
    pub(crate) fn see_tls(&self, session: &ClientConnection, tls: &Tls) {
        self.see(|seen| seen.see_tls(session, tls.roots()));
        if let Ok(ends) = certificate::ends_at(session.peer_certificates().unwrap_or_default()) {
            self.certificate_ends(ends);
        }
    }

    /// The answer is complete, and the connection is for the server to close.
    pub(crate) fn leave(&self, conn: impl AsyncRead + Send + Unpin + 'static) {
        *lock(&self.left) = Some(Box::new(conn));
    }

    pub(crate) fn certificate_ends(&self, at: Duration) {
        self.certificate_ends.store(at.as_secs(), Ordering::Relaxed);
    }

    pub(crate) fn certificate(&self) -> Option<Duration> {
        let secs = self.certificate_ends.load(Ordering::Relaxed);
        (secs > 0).then(|| Duration::from_secs(secs))
    }

    /// What else the server sends is not looked at: he had his say.
    pub(crate) async fn end(self) {
        let left = self.left.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut conn) = left {
            let _kept_open = timeout(END_TIMEOUT, conn.read(&mut [0; 64])).await;
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) {
            stage if stage == Stage::Resolve as u8 || stage == NO_STAGE => Stage::Resolve,
            stage if stage == Stage::Connect as u8 => Stage::Connect,
            stage if stage == Stage::Handshake as u8 => Stage::Handshake,
            stage if stage == Stage::Answer as u8 => Stage::Answer,
            stage if stage == Stage::Start as u8 => Stage::Start,
            stage if stage == Stage::End as u8 => Stage::End,
            _ => Stage::Content,
        }
    }

    pub(crate) fn overdue(&self, timeout: Duration) -> String {
        let what = match self.stage() {
            Stage::Resolve => "no address",
            Stage::Connect => "no connection",
            Stage::Handshake => "no TLS handshake",
            Stage::Answer => "no answer",
            Stage::Content => "no end of the answer",
            Stage::Start => "no start",
            Stage::End => "no end",
        };
        format!("{what} within {}", format_duration(timeout))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
