//! `/probe?target=&module=` as Prometheus' blackbox_exporter has it, on a port and a thread of its own.
//!
//! Does not know about: how a probe is made, how a result is written.
//!
//! Many who ask for the same get one result: whoever comes while a probe runs waits for that one, and whoever comes within the time of the
//! cache gets what it found.

mod probe;
mod query;
mod text;

use super::port::{Listening, Port};
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
use std::pin::pin;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
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
    /// As they are written down, with copies for whoever follows.
    listeners: Vec<Listening>,
    phase: watch::Sender<Phase>,
    thread: Option<JoinHandle<()>>,
}

/// Addresses that are ours, and nobody asks there yet.
#[derive(Debug)]
pub(super) struct Unopened {
    ports: Vec<(SocketAddr, Port)>,
    /// Without the word the thread ends.
    go: SyncSender<Vec<std::net::TcpListener>>,
    phase: watch::Sender<Phase>,
    thread: JoinHandle<()>,
}

/// How far the thread has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    /// Nobody new is heard; whoever has asked is answered.
    Leaving,
    Stopped,
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
    /// Takes the addresses, those that the one before has from there.
    ///
    /// # Errors
    /// When somebody else listens there, or nobody may.
    pub(super) fn prepare(config: &Config, before: Option<&Self>) -> Result<Option<Unopened>, Failure> {
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
        let mut ports = Vec::new();
        let mut held: Vec<&Listening> = before.iter().flat_map(|before| &before.listeners).collect();
        for &addr in &blackbox.binds {
            let port = match held.iter().position(|(held, _)| *held == addr) {
                Some(at) => held.remove(at).1.try_clone().map(Port::Listening),
                None => Port::bind(addr),
            };
            ports.push((addr, port.map_err(|error| cannot_listen(addr, &error))?));
        }
        let desk = Arc::new(Desk::new(blackbox, Shared::new(Arc::new(connector))));
        let (phase, told) = watch::channel(Phase::Serving);
        let (go, goes) = sync_channel::<Vec<std::net::TcpListener>>(1);
        // Whoever connected last has asked by then, and has been answered.
        let leave_timeout = HEAD_TIMEOUT + blackbox.timeout;
        let run = move || {
            let Ok(listeners) = goes.recv() else { return };
            runtime.block_on(serve(listeners, desk, told, leave_timeout));
            // A name that is looked up may take as long as the system likes.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("probes".into()).spawn(run).map_err(no_thread)?;
        Ok(Some(Unopened { ports, go, phase, thread }))
    }

    /// Others listen there from now on. Whoever has asked is answered; nobody waits for that.
    pub(super) fn leave(mut self) {
        self.phase.send_replace(Phase::Leaving);
        drop(self.thread.take());
    }

    /// Where probes are asked for.
    pub(super) fn addrs(&self) -> Vec<String> {
        let addr = |(addr, listener): &Listening| listener.local_addr().unwrap_or(*addr).to_string();
        self.listeners.iter().map(addr).collect()
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
        let Some(thread) = self.thread.take() else { return };
        self.phase.send_replace(Phase::Stopped);
        let _panicked = thread.join();
    }
}

impl Unopened {
    /// From now on whoever asks is answered.
    pub(super) fn open(self) -> Probes {
        let mut listeners = Vec::new();
        let mut addrs = Vec::new();
        for (addr, port) in self.ports {
            match port.listen() {
                Ok(listener) => {
                    addrs.push(listener.local_addr().unwrap_or(addr).to_string());
                    listeners.push((addr, listener));
                }
                Err(error) => tracing::error!("{}", cannot_listen(addr, &error)),
            }
        }
        tracing::info!(addresses = addrs.join(" "), "probes are made for whoever asks");
        let copies = listeners.iter().filter_map(|(_, listener)| {
            listener
                .try_clone()
                .inspect_err(|error| tracing::error!(%error, "a port for probes stays closed"))
                .ok()
        });
        let _begins = self.go.send(copies.collect());
        Probes { listeners, phase: self.phase, thread: Some(self.thread) }
    }
}

async fn serve(
    listeners: Vec<std::net::TcpListener>,
    desk: Arc<Desk>,
    mut phase: watch::Receiver<Phase>,
    leave_timeout: Duration,
) {
    let listeners = listeners.into_iter().filter_map(|listener| TcpListener::from_std(listener).ok());
    let all: JoinSet<()> =
        listeners.map(|listener| accept(listener, Arc::clone(&desk), phase.clone())).collect();
    let ends = async {
        if after_serving(&mut phase).await == Phase::Leaving {
            sleep(leave_timeout).await;
        }
    };
    tokio::select! {
        _ended = all.join_all() => {}
        () = ends => {}
    }
}

async fn after_serving(phase: &mut watch::Receiver<Phase>) -> Phase {
    let after = phase.wait_for(|phase| *phase != Phase::Serving).await;
    after.map_or(Phase::Stopped, |phase| *phase)
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

/// Until others listen there and whoever came before has been answered.
async fn accept(listener: TcpListener, desk: Arc<Desk>, mut phase: watch::Receiver<Phase>) {
    let mut conns = JoinSet::new();
    let leaving = phase.clone();
    loop {
        tokio::select! {
            _leaving = after_serving(&mut phase) => break,
            accepted = listener.accept(), if conns.len() < CONNS_MAX => {
                let Ok((stream, _)) = accepted else {
                    sleep(RETRY_AFTER).await;
                    continue;
                };
                conns.spawn(talk(stream, Arc::clone(&desk), leaving.clone()));
            }
            Some(_ended) = conns.join_next() => {}
        }
    }
    drop(listener);
    conns.join_all().await;
}

/// One connection.
async fn talk(stream: TcpStream, desk: Arc<Desk>, mut phase: watch::Receiver<Phase>) {
    let (asks, mut asked) = watch::channel(false);
    let service = service_fn(move |request| {
        asks.send_replace(true);
        let desk = Arc::clone(&desk);
        async move { Ok::<_, Infallible>(desk.answer(&request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_LEN_MAX);
    let mut conn = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // Whoever connected gets one answer.
    let leaves = async {
        after_serving(&mut phase).await;
        asked.wait_for(|asked| *asked).await.is_ok()
    };
    // What a client breaks off is no failure of ours.
    tokio::select! {
        _ended = conn.as_mut() => return,
        _asked = leaves => conn.as_mut().graceful_shutdown(),
    }
    let _ended = conn.await;
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
