//! `/probe?target=&module=` as Prometheus' blackbox_exporter has it, on a port and a thread of its own.
//!
//! Does not know about: how a probe is made, how a result is written.
//!
//! Many who ask for the same get one result: whoever comes while a probe runs waits for that one, and whoever comes within the time of the
//! cache gets what it found.

mod probe;
mod query;
mod text;

use crate::checks::{Connector, Shared};
use crate::config::model::{Blackbox, Config, Module};
use crate::exit::{Exit, Failure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use probe::{Prober, Refused};
use query::Query;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

/// Connections to this port. More wait to be accepted.
const CONNS_MAX: usize = 64;

/// Probes at once. Whoever waits for more than his time is told so.
const PROBES_MAX: usize = 32;

/// Names that are looked up at once; one may hang for as long as the system likes.
const LOOKUPS_MAX: usize = 16;

/// Results that are kept, each of a few KiB.
const RESULTS_MAX: usize = 1024;

/// How long a client may take to ask, and to ask again.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of what a client asks with.
const HEAD_LEN_MAX: usize = 16 << 10;

/// Between two attempts to accept where descriptors are short.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// What Prometheus leaves for itself of the time that it gives (blackbox_exporter's `--timeout-offset`).
const TIMEOUT_OFFSET: Duration = Duration::from_millis(500);

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// The running thread.
#[derive(Debug)]
pub(super) struct Probes {
    addrs: Vec<String>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// What is known of one target by one module.
type Slot = Arc<tokio::sync::Mutex<Option<(Instant, Bytes)>>>;

#[derive(Debug)]
struct Desk {
    prober: Prober,
    modules: Vec<Module>,
    cache: Duration,
    timeout: Duration,
    slots: Mutex<HashMap<(Module, String), Slot>>,
    places: Semaphore,
}

impl Probes {
    /// # Errors
    /// When somebody else listens there, or nobody may.
    pub(super) fn open(config: &Config) -> Result<Option<Self>, Failure> {
        let Some(blackbox) = &config.blackbox else { return Ok(None) };
        let no_thread = |error: io::Error| {
            Failure::new(Exit::Failure, format!("no thread could be started for probes: {error}"))
        };
        let connector = Connector::open(&config.egress).map_err(|why| Failure::new(Exit::BadConfig, why))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(LOOKUPS_MAX)
            .build();
        let runtime = runtime.map_err(no_thread)?;
        let (mut listeners, mut addrs) = (Vec::new(), Vec::new());
        for &addr in &blackbox.binds {
            let bound = runtime.block_on(TcpListener::bind(addr));
            let listener = bound.map_err(|error| cannot_listen(addr, &error))?;
            addrs.push(listener.local_addr().unwrap_or(addr).to_string());
            listeners.push(listener);
        }
        tracing::info!(addresses = addrs.join(" "), "probes are made for whoever asks");
        let desk = Arc::new(Desk::new(blackbox, Shared::new(Arc::new(connector))));
        let (stop, mut stopped) = watch::channel(false);
        let run = move || {
            runtime.block_on(async {
                let mut all: JoinSet<()> =
                    listeners.into_iter().map(|listener| accept(listener, Arc::clone(&desk))).collect();
                tokio::select! {
                    _never = all.join_next() => {}
                    _stopped = stopped.wait_for(|stopped| *stopped) => {}
                }
            });
            // A name that is looked up may take as long as the system likes.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("probes".into()).spawn(run).map_err(no_thread)?;
        Ok(Some(Self { addrs, stop, thread: Some(thread) }))
    }

    /// Where probes are asked for.
    pub(super) fn addrs(&self) -> &[String] {
        &self.addrs
    }

    /// Descriptors that may be open at once.
    pub(super) fn descriptors(config: &Config) -> u32 {
        let listeners = config.blackbox.as_ref().map_or(0, |blackbox| blackbox.binds.len());
        let all =
            if listeners == 0 { 0 } else { listeners * (CONNS_MAX + 1) + PROBES_MAX + 2 * LOOKUPS_MAX + 8 };
        u32::try_from(all).unwrap_or(u32::MAX)
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

fn cannot_listen(addr: SocketAddr, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::AddrInUse => Failure::new(
            Exit::AddressInUse,
            format!(
                "{addr} of [blackbox] is in use: stop the process that listens there (ss -ltnp), or choose another address"
            ),
        ),
        io::ErrorKind::PermissionDenied => Failure::new(
            Exit::NoPermission,
            format!(
                "no permission to listen on {addr} of [blackbox]: a port below 1024 needs CAP_NET_BIND_SERVICE or root"
            ),
        ),
        _ => Failure::new(Exit::Failure, format!("{addr} of [blackbox] cannot be listened on: {error}")),
    }
}

async fn accept(listener: TcpListener, desk: Arc<Desk>) {
    let mut conns = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if conns.len() < CONNS_MAX => {
                let Ok((stream, _)) = accepted else {
                    sleep(RETRY_AFTER).await;
                    continue;
                };
                let desk = Arc::clone(&desk);
                conns.spawn(async move {
                    let service = service_fn(move |request| {
                        let desk = Arc::clone(&desk);
                        async move { Ok::<_, Infallible>(desk.answer(&request).await) }
                    });
                    let mut builder = http1::Builder::new();
                    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_LEN_MAX);
                    // What a client breaks off is no failure of ours.
                    let _ended = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
            Some(_ended) = conns.join_next() => {}
        }
    }
}

impl Desk {
    fn new(blackbox: &Blackbox, shared: Shared) -> Self {
        Self {
            prober: Prober::new(blackbox.targets.iter().copied().collect(), shared),
            modules: blackbox.modules.clone(),
            cache: blackbox.cache,
            timeout: blackbox.timeout,
            slots: Mutex::default(),
            places: Semaphore::new(PROBES_MAX),
        }
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        match request.uri().path() {
            "/probe" => {}
            "/-/healthy" => return reply(StatusCode::OK, PLAIN, "Healthy"),
            _ => return reply(StatusCode::NOT_FOUND, PLAIN, "ask for /probe?target=TARGET&module=MODULE\n"),
        }
        let query = match Query::parse(request.uri().query().unwrap_or_default(), &self.modules) {
            Ok(query) => query,
            Err(why) => return reply(StatusCode::BAD_REQUEST, PLAIN, format!("{why}\n")),
        };
        let wanted = request.headers().get("x-prometheus-scrape-timeout-seconds");
        let limit = self.timeout_of(wanted.and_then(|value| value.to_str().ok()));
        match self.result(query, limit).await {
            Ok(text) => reply(StatusCode::OK, TEXT, text),
            Err(Refused::TooMany) => {
                reply(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{}\n", Refused::TooMany))
            }
            Err(refused) => reply(StatusCode::FORBIDDEN, PLAIN, format!("{refused}\n")),
        }
    }

    /// The shorter one of what the file says and of what Prometheus waits for, as it says itself.
    fn timeout_of(&self, scrape_timeout: Option<&str>) -> Duration {
        let secs = scrape_timeout.and_then(|text| text.parse::<f64>().ok());
        let wanted = secs.and_then(|secs| Duration::try_from_secs_f64(secs).ok());
        let wanted = wanted.map(|wanted| wanted.saturating_sub(TIMEOUT_OFFSET).max(TIMEOUT_OFFSET / 5));
        wanted.map_or(self.timeout, |wanted| wanted.min(self.timeout))
    }

    async fn result(&self, query: Query, limit: Duration) -> Result<Bytes, Refused> {
        let slot = self.slot(query.module, &query.target);
        // Whoever comes meanwhile waits here, and finds it done.
        let waits_until = Instant::now() + limit;
        let Ok(mut known) = timeout_at(waits_until, slot.lock()).await else { return Err(Refused::TooMany) };
        if let Some((at, text)) = &*known
            && at.elapsed() < self.cache
        {
            return Ok(text.clone());
        }
        let place = timeout_at(waits_until, self.places.acquire()).await;
        let Ok(Ok(_place)) = place else { return Err(Refused::TooMany) };
        let text = Bytes::from(self.prober.probe(query.module, &query.target, limit).await?);
        *known = Some((Instant::now(), text.clone()));
        Ok(text)
    }

    fn slot(&self, module: Module, target: &str) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(&(module, target.to_owned())) {
            return Arc::clone(slot);
        }
        if slots.len() >= RESULTS_MAX {
            // Those that are in use come back; what is old or was never filled goes first.
            let is_new = |slot: &Slot| {
                slot.try_lock()
                    .map_or(true, |known| known.as_ref().is_some_and(|(at, _)| at.elapsed() < self.cache))
            };
            slots.retain(|_, slot| is_new(slot));
        }
        let slot = Slot::default();
        if slots.len() < RESULTS_MAX {
            slots.insert((module, target.to_owned()), Arc::clone(&slot));
        }
        slot
    }
}

fn reply(status: StatusCode, content_type: HeaderValue, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
