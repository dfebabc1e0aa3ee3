//! Stages and observations of a run, and the connection that it leaves for the server to close.

pub(crate) mod phases;

use crate::connect::certificate::{self, CertificateInfo};
use crate::connect::tls::Tls;
use crate::phase_times::{Phase, PhaseTimes};
use doorbell_config::format_duration;
use hyper::Version;
use rustls::{ClientConnection, RootCertStore};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::{Instant, timeout};

/// Time for the server to close the connection after its response. After this time, the connection
/// is closed with a reset.
const END_TIMEOUT: Duration = Duration::from_millis(20);

/// Maximum number of reads while waiting for the server to close the connection.
const READS_MAX: usize = 8;

/// Progress of a run. The current stage determines the reason of a timeout.
pub(crate) struct Progress {
    start: Instant,
    stage: AtomicU8,
    /// Start of the current stage, in microseconds from the start of the run.
    stage_began_us: AtomicU32,
    /// Duration in microseconds plus one, by [`Phase`]; 0 for phases that did not occur.
    took_us: [AtomicU32; Phase::ALL.len()],
    left: Mutex<Option<Box<dyn AsyncRead + Send + Unpin>>>,
    /// Expiry of the server's certificates, in seconds since 1970; 0 if unknown.
    certificate_ends: AtomicU64,
    /// Set for runs that are traced.
    trace: Option<Arc<Trace>>,
    /// The address of this part of the run, if the run covers several addresses.
    only: Option<SocketAddr>,
}

/// Stages of a run, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Lookup of a name.
    Resolve,
    /// Connecting.
    Connect,
    /// TLS handshake.
    Handshake,
    /// Waiting for a response.
    Response,
    /// Reading content.
    Content,
    /// Start of a program.
    Start,
    /// Waiting for the end of a program or of a response.
    End,
}

/// Stored as the current stage until the first stage begins.
const NO_STAGE: u8 = u8::MAX;

/// Records the observations of a run.
#[derive(Debug)]
pub struct Trace {
    start: Instant,
    seen: Mutex<Seen>,
}

/// Observations that a run has made so far.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Address of the last connection.
    pub address: Option<IpAddr>,
    /// Start of each stage, from the start of the run.
    pub stages: Vec<(Stage, Duration)>,
    /// Status of the last response.
    pub status: Option<u16>,
    /// Version of the last response.
    pub version: Option<Version>,
    /// `Content-Length` of the last response.
    pub content_length: Option<u64>,
    /// Bytes of content that were read.
    pub body_len: usize,
    /// Whether the last response had an expected status, but failed at least one expression of
    /// `expect`; with `tcp` and `udp`, whether the bytes failed at least one requirement.
    pub fails_pattern: bool,
    /// `Location` of the last response, with bytes outside ASCII percent-encoded.
    pub location: Option<String>,
    /// `Last-Modified` of the last response.
    pub last_modified: Option<String>,
    /// TLS version, as in `TLSv1_3`.
    pub tls_version: Option<String>,
    /// The server's own certificate.
    pub certificate: Option<CertificateInfo>,
    /// Earliest expiry of the certificates that the server sent, as time since 1970.
    pub certificate_ends: Option<Duration>,
    /// Time until which a chain of these certificates verifies, as time since 1970.
    pub chain_ends: Option<Duration>,
    /// Status of the gRPC call.
    pub grpc_status: Option<i32>,
    /// Serving status of the gRPC service.
    pub serving_status: Option<&'static str>,
    /// Remaining number of hops of an ICMP echo reply.
    pub hop_limit: Option<u8>,
    /// Answer of the name server.
    pub dns: Option<DnsAnswer>,
}

/// The content of an answer of a name server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DnsAnswer {
    /// Number of records in the answer section.
    pub answers: u16,
    /// Number of records in the authority section.
    pub authority: u16,
    /// Number of records in the additional section, without the pseudo-record OPT.
    pub additional: u16,
    /// Serial number of the zone if the question was for SOA; 0 if the answer has none.
    pub serial: Option<u32>,
}

impl Trace {
    /// Creates a trace. Its clock starts now, so call this immediately before the run.
    #[must_use]
    pub fn begin() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), seen: Mutex::default() })
    }

    /// The observations so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }
}

impl Seen {
    /// Records a handshake. `roots`: the root certificates used for verification, if any.
    pub fn see_tls(&mut self, session: &ClientConnection, roots: Option<&RootCertStore>) {
        self.tls_version = session.protocol_version().map(|version| format!("{version:?}"));
        let chain = session.peer_certificates().unwrap_or_default();
        self.certificate = chain.first().and_then(CertificateInfo::of);
        self.certificate_ends = certificate::ends_at(chain).ok();
        self.chain_ends =
            roots.and_then(|roots| certificate::chain_ends_at(chain, roots, certificate::now()));
    }
}

impl Stage {
    /// The phase to which a stage belongs. `Start` and `End` belong to no phase.
    const fn phase(self) -> Option<Phase> {
        match self {
            Self::Response => Some(Phase::Processing),
            Self::Connect => Some(Phase::Connect),
            Self::Content => Some(Phase::Transfer),
            Self::Handshake => Some(Phase::Tls),
            Self::Resolve => Some(Phase::Resolve),
            Self::End | Self::Start => None,
        }
    }
}

impl Progress {
    /// Creates the progress of a run that starts now.
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

    /// The progress of the part of a run that covers one address. The first part gets the trace.
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

    /// Ends the current stage and adds its duration.
    fn leave_stage(&self) {
        let now_us = u32::try_from(self.start.elapsed().as_micros()).unwrap_or(u32::MAX);
        let took_us = now_us.saturating_sub(self.stage_began_us.swap(now_us, Ordering::Relaxed));
        if let Some(took) = self.phase().and_then(|phase| self.took_us.get(phase as usize)) {
            let known = took.load(Ordering::Relaxed).max(1);
            took.store(known.saturating_add(took_us), Ordering::Relaxed);
        }
    }

    fn phase(&self) -> Option<Phase> {
        self.has_stage().then(|| self.stage().phase()).flatten()
    }

    fn has_stage(&self) -> bool {
        self.stage.load(Ordering::Relaxed) != NO_STAGE
    }

    /// Ends the run and returns its durations.
    pub(crate) fn phase_times(&self) -> PhaseTimes {
        self.leave_stage();
        let took_us = self.took_us.each_ref().map(|took| took.load(Ordering::Relaxed).checked_sub(1));
        PhaseTimes { last: self.phase(), took_us }
    }

    /// Records an observation if the run is traced.
    pub(crate) fn see(&self, note: impl FnOnce(&mut Seen)) {
        if let Some(trace) = &self.trace {
            note(&mut lock(&trace.seen));
        }
    }

    /// Records a completed handshake: the expiry of the certificates and, if the run is traced, the
    /// observations of [`Seen::see_tls`].
    pub(crate) fn see_tls(&self, session: &ClientConnection, tls: &Tls) {
        self.see(|seen| seen.see_tls(session, tls.roots()));
        let chain = session.peer_certificates().unwrap_or_default();
        let ends = certificate::session_ends_at(chain, tls.roots(), certificate::now());
        // Of several handshakes, the last one counts.
        self.certificate_ends.store(ends.map_or(0, |ends| ends.as_secs()), Ordering::Relaxed);
    }

    /// Keeps a connection whose response is complete, so that the server can close it.
    pub(crate) fn leave(&self, conn: impl AsyncRead + Send + Unpin + 'static) {
        *lock(&self.left) = Some(Box::new(conn));
    }

    /// Expiry of the certificates of the last handshake, as time since 1970; `None` without a
    /// handshake, and if a certificate cannot be parsed.
    pub(crate) fn certificate(&self) -> Option<Duration> {
        let secs = self.certificate_ends.load(Ordering::Relaxed);
        (secs > 0).then(|| Duration::from_secs(secs))
    }

    /// Waits up to [`END_TIMEOUT`] until the server closes the connection kept by [`Self::leave`].
    /// Further input, such as the reply to a last command, is ignored.
    pub(crate) async fn end(&self) {
        let left = lock(&self.left).take();
        if let Some(mut conn) = left {
            let ended = async {
                let mut reads = 0..READS_MAX;
                while reads.next().is_some() && conn.read(&mut [0; 64]).await.is_ok_and(|len| len > 0) {}
            };
            let _kept_open = timeout(END_TIMEOUT, ended).await;
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) {
            stage if stage == Stage::Resolve as u8 || stage == NO_STAGE => Stage::Resolve,
            stage if stage == Stage::Connect as u8 => Stage::Connect,
            stage if stage == Stage::Handshake as u8 => Stage::Handshake,
            stage if stage == Stage::Response as u8 => Stage::Response,
            stage if stage == Stage::Start as u8 => Stage::Start,
            stage if stage == Stage::End as u8 => Stage::End,
            _ => Stage::Content,
        }
    }

    /// Reason of a timeout in the current stage.
    pub(crate) fn overdue(&self, timeout: Duration) -> String {
        let what = match self.stage() {
            _ if !self.has_stage() => "no result",
            Stage::Resolve => "name not resolved",
            Stage::Connect => "no connection",
            Stage::Handshake => "no TLS handshake",
            Stage::Response => "no response",
            Stage::Content => "no end of the response",
            Stage::Start => "no start",
            Stage::End => "no end",
        };
        format!("{what} within {}", format_duration(timeout))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
